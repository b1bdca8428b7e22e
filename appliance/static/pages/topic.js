// One topic: its partitions, the segments of their logs, its messages and its configs.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { go, href } from "../router.js";
import { Badge, Facts, Head, Loaded, Strip } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { LogPicture } from "../parts/log_picture.js";
import { Table } from "../parts/table.js";
import { ago, bytes, count, duration, meaning, rate, short, some, span, time } from "../format.js";
import { Messages } from "./messages.js";
import { Repair } from "./repair.js";
import { retention } from "./topics.js";

const TABS = [
  ["partitions", "Partitions"],
  ["segments", "Segments"],
  ["messages", "Messages"],
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
    title: "Not on disk",
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

const SEGMENTS = [
  { name: "file", title: "File", cell: (each) => html`<code>${each.file}</code>` },
  {
    name: "state",
    title: "State",
    cell: (each) =>
      each.state === "active"
        ? html`<${Badge} level="good">active<//>`
        : html`<${Badge}>${each.state}<//>`,
  },
  {
    name: "base_offset",
    title: "First offset",
    number: true,
    cell: (each) => count(each.base_offset),
  },
  { name: "records", title: "Offsets", number: true, cell: (each) => count(each.records) },
  { name: "size_bytes", title: "Size", number: true, cell: (each) => bytes(each.size_bytes) },
  {
    name: "first_timestamp_ms",
    title: "Timestamps",
    number: true,
    wide: true,
    cell: (each) => span(each.first_timestamp_ms, each.largest_timestamp_ms),
  },
  { name: "index_bytes", title: "Index", number: true, cell: (each) => bytes(each.index_bytes) },
  {
    name: "time_index_bytes",
    title: "Time index",
    number: true,
    cell: (each) => bytes(each.time_index_bytes),
  },
];

const damage = ({ first_offset: first, end_offset: end }) =>
  `Offsets ${count(first)} to ${count(end - 1)} are damaged.`;

function Segments({ topic, partitions, query }) {
  const chosen = Number(query.partition ?? 0);
  const [file, setFile] = useState(null);
  const partition = partitions.find((each) => each.partition === chosen) ?? partitions[0];
  const answer = useApi(
    `/topics/${encodeURIComponent(topic)}/partitions/${partition.partition}/segments`,
    5,
  );
  return html`
    <section class="card fields">
      <div class="head">
        <h2>Segments of partition ${partition.partition}</h2>
        <label>
          Partition
          <select value=${partition.partition}
              onChange=${(event) =>
                go(["topics", topic], { tab: "segments", partition: event.target.value })}>
            ${partitions.map(
              (each) => html`
                <option value=${each.partition}>
                  ${each.partition} · ${bytes(each.size_bytes)}
                </option>
              `,
            )}
          </select>
        </label>
      </div>
      <${Loaded} from=${answer}>
        ${(data) => html`
          <${LogPicture} segments=${data.segments} partition=${partition} chosen=${file}
              onChoose=${setFile} />
          <p class="muted">
            ${some(data.segments.length, "segment")} · ${bytes(data.size_bytes)} in${" "}
            <code>${data.directory}</code>
          </p>
          ${
            data.damaged.length > 0 &&
            html`<p class="notice bad">${data.damaged.map((each) => damage(each)).join(" ")}</p>`
          }
          ${
            file &&
            html`<${SegmentFacts} segment=${data.segments.find((each) => each.file === file)} />`
          }
          <${Table} id=${`segments-${topic}-${partition.partition}`} rows=${data.segments}
              columns=${SEGMENTS} sort="base_offset" />
        `}
      <//>
    </section>
  `;
}

function SegmentFacts({ segment }) {
  if (!segment) return null;
  return html`
    <${Facts}
        rows=${[
          ["File", html`<code>${segment.file}</code>`],
          ["Offsets", `${count(segment.base_offset)} to ${count(segment.end_offset - 1)}`],
          ["Size", bytes(segment.size_bytes)],
          ["State", segment.state],
          [
            "Timestamps",
            `${time(segment.first_timestamp_ms)} to ${time(segment.largest_timestamp_ms)}`,
          ],
          [
            "Index files",
            `index ${bytes(segment.index_bytes)}, time index ${bytes(segment.time_index_bytes)}`,
          ],
        ]} />
  `;
}

function Configs({ topic, configs, isFixed, onChanged }) {
  const [changing, setChanging] = useState(null);
  const columns = [
    { name: "name", title: "Config", cell: (each) => html`<code>${each.name}</code>` },
    {
      name: "value",
      title: "Value",
      wide: true,
      cell: (each) => html`
        <code>${each.value || "–"}</code>
        ${" "}
        <span class="muted">
          ${meaning(each.name, each.value) && `= ${meaning(each.name, each.value)}`}
        </span>
      `,
    },
    {
      name: "source",
      title: "Source",
      cell: (each) =>
        /topic/i.test(each.source) ? html`<${Badge} level="good">this topic<//>` : each.source,
    },
    {
      name: "change",
      title: "",
      fixed: true,
      cell: (each) =>
        !isFixed &&
        !each.is_read_only &&
        html`
          <button type="button" class="plain" aria-label=${`Change ${each.name}`}
              onClick=${() => setChanging(each)}>
            change
          </button>
        `,
    },
  ];
  return html`
    <section class="card">
      <${Table} id=${`configs-${topic}`} rows=${configs} columns=${columns} sort="name"
          text=${(each) => each.name} />
    </section>
    ${
      changing &&
      html`
        <${ChangeConfig} topic=${topic} config=${changing} onClose=${() => setChanging(null)}
            onChanged=${onChanged} />
      `
    }
  `;
}

function ChangeConfig({ topic, config, onClose, onChanged }) {
  const [value, setValue] = useState(config.value);
  const [back, setBack] = useState(false);
  const change = async () => {
    await api(`/topics/${encodeURIComponent(topic)}`, {
      method: "PATCH",
      body: { configs: { [config.name]: back ? null : value } },
    });
    onChanged();
  };
  return html`
    <${Dialog} title=${config.name} send="Change" onSend=${change} onClose=${onClose}>
      <div class="fields">
        ${config.doc && html`<p class="muted">${config.doc}</p>`}
        <label>
          Value
          <input spellcheck=${false} disabled=${back} value=${value}
              onInput=${(event) => setValue(event.target.value)} />
        </label>
        ${
          /topic/i.test(config.source) &&
          html`
            <label class="check">
              <input type="checkbox" checked=${back}
                  onChange=${(event) => setBack(event.target.checked)} />
              Use the broker's default
            </label>
          `
        }
      </div>
    <//>
  `;
}

function Grow({ topic, partitions, onClose }) {
  const [wanted, setWanted] = useState(partitions + 1);
  const grow = () =>
    api(`/topics/${encodeURIComponent(topic)}`, {
      method: "PATCH",
      body: { partitions: Number(wanted) },
    });
  return html`
    <${Dialog} title=${`Partitions of ${topic}`} send="Add partitions" onSend=${grow}
        onClose=${onClose}>
      <div class="fields">
        <label>
          New number of partitions
          <input type="number" min=${partitions + 1} required value=${wanted}
              onInput=${(event) => setWanted(event.target.value)} />
        </label>
        <p class="muted">
          The topic has ${some(partitions, "partition")}. This cannot be undone. New records of a
          key may go to another partition than its older records.
        </p>
      </div>
    <//>
  `;
}

function Remove({ topic, records, onClose, isWhole }) {
  const path = `/topics/${encodeURIComponent(topic)}`;
  const remove = async () => {
    await api(isWhole ? path : `${path}/empty`, {
      method: isWhole ? "DELETE" : "POST",
      body: isWhole ? undefined : {},
    });
    if (isWhole) go(["topics"]);
  };
  return html`
    <${Dialog} title=${isWhole ? `Delete ${topic}` : `Empty ${topic}`}
        send=${isWhole ? "Delete" : "Empty"} danger confirm=${topic} onSend=${remove}
        onClose=${onClose}>
      <p>
        ${
          isWhole
            ? `The topic and its ${some(records, "record")} are deleted.`
            : `${some(records, "record")} will be deleted. The topic and its next offsets stay.`
        }
        ${" "}This cannot be undone.
      </p>
    <//>
  `;
}

export function Topic({ route, me }) {
  const name = route.parts[1];
  const tab = route.query.tab ?? "partitions";
  const [removing, setRemoving] = useState(null);
  const topic = useApi(`/topics/${encodeURIComponent(name)}`, 3);
  const tabs = html`
    <nav class="tabs" aria-label="Views of the topic">
      ${TABS.map(
        ([id, title]) => html`
          <a href=${href(["topics", name], { tab: id })}
              aria-current=${tab === id ? "page" : undefined}>
            ${title}
          </a>
        `,
      )}
    </nav>
  `;
  const isFixed = me.read_only || topic.data?.is_internal;
  return html`
    <${Head} title=${name} crumbs=${html`<a href="#/topics">Topics</a> /`}>
      <button disabled=${isFixed || !topic.data} onClick=${() => setRemoving("grow")}>
        Add partitions
      </button>
      <button disabled=${isFixed || !topic.data} onClick=${() => setRemoving("empty")}>
        Empty
      </button>
      <button class="danger" disabled=${isFixed || !topic.data}
          onClick=${() => setRemoving("delete")}>
        Delete
      </button>
    <//>
    <${Loaded} from=${topic}>
      ${(data) => html`
        <${Strip}
            facts=${[
              ["Records", short(data.records)],
              ["Size", bytes(data.size_bytes)],
              ["Retention", retention(data)],
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
        ${tabs}
        ${
          tab === "partitions" &&
          html`
            <section class="card">
              <${Table} id=${`partitions-${name}`} rows=${data.partition_rows} columns=${PARTITIONS}
                  sort="partition" />
            </section>
          `
        }
        ${
          tab === "segments" &&
          data.partition_rows.length > 0 &&
          html`
            <${Segments} topic=${name} partitions=${data.partition_rows} query=${route.query} />
          `
        }
        ${
          tab === "messages" &&
          !me.may_read &&
          html`
            <p class="notice">${me.name} may not read messages. An admin can grant this right.</p>
          `
        }
        ${
          tab === "messages" &&
          me.may_read &&
          html`
            <${Messages} topic=${name} partitions=${data.partition_rows} query=${route.query}
                me=${me} />
          `
        }
        ${
          tab === "configs" &&
          html`
            <${Configs} topic=${name} configs=${data.configs} isFixed=${isFixed}
                onChanged=${topic.reload} />
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
