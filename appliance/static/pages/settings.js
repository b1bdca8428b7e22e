// What the broker runs with, and where each value comes from.
import { html } from "../html.js";
import { useApi } from "../api.js";
import { Badge, Head, Loaded } from "../parts/bits.js";
import { Table } from "../parts/table.js";

const COLUMNS = [
  { name: "name", title: "Setting", cell: (each) => html`<code>${each.name}</code>${each.reason && html`<p class="muted" style="max-width:68ch">${each.reason}</p>`}` },
  { name: "value", title: "Value", cell: (each) => html`<code>${String(each.value)}</code> ${each.unit ?? ""}` },
  { name: "default", title: "Default", cell: (each) => html`<code>${String(each.default)}</code>` },
  { name: "source", title: "Set by", cell: (each) => (each.source === "default" ? "default" : html`<${Badge} level="good">${each.source}<//>`) },
  { name: "change", title: "To change it", value: (each) => (each.needs_restart ? "restart" : "while it runs") },
];

export function Settings() {
  const settings = useApi("/settings");
  return html`<${Head} title="Settings"><a class="button" href="/api/v1/bundle" download>Support bundle</a><//>
    <section class="card"><${Loaded} from=${settings}>${(data) => html`<${Table} id="settings" sort="name" rows=${data.settings} columns=${COLUMNS} text=${(each) => `${each.name} ${each.reason ?? ""}`} />`}<//></section>`;
}
