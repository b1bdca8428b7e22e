// What an admin mends of a partition, and the round that finds what is to be mended. Each act is tried dry first.
import { html, useEffect, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { go } from "../router.js";
import { Badge, Loaded } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Table } from "../parts/table.js";
import { bytes, count, some } from "../format.js";
import { mayAdminister } from "./access.js";

/** Says what would be done, as the broker has worked it out, and does it once the partition's name was typed. */
function Act({ path, name, act, onClose }) {
  const [plan, setPlan] = useState(null), [refused, setRefused] = useState(null);
  useEffect(() => { api(path, { method: "POST", body: act.body }).then(setPlan, (error) => setRefused(error.message)); }, []);
  const send = () => api(path, { method: "POST", body: { ...act.body, dry_run: false } });
  return html`<${Dialog} title=${`${act.title}: ${name}`} send=${act.title} danger confirm=${plan ? name : undefined} onSend=${plan ? send : undefined} onClose=${onClose}>
    ${refused && html`<p class="notice bad" role="alert">${refused}</p>`}
    ${!plan && !refused && html`<p aria-busy="true">It is worked out what this would do.</p>`}
    ${plan && html`<p role="status">This was tried, and nothing is done yet: ${plan.text}.</p>
      ${plan.still_missing.length > 0 && html`<p>${some(plan.still_missing.length, "range")} would still be missing.</p>`}
      <p class="muted">${act.why} The audit trail has it.</p>`}<//>`;
}

const DAMAGE = [
  { name: "first_offset", title: "First offset", number: true, cell: (each) => count(each.first_offset) },
  { name: "end_offset", title: "Last offset", number: true, value: (each) => each.end_offset - 1, cell: (each) => count(each.end_offset - 1) },
  { name: "has_bytes", title: "What is there", value: (each) => (each.has_bytes ? "damaged bytes" : "nothing") },
  { name: "is_skipped", title: "Readers", value: (each) => each.is_skipped, cell: (each) => (each.is_skipped ? "pass" : html`<${Badge} level="bad">are refused<//>`) },
];
const SKIP = { title: "Let readers pass", body: { action: "skip" }, why: "Readers no longer hear of these offsets: they go on behind them. The ledger keeps them, as skipped." };
const REOPEN = { title: "Open again", body: { action: "reopen" }, why: "What is not known to be on the disk is read from there, not from memory." };
const putBack = (file) => ({ title: "Put back", body: { action: "import", file }, why: "Whole batches of the file that fit into what is missing stand there again, at their own offsets." });

export function Repair({ topic, partitions, query, me }) {
  const number = Number(query.partition ?? 0), name = `${topic}-${number}`;
  const path = `/topics/${encodeURIComponent(topic)}/partitions/${number}/repair`;
  const found = useApi(path, 5);
  const [act, ask] = useState(null);
  const button = (each, label) => html`<button type="button" disabled=${!mayAdminister(me)} aria-label=${label} onClick=${() => ask(each)}>${each.title}</button>`;
  const files = [
    { name: "file", title: "File", wide: true, cell: (each) => html`<code>${each.file}</code>` },
    { name: "size_bytes", title: "Size", number: true, cell: (each) => bytes(each.size_bytes) },
    { name: "put", title: "", fixed: true, cell: (each) => button(putBack(each.file), `Put back ${each.file}`) },
  ];
  return html`<section class="card"><div class="head"><h2>Repair of partition ${number}</h2>
      <label>Partition<select value=${number} onChange=${(event) => go(["topics", topic], { tab: "repair", partition: event.target.value })}>${Array.from({ length: partitions }, (_, each) => html`<option value=${each}>${each}</option>`)}</select></label></div>
    <${Loaded} from=${found}>${(data) => html`
      ${data.state === "open" ? html`<p class="muted">It is open and takes writes.</p>` : html`<p class="notice bad">It is ${data.state}: ${data.why}. ${button(REOPEN)}</p>`}
      <div class="head"><h3>Damage</h3>${data.damaged.some((each) => !each.is_skipped) && button(SKIP)}</div>
      <${Table} id=${`damage-${name}`} rows=${data.damaged} columns=${DAMAGE} empty="Nothing of it is known to be damaged." />
      <h3>What was set aside</h3>
      <${Table} id=${`aside-${name}`} rows=${data.set_aside} columns=${files} empty="No file was set aside." />`}<//></section>
    ${act && html`<${Act} path=${path} name=${name} act=${act} onClose=${() => { ask(null); found.reload(); }} />`}`;
}

function result(own) {
  const failed = own.findings.some((each) => each.what === "failed");
  if (own.damages) return `${some(own.damages, "new damage")} found`;
  return failed ? "not every segment could be verified" : "every batch is as written";
}

/** For the ledger: verifies every segment from the disk, at once. */
export function Scrub({ me, onFound }) {
  const scrub = useApi("/scrub", 2);
  const [isAsking, ask] = useState(false);
  const start = async () => { await api("/scrub", { method: "POST", body: {} }); scrub.reload(); };
  const isOver = scrub.data && !scrub.data.is_running;
  useEffect(() => { if (isOver) onFound(); }, [isOver]);
  return html`<section class="card" id="scrub"><${Loaded} from=${scrub}>${(data) => html`<div class="head"><h2>Verification of what is on the disk</h2>
      <button type="button" disabled=${me.read_only || data.is_running} onClick=${() => ask(true)}>Verify all now</button></div>
    <p role="status">${data.is_running ? `Under way: ${bytes(data.own?.bytes ?? 0)} of ${bytes(data.own?.bytes_found ?? 0)}.` : data.own ? `The last that somebody asked for: ${some(data.own.segments, "segment")}, ${bytes(data.own.bytes)}: ${result(data.own)}.` : "It goes on in the background; nobody has asked for a round of their own."}</p>
    ${data.known.length > 0 && html`<p class="notice bad">${some(data.known.length, "range")} of offsets ${data.known.length === 1 ? "is" : "are"} not served: ${data.known.slice(0, 8).map((each) => html`<a href=${`#/topics/${encodeURIComponent(each.topic)}?tab=repair&partition=${each.partition}`}>${each.topic}-${each.partition}</a> `)}</p>`}`}<//></section>
    ${isAsking && html`<${Dialog} title="Verify every segment now" send="Verify" onSend=${start} onClose=${() => ask(false)}>
      <p>All segments are read from the disk at full speed, beside what clients do. What is damaged is marked: readers of it are told, and everything else stays readable.</p><//>`}`;
}
