// Who writes to a topic: the producers that its partitions remember, and its open transactions.
import { html } from "../html.js";
import { useApi } from "../api.js";
import { Badge, Loaded } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { ago, count, duration, some } from "../format.js";

const NUMBERS_SHOWN = 12;

const numbers = (all) =>
  all.slice(0, NUMBERS_SHOWN).join(", ") + (all.length > NUMBERS_SHOWN ? ", …" : "");
const held = (open) => open.partitions.reduce((sum, each) => sum + each.held_records, 0);

const PRODUCERS = [
  { name: "producer_id", title: "Producer id", number: true },
  { name: "epoch", title: "Epoch", number: true },
  {
    name: "transactional_id",
    title: "Transactional id",
    cell: (each) => each.transactional_id ?? "–",
  },
  {
    name: "partitions",
    title: "Partitions",
    value: (each) => each.partitions.length,
    cell: (each) => numbers(each.partitions),
  },
  {
    name: "last_write_ms",
    title: "Last record",
    number: true,
    cell: (each) => ago(each.last_write_ms),
  },
  {
    name: "in_transaction",
    title: "Transaction",
    value: (each) => (each.in_transaction ? "open" : ""),
    cell: (each) => each.in_transaction && html`<${Badge} level="warn">open<//>`,
  },
];

const age = (open) => (open.started_ms === null ? null : Date.now() - open.started_ms);

const TRANSACTIONS = [
  {
    name: "transactional_id",
    title: "Transactional id",
    cell: (each) => each.transactional_id ?? "–",
  },
  { name: "producer_id", title: "Producer id", number: true },
  { name: "state", title: "State", cell: (each) => each.state || "of another broker" },
  {
    name: "started_ms",
    title: "Open for",
    number: true,
    cell: (each) => duration(age(each) === null ? null : age(each) / 1000),
  },
  {
    name: "timeout_ms",
    title: "Aborted after",
    number: true,
    cell: (each) => duration(each.timeout_ms === null ? null : each.timeout_ms / 1000),
  },
  {
    name: "partitions",
    title: "Partitions",
    value: (each) => each.partitions.length,
    cell: (each) => numbers(each.partitions.map((one) => one.partition)),
  },
  {
    name: "held",
    title: "Held back",
    value: held,
    cell: (each) => some(held(each), "record"),
  },
];

export function Producers({ topic }) {
  const found = useApi(`/topics/${encodeURIComponent(topic)}/producers`, 5);
  return html`
    <${Loaded} from=${found}>
      ${(data) => html`
        ${
          data.transactions.length > 0 &&
          html`
            <section class="card">
              <div class="head">
                <h2>Open transactions</h2>
                <p class="muted">
                  Readers of committed records wait at the first record of the oldest one.
                </p>
              </div>
              <${Table} id=${`transactions-${topic}`} rows=${data.transactions}
                  columns=${TRANSACTIONS} />
            </section>
          `
        }
        <section class="card">
          ${
            !data.is_complete &&
            html`<p class="muted">Partitions that are not here, or not open, are not counted.</p>`
          }
          ${
            data.total > data.producers.length &&
            html`
              <p class="muted">
                The latest ${count(data.producers.length)} of ${some(data.total, "producer")}.
              </p>
            `
          }
          <${Table} id=${`producers-${topic}`} sort="-last_write_ms" rows=${data.producers}
              columns=${PRODUCERS}
              text=${(each) => `${each.producer_id} ${each.transactional_id ?? ""}`}
              empty=${html`
                <p>No producer is known.</p>
                <p>
                  Only idempotent and transactional producers have an id, and only for a time after
                  their last record (<code>producer.id.expiration.ms</code>). Connections of all
                  clients are in <a href="#/clients">Clients</a>.
                </p>
              `} />
        </section>
      `}
    <//>
  `;
}
