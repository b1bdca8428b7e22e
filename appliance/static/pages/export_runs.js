// The runs of an export, with what came of each in words.
import { html, useState } from "../html.js";
import { Badge } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Table } from "../parts/table.js";
import { bytes, count, duration, rate, some, time } from "../format.js";
import { DeadLetters } from "./export_letters.js";

const LEVEL = { succeeded: "good", running: "", failed: "bad" };
export const RunState = ({ run }) =>
  run ? html`<${Badge} level=${LEVEL[run.state]}>${run.state}<//>` : html`<${Badge}>no run yet<//>`;
export const total = (run, name) =>
  (run?.partitions ?? []).reduce((sum, each) => sum + (each[name] ?? 0), 0);
export const took = (run) => (run.ended_ms ? (run.ended_ms - run.started_ms) / 1000 : null);
export const pace = (run) => (run?.bytes && took(run) > 0 ? run.bytes / took(run) : null);

const LATE_S = 60; // beyond the random delay of the schedule
const ERROR_MAX = 200; // characters in the table; the run's own dialog has all

/** How much later than its schedule a run began, or "". */
function lateness({ plan, started_ms: at }, schedule) {
  const seconds = plan?.due_ms ? (at - plan.due_ms) / 1000 : 0;
  const isLate = seconds > LATE_S + (schedule?.jitter_seconds ?? 0);
  const missed = plan?.missed ? `makes up for ${some(plan.missed, "missed run")}` : "";
  return [isLate && `began ${duration(seconds)} late`, missed].filter(Boolean).join(", ");
}

function result(run) {
  if (run.state === "running")
    return `running for ${duration((Date.now() - run.started_ms) / 1000)}`;
  if (run.state === "failed") {
    const why = run.error ?? "nobody has told why";
    const lasted = took(run) ? ` after ${duration(took(run))}` : "";
    return `failed${lasted}: ${why.slice(0, ERROR_MAX)}${why.length > ERROR_MAX ? "…" : ""}`;
  }
  const [rows, dead, missing] = ["rows", "dead_letters", "missing"].map((each) => total(run, each));
  if (!rows && !dead) return "nothing new";
  return [
    `${some(rows, "row")} in ${some(run.files ?? 0, "file")}, ${bytes(run.bytes)}`,
    dead && some(dead, "dead letter"),
    missing && `${some(missing, "offset")} without a record`,
  ]
    .filter(Boolean)
    .join(", ");
}

export const outcome = (run, schedule) =>
  [result(run), lateness(run, schedule)].filter(Boolean).join("; ");

/** It has dead letters that it may tell of: those of a failed run are not counted. */
const hasLetters = (run) =>
  total(run, "dead_letters") > 0 || (run.state === "failed" && /dead letters/.test(run.error));

const PARTS = ["topic", "partition", "from", "to", "rows", "dead_letters", "missing"];

function Run({ run, schedule, onClose }) {
  return html`
    <${Dialog} title=${`Run ${run.id}`} cancel="Close" onClose=${onClose} wide>
      ${
        run.error
          ? html`<pre tabindex="0">${run.error}</pre>`
          : html`<p>${outcome(run, schedule)}</p>`
      }
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

const number = (name, title, value, words = count) => ({
  name,
  title,
  fixed: true,
  number: true,
  value,
  cell: (run) => words(value(run)),
});

const columnsOf = (schedule, open) => [
  {
    name: "id",
    title: "Run",
    fixed: true,
    cell: (run) => html`
      <button type="button" class="plain" onClick=${() => open({ run })}>${run.id}</button>
    `,
  },
  { name: "state", title: "State", fixed: true, cell: (run) => html`<${RunState} run=${run} />` },
  {
    name: "started_ms",
    title: "Started",
    fixed: true,
    time: true,
    cell: (run) => time(run.started_ms),
  },
  number("took", "Duration", took, duration),
  {
    name: "outcome",
    title: "Outcome",
    fixed: true,
    wide: true,
    value: (run) => outcome(run, schedule),
    cell: (run) => html`<span class="breaks">${outcome(run, schedule)}</span>`,
  },
  {
    ...number("dead_letters", "Dead letters", (run) => total(run, "dead_letters")),
    cell: (run) =>
      hasLetters(run)
        ? html`
          <button type="button" class="plain" aria-label=${`Dead letters of ${run.id}`}
              onClick=${() => open({ letters: run })}>
            ${total(run, "dead_letters") ? count(total(run, "dead_letters")) : "show"}
          </button>
        `
        : count(0),
  },
  number("rows", "Rows", (run) => total(run, "rows")),
  number("bytes", "Size", (run) => run.bytes, bytes),
  number("pace", "Rate", pace, rate),
];

export function Runs({ of, runs }) {
  const [{ run, letters }, open] = useState({});
  const close = () => open({});
  return html`
    <${Table} id="runs" rows=${runs} columns=${columnsOf(of.schedule, open)} empty="No runs yet." />
    ${run && html`<${Run} run=${run} schedule=${of.schedule} onClose=${close} />`}
    ${letters && html`<${DeadLetters} of=${of} run=${letters} onClose=${close} />`}
  `;
}
