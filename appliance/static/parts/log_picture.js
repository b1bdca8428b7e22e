// A partition's log to scale: a box for each segment, as wide as the segment is large.
import { html } from "../html.js";
import { bytes, count } from "../format.js";

const WIDTH = 1000;
const TOP = 22;
const HEIGHT = 34;
const NARROWEST = 2; // a small segment beside large ones must be visible and clickable

function boxes(segments) {
  const whole = segments.reduce((sum, each) => sum + each.size_bytes, 0) || 1;
  const wide = segments.map((each) => Math.max(NARROWEST, (each.size_bytes / whole) * WIDTH));
  const scale = WIDTH / wide.reduce((sum, each) => sum + each, 0);
  let x = 0;
  return segments.map((segment, index) => {
    const box = { segment, x, width: wide[index] * scale };
    x += box.width;
    return box;
  });
}

function positionOf(all, offset) {
  const box =
    all.find(({ segment }) => offset >= segment.base_offset && offset < segment.end_offset) ??
    all.at(-1);
  const { base_offset: first, end_offset: end } = box.segment;
  return (
    box.x +
    (end > first ? Math.min(1, Math.max(0, (offset - first) / (end - first))) : 1) * box.width
  );
}

export function LogPicture({ segments, partition, chosen, onChoose }) {
  if (segments.length === 0) return null;
  const all = boxes(segments);
  const start = positionOf(all, partition.log_start_offset);
  const durable = positionOf(all, partition.durable_offset);
  const { log_start_offset: first, log_end_offset: end, durable_offset: synced } = partition;
  const said =
    `${segments.length} segments from offset ${first} to ${end}; durable up to ${synced}. ` +
    "The table below has the same data.";
  return html`
    <svg class="log-picture" viewBox=${`0 0 ${WIDTH} 74`} preserveAspectRatio="none" role="img"
        aria-label=${said}>
      ${all.map(
        ({ segment, x, width }, index) => html`
          <rect key=${segment.file}
              class=${`segment ${index === all.length - 1 ? "active" : "inactive"}`} x=${x} y=${TOP}
              width=${width} height=${HEIGHT} data-chosen=${chosen === segment.file || undefined}
              onClick=${() => onChoose?.(segment.file)}>
            <title>
              ${segment.file}: ${bytes(segment.size_bytes)}, ${count(segment.records)} offsets,
              ${" "}
              ${segment.state}
            </title>
          </rect>
        `,
      )}
      <line class="mark-line" x1=${start} x2=${start} y1=${TOP - 8} y2=${TOP + HEIGHT + 8}
          vector-effect="non-scaling-stroke" />
      <line class="mark-line" x1=${durable} x2=${durable} y1=${TOP - 8} y2=${TOP + HEIGHT + 8}
          vector-effect="non-scaling-stroke" />
    </svg>
    <div class="ends muted">
      <span>${count(segments[0].base_offset)}</span>
      <span>${count(partition.log_end_offset)}</span>
    </div>
    <div class="legend muted">
      <span class="swatch-1">sealed</span>
      <span class="swatch-2">active</span>
      <span class="swatch-line">
        readers start at ${count(partition.log_start_offset)}; on disk up to${" "}
        ${count(partition.durable_offset)}
      </span>
    </div>
  `;
}
