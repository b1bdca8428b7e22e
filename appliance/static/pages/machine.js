// The machine under the broker: all checks of the doctor, what its disk does in a row, and the
// history of its disks.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { Badge, Bar, Head, Loaded } from "../parts/bits.js";
import { Chart } from "../parts/chart.js";
import { Act } from "../parts/rights.js";
import { Table } from "../parts/table.js";
import { mayAdminister } from "./access.js";
import { LogDirs } from "./log_dirs.js";
import { bytes, count } from "../format.js";

const LEVELS = { failing: "bad", degraded: "warn", unknown: "unknown", advice: "", ok: "good" };
const WELL = [
  { name: "name", title: "Check" },
  { name: "found", title: "Found", long: true },
];

const Told = ({ of }) => html`
  <article style="padding:10px 0;border-top:1px solid var(--line)">
    <h3><${Badge} level=${LEVELS[of.verdict]}>${of.verdict}<//> ${of.name}</h3>
    <p>${of.found}</p>
    <p class="muted">${of.why[0].toUpperCase() + of.why.slice(1)}.</p>
    ${of.fix && html`<p style="overflow-wrap:anywhere"><code>${of.fix}</code></p>`}
  </article>
`;

function Checks({ checks }) {
  const told = checks.filter((each) => each.verdict !== "ok");
  const well = checks.filter((each) => each.verdict === "ok");
  return html`
    ${
      told.length > 0 &&
      html`
        <section class="card" id="told">
          <div class="head"><h2>What could be better</h2></div>
          ${told.map((each) => html`<${Told} of=${each} />`)}
        </section>
      `
    }
    <section class="card">
      <div class="head"><h2>As it should be</h2></div>
      <${Table} id="checks" columns=${WELL} rows=${well.map((each, key) => ({ ...each, key }))}
          text=${(each) => `${each.name} ${each.found}`} />
    </section>
  `;
}

const RATES = {
  linear_writes: "writes in a row",
  random_writes: "writes at random places",
  linear_reads: "reads in a row",
  random_reads: "reads at random places",
};

function Drawn({ rates }) {
  const most = Math.max(...Object.values(rates));
  const times = Math.round(rates.linear_writes / rates.random_writes);
  return html`
    <dl class="facts">
      ${Object.entries(RATES).map(
        ([name, words]) => html`
          <dt>${words}</dt>
          <dd>${bytes(rates[name])}/s <${Bar} share=${rates[name] / most} /></dd>
        `,
      )}
    </dl>
    <p>
      In a row it writes ${count(times)} times as fast as at random places. A log only writes in a
      row.
    </p>
  `;
}

function Throughput({ rates, me, onMeasured }) {
  const [state, become] = useState({});
  const measure = () => {
    become({ isBusy: true });
    api("/doctor/measure", { method: "POST", body: { seconds: 8 } }).then(
      () => {
        become({});
        onMeasured();
      },
      (error) => become({ error: error.message }),
    );
  };
  const why = mayAdminister(me) ? "" : "Only an admin can measure the disk.";
  return html`
    <section class="card" id="throughput">
      <div class="head">
        <h2>In a row and at random places</h2>
        <${Act} why=${why || (state.isBusy ? "It is being measured." : "")} onClick=${measure}>
          Measure
        <//>
      </div>
      ${state.error && html`<p class="notice bad" role="alert">${state.error}</p>`}
      ${
        state.isBusy
          ? html`<p class="muted" role="status">Measuring for ten seconds…</p>`
          : rates
            ? html`<${Drawn} rates=${rates} />`
            : html`
              <p class="muted">
                Not measured since the start. It takes ten seconds, which slow the broker's writes.
              </p>
            `
      }
    </section>
  `;
}

const newest = (disk) => disk.points.at(-1) ?? {};
const number = (name, title, unit = "") => ({
  name,
  title,
  number: true,
  value: (disk) => newest(disk)[name],
  cell: (disk) => (newest(disk)[name] == null ? "–" : `${count(newest(disk)[name])}${unit}`),
});
const DISKS = [
  { name: "disk", title: "Disk" },
  { name: "model", title: "Model" },
  number("temperature_c", "Temperature", " °C"),
  number("pending_sectors", "Unreadable sectors"),
  number("reallocated_sectors", "Replaced sectors"),
  number("wear_percent", "Worn", " %"),
];
const degrees = (value) => (value == null ? "–" : `${Math.round(value)} °C`);

function Disks({ disks }) {
  const [chosen, choose] = useState(null);
  const disk = disks.find((each) => each.disk === chosen) ?? disks[0];
  const points = disk.points.filter((each) => each.temperature_c !== null);
  return html`
    <section class="card">
      <div class="head"><h2>Disks</h2></div>
      <${Table} id="disks" rows=${disks} columns=${DISKS} />
      ${
        points.length > 1 &&
        html`
          <p>
            <label>
              Temperature of${" "}
              <select value=${disk.disk} onChange=${(event) => choose(event.target.value)}>
                ${disks.map((each) => html`<option>${each.disk}</option>`)}
              </select>
            </label>
          </p>
          <${Chart} label=${`Temperature of ${disk.disk}`} series=${[disk.disk]} height=${140}
              data=${[
                points.map((each) => each.at_ms / 1000),
                points.map((each) => each.temperature_c),
              ]} unit=${degrees} />
        `
      }
    </section>
  `;
}

export function Machine({ me }) {
  const doctor = useApi("/doctor", 10);
  return html`
    <${Head} title="Machine" />
    <${Loaded} from=${doctor}>
      ${(found) => html`
        <p>${found.sentence}</p>
        <${LogDirs} me=${me} />
        <${Checks} checks=${found.checks} />
        ${found.disks.length > 0 && html`<${Disks} disks=${found.disks} />`}
        <${Throughput} rates=${found.throughput} me=${me} onMeasured=${doctor.reload} />
      `}
    <//>
  `;
}
