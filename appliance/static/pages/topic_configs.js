// The configs of a topic, and the dialog that changes one.
import { html, useState } from "../html.js";
import { api } from "../api.js";
import { Badge } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Table } from "../parts/table.js";
import { meaning } from "../format.js";

export function Configs({ topic, configs, why, onChanged }) {
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
        !why &&
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
      ${why && html`<p class="muted">${why}</p>`}
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
