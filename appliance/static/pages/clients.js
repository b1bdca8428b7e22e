// Connections of Kafka clients.
import { html, useMemo, useRef } from "../html.js";
import { useApi } from "../api.js";
import { Head, Loaded } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { bytes, count, duration, rate } from "../format.js";

const COLUMNS = [
  { name: "client_id", title: "Client" },
  { name: "peer", title: "Address", cell: (each) => html`<code>${each.peer}</code>` },
  {
    name: "software",
    title: "Library",
    wide: true,
    value: (each) => [each.software, each.software_version].filter(Boolean).join(" "),
  },
  {
    name: "connected_ms",
    title: "Connected",
    number: true,
    cell: (each) => duration(each.connected_ms / 1000),
  },
  {
    name: "idle_ms",
    title: "Idle",
    number: true,
    cell: (each) => duration(each.idle_ms / 1000),
  },
  { name: "requests", title: "Requests", number: true, cell: (each) => count(each.requests) },
  { name: "in_per_s", title: "In", number: true, cell: (each) => rate(each.in_per_s) },
  { name: "out_per_s", title: "Out", number: true, cell: (each) => rate(each.out_per_s) },
  {
    name: "received_bytes",
    title: "Received",
    number: true,
    cell: (each) => bytes(each.received_bytes),
  },
  { name: "sent_bytes", title: "Sent", number: true, cell: (each) => bytes(each.sent_bytes) },
  {
    name: "throttled_ms",
    title: "Throttled",
    number: true,
    cell: (each) => (each.throttled_ms ? duration(each.throttled_ms / 1000) : "–"),
  },
];

/** The broker reports totals. A rate needs two answers, so a new connection has none yet. */
function useRates(connections) {
  const before = useRef({ at: 0, rows: new Map() });
  return useMemo(() => {
    if (!connections) return [];
    const { at, rows } = before.current;
    const now = performance.now();
    const seconds = (now - at) / 1000;
    before.current = { at: now, rows: new Map(connections.map((each) => [each.id, each])) };
    return connections.map((each) => {
      const old = rows.get(each.id);
      const per = (name) => (old ? Math.max(0, each[name] - old[name]) / seconds : null);
      return {
        ...each,
        key: each.id,
        in_per_s: per("received_bytes"),
        out_per_s: per("sent_bytes"),
      };
    });
  }, [connections]);
}

export function Clients() {
  const clients = useApi("/connections?limit=10000", 3);
  const rows = useRates(clients.data?.connections);
  return html`
    <${Head} title="Clients" />
    <section class="card">
      <${Loaded} from=${clients}>
        ${() => html`
          <${Table} id="clients" sort="-received_bytes" rows=${rows} columns=${COLUMNS}
              text=${(each) => `${each.client_id} ${each.peer} ${each.software}`}
              empty=${html`
                <p>No client is connected.</p>
                <p>
                  Clients of Kafka find this broker at the address that Home has, as
                  ${" "}<code>bootstrap.servers</code>. To try it:
                  ${" "}<code>appliance produce TOPIC</code>
                </p>
              `} />
        `}
      <//>
    </section>
  `;
}
