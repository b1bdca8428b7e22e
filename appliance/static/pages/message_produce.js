// The dialog that produces one message.
import { html, useState } from "../html.js";
import { api } from "../api.js";
import { Dialog } from "../parts/dialog.js";
import { pathOf } from "./message_search.js";

export function Write({ topic, partitions, onClose }) {
  const [key, setKey] = useState("");
  const [value, setValue] = useState("");
  const [partition, setPartition] = useState("");
  const [headers, setHeaders] = useState("");
  const [isNull, setNull] = useState(false);
  const write = async () => {
    const named = headers
      .split("\n")
      .filter(Boolean)
      .map((line) => line.split(/:\s?(.*)/s))
      .map(([name, text = ""]) => ({ name, value: { text } }));
    const message = {
      key: key === "" ? null : { text: key },
      value: isNull ? null : { text: value },
      headers: named,
      ...(partition !== "" && { partition: Number(partition) }),
    };
    await api(`${pathOf(topic)}/messages`, { method: "POST", body: { messages: [message] } });
  };
  return html`
    <${Dialog} title=${`Produce to ${topic}`} send="Produce" onSend=${write} onClose=${onClose}>
      <div class="fields">
        <label>
          Partition
          <select value=${partition} onChange=${(event) => setPartition(event.target.value)}>
            <option value="">chosen by key</option>
            ${partitions.map((each) => html`<option>${each.partition}</option>`)}
          </select>
        </label>
        <label>
          Key (empty: no key)
          <input spellcheck=${false} value=${key}
              onInput=${(event) => setKey(event.target.value)} />
        </label>
        <label>
          Value
          <textarea rows="6" spellcheck=${false} disabled=${isNull} value=${value}
              onInput=${(event) => setValue(event.target.value)}></textarea>
        </label>
        <label class="check">
          <input type="checkbox" checked=${isNull}
              onChange=${(event) => setNull(event.target.checked)} />
          null (deletes the key in a compacted topic)
        </label>
        <label>
          Headers, one per line, as name: value
          <textarea rows="2" spellcheck=${false} value=${headers}
              onInput=${(event) => setHeaders(event.target.value)}></textarea>
        </label>
      </div>
    <//>
  `;
}
