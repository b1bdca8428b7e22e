// One message, whole: key, value and headers.
import { html } from "../html.js";
import { useApi } from "../api.js";
import { Facts } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { asWords } from "../parts/schemas.js";
import { bytes, count, time } from "../format.js";
import { pathOf } from "./message_search.js";

function pretty(data) {
  if (data === null) return "null";
  if (!["json", "avro", "protobuf"].includes(data.form) || data.is_cut) return data.text;
  // JavaScript would change numbers that it cannot hold: such a text is shown as it is
  if (/\d{16,}/.test(data.text)) return data.text;
  try {
    return JSON.stringify(JSON.parse(data.text), null, 2);
  } catch {
    return data.text; // Avro has NaN, JSON does not
  }
}

export const size = (each) => (each.key?.size ?? 0) + (each.value?.size ?? 0);
export const form = ({ form, schema_id: id }) =>
  id === undefined ? form : `${form} · schema ${id}`;

export function Whole({ topic, row, query, onClose }) {
  const as = asWords(query)
    .map(([name, word]) => `&${name}=${word}`)
    .join("");
  const at = `from=offset:${row.offset}&partition=${row.partition}`;
  const answer = useApi(`${pathOf(topic)}/messages?${at}&limit=1&full=true${as}`);
  const whole = answer.data?.messages[0] ?? row;
  const copy = (data) => navigator.clipboard?.writeText(data.text);
  return html`
    <${Dialog} title=${`${topic}-${row.partition}, offset ${count(row.offset)}`} onClose=${onClose}
        wide>
      <${Facts} rows=${[
        ["Time", time(whole.timestamp_ms, true)],
        ["Size", bytes(size(whole))],
      ]} />
      ${[
        ["Key", whole.key],
        ["Value", whole.value],
      ].map(
        ([name, data]) => html`
          <section>
            <div class="head">
              <h3>${name}${data && ` · ${form(data)} · ${bytes(data.size)}`}</h3>
              ${
                data &&
                html`
                  <button type="button" class="plain" onClick=${() => copy(data)}>copy</button>
                `
              }
            </div>
            ${data?.problem && html`<p class="notice warn">${data.problem}</p>`}
            <pre tabindex="0">${pretty(data)}</pre>
          </section>
        `,
      )}
      <section>
        <h3>Headers</h3>
        ${
          whole.headers.length
            ? html`
              <${Facts}
                  rows=${whole.headers.map((each) => [
                    each.name,
                    html`<span class="mono">${each.value?.text ?? "null"}</span>`,
                  ])} />
            `
            : html`<p class="muted">none</p>`
        }
      </section>
    <//>
  `;
}
