// All topics, with their sizes, rates and last records.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { go, href } from "../router.js";
import { Badge, Head, Loaded } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Act, missing, seesBroker } from "../parts/rights.js";
import { Table } from "../parts/table.js";
import { ago, bytes, count, duration, rate } from "../format.js";

export const retention = (topic) =>
  [
    topic.cleanup_policy.includes("compact") && "compacted",
    topic.cleanup_policy.includes("delete") &&
      (topic.retention_ms < 0 && topic.retention_bytes < 0
        ? "for ever"
        : [
            topic.retention_ms >= 0 && duration(topic.retention_ms / 1000),
            topic.retention_bytes >= 0 && bytes(topic.retention_bytes),
          ]
            .filter(Boolean)
            .join(" or ")),
  ]
    .filter(Boolean)
    .join(", ");

const COLUMNS = [
  {
    name: "name",
    title: "Topic",
    cell: (topic) => html`
      <a href=${href(["topics", topic.name])}>${topic.name}</a>
      ${" "}
      ${topic.is_internal && html`<${Badge}>internal<//>`}
      ${" "}
      ${topic.failed > 0 && html`<${Badge} level="bad">${topic.failed} stopped<//>`}
      ${" "}
      ${
        Object.keys(topic.unserved).length > 0 &&
        html`<${Badge} level="bad">${Object.keys(topic.unserved).length} not open<//>`
      }
    `,
  },
  { name: "partitions", title: "Partitions", number: true },
  { name: "size_bytes", title: "Size", number: true, cell: (topic) => bytes(topic.size_bytes) },
  { name: "records", title: "Records", number: true, cell: (topic) => count(topic.records) },
  {
    name: "received_bytes_per_s",
    title: "In",
    number: true,
    cell: (topic) => rate(topic.received_bytes_per_s),
  },
  {
    name: "sent_bytes_per_s",
    title: "Out",
    number: true,
    cell: (topic) => rate(topic.sent_bytes_per_s),
  },
  {
    name: "last_write_ms",
    title: "Last record",
    number: true,
    cell: (topic) => ago(topic.last_write_ms),
  },
  { name: "retention", title: "Retention", value: retention },
];

function Create({ onClose }) {
  const [name, setName] = useState("");
  const [partitions, setPartitions] = useState(1);
  const [days, setDays] = useState("7");
  const [policy, setPolicy] = useState("delete");
  const create = async () => {
    const configs = { "cleanup.policy": policy };
    if (policy !== "compact")
      configs["retention.ms"] = days === "" ? "-1" : String(Math.round(Number(days) * 86400000));
    await api("/topics", {
      method: "POST",
      body: { name, partitions: Number(partitions), configs },
    });
    go(["topics", name]);
  };
  return html`
    <${Dialog} title="New topic" send="Create" onSend=${create} onClose=${onClose}>
      <div class="fields">
        <label>
          Name
          <input required autofocus spellcheck=${false} pattern="[a-zA-Z0-9._\\-]+" maxlength="249"
              title="letters, digits, dots, dashes and underscores" value=${name}
              onInput=${(event) => setName(event.target.value)} />
        </label>
        <label>
          Partitions
          <input type="number" min="1" required value=${partitions}
              onInput=${(event) => setPartitions(event.target.value)} />
        </label>
        <label>
          Cleanup policy
          <select value=${policy} onChange=${(event) => setPolicy(event.target.value)}>
            <option value="delete">delete: keep all records for a time</option>
            <option value="compact">compact: keep the last record of each key</option>
            <option value="compact,delete">both: the last record of each key, for a time</option>
          </select>
        </label>
        ${
          policy !== "compact" &&
          html`
            <label>
              Retention in days (empty: for ever)
              <input type="number" min="0" step="any" value=${days}
                  onInput=${(event) => setDays(event.target.value)} />
            </label>
          `
        }
      </div>
    <//>
  `;
}

export function Topics({ route, me }) {
  const isAll = route.query.all === "1";
  const topics = useApi(`/topics?limit=10000${isAll ? "&internal=true" : ""}`, 5);
  const [creating, setCreating] = useState(false);
  const why = me.is_read_only
    ? me.why_fixed
    : me.creates_topics
      ? ""
      : missing(me, "create", "topics");
  return html`
    <${Head} title="Topics">
      <${Act} class="primary" why=${why} onClick=${() => setCreating(true)}>New topic<//>
    <//>
    ${
      !seesBroker(me) &&
      html`<p class="muted">These are the topics that access rules open to you.</p>`
    }
    <section class="card">
      <${Loaded} from=${topics}>
        ${(data) => html`
          <${Table} id="topics" sort="name" rows=${data.topics} columns=${COLUMNS}
              text=${(topic) => topic.name}
              empty=${html`
                <p>No topics yet.</p>
                <p>Create a topic here, or let a producer create it by writing to it.</p>
              `}
              tools=${html`
                <a href=${href(["topics"], { ...route.query, all: isAll ? "" : "1" })}>
                  ${isAll ? "hide internal topics" : "show internal topics"}
                </a>
              `} />
        `}
      <//>
    </section>
    ${creating && html`<${Create} onClose=${() => setCreating(false)} />`}
  `;
}
