// One topic: its partitions, the segments of their logs, its messages and its configs.
import { html, useEffect, useRef, useState } from "../html.js";
import { useApi } from "../api.js";
import { href } from "../router.js";
import { Badge, Head, Loaded, Strip } from "../parts/bits.js";
import { Act, missing, refusal } from "../parts/rights.js";
import { Table } from "../parts/table.js";
import { ago, bytes, count, duration, rate, short } from "../format.js";
import { Messages } from "./messages.js";
import { Repair } from "./repair.js";
import { ReplicasOfTopic } from "./replicas.js";
import { Segments } from "./segments.js";
import { Configs } from "./topic_configs.js";
import { Grow, Remove } from "./topic_dialogs.js";
import { Consumers } from "./topic_consumers.js";
import { Producers } from "./topic_producers.js";
import { Rates, useSamples } from "./topic_rates.js";

const TABS = [
  ["partitions", "Partitions"],
  ["replicas", "Replicas"],
  ["segments", "Segments"],
  ["messages", "Messages"],
  ["consumers", "Consumers"],
  ["producers", "Producers"],
  ["rates", "Rates"],
  ["configs", "Configs"],
  ["repair", "Repair"],
];

const unflushed = ({ unflushed_records: records, unflushed_bytes: size, unflushed_age_ms: age }) =>
  `${count(records)} · ${bytes(size)} · ${duration(age / 1000)}`;

const PARTITIONS = [
  { name: "partition", title: "Partition", number: true },
  {
    name: "log_start_offset",
    title: "Start",
    number: true,
    cell: (each) => count(each.log_start_offset),
  },
  {
    name: "durable_offset",
    title: "Durable",
    number: true,
    cell: (each) => count(each.durable_offset),
  },
  {
    name: "high_watermark",
    title: "Visible",
    number: true,
    cell: (each) => count(each.high_watermark),
  },
  {
    name: "log_end_offset",
    title: "End",
    number: true,
    cell: (each) => count(each.log_end_offset),
  },
  { name: "size", title: "Size", number: true, cell: (each) => bytes(each.size_bytes) },
  { name: "segments", title: "Segments", number: true },
  { name: "leader_epoch", title: "Epoch", number: true },
  {
    name: "unflushed",
    title: "Unflushed",
    number: true,
    value: (each) => each.unflushed_records,
    cell: (each) => (each.unflushed_records ? unflushed(each) : "–"),
  },
  {
    name: "flush",
    title: "Last flush",
    number: true,
    value: (each) => each.last_flush_ms,
    cell: (each) =>
      each.last_flush_ms === null
        ? "–"
        : html`
          <span title=${`${duration(each.last_flush_ago_ms / 1000)} ago`}>
            ${duration(each.last_flush_ms / 1000)}
          </span>
        `,
  },
  {
    name: "last_write_ms",
    title: "Last record",
    number: true,
    cell: (each) => ago(each.last_write_ms),
  },
  {
    name: "state",
    title: "State",
    value: (each) => each.failed ?? "ok",
    cell: (each) =>
      each.failed
        ? html`<${Badge} level="bad">${each.failed}<//>`
        : html`<${Badge} level="good">ok<//>`,
  },
];

function Tabs({ topic, tab, hasReplicas }) {
  const list = useRef();
  useEffect(() => {
    // on a telephone not all of them are in sight
    list.current.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }, [tab]);
  return html`
    <nav class="tabs" ref=${list} aria-label="Views of the topic">
      ${TABS.filter(([id]) => id !== "replicas" || hasReplicas).map(
        ([id, title]) => html`
          <a href=${href(["topics", topic], { tab: id })}
              aria-current=${tab === id ? "page" : undefined}>
            ${title}
          </a>
        `,
      )}
    </nav>
  `;
}

