// What was lost or damaged, and whether somebody has said that they have seen it.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { href } from "../router.js";
import { Badge, Head, Loaded } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Table } from "../parts/table.js";
import { Scrub } from "./repair.js";
import { count, some, time } from "../format.js";

const isOpen = (each) => each.acknowledged_ms === null;
const isWhole = (each) => each.partition < 0; // it is of the whole directory
const place = (each) => (isWhole(each) ? "the data directory" : `${each.topic}-${each.partition}`);
const LEVEL = { lost: "bad", damaged: "warn", skipped: "" };

function offsets({ first_offset: first, last_offset: last }) {
  if (first < 0) return "–";
  if (last === null) return `${count(first)} and on`;
  return first === last ? count(first) : `${count(first)} to ${count(last)}`;
}

const COLUMNS = [
  { name: "what", title: "What", value: (each) => each.kind, cell: (each) => html`<${Badge} level=${LEVEL[each.kind]}>${each.kind}<//>` },
  { name: "topic", title: "Topic", cell: (each) => (isWhole(each) ? "–" : html`<a href=${href(["topics", each.topic])}>${each.topic}</a>`) },
  { name: "partition", title: "Partition", number: true, cell: (each) => (isWhole(each) ? "–" : each.partition) },
  { name: "offsets", title: "Offsets", number: true, value: (each) => each.first_offset, cell: offsets },
  { name: "at_ms", title: "Found", number: true, cell: (each) => time(each.at_ms) },
  { name: "cause", title: "Cause", wide: true },
  { name: "aside", title: "What is left is in", wide: true, cell: (each) => (each.aside ? html`<code>${each.aside}</code>` : "–") },
];
const SEEN = { name: "seen", title: "Acknowledged", value: (each) => each.acknowledged_ms, cell: (each) => (isOpen(each) ? html`<${Badge} level="bad">open<//>` : `${time(each.acknowledged_ms)} by ${each.acknowledged_by}`) };

/** `all`: what is open, told in numbers, up to the newest that this page knows. */
function Acknowledge({ row, all, onClose }) {
  const body = row ? { ids: [row.id] } : { up_to_id: all.last_id };
  const send = () => api("/ledger/acknowledge", { method: "POST", body });
  const title = row ? `Acknowledge what happened to ${place(row)}` : `Acknowledge ${some(all.open, "entry", "entries")}`;
  const rows = row ? [row] : all.entries.filter(isOpen).slice(0, 8);
  return html`<${Dialog} title=${title} send="Acknowledge" onSend=${send} onClose=${onClose}>
    ${rows.map((each) => html`<p>${place(each)}${!isWhole(each) && `, offsets ${offsets(each)}`}, ${each.kind}: ${each.cause}</p>`)}
    ${!row && all.open > rows.length && html`<p>And ${count(all.open - rows.length)} more.</p>`}
    <p class="muted">It brings nothing back. Health stops telling of it, the ledger keeps it, with your name and the time; the audit trail has it, too.</p><//>`;
}

/** A page of the ledger, with what acknowledges one entry or all that are open. */
function Entries({ id, page, me, onChanged, isWhole }) {
  const [asking, ask] = useState(null);
  const button = { name: "acknowledge", title: "", fixed: true, cell: (each) => html`${isOpen(each) && html`<button type="button" disabled=${me.read_only || each.id === null} aria-label=${`Acknowledge ${place(each)}, offsets ${offsets(each)}`} onClick=${() => ask({ row: each })}>Acknowledge</button>`}` };
  const columns = [...COLUMNS, ...(isWhole ? [SEEN] : []), button];
  const tools = page.open > 1 && html`<button type="button" disabled=${me.read_only} onClick=${() => ask({ all: page })}>Acknowledge all ${count(page.open)}</button>`;
  return html`<${Table} id=${id} rows=${page.entries} columns=${columns} tools=${tools} text=${isWhole ? (each) => `${each.topic} ${each.cause} ${each.kind} ${each.aside}` : undefined} empty="Nothing was lost or damaged." />
    ${asking && html`<${Acknowledge} ...${asking} onClose=${() => { ask(null); onChanged(); }} />`}`;
}

/** For Home: what nobody has acknowledged, the newest. */
export function OpenLosses({ me }) {
  const ledger = useApi("/ledger?state=open&limit=20", 5);
  return html`<section class="card"><div class="head"><h2>Losses and damage that nobody has acknowledged</h2><a href="#/ledger">all of them</a></div>
    <${Loaded} from=${ledger}>${(data) => html`<${Entries} id="losses" page=${data} me=${me} onChanged=${ledger.reload} />`}<//></section>`;
}

export function Ledger({ me, route }) {
  const before = route.query.before, state = route.query.state ?? "open";
  const ledger = useApi(`/ledger?state=${state}${before ? `&before=${before}` : ""}`, 5);
  const link = (more) => href(["ledger"], { state, ...more });
  return html`<${Head} title="Losses and damage" />
    <nav class="tabs" aria-label="Which entries">${[["open", "Open"], ["acknowledged", "Acknowledged"], ["all", "All"]].map(([id, title]) => html`<a href=${link({ state: id })} aria-current=${state === id ? "page" : undefined}>${title}</a>`)}</nav>
    <section class="card"><${Loaded} from=${ledger}>${(data) => html`<p class="muted">${data.open ? `${some(data.open, "entry is", "entries are")} open: health tells of them until somebody has acknowledged them.` : "Nothing is open."}</p>
      <${Entries} id="ledger" page=${data} me=${me} onChanged=${ledger.reload} isWhole />
      ${(before || data.next) && html`<p class="row">${before && html`<a href=${link({})}>the newest</a>`} ${data.next && html`<a href=${link({ before: data.next })}>older ones</a>`}</p>`}`}<//></section>
    <${Scrub} me=${me} onFound=${ledger.reload} />`;
}
