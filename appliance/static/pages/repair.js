// The repair of a partition, and the scrub that finds damage. Each repair shows a dry run first.
import { html, useEffect, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { go, href } from "../router.js";
import { Badge, Loaded } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Table } from "../parts/table.js";
import { bytes, count, some } from "../format.js";
import { mayAdminister } from "./access.js";

/** Shows the plan of a repair, and runs it after the partition's name was typed. */
function Act({ path, name, act, onClose }) {
  const [plan, setPlan] = useState(null);
  const [refused, setRefused] = useState(null);
  useEffect(() => {
    api(path, { method: "POST", body: act.body }).then(setPlan, (error) =>
      setRefused(error.message),
    );
  }, []);
  const send = () => api(path, { method: "POST", body: { ...act.body, dry_run: false } });
  return html`
    <${Dialog} title=${`${act.title}: ${name}`} send=${act.title} danger
        confirm=${plan ? name : undefined} onSend=${plan ? send : undefined} onClose=${onClose}>
      ${refused && html`<p class="notice bad" role="alert">${refused}</p>`}
      ${!plan && !refused && html`<p aria-busy="true">Planning …</p>`}
      ${
        plan &&
        html`
          <p role="status">Dry run, nothing is changed yet: ${plan.text}.</p>
          ${
            plan.still_missing.length > 0 &&
            html`<p>${some(plan.still_missing.length, "range")} would still be missing.</p>`
          }
          <p class="muted">${act.why} The action is recorded in the audit trail.</p>
        `
      }
    <//>
  `;
}

const DAMAGE = [
  {
    name: "first_offset",
    title: "First offset",
    number: true,
    cell: (each) => count(each.first_offset),
  },
  {
    name: "end_offset",
    title: "Last offset",
    number: true,
    value: (each) => each.end_offset - 1,
    cell: (each) => count(each.end_offset - 1),
  },
  {
    name: "has_bytes",
    title: "Data",
    value: (each) => (each.has_bytes ? "damaged" : "missing"),
  },
  {
    name: "is_skipped",
    title: "Readers",
    value: (each) => each.is_skipped,
    cell: (each) => (each.is_skipped ? "skip" : html`<${Badge} level="bad">get an error<//>`),
  },
];
const SKIP = {
  title: "Let readers skip",
  body: { action: "skip" },
  why: "Readers continue behind these offsets without an error. The ledger lists them as skipped.",
};
const REOPEN = {
  title: "Reopen",
  body: { action: "reopen" },
  why: "The broker reads the log from the disk again and trusts nothing in memory.",
};
const importOf = (file) => ({
  title: "Import",
  body: { action: "import", file },
  why: "Whole batches of the file that fit into the gap are restored at their own offsets.",
});

export function Repair({ topic, partitions, query, me }) {
  const number = Number(query.partition ?? 0);
  const name = `${topic}-${number}`;
  const path = `/topics/${encodeURIComponent(topic)}/partitions/${number}/repair`;
  const state = useApi(path, 5);
  const [act, ask] = useState(null);
  const button = (each, label) => html`
    <button type="button" disabled=${!mayAdminister(me)} aria-label=${label}
        onClick=${() => ask(each)}>
      ${each.title}
    </button>
  `;
  const files = [
    { name: "file", title: "File", wide: true, cell: (each) => html`<code>${each.file}</code>` },
    { name: "size_bytes", title: "Size", number: true, cell: (each) => bytes(each.size_bytes) },
    {
      name: "put",
      title: "",
      fixed: true,
      cell: (each) => button(importOf(each.file), `Import ${each.file}`),
    },
  ];
  return html`
    <section class="card">
      <div class="head">
        <h2>Repair of partition ${number}</h2>
        <label>
          Partition
          <select value=${number}
              onChange=${(event) =>
                go(["topics", topic], { tab: "repair", partition: event.target.value })}>
            ${Array.from(
              { length: partitions },
              (_, each) => html`<option value=${each}>${each}</option>`,
            )}
          </select>
        </label>
      </div>
      <${Loaded} from=${state}>
        ${(data) => html`
          ${
            data.state === "open"
              ? html`<p class="muted">The partition is open and accepts writes.</p>`
              : html`
                <p class="notice bad">
                  The partition is ${data.state}: ${data.why}. ${button(REOPEN)}
                </p>
              `
          }
          <div class="head">
            <h3>Damage</h3>
            ${data.damaged.some((each) => !each.is_skipped) && button(SKIP)}
          </div>
          <${Table} id=${`damage-${name}`} rows=${data.damaged} columns=${DAMAGE}
              empty="No known damage." />
          <h3>Files set aside</h3>
          <${Table} id=${`aside-${name}`} rows=${data.set_aside} columns=${files}
              empty="No files." />
        `}
      <//>
    </section>
    ${
      act &&
      html`
        <${Act} path=${path} name=${name} act=${act}
            onClose=${() => {
              ask(null);
              state.reload();
            }} />
      `
    }
  `;
}

function result(own) {
  const failed = own.skipped > 0 || own.findings.some((each) => each.what === "failed");
  if (own.damages) return `${some(own.damages, "new damage")} found`;
  return failed ? "some segments could not be verified" : "all batches are valid";
}

function scrubText({ is_running: isRunning, own }) {
  if (isRunning) return `Running: ${bytes(own?.bytes ?? 0)} of ${bytes(own?.bytes_found ?? 0)}.`;
  if (!own) return "Runs in the background. No manual verification since the start.";
  const read = `${some(own.segments, "segment")}, ${bytes(own.bytes)}`;
  return `Last manual verification: ${read}: ${result(own)}.`;
}

/** For the ledger: the scrub, which verifies every segment from the disk. */
export function Scrub({ me, onFound }) {
  const scrub = useApi("/scrub", 2);
  const [isAsking, ask] = useState(false);
  const start = async () => {
    await api("/scrub", { method: "POST", body: {} });
    scrub.reload();
  };
  const isOver = scrub.data && !scrub.data.is_running;
  useEffect(() => {
    if (isOver) onFound();
  }, [isOver]);
  return html`
    <section class="card" id="scrub">
      <${Loaded} from=${scrub}>
        ${(data) => html`
          <div class="head">
            <h2>Verification of all segments</h2>
            <button type="button" disabled=${me.read_only || data.is_running}
                title=${me.why_fixed || undefined} onClick=${() => ask(true)}>
              Verify now
            </button>
          </div>
          <p role="status">${scrubText(data)}</p>
          ${
            data.known.length > 0 &&
            html`
              <p class="notice bad">
                ${some(data.known.length, "range")} of offsets${" "}
                ${data.known.length === 1 ? "is" : "are"} not served:${" "}
                ${data.known.slice(0, 8).map(
                  ({ topic, partition }) => html`
                    <a href=${href(["topics", topic], { tab: "repair", partition })}>
                      ${topic}-${partition}
                    </a>
                    ${" "}
                  `,
                )}
              </p>
            `
          }
        `}
      <//>
    </section>
    ${
      isAsking &&
      html`
        <${Dialog} title="Verify every segment now" send="Verify" onSend=${start}
            onClose=${() => ask(false)}>
          <p>
            The broker reads all segments from the disk at full speed, beside the clients. It marks
            damaged ranges. Their readers get an error, and everything else stays readable.
          </p>
        <//>
      `
    }
  `;
}