export function Topic({ route, me }) {
  const name = route.parts[1];
  const tab = route.query.tab ?? "partitions";
  const [removing, setRemoving] = useState(null);
  const topic = useApi(`/topics/${encodeURIComponent(name)}`, 3);
  const samples = useSamples(name, topic);
  const why = (operation) =>
    topic.data?.is_internal
      ? "It is one of the broker's own topics."
      : refusal(me, topic.data?.allowed, operation, `topic ${name}`);
  return html`
    <${Head} title=${name} crumbs=${html`
          <a href="#/topics">Topics</a> / <a href=${href(["history"], { topic: name })}>History</a>
        `}>
      <${Act} why=${why("alter")} onClick=${() => setRemoving("grow")}>Add partitions<//>
      <${Act} why=${why("delete")} onClick=${() => setRemoving("empty")}>Empty<//>
      <${Act} class="danger" why=${why("delete")} onClick=${() => setRemoving("delete")}>
        Delete
      <//>
    <//>
    <${Loaded} from=${topic}>
      ${(data) => html`
        <${Strip} aside=${tab === "messages"}
            facts=${[
              ["Records", short(data.records)],
              ["Size", bytes(data.size_bytes)],
              ["Retention", data.kept],
              ["In", rate(data.received_bytes_per_s)],
              ["Out", rate(data.sent_bytes_per_s)],
              ["Last record", ago(data.last_write_ms)],
            ]} />
        ${Object.entries(data.unserved).map(
          ([number, why]) => html`
            <p class="notice bad">
              Partition ${number} is not open: ${why}. The broker retries by itself.
            </p>
          `,
        )}
        ${
          data.elsewhere > 0 &&
          html`
            <p class="notice">
              ${count(data.elsewhere)} of ${count(data.partitions)} partitions are on other brokers
              only. Sums, segments and messages here are of the others;${" "}
              <a href=${href(["topics", name], { tab: "replicas" })}>Replicas</a> has all.
            </p>
          `
        }
        <${Tabs} topic=${name} tab=${tab} hasReplicas=${data.is_replicated} />
        ${
          tab === "partitions" &&
          html`
            <section class="card">
              <${Table} id=${`partitions-${name}`} rows=${data.partition_rows} columns=${PARTITIONS}
                  sort="partition" />
            </section>
          `
        }
        ${tab === "replicas" && html`<${ReplicasOfTopic} topic=${name} />`}
        ${
          tab === "segments" &&
          data.partition_rows.length > 0 &&
          html`
            <${Segments} topic=${name} partitions=${data.partition_rows} query=${route.query} />
          `
        }
        ${
          tab === "messages" &&
          !data.allowed.includes("read") &&
          html`
            <p class="notice">
              ${
                me.may_read
                  ? missing(me, "read", `topic ${name}`)
                  : `${me.name} may not read messages. An admin can grant this right.`
              }
            </p>
          `
        }
        ${
          tab === "messages" &&
          data.allowed.includes("read") &&
          html`
            <${Messages} topic=${name} partitions=${data.partition_rows} query=${route.query}
                me=${me} allowed=${data.allowed} />
          `
        }
        ${
          tab === "consumers" &&
          html`<${Consumers} topic=${name} isReplicated=${data.is_replicated} />`
        }
        ${tab === "producers" && html`<${Producers} topic=${name} />`}
        ${tab === "rates" && html`<${Rates} topic=${name} samples=${samples} />`}
        ${
          tab === "configs" &&
          html`
            <${Configs} topic=${name} configs=${data.configs} why=${why("alter_configs")}
                query=${route.query} onChanged=${topic.reload} />
          `
        }
        ${
          tab === "repair" &&
          html`
            <${Repair} topic=${name} partitions=${data.partitions} query=${route.query} me=${me} />
          `
        }
        ${
          removing === "grow" &&
          html`
            <${Grow} topic=${name} partitions=${data.partitions}
                onClose=${() => {
                  setRemoving(null);
                  topic.reload();
                }} />
          `
        }
        ${
          ["empty", "delete"].includes(removing) &&
          html`
            <${Remove} topic=${name} records=${data.records} isWhole=${removing === "delete"}
                onClose=${() => {
                  setRemoving(null);
                  if (removing === "empty") topic.reload();
                }} />
          `
        }
      `}
    <//>
  `;
}
