// The messages that were found, or that come, as a table. Of a long one what is in sight is drawn.
import { html } from "../html.js";
import { Mark } from "../parts/bits.js";
import { inShort } from "../parts/hex.js";
import { useFew } from "../parts/few_rows.js";
import { useWindow } from "../parts/visible_rows.js";
import { bytes, count, time } from "../format.js";
import { textAt, without } from "./message_columns.js";
import { placeOf, size } from "./message_view.js";

const TEXT_MAX = 200; // characters of a field

const Short = ({ data }) =>
  data === null
    ? html`<i class="muted">null</i>`
    : html`
      ${data.problem && html`<span title=${data.problem}><${Mark} level="warn" /></span> `}
      <span class="mono">${inShort(data)}</span>
    `;

/** A row is drawn once, because its message does not change. A node that is kept by `useMemo` would
    keep the whole page of the time when it was drawn, and that one the page before. */
function Row({ of: each, columns, onOpen }) {
  this.shouldComponentUpdate = (next) => next.of !== each || next.columns !== columns;
  return html`
    <tr data-row>
      <td class="num" data-label="Partition">${each.partition}</td>
      <td class="num" data-label="Offset">
        <button type="button" class="plain" onClick=${() => onOpen(each)}>
          ${count(each.offset)}
        </button>
      </td>
      <td class="time" data-label="Time">${time(each.timestamp_ms, true)}</td>
      ${columns.map(
        (column) => html`
          <td class="long field" data-label=${column}>
            <span class="mono">${textAt(each, column)?.slice(0, TEXT_MAX) ?? "–"}</span>
          </td>
        `,
      )}
      <td class="long" data-label="Key"><${Short} data=${each.key} /></td>
      <td class="long fill" data-label="Value"><${Short} data=${each.value} /></td>
      <td class="num" data-label="Headers">${each.headers.length || ""}</td>
      <td class="num" data-label="Size">${bytes(size(each))}</td>
    </tr>
  `;
}

const Space = ({ px, columns }) =>
  px > 0 &&
  html`
    <tr class="space" aria-hidden="true">
      <td colspan=${7 + columns.length} style=${`height:${px}px`}></td>
    </tr>
  `;

/** `columns` is another list only if other columns are chosen. */
export function MessageTable({ rows, columns, onOpen }) {
  const { length, more } = useFew(rows.length);
  const { body, first, end, above, below } = useWindow(length);
  return html`
    <div class="scroll">
      <table class="cards messages" id="messages" aria-rowcount=${rows.length + 1}>
        <thead>
          <tr>
            <th scope="col" class="num">Partition</th>
            <th scope="col" class="num">Offset</th>
            <th scope="col">Time</th>
            ${columns.map(
              (column) => html`
                <th scope="col" class="mono">
                  ${column}${" "}
                  <button type="button" aria-label=${`Remove the column ${column}`}
                      onClick=${() => without(columns, column)}>
                    ×
                  </button>
                </th>
              `,
            )}
            <th scope="col">Key</th>
            <th scope="col">Value</th>
            <th scope="col" class="num">Headers</th>
            <th scope="col" class="num">Size</th>
          </tr>
        </thead>
        <tbody ref=${body}>
          <${Space} px=${above} columns=${columns} />
          ${rows.slice(first, end).map(
            (each) => html`
                <${Row} key=${placeOf(each)} of=${each} columns=${columns} onOpen=${onOpen} />
              `,
          )}
          <${Space} px=${below} columns=${columns} />
        </tbody>
      </table>
      ${more}
    </div>
  `;
}
