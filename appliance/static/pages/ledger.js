// What was lost or damaged, and whether somebody has said that they have seen it.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { href } from "../router.js";
import { Badge, Head, Loaded } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Table } from "../parts/table.js";
import { count, some, time } from "../format.js";

const isOpen = (each) => each.acknowledged_ms === null;
const LEVEL = { lost: "bad", damaged: "warn", skipped: "" };

function offsets({ first_offset: first, last_offset: last }) {
  if (last === null) return `${count(first)} and on`;
  return first === last ? count(first) : `${count(first)} to ${count(last)}`;
}

const COLUMNS = [
  { name: "what", title: "What", value: (each) => each.kind, cell: (each) => html`<${Badge} level=${LEVEL[each.kind]}>${each.kind}<//>` },
  { name: "topic", title: "Topic", cell: (each) => html`<a href=${href(["topics", each.topic])}>${each.topic}</a>` },
  { name: "partition", title: "Partition", number: true },
  { name: "offsets", title: "Offsets", number: true, value: (each) => each.first_offset, cell: offsets },
  { name: "at_ms", title: "Found", number: true, cell: (each) => time(each.at_ms) },
  { name: "cause", title: "Cause", wide: true },
  { name: "aside", title: "What is left is in", wide: true, cell: (each) => (each.aside ? html`<code>${each.aside}</code>` : "–") },
];
const SEEN = { name: "seen", title: "Acknowledged", value: (each) => each.acknowledged_ms, cell: (each) => (isOpen(each) ? html`<${Badge} level="bad">open<//>` : `${time(each.acknowledged_ms)} by ${each.acknowledged_by}`) };

function Acknowledge({ rows, onClose }) {
  const send = () => api("/ledger/acknowledge", { method: "POST", body: { ids: rows.map((each) => each.id) } });
  const [first] = rows;
  const title = rows.length === 1 ? `Acknowledge what happened to ${first.topic}-${first.partition}` : `Acknowledge ${some(rows.length, "entry", "entries")}`;
  return html`<${Dialog} title=${title} send="Acknowledge" onSend=${send} onClose=${onClose}>
    ${rows.slice(0, 8).map((each) => html`<p>${each.topic}-${each.partition}, offsets ${offsets(each)}, ${each.kind}: ${each.cause}</p>`)}
    ${rows.length > 8 && html`<p>And ${count(rows.length - 8)} more.</p>`}
    <p class="muted">It brings nothing back. Health stops telling of it, the ledger keeps it, with your name and the time; the audit trail has it, too.</p><//>`;
}

/** The table of `rows`, with what acknowledges one or all that are open. */
function Entries({ id, rows, me, onChanged, isWhole }) {
  const [asking, ask] = useState(null);
  const open = rows.filter((each) => isOpen(each) && each.id !== null);
  const button = { name: "acknowledge", title: "", fixed: true, cell: (each) => isOpen(each) && html`<button type="button" disabled=${me.read_only || each.id === null} aria-label=${`Acknowledge ${each.topic}-${each.partition}, offsets ${offsets(each)}`} onClick=${() => ask([each])}>Acknowledge</button>` };
  const columns = [...COLUMNS, ...(isWhole ? [SEEN] : []), button];
  const tools = open.length > 1 && html`<button type="button" disabled=${me.read_only} onClick=${() => ask(open)}>Acknowledge all ${count(open.length)}</button>`;
  return html`<${Table} id=${id} rows=${rows} columns=${columns} tools=${tools} text=${isWhole ? (each) => `${each.topic} ${each.cause} ${each.kind} ${each.aside}` : undefined} empty="Nothing was lost or damaged." />
    ${asking && html`<${Acknowledge} rows=${asking} onClose=${() => { ask(null); onChanged(); }} />`}`;
}

/** For Home: what nobody has acknowledged. */
export function OpenLosses({ me }) {
  const ledger = useApi("/ledger", 5);
  return html`<section class="card"><div class="head"><h2>Losses and damage that nobody has acknowledged</h2><a href="#/ledger">all of them</a></div>
    <${Loaded} from=${ledger}>${(data) => html`<${Entries} id="losses" rows=${data.entries.filter(isOpen)} me=${me} onChanged=${ledger.reload} />`}<//></section>`;
}

export function Ledger({ me }) {
  const ledger = useApi("/ledger", 5);
  return html`<${Head} title="Losses and damage" />
    <section class="card"><${Loaded} from=${ledger}>${(data) => html`<p class="muted">${data.open ? `${some(data.open, "entry is", "entries are")} open: health tells of them until somebody has acknowledged them.` : "Nothing is open."}</p>
      <${Entries} id="ledger" rows=${data.entries} me=${me} onChanged=${ledger.reload} isWhole />`}<//></section>`;
}
