// Exports: their schedules, their lag, and the retention holds for them.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { href } from "../router.js";
import { Badge, Head, Loaded } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Act, missing } from "../parts/rights.js";
import { Table } from "../parts/table.js";
import { bytes, count, duration, percent, rate, time } from "../format.js";

const LEVEL = { succeeded: "good", running: "", failed: "bad" };
export const RunState = ({ run }) =>
  run ? html`<${Badge} level=${LEVEL[run.state]}>${run.state}<//>` : html`<${Badge}>no run yet<//>`;
export const total = (run, name) =>
  (run?.partitions ?? []).reduce((sum, each) => sum + (each[name] ?? 0), 0);
export const took = (run) => (run.ended_ms ? (run.ended_ms - run.started_ms) / 1000 : null);
export const pace = (run) => (run?.bytes && took(run) > 0 ? run.bytes / took(run) : null);

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
    cell: (each) => html`<${RunState} run=${each.status.last_run} />`,
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
      each.status.next_run_ms
        ? time(each.status.next_run_ms)
        : html`<code>${each.schedule?.cron ?? "manual"}</code>`,
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

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const plain = (text) => text.split(/[\s,]+/).filter(Boolean);

/** Creates or changes an export. Fields that the form does not have keep their values. */
export function Edit({ of, onClose }) {
  const [name, setName] = useState(of?.name ?? "");
  const [by, setBy] = useState(of?.pattern ? "pattern" : "topics");
  const [which, setWhich] = useState(of ? (of.pattern ?? of.topics.join(" ")) : "");
  const [target, setTarget] = useState(of?.target ?? "");
  const [cron, setCron] = useState(of ? (of.schedule?.cron ?? "") : "5 * * * *");
  const [tz, setTz] = useState(of?.schedule?.timezone ?? zone);
  const [jitter, setJitter] = useState(of?.schedule?.jitter_seconds ?? 60);
  const [retries, setRetries] = useState(of?.schedule?.retries ?? 3);
  const send = () => {
    const { status, ...known } = of ?? {};
    const schedule = cron.trim()
      ? {
          cron: cron.trim(),
          timezone: tz,
          jitter_seconds: Number(jitter),
          retries: Number(retries),
        }
      : null;
    const body = {
      ...known,
      name,
      target,
      schedule,
      topics: by === "topics" ? plain(which) : [],
      pattern: by === "pattern" ? which.trim() : null,
    };
    return api(`/exports/${encodeURIComponent(name)}`, { method: "PUT", body });
  };
  const field = (label, value, set, more = {}) => html`
    <label>
      ${label}
      <input autocomplete="off" spellcheck=${false} value=${value}
          onInput=${(event) => set(event.target.value)} ...${more} />
    </label>
  `;
  return html`
    <${Dialog} title=${of ? `Change ${of.name}` : "New export"} send=${of ? "Save" : "Create"}
        onSend=${send} onClose=${onClose}>
      <div class="fields">
        ${
          !of &&
          field("Name", name, setName, { required: true, pattern: "[a-zA-Z0-9._\\-]{1,100}" })
        }
        <label>
          Select topics by
          <select value=${by} onChange=${(event) => setBy(event.target.value)}>
            <option value="topics">name</option>
            <option value="pattern">pattern</option>
          </select>
        </label>
        ${field(
          by === "topics"
            ? "Topics, separated by spaces"
            : "Pattern (a regular expression for the whole name)",
          which,
          setWhich,
          { required: true },
        )}
        ${field("Target folder", target, setTarget, { required: true })}
        ${field("Schedule: minute hour day month weekday (empty: manual)", cron, setCron, {
          placeholder: "5 * * * *",
        })}
        ${
          cron.trim() &&
          html`
            ${field("Time zone", tz, setTz, { required: true })}
            ${field("Random delay, up to seconds", jitter, setJitter, {
              type: "number",
              min: 0,
            })}${field("Retries", retries, setRetries, { type: "number", min: 0 })}
          `
        }
      </div>
    <//>
  `;
}

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
      <${Act} why=${why} onClick=${() => setOpen(true)}>New export<//>
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
