// The configs of a topic, in groups; those that change nothing here are folded away.
import { html, useState } from "../html.js";
import { setQuery } from "../router.js";
import { Badge } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { some } from "../format.js";
import { ChangeConfig } from "./config_change.js";
import { inWords } from "./several_topics.js";

const APART = "No effect here";

const columns = (why, open) => [
  {
    name: "name",
    title: "Config",
    cell: (each) => html`
      <code>${each.name}</code>
      <p class="muted desk" style="max-width:68ch">${each.doc}</p>
    `,
  },
  {
    name: "value",
    title: "Value",
    wide: true,
    cell: (each) => html`
      ${each.words && html`<b>${each.words}</b> `}
      <code class=${each.words ? "muted" : ""}>${each.value || "–"}</code>
      ${each.no_effect && html`<p class="muted">${each.no_effect}</p>`}
    `,
  },
  {
    name: "broker_value",
    title: "The broker's",
    cell: (each) => inWords(each.broker_value, each.broker_words),
  },
  {
    name: "origin",
    title: "From",
    cell: (each) =>
      each.source === "topic" ? html`<${Badge} level="good">${each.origin}<//>` : each.origin,
  },
  {
    name: "change",
    title: "",
    fixed: true,
    cell: (each) => html`
      <button type="button" class="plain" onClick=${() => open(each)}
          aria-label=${`${why || each.is_read_only ? "About" : "Change"} ${each.name}`}>
        ${why || each.is_read_only ? "about" : "change"}
      </button>
    `,
  },
];

export function Configs({ topic, configs, why, query, onChanged }) {
  const [opened, open] = useState(null);
  const isFound = Boolean(query.filter);
  const apart = configs.filter((each) => each.group === APART).length;
  const isAll = isFound || query.all === "1";
  const rows = isAll ? configs : configs.filter((each) => each.group !== APART);
  return html`
    <section class="card">
      ${why && html`<p class="muted">${why}</p>`}
      <${Table} id=${`configs-${topic}`} rows=${rows} columns=${columns(why, open)}
          kind="compact" group=${(each) => each.group}
          text=${(each) => `${each.name} ${each.doc} ${each.words}`}
          tools=${
            apart > 0 &&
            !isFound &&
            html`
              <button type="button" class="plain"
                  onClick=${() => setQuery({ all: isAll ? "" : "1" })}>
                ${isAll ? "hide" : "show"} ${some(apart, "config")} without effect here
              </button>
            `
          } />
    </section>
    ${
      opened &&
      html`
        <${ChangeConfig} topics=${[topic]} rows=${configs} first=${opened}
            why=${opened.is_read_only ? "It is read-only." : why} onClose=${() => open(null)}
            onChanged=${onChanged} />
      `
    }
  `;
}
