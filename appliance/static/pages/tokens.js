// Tokens of programs.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { Badge, Loaded } from "../parts/bits.js";
import { Copy } from "../parts/copy.js";
import { Dialog } from "../parts/dialog.js";
import { Table } from "../parts/table.js";
import { time } from "../format.js";
import { Role, named, Rights, Remove, plain } from "./users.js";

function NewToken({ onClose }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState("viewer");
  const [mayRead, setMayRead] = useState(false);
  const [days, setDays] = useState("365");
  const [made, setMade] = useState(null);
  const send = async () => {
    setMade(
      await api("/tokens", {
        method: "POST",
        body: { name, role, may_read: mayRead, ...(days && { days: Number(days) }) },
      }),
    );
    return false;
  };
  if (made)
    return html`
      <${Dialog} key="made" title=${`Token ${made.name}`} cancel="Done" onClose=${onClose}>
        <div class="fields">
          <p class="notice warn">Copy the token now. It is not shown again.</p>
          <pre tabindex="0" data-secret>${made.token}</pre>
          <div>
            <${Copy} text=${() => made.token} what="the token" />
          </div>
          <p class="muted">
            Programs send it as <code>Authorization: Bearer …</code>. Commands read it from
            ${" "}
            <code>APPLIANCE_TOKEN</code>.
          </p>
        </div>
      <//>
    `;
  return html`
    <${Dialog} title="New token" send="Create" onSend=${send} onClose=${onClose}>
      <div class="fields">
        <label>
          Name of the program
          <input required autocomplete="off" spellcheck=${false} pattern="[a-zA-Z0-9._@\-]+"
              value=${name} onInput=${(event) => setName(event.target.value)} />
        </label>
        <${Rights} ...${{ role, setRole, mayRead, setMayRead }} />
        <label>
          Expires after
          <select value=${days} onChange=${(event) => setDays(event.target.value)}>
            <option value="30">30 days</option>
            <option value="90">90 days</option>
            <option value="365">1 year</option>
            <option value="">never</option>
          </select>
        </label>
      </div>
    <//>
  `;
}

export function Tokens({ me, ask }) {
  const tokens = useApi("/tokens", 10);
  const done = () => {
    ask(null);
    tokens.reload();
  };
  const remove = (token) =>
    ask(html`
      <${Remove} what=${`/tokens/${named(token.name)}`} title=${`Revoke ${token.name}`}
          send="Revoke" onClose=${done} text="Requests with this token will be refused." />
    `);
  const columns = [
    { name: "name", title: "Token" },
    { name: "role", title: "Role", cell: (each) => html`<${Role} of=${each} />` },
    { name: "created_ms", title: "Created", time: true, cell: (each) => time(each.created_ms) },
    {
      name: "expires_ms",
      title: "Expires",
      time: true,
      cell: (each) =>
        each.expires_ms === null
          ? "never"
          : each.expires_ms < Date.now()
            ? html`<${Badge} level="bad">expired<//>`
            : time(each.expires_ms),
    },
    {
      name: "used_ms",
      title: "Last used",
      time: true,
      cell: (each) => (each.used_ms === null ? "not since the broker started" : time(each.used_ms)),
    },
    {
      name: "do",
      title: "",
      fixed: true,
      cell: (each) => plain(`Revoke ${each.name}`, "revoke", () => remove(each)),
    },
  ];
  return html`
    <section class="card">
      <div class="head">
        <h2>Tokens</h2>
        <button type="button" disabled=${me.is_read_only}
            onClick=${() => ask(html`<${NewToken} onClose=${done} />`)}>
          New token
        </button>
      </div>
      <${Loaded} from=${tokens}>
        ${(data) => html`
          <${Table} id="tokens" sort="name" rows=${data.tokens} columns=${columns}
              empty=${html`
                <p>No tokens.</p>
                <p>A program needs one for REST and the command line. Make one with New token.</p>
              `} />
        `}
      <//>
    </section>
  `;
}
