// Exports: their schedules, their lag, and the retention holds for them.
import { html, useState } from "../html.js";
import { useApi } from "../api.js";
import { href } from "../router.js";
import { Badge, Head, Loaded } from "../parts/bits.js";
import { Act, missing } from "../parts/rights.js";
import { wordsOf } from "../parts/schedule.js";
import { Table } from "../parts/table.js";
import { bytes, count, duration, percent, rate, time } from "../format.js";
import { Edit } from "./export_form.js";
import { pace, RunState, total } from "./export_runs.js";

export function HoldState({ hold }) {
  if (hold.state === "released")
    return html`<${Badge} level="bad">released<//> <span class="muted">${hold.why_released}</span>`;
  const share = hold.max_bytes ? hold.held_bytes / hold.max_bytes : 0;
  return html`
    <${Badge} level=${hold.warning ? "warn" : "good"}>holding<//>
    ${" "}
    <span class="muted">
      ${bytes(hold.held_bytes)} of ${bytes(hold.max_bytes)}, ${percent(share)}
    </span>
  `;
}

const worst = (holds) =>
  holds.find((each) => each.state === "released") ?? holds.find((each) => each.warning) ?? holds[0];

const COLUMNS = [
  {
    name: "name",
    title: "Export",
    cell: (each) => html`<a href=${href(["exports", each.name])}>${each.name}</a>`,
  },
  {
    name: "state",
    title: "Last run",
    value: (each) => each.status.last_run?.state,
    cell: (each) => html`
      <${RunState} run=${each.status.last_run} />
      ${each.status.late && html` <${Badge} level="warn">late<//>`}
    `,
  },
  {
    name: "at",
    title: "Started",
    time: true,
    value: (each) => each.status.last_run?.started_ms,
    cell: (each) => time(each.status.last_run?.started_ms),
  },
  {
    name: "next",
    title: "Next run",
    time: true,
    value: (each) => each.status.next_run_ms,
    cell: (each) =>
      each.status.next_run_ms ? time(each.status.next_run_ms) : wordsOf(each.schedule),
  },
  {
    name: "behind",
    title: "Lag, time",
    number: true,
    value: (each) => each.status.behind_seconds,
    cell: (each) => duration(each.status.behind_seconds),
  },
  {
    name: "behind_records",
    title: "Lag, records",
    number: true,
    value: (each) => each.status.behind_records,
    cell: (each) => count(each.status.behind_records),
  },
  {
    name: "rows",
    title: "Rows",
    number: true,
    value: (each) => total(each.status.last_success, "rows"),
    cell: (each) => count(total(each.status.last_success, "rows")),
  },
  {
    name: "files",
    title: "Files",
    number: true,
    value: (each) => each.status.last_success?.files,
    cell: (each) => count(each.status.last_success?.files),
  },
  {
    name: "pace",
    title: "Rate",
    number: true,
    value: (each) => pace(each.status.last_success),
    cell: (each) => rate(pace(each.status.last_success)),
  },
  {
    name: "dead",
    title: "Dead letters",
    number: true,
    value: (each) => total(each.status.last_success, "dead_letters"),
    cell: (each) => count(total(each.status.last_success, "dead_letters")),
  },
  {
    name: "hold",
    title: "Hold",
    wide: true,
    value: (each) => worst(each.status.holds)?.state,
    cell: (each) =>
      each.status.holds.length
        ? html`<${HoldState} hold=${worst(each.status.holds)} />`
        : html`<span class="muted">none</span>`,
  },
];

export function Exports({ me }) {
  const exports = useApi("/exports", 10);
  const [open, setOpen] = useState(false);
  const isRefused = me.is_read_only || !me.defines_exports;
  const why = isRefused ? me.why_fixed || missing(me, "read", "any topic") : "";
  const close = () => {
    setOpen(false);
    exports.reload();
  };
  return html`
    <${Head} title="Exports">
      <${Act} class="primary" why=${why} onClick=${() => setOpen(true)}>New export<//>
    <//>
    <section class="card">
      <${Loaded} from=${exports}>
        ${(data) => html`
          <${Table} id="exports" sort="name" rows=${data.exports} columns=${COLUMNS}
              text=${(each) => `${each.name} ${each.status.topics.join(" ")} ${each.target}`}
              empty=${html`
                <p>No exports yet.</p>
                <p>
                  An export writes topics to Parquet files, each record once. Define exports here;
                  ${" "}
                  <code>appliance export schedule</code> runs them.
                </p>
              `} />
        `}
      <//>
    </section>
    ${open && html`<${Edit} onClose=${close} />`}
  `;
}
