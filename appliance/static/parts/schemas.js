// The schemas by which a topic's keys and values are decoded for display.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { Dialog } from "./dialog.js";
import { time } from "../format.js";

const PARTS = ["key", "value"];
const FORMS = { avro: "Avro", protobuf: "Protobuf" };
const PROTOC = "protoc --include_imports --descriptor_set_out=orders.desc orders.proto";

export const useSchemas = (topic) => useApi(`/topics/${encodeURIComponent(topic)}/schemas`);

/** The query parameters about schemas, for the API. */
export const asWords = (query) =>
  PARTS.filter((part) => query[`${part}_as`] === "plain").map((part) => [`${part}_as`, "plain"]);

const nameOf = (schemas, part) =>
  schemas[part]
    ? `${FORMS[schemas[part].form]}${schemas[part].message ? `: ${schemas[part].message}` : ""}`
    : "registry";

export function ShownAs({ schemas, query, set }) {
  return PARTS.filter((part) => schemas?.[part] || schemas?.registry).map(
    (part) => html`
      <label>
        ${part === "key" ? "Keys" : "Values"} as
        <select value=${query[`${part}_as`] ?? "auto"} onChange=${set(`${part}_as`)}>
          <option value="auto">${nameOf(schemas, part)}</option>
          <option value="plain">plain text</option>
        </select>
      </label>
    `,
  );
}

/** A descriptor set is binary: it is sent as base64. */
const inBase64 = (file) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });

function Registry({ by: { url, problem }, part }) {
  return html`
    <p class="muted">
      Without a schema here, ${part}s that name one are decoded by the registry at${" "}
      <code>${url}</code>
    </p>
    ${problem && html`<p class="notice warn">The registry is away: ${problem}</p>`}
  `;
}

export function SchemaDialog({ topic, schemas, onClose }) {
  const [part, setPart] = useState("value");
  const known = schemas?.[part];
  const [form, setForm] = useState(known?.form ?? "avro");
  const [text, setText] = useState(known?.form === "avro" ? known.text : "");
  const [file, setFile] = useState(null);
  const [message, setMessage] = useState("");
  const path = `/topics/${encodeURIComponent(topic)}/schemas/${part}`;
  const choose = (event) => {
    const next = schemas?.[event.target.value];
    setPart(event.target.value);
    setForm(next?.form ?? "avro");
    setText(next?.form === "avro" ? next.text : "");
  };
  const send = async () => {
    const body =
      form === "avro"
        ? { form, text }
        : { form, text: await inBase64(file), ...(message && { message }) };
    await api(path, { method: "PUT", body });
  };
  const remove = async () => {
    await api(path, { method: "DELETE" });
    onClose();
  };
  return html`
    <${Dialog} title=${`Schemas of ${topic}`} send="Save" onSend=${send} onClose=${onClose} wide>
      <div class="fields">
        <div class="row">
          <label>
            Schema of
            <select value=${part} onChange=${choose}>
              ${PARTS.map((each) => html`<option value=${each}>${each}s</option>`)}
            </select>
          </label>
          <label>
            Format
            <select value=${form} onChange=${(event) => setForm(event.target.value)}>
              ${Object.entries(FORMS).map(
                ([id, name]) => html`<option value=${id}>${name}</option>`,
              )}
            </select>
          </label>
        </div>
        ${
          known &&
          html`
            <p class="muted">
              Current: ${FORMS[known.form]} ${known.message}, since ${time(known.updated_ms)}${" "}
              <button type="button" class="plain" onClick=${remove}>remove</button>
            </p>
          `
        }
        ${known?.problem && html`<p class="notice bad">${known.problem}</p>`}
        ${!known && schemas?.registry && html`<${Registry} by=${schemas.registry} part=${part} />`}
        ${
          form === "avro"
            ? html`
              <label>
                Schema, as JSON
                <textarea rows="12" required spellcheck=${false} value=${text}
                    onInput=${(event) => setText(event.target.value)}></textarea>
              </label>
            `
            : html`
              <label>
                Descriptor set
                <input type="file" required onChange=${(event) => setFile(event.target.files[0])} />
              </label>
              <p class="muted">Create it with <code>${PROTOC}</code></p>
              <label>
                Message type (empty if there is only one)
                <input spellcheck=${false} class="mono" placeholder="shop.Order" value=${message}
                    onInput=${(event) => setMessage(event.target.value)} />
              </label>
            `
        }
        <p class="muted">
          A schema changes only how the console shows messages. A Confluent header before the data
          is skipped.
        </p>
      </div>
    <//>
  `;
}
