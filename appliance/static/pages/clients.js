// Who is connected.
import { html } from "../html.js";
import { useApi } from "../api.js";
import { Head, Loaded } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { bytes, count, duration } from "../format.js";

const COLUMNS = [
  { name: "client_id", title: "Client" },
  { name: "peer", title: "Address", cell: (each) => html`<code>${each.peer}</code>` },
  { name: "software", title: "Library", value: (each) => [each.software, each.software_version].filter(Boolean).join(" ") },
  { name: "connected_ms", title: "Since", number: true, cell: (each) => duration(each.connected_ms / 1000) },
  { name: "idle_ms", title: "Quiet for", number: true, cell: (each) => duration(each.idle_ms / 1000) },
  { name: "requests", title: "Requests", number: true, cell: (each) => count(each.requests) },
  { name: "received_bytes", title: "Sent us", number: true, cell: (each) => bytes(each.received_bytes) },
  { name: "sent_bytes", title: "Got", number: true, cell: (each) => bytes(each.sent_bytes) },
  { name: "throttled_ms", title: "Held back", number: true, cell: (each) => (each.throttled_ms ? duration(each.throttled_ms / 1000) : "–") },
];

export function Clients() {
  const clients = useApi("/connections?limit=10000", 3);
  return html`<${Head} title="Clients" /><section class="card"><${Loaded} from=${clients}>${(data) => html`
    <${Table} id="clients" sort="-received_bytes" rows=${data.connections} columns=${COLUMNS} text=${(each) => `${each.client_id} ${each.peer} ${each.software}`} empty="Nobody is connected." />`}<//></section>`;
}
