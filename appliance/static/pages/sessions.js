// Sessions: who is logged in.
import { html } from "../html.js";
import { useApi } from "../api.js";
import { Badge, Loaded } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { duration } from "../format.js";
import { Remove, plain } from "./users.js";

export function Sessions({ ask }) {
  const sessions = useApi("/sessions", 10);
  const done = () => {
    ask(null);
    sessions.reload();
  };
  const end = (each) =>
    ask(html`
      <${Remove} what=${`/sessions/${each.session}`} title=${`End a session of ${each.name}`}
          send="End session" onClose=${done}
          text=${`The user at ${each.peer} will have to log in again.`} />
    `);
  const columns = [
    {
      name: "name",
      title: "User",
      cell: (each) => html`
        ${each.name} ${each.is_own && html`<${Badge} level="good">this session<//>`}
      `,
    },
    { name: "peer", title: "From", cell: (each) => html`<code>${each.peer}</code>` },
    { name: "software", title: "Browser", long: true },
    { name: "age_s", title: "Age", number: true, cell: (each) => duration(each.age_s) },
    {
      name: "unused_s",
      title: "Idle",
      number: true,
      cell: (each) => duration(each.unused_s),
    },
    {
      name: "do",
      title: "",
      fixed: true,
      cell: (each) => plain(`End the session of ${each.name}`, "end", () => end(each)),
    },
  ];
  return html`
    <section class="card">
      <div class="head"><h2>Sessions</h2></div>
      <${Loaded} from=${sessions}>
        ${(data) => html`
          <${Table} id="sessions" sort="unused_s" rows=${data.sessions} columns=${columns}
              empty="No sessions." />
        `}
      <//>
    </section>
  `;
}
