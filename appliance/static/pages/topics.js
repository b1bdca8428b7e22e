// All topics, with their sizes, rates and last records.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { go, href } from "../router.js";
import { Badge, Head, Loaded } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Act, missing, seesBroker } from "../parts/rights.js";
import { Table } from "../parts/table.js";
import { ago, bytes, count, rate, some } from "../format.js";
import { ChangeConfig } from "./config_change.js";
import { DeleteTopics } from "./several_topics.js";

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
  { name: "retention", title: "Retention", value: (topic) => topic.kept },
];

function Create({ onClose }) {
  const [name, setName] = useState("");
  const [partitions, setPartitions] = useState(1);
  const [kept, setKept] = useState("7 d");
  const [policy, setPolicy] = useState("delete");
  const create = async () => {
    const configs = { "cleanup.policy": policy };
    if (policy !== "compact") configs["retention.ms"] = kept.trim() || "for ever";
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
              Retention, as 7 d or 12 h (empty: for ever)
              <input spellcheck=${false} value=${kept}
                  onInput=${(event) => setKept(event.target.value)} />
            </label>
          `
        }
      </div>
    <//>
  `;
}

/** What can be done with the chosen topics; nothing is in the way while there are none. */
function Chosen({ names, me, onClear, onDelete, onChange }) {
  const why = (role) =>
    me.is_read_only || me.is_ruled || role.includes(me.role)
      ? me.is_read_only && me.why_fixed
      : `${me.name} is ${me.role}, wanted ${role[0]}.`;
  return html`
    <div class="row chosen" role="region" aria-label="Chosen topics">
      <b role="status">${some(names.length, "topic")} chosen</b>
      <${Act} why=${why(["operator", "admin"])} onClick=${onChange}>Change a config<//>
      <${Act} class="danger" why=${why(["admin"])} onClick=${onDelete}>Delete<//>
      <button type="button" class="plain" onClick=${onClear}>choose none</button>
    </div>
  `;
}

/** The dialog needs to know what can be configured. */
function ChangeSeveral({ topics, onClose }) {
  const known = useApi("/topic-configs");
  if (known.error) return html`<p class="notice bad" role="alert">${known.error.message}</p>`;
  if (!known.data) return null;
  const rows = known.data.configs;
  return html`
    <${ChangeConfig} topics=${topics} rows=${rows} onClose=${onClose} onChanged=${() => {}}
        first=${rows.find((each) => each.name === "retention.ms")} />
  `;
}

export function Topics({ route, me }) {
  const isAll = route.query.all === "1";
  const topics = useApi(`/topics?limit=10000${isAll ? "&internal=true" : ""}`, 5);
  const [creating, setCreating] = useState(false);
  const [picked, setPicked] = useState(new Set());
  const [doing, setDoing] = useState(null); // delete or change, and the topics
  // others may delete some meanwhile
  const names = (topics.data?.topics ?? []).map((each) => each.name).filter((it) => picked.has(it));
  const done = () => {
    setDoing(null);
    topics.reload();
  };
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
    ${
      names.length > 0 &&
      html`
        <${Chosen} names=${names} me=${me} onClear=${() => setPicked(new Set())}
            onDelete=${() => setDoing({ what: "delete", names })}
            onChange=${() => setDoing({ what: "change", names })} />
      `
    }
    <section class="card">
      <${Loaded} from=${topics}>
        ${(data) => html`
          <${Table} id="topics" sort="name" rows=${data.topics} columns=${COLUMNS}
              choose=${{ chosen: picked, set: setPicked, may: (topic) => !topic.is_internal }}
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
    ${doing?.what === "delete" && html`<${DeleteTopics} topics=${doing.names} onClose=${done} />`}
    ${doing?.what === "change" && html`<${ChangeSeveral} topics=${doing.names} onClose=${done} />`}
    ${creating && html`<${Create} onClose=${() => setCreating(false)} />`}
  `;
}
