// The segments of a partition, as a picture to scale and as a table.
import { html, useState } from "../html.js";
import { useApi } from "../api.js";
import { go } from "../router.js";
import { Badge, Facts, Loaded } from "../parts/bits.js";
import { LogPicture } from "../parts/log_picture.js";
import { Table } from "../parts/table.js";
import { bytes, count, some, span, time } from "../format.js";

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

export function Segments({ topic, partitions, query }) {
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
