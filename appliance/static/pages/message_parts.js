// The parts of one message: a key or a value as a tree, as text or as bytes, and the headers.
import { html, useMemo, useState } from "../html.js";
import { Copy } from "../parts/copy.js";
import { Hex, inShort, isBinary } from "../parts/hex.js";
import { indented, parsed } from "../parts/json_text.js";
import { Tree } from "../parts/json_tree.js";
import { bytes, some } from "../format.js";

const TEXT_MAX = 256 << 10; // characters that are drawn; copying takes all

/** avro · schema 7 · shop.Order · orders-value v3 */
export const form = ({ form, schema_id: id, schema }) =>
  [
    form,
    (schema?.id ?? id) !== undefined && `schema ${schema?.id ?? id}`,
    schema?.type,
    schema?.subject && `${schema.subject} v${schema.version}`,
  ]
    .filter(Boolean)
    .join(" · ");

/** [the ways to show the data, the best first; the node of the tree if it has one] */
function viewsOf(data) {
  const isDecoded = data.schema !== undefined || ["avro", "protobuf"].includes(data.form);
  const node = (isDecoded || data.form === "json") && !data.is_cut ? parsed(data.text) : null;
  if (data.form === "hex") return [["bytes"], null];
  // what a schema decoded is no longer there as bytes
  const others = isDecoded ? ["text"] : isBinary(data.text) ? ["bytes", "text"] : ["text", "bytes"];
  return [node ? ["tree", ...others] : others, node];
}

function Text({ text }) {
  return html`
    <pre tabindex="0">${text.slice(0, TEXT_MAX)}</pre>
    ${
      text.length > TEXT_MAX &&
      html`
        <p class="muted">
          The first ${some(TEXT_MAX, "character")} of ${some(text.length, "character")}; copying
          takes all.
        </p>
      `
    }
  `;
}

export function Part({ name, data }) {
  const [chosen, choose] = useState(null);
  const [views, node] = useMemo(() => (data ? viewsOf(data) : [[], null]), [data]);
  const view = views.includes(chosen) ? chosen : views[0];
  return html`
    <section>
      <div class="head part-head">
        <h3>${name}${data && ` · ${form(data)} · ${bytes(data.size)}`}</h3>
        <div class="actions">
          ${
            views.length > 1 &&
            views.map(
              (each) => html`
                <button type="button" class="plain" aria-pressed=${each === view}
                    onClick=${() => choose(each)}>
                  ${each}
                </button>
              `,
            )
          }
          ${
            data &&
            !data.is_cut &&
            html`<${Copy} what=${name.toLowerCase()} text=${() => data.text} />`
          }
        </div>
      </div>
      ${data?.problem && html`<p class="notice warn">${data.problem}</p>`}
      ${!data && html`<pre tabindex="0">null</pre>`}
      ${view === "tree" && html`<${Tree} node=${node} />`}
      ${view === "text" && html`<${Text} text=${node ? indented(node) : data.text} />`}
      ${view === "bytes" && html`<${Hex} data=${data} />`}
    </section>
  `;
}

export function Headers({ rows }) {
  return html`
    <section>
      <h3>Headers</h3>
      ${
        rows.length === 0
          ? html`<p class="muted">none</p>`
          : html`
            <dl class="facts headers">
              ${rows.map(
                ({ name, value }) => html`
                  <dt>${name}</dt>
                  <dd>
                    ${
                      value === null
                        ? html`<i class="muted">null</i>`
                        : html`
                          <span class="mono">${inShort(value, 2000)}</span>
                          <${Copy} what=${`header ${name}`} text=${() => value.text} />
                        `
                    }
                  </dd>
                `,
              )}
            </dl>
          `
      }
    </section>
  `;
}
