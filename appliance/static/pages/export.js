// One export: its definition, its state, its runs, and the command for a backfill.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { go, href } from "../router.js";
import { Badge, Facts, Head, Loaded } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Act, refusal } from "../parts/rights.js";
import { Table } from "../parts/table.js";
import { bytes, count, duration, rate, time } from "../format.js";
import { Edit, HoldState, pace, RunState, took, total } from "./exports.js";

const PARTS = ["topic", "partition", "from", "to", "rows", "dead_letters", "missing"];

function Run({ run, onClose }) {
  return html`
    <${Dialog} title=${`Run ${run.id}`} cancel="Close" onClose=${onClose} wide>
      ${run.error && html`<pre tabindex="0">${run.error}</pre>`}
      <div class="scroll" tabindex="0" role="region" aria-label="Partitions">
        <table>
          <thead>
            <tr>
              ${PARTS.map(
                (name) => html`
                  <th scope="col" class=${name === "topic" ? "" : "num"}>
                    ${name.replace("_", " ")}
                  </th>
                `,
              )}
            </tr>
          </thead>
          <tbody>
            ${(run.partitions ?? []).map(
              (each) => html`
                <tr>
                  ${PARTS.map(
                    (name) => html`
                      <td class=${name === "topic" ? "" : "num"}>
                        ${name === "topic" ? each.topic : count(each[name] ?? 0)}
                      </td>
                    `,
                  )}
                </tr>
              `,
            )}
          </tbody>
        </table>
      </div>
    <//>
  `;
}

const runColumns = (ask) => [
  {
    name: "id",
    title: "Run",
    fixed: true,
    cell: (run) => html`
      <button type="button" class="plain" onClick=${() => ask(run)}>${run.id}</button>
    `,
  },
  { name: "state", title: "State", fixed: true, cell: (run) => html`<${RunState} run=${run} />` },
  { name: "started_ms", title: "Started", fixed: true, cell: (run) => time(run.started_ms) },
  {
    name: "took",
    title: "Duration",
    fixed: true,
    number: true,
    value: took,
    cell: (run) => duration(took(run)),
  },
  {
    name: "rows",
    title: "Rows",
    fixed: true,
    number: true,
    value: (run) => total(run, "rows"),
    cell: (run) => count(total(run, "rows")),
  },
  { name: "files", title: "Files", fixed: true, number: true, cell: (run) => count(run.files) },
  { name: "bytes", title: "Size", fixed: true, number: true, cell: (run) => bytes(run.bytes) },
  {
    name: "pace",
    title: "Rate",
    fixed: true,
    number: true,
    value: pace,
    cell: (run) => rate(pace(run)),
  },
  {
    name: "dead_letters",
    title: "Dead letters",
    fixed: true,
    number: true,
    value: (run) => total(run, "dead_letters"),
    cell: (run) => count(total(run, "dead_letters")),
  },
  {
    name: "missing",
    title: "Missing",
    fixed: true,
    number: true,
    value: (run) => total(run, "missing"),
    cell: (run) => count(total(run, "missing")),
  },
  {
    name: "error",
    title: "Error",
    fixed: true,
    long: true,
    cell: (run) => run.error ?? "",
  },
];

function lag({ behind_records: records, behind_seconds: seconds }) {
  return `${count(records)} records${seconds === null ? "" : `, ${duration(seconds)} at most`}`;
}

function Left({ seconds }) {
  if (seconds === null) return "all records are exported";
  return html`
    <${Badge} level=${seconds < 6 * 3600 ? "bad" : seconds < 86400 ? "warn" : "good"}>
      in ${duration(seconds)}
    <//>
  `;
}

function State({ of }) {
  const { status } = of;
  const { schedule } = of;
  return html`
    <section class="card">
      <${Facts}
          rows=${[
            [
              "Topics",
              status.topics.length
                ? status.topics.map(
                    (each) => html`<a href=${href(["topics", each])}>${each}</a>${" "}`,
                  )
                : "no matching topic",
            ],
            ...(status.fault
              ? [["Cannot run", html`<${Badge} level="bad">${status.fault}<//>`]]
              : []),
            ["Target", html`<code>${of.target}</code>`],
            [
              "Schedule",
              schedule
                ? html`<code>${schedule.cron}</code> ${schedule.timezone ?? "UTC"}`
                : "manual",
            ],
            ["Next run", status.next_run_ms ? time(status.next_run_ms) : "no scheduler is running"],
            [
              "Last run",
              html`
                <${RunState} run=${status.last_run} />
                ${" "}
                ${status.last_run && time(status.last_run.started_ms)}
              `,
            ],
            ["Lag", status.behind_records ? lag(status) : "none"],
            [
              "Retention deletes unexported records",
              html`<${Left} seconds=${status.seconds_left} />`,
            ],
            [
              "Deleted before export",
              status.lost_records
                ? html`<${Badge} level="bad">${count(status.lost_records)} records<//>`
                : "none",
            ],
            ...status.holds.map((each) => [
              `Hold ${each.name}`,
              html`<${HoldState} hold=${each} />`,
            ]),
          ]} />
    </section>
  `;
}

function Backfill({ topics }) {
  const range = "--from @2026-11-01 --to @2026-11-02";
  const command = `appliance export backfill ${topics.join(" ")} ${range} --target NEW-FOLDER`;
  return html`
    <section class="card">
      <div class="head"><h2>Backfill</h2></div>
      <p>A backfill exports a time range again, into a new folder. Run it where Spark runs:</p>
      <pre tabindex="0">${command}</pre>
      <div>
        <button type="button" onClick=${() => navigator.clipboard?.writeText(command)}>Copy</button>
      </div>
    </section>
  `;
}

export function Export({ route, me }) {
  const name = route.parts[1];
  const path = `/exports/${encodeURIComponent(name)}`;
  const one = useApi(path, 10);
  const runs = useApi(`${path}/runs?limit=200`, 10);
  const [asked, ask] = useState(null);
  const may = one.data && (one.data.status.may_change ? ["read"] : []);
  const why = refusal(me, may, "read", "all topics of the export");
  const forget = () => api(path, { method: "DELETE" }).then(() => go(["exports"]));
  const close = () => {
    ask(null);
    one.reload();
  };
  return html`
    <${Head} title=${name} crumbs=${html`<a href=${href(["exports"])}>Exports</a>`}>
      <${Act} why=${why} onClick=${() => ask("edit")}>Edit<//>
      <${Act} class="danger" why=${why} onClick=${() => ask("forget")}>Delete<//>
    <//>
    <${Loaded} from=${one}>
      ${(data) => html`
        <${State} of=${data} />
        ${asked === "edit" && html`<${Edit} of=${data} onClose=${close} />`}
      `}
    <//>
    <section class="card">
      <div class="head"><h2>Runs</h2></div>
      <${Loaded} from=${runs}>
        ${(data) => html`
          <${Table} id="runs" rows=${data.runs} columns=${runColumns(ask)} empty="No runs yet." />
        `}
      <//>
    </section>
    <${Loaded} from=${one}>${(data) => html`<${Backfill} topics=${data.status.topics} />`}<//>
    ${asked?.id && html`<${Run} run=${asked} onClose=${() => ask(null)} />`}
    ${
      asked === "forget" &&
      html`
        <${Dialog} title=${`Delete ${name}`} send="Delete" danger confirm=${name} onSend=${forget}
            onClose=${() => ask(null)}>
          <p>The definition and its history are deleted. Exported files are kept.</p>
        <//>
      `
    }
  `;
}
