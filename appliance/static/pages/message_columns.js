// Columns out of fields: of JSON in keys and values, and headers. The address of the page has them.
import { html, useMemo } from "../html.js";
import { setQuery } from "../router.js";
import { Dialog } from "../parts/dialog.js";
import { inShort } from "../parts/hex.js";
import { childrenOf, parsed, plainly } from "../parts/json_text.js";
import { some } from "../format.js";

const ROWS_MAX = 100; // rows whose fields are offered
const CHARACTERS_MAX = 1 << 20; // of these rows
const FIELDS_MAX = 300;
const DEPTH_MAX = 6;

const nodes = new WeakMap(); // by key or value: one is parsed once

function nodeOf(data) {
  if (!data || data.is_cut || !["json", "avro", "protobuf"].includes(data.form)) return null;
  if (!nodes.has(data)) nodes.set(data, parsed(data.text));
  return nodes.get(data);
}

/** The chosen columns: `value.user.name`, `key.id`, `header.trace`. Commas in names are escaped. */
export const columnsIn = ({ columns = "" }) =>
  columns
    .split(",")
    .filter(Boolean)
    .map((each) => each.replaceAll("%2C", ",").replaceAll("%25", "%"));

const choose = (columns) =>
  setQuery({ columns: columns.map((each) => each.replace(/[%,]/g, encodeURIComponent)).join(",") });

export const without = (columns, column) => choose(columns.filter((each) => each !== column));

/** The node at a path. Names may have dots: each beginning that is a name is tried. */
function nodeAt(node, path) {
  if (node?.kind !== "object") return null;
  for (const [name, child] of node.entries) {
    if (name === path) return child;
    const found = path.startsWith(`${name}.`) && nodeAt(child, path.slice(name.length + 1));
    if (found) return found;
  }
  return null;
}

/** What a message has at a column, as text; null: nothing. */
export function textAt(row, column) {
  const [part] = column.split(".", 1);
  const path = column.slice(part.length + 1);
  if (part === "header") {
    const header = row.headers.find((each) => each.name === path);
    return header ? (header.value ? inShort(header.value) : "null") : null;
  }
  const node = nodeAt(nodeOf(row[part]), path);
  if (node === null) return null;
  const children = childrenOf(node);
  if (children === null) return plainly(node);
  return node.kind === "object"
    ? `{ ${some(children.length, "field")} }`
    : `[ ${some(children.length, "item")} ]`;
}

function* pathsIn(node, before, depth) {
  if (node?.kind !== "object" || depth > DEPTH_MAX) return;
  for (const [name, child] of node.entries) {
    if (child.kind === "object") yield* pathsIn(child, `${before}.${name}`, depth + 1);
    else yield `${before}.${name}`;
  }
}

/** [path, in how many of the messages], and how many were looked at. */
function fieldsOf(rows) {
  const fields = new Map();
  let left = CHARACTERS_MAX,
    looked = 0;
  for (const row of rows.slice(0, ROWS_MAX)) {
    left -= (row.key?.text.length ?? 0) + (row.value?.text.length ?? 0);
    if (left < 0 && looked > 0) break;
    looked++;
    const own = new Set([
      ...pathsIn(nodeOf(row.key), "key", 1),
      ...pathsIn(nodeOf(row.value), "value", 1),
      ...row.headers.map((each) => `header.${each.name}`),
    ]);
    for (const path of own)
      if (fields.has(path) || fields.size < FIELDS_MAX)
        fields.set(path, (fields.get(path) ?? 0) + 1);
  }
  return { fields: [...fields], looked };
}

export function Columns({ rows, columns, onClose }) {
  // a snapshot: while messages are followed the list must not move under the mouse
  const { fields, looked } = useMemo(() => fieldsOf(rows), []);
  const known = new Map(fields);
  const offered = [...columns.filter((each) => !known.has(each)), ...known.keys()];
  const toggle = (path, isOn) =>
    choose(isOn ? [...columns, path] : columns.filter((each) => each !== path));
  return html`
    <${Dialog} title="Columns" cancel="Close" onClose=${onClose}>
      <p class="muted">
        ${
          offered.length
            ? `Fields of ${some(looked, "message")} that are shown. The address keeps the choice.`
            : "The messages that are shown have no fields: neither JSON, nor a schema, nor headers."
        }
      </p>
      <fieldset class="choices">
        ${offered.map(
          (path) => html`
            <label class="check" key=${path}>
              <input type="checkbox" checked=${columns.includes(path)}
                  onChange=${(event) => toggle(path, event.target.checked)} />
              <span class="mono">${path}</span>
              <span class="muted">${known.has(path) ? `in ${known.get(path)}` : "in none"}</span>
            </label>
          `,
        )}
      </fieldset>
    <//>
  `;
}
