// The settings of the broker, and the source of each value.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { Badge, Head, Loaded } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Table } from "../parts/table.js";

const AT_RUN_TIME = "changed at run time";

const equals = ({ words }) => words && `= ${words}`;

const columns = (mayChange, change) => [
  {
    name: "name",
    title: "Setting",
    cell: (each) => html`
      <code>${each.name}</code>
      ${each.reason && html`<p class="muted" style="max-width:68ch">${each.reason}</p>`}
    `,
  },
  {
    name: "value",
    title: "Value",
    cell: (each) => html`
      <code>${String(each.value ?? "") || "–"}</code>
      ${" "}
      <span class="muted">${[each.unit, equals(each)].filter(Boolean).join(" ")}</span>
    `,
  },
  { name: "default", title: "Default", cell: (each) => html`<code>${String(each.default)}</code>` },
  {
    name: "source",
    title: "Source",
    cell: (each) =>
      each.source === "default" ? "default" : html`<${Badge} level="good">${each.source}<//>`,
  },
  {
    name: "change",
    title: "Change",
    value: (each) => (each.needs_restart ? "restart" : "at run time"),
    cell: (each) =>
      each.needs_restart
        ? "restart"
        : mayChange
          ? html`
            <button type="button" class="plain" aria-label=${`Change ${each.name}`}
                onClick=${() => change(each)}>
              change
            </button>
          `
          : "at run time",
  },
];

function Change({ of, onClose }) {
  const [value, setValue] = useState(String(of.value ?? ""));
  const [back, setBack] = useState(false);
  const send = () =>
    api("/settings", { method: "PATCH", body: { configs: { [of.name]: back ? null : value } } });
  return html`
    <${Dialog} title=${of.name} send="Change" onSend=${send} onClose=${onClose}>
      <div class="fields">
        <p class="muted">${of.reason} The change takes effect at once and survives a restart.</p>
        <label>
          Value: ${of.accepts}
          <input spellcheck=${false} disabled=${back} value=${value}
              onInput=${(event) => setValue(event.target.value)} />
        </label>
        ${
          of.source === AT_RUN_TIME &&
          html`
            <label class="check">
              <input type="checkbox" checked=${back}
                  onChange=${(event) => setBack(event.target.checked)} />
              Use the configured value
            </label>
          `
        }
      </div>
    <//>
  `;
}

export function Settings({ me }) {
  const settings = useApi("/settings");
  const [changing, change] = useState(null);
  const mayChange = me.role === "admin" && !me.read_only;
  return html`
    <${Head} title="Settings">
      ${
        me.role === "admin"
          ? html`<a class="button" href="/api/v1/bundle" download>Support bundle</a>`
          : html`
            <button type="button" disabled title="Only an admin can download it.">
              Support bundle
            </button>
          `
      }
    <//>
    <section class="card">
      <${Loaded} from=${settings}>
        ${(data) => html`
          <${Table} id="settings" sort="name" rows=${data.settings}
              columns=${columns(mayChange, change)}
              text=${(each) => `${each.name} ${each.reason ?? ""}`} />
        `}
      <//>
    </section>
    ${
      changing &&
      html`
        <${Change} of=${changing}
            onClose=${() => {
              change(null);
              settings.reload();
            }} />
      `
    }
  `;
}
