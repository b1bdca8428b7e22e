// Access rules of Kafka clients: those in force, those that wait, and who may do what by which.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { setQuery } from "../router.js";
import { Badge, Head, Loaded } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Table } from "../parts/table.js";
import { Act, refusal } from "../parts/rights.js";
import { some, time } from "../format.js";
import { AddRule, RemoveRule } from "./rule_dialogs.js";

const COLUMNS = [
  { name: "principal", title: "Principal", cell: (each) => html`<code>${each.principal}</code>` },
  {
    name: "permission",
    title: "May",
    cell: (each) =>
      html`<${Badge} level=${each.permission === "deny" ? "bad" : "good"}>${each.permission}<//>`,
  },
  { name: "operation", title: "Operation" },
  { name: "resource_type", title: "Resource" },
  {
    name: "resource_name",
    title: "Name",
    wide: true,
    value: (each) => each.resource_name + (each.pattern_type === "prefixed" ? "…" : ""),
  },
  { name: "host", title: "From", cell: (each) => (each.host === "*" ? "anywhere" : each.host) },
];
const keyed = (rows) => rows.map((each) => ({ ...each, key: JSON.stringify(each) }));
const inWords = ({ permission, principal, operation, resource_type: kind, resource_name: name }) =>
  [permission, principal, operation, kind, name].join(" ");
const text = ({ key: _, ...each }) => Object.values(each).join(" ");

function Confirm({ rows, drop, onClose }) {
  const send = () => api("/acls/confirm", { method: "POST", body: { dry_run: false, drop } });
  return html`
    <${Dialog} title=${`${drop ? "Drop" : "Take over"} ${some(rows.length, "rule")}`}
        send=${drop ? "Drop" : "Take over"} onSend=${send} onClose=${onClose}>
      <p>
        ${
          drop
            ? "The rules are deleted. They never decided anything."
            : "From now on these rules decide who may do what. Whoever could reach the broker " +
              "before rules were enforced could have written them."
        }
      </p>
    <//>
  `;
}

function Waiting({ rows, why, ask, done }) {
  const button = (title, drop) => html`
    <${Act} why=${why}
        onClick=${() => ask(html`<${Confirm} rows=${rows} drop=${drop} onClose=${done} />`)}>
      ${title}
    <//>
  `;
  return html`
    <section class="card">
      <div class="head">
        <h2>Waiting for confirmation</h2>
        <div class="actions">${button("Take over", false)} ${button("Drop", true)}</div>
      </div>
      <p class="notice warn">
        These rules are from before rules were enforced, when everybody could write them. They
        decide nothing until an admin has seen them.
      </p>
      <${Table} id="waiting" sort="principal" rows=${keyed(rows)} columns=${COLUMNS} text=${text} />
    </section>
  `;
}

/** All that one principal may do. */
export function Explained({ principal }) {
  const found = useApi(
    principal.includes(":") ? `/acls/explain?principal=${encodeURIComponent(principal)}` : null,
    10,
  );
  if (!principal.includes(":")) return html`<p class="muted">For example User:anna.</p>`;
  return html`
    <${Loaded} from=${found}>
      ${(data) => html`
        ${
          data.may_do_everything &&
          html`
            <p class="notice">${data.principal} may do everything: ${data.may_do_everything}.</p>
          `
        }
        <${Table} id="explained" sort="resource_type" columns=${COLUMNS} text=${text}
            rows=${keyed([...data.deny, ...data.allow])}
            empty=${`No rule is about ${data.principal}.`} />
        ${
          data.deny.length > 0 &&
          html`<p class="muted">A rule that denies wins over all that allow.</p>`
        }
      `}
    <//>
  `;
}

export function Rules({ me, route }) {
  const rules = useApi("/acls", 10);
  const [asked, ask] = useState(null);
  const principal = route.query.principal ?? "";
  const choose = (event) => setQuery({ principal: event.target.value.trim() });
  const why = refusal(me, me.allowed, "alter", "the cluster");
  const done = () => {
    ask(null);
    rules.reload();
  };
  const remove = {
    name: "do",
    title: "",
    fixed: true,
    cell: (each) => html`
      <${Act} class="plain" why=${why} aria-label=${`Remove ${inWords(each)}`}
          onClick=${() => ask(html`<${RemoveRule} rule=${each} onClose=${done} />`)}>
        remove
      <//>
    `,
  };
  return html`
    <${Head} title="Access rules">
      <${Act} class="primary" why=${why}
          onClick=${() => ask(html`<${AddRule} onClose=${done} />`)}>
        New rule
      <//>
    <//>
    <${Loaded} from=${rules}>
      ${(data) => html`
        ${!data.is_enforced && html`<p class="notice warn">${data.warning}</p>`}
        ${
          data.is_enforced &&
          html`<p class="muted">Rules were first enforced ${time(data.enforced_since_ms)}.</p>`
        }
        ${
          data.waiting.length > 0 &&
          html`<${Waiting} rows=${data.waiting} why=${why} ask=${ask} done=${done} />`
        }
        <section class="card">
          <div class="head"><h2>Who may do what</h2></div>
          <label>
            Principal
            <input list="principals" autocomplete="off" spellcheck=${false}
                placeholder="User:NAME" value=${principal} onChange=${choose} />
          </label>
          <datalist id="principals">
            ${[...new Set(data.acls.map((each) => each.principal))].map(
              (each) => html`<option value=${each} />`,
            )}
          </datalist>
          <${Explained} principal=${principal} />
        </section>
        <section class="card">
          <div class="head"><h2>All rules</h2></div>
          <${Table} id="rules" sort="principal" rows=${keyed(data.acls)}
              columns=${[...COLUMNS, remove]} text=${text} empty=${html`
                <p>No rules yet.</p>
                <p>New rule adds one, in a form.</p>
              `} />
        </section>
      `}
    <//>
    ${asked}
  `;
}
