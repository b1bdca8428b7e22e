// The broker's log, and the audit trail.
import { html } from "../html.js";
import { useApi } from "../api.js";
import { href } from "../router.js";
import { Badge, Head, Loaded } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { time } from "../format.js";

const LEVELS = { error: "bad", critical: "bad", warning: "warn" };
const LOG = [
  { name: "at_ms", title: "Time", time: true, cell: (each) => time(each.at_ms, true) },
  {
    name: "level",
    title: "Level",
    cell: (each) => html`<${Badge} level=${LEVELS[each.level] ?? ""}>${each.level}<//>`,
  },
  { name: "name", title: "Component" },
  {
    name: "text",
    title: "Text",
    wide: true,
    cell: (each) => html`<span class="mono" style="white-space:pre-wrap">${each.text}</span>`,
  },
];
const AUDIT = [
  { name: "at_ms", title: "Time", time: true, cell: (each) => time(each.at_ms, true) },
  { name: "who", title: "User", cell: (each) => each.who || "–" },
  {
    name: "action",
    title: "Action",
    wide: true,
    value: (each) => each.words || each.action,
    cell: (each) =>
      each.words
        ? html`
          ${each.words}
          <p class="muted desk breaks"><code>${each.action}</code></p>
        `
        : html`<code class="breaks">${each.action}</code>`,
  },
  { name: "peer", title: "From" },
  { name: "port", title: "Port" },
  { name: "mechanism", title: "Login by", cell: (each) => each.mechanism || "–" },
  {
    name: "details",
    title: "Details",
    cell: (each) =>
      each.details &&
      html`
        <details>
          <summary>show</summary>
          <code class="breaks">${each.details}</code>
        </details>
      `,
  },
  {
    name: "outcome",
    title: "Outcome",
    cell: (each) =>
      html`<${Badge} level=${each.outcome === "done" ? "good" : "warn"}>
        ${each.outcome} ${each.status || ""}<//>`,
  },
];

export function Records({ route }) {
  const isAudit = route.query.tab === "audit";
  const answer = useApi(isAudit ? "/audit" : "/log", 3);
  const rows = (data) =>
    isAudit ? data.entries.map((each) => ({ ...each, key: each.id })) : data.lines;
  return html`
    <${Head} title="Log and audit" />
    <nav class="tabs" aria-label="Log or audit trail">
      <a href=${href(["records"])} aria-current=${isAudit ? undefined : "page"}>Log</a>
      <a href=${href(["records"], { tab: "audit" })} aria-current=${isAudit ? "page" : undefined}>
        Audit trail
      </a>
    </nav>
    <section class="card">
      <${Loaded} from=${answer}>
        ${(data) => html`
          <${Table} key=${isAudit} kind=${isAudit ? "audit" : ""}
              id=${isAudit ? "audit" : "log"} sort="-at_ms" rows=${rows(data)}
              columns=${isAudit ? AUDIT : LOG} text=${(each) => Object.values(each).join(" ")}
              empty=${
                isAudit
                  ? "Nothing yet. Changes, logins, refusals and reads will be rows here."
                  : "No log lines since the start."
              } />
        `}
      <//>
    </section>
  `;
}
