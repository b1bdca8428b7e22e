// Users, tokens of programs, and sessions.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { Badge, Head, Loaded } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Table } from "../parts/table.js";
import { duration, time } from "../format.js";

const ROLES = { viewer: "can view", operator: "can view and change", admin: "can do everything" };
const PASSWORD_MIN = 10;

const Role = ({ of }) => html`
  <${Badge}>${of.role}<//> ${!of.may_read && html`<span class="muted">cannot read messages</span>`}
`;
const named = (name) => encodeURIComponent(name);

function Rights({ role, setRole, mayRead, setMayRead }) {
  return html`
    <label>
      Role
      <select value=${role} onChange=${(event) => setRole(event.target.value)}>
        ${Object.entries(ROLES).map(
          ([id, text]) => html`<option value=${id}>${id}: ${text}</option>`,
        )}
      </select>
    </label>
    <label class="check">
      <input type="checkbox" checked=${mayRead}
          onChange=${(event) => setMayRead(event.target.checked)} />
      Can read messages
    </label>
  `;
}

const Secret = ({ label, value, onInput, required }) => html`
  <label>
    ${label}
    <input type="password" autocomplete="new-password" minlength=${PASSWORD_MIN}
        required=${required} value=${value} onInput=${(event) => onInput(event.target.value)} />
  </label>
`;

function EditUser({ user, onClose }) {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [role, setRole] = useState(user?.role ?? "viewer");
  const [mayRead, setMayRead] = useState(user?.may_read ?? true);
  const send = () => {
    const body = { role, may_read: mayRead, ...(password && { password }) };
    return user
      ? api(`/users/${named(user.name)}`, { method: "PATCH", body })
      : api("/users", { method: "POST", body: { ...body, name } });
  };
  return html`
    <${Dialog} title=${user ? `Change ${user.name}` : "New user"} send=${user ? "Save" : "Create"}
        onSend=${send} onClose=${onClose}>
      <div class="fields">
        ${
          !user &&
          html`
            <label>
              Name
              <input required autocomplete="off" spellcheck=${false} pattern="[a-zA-Z0-9._@\-]+"
                  value=${name} onInput=${(event) => setName(event.target.value)} />
            </label>
          `
        }
        <${Rights} ...${{ role, setRole, mayRead, setMayRead }} />
        <${Secret}
            label=${
              user
                ? "New password (leave empty to keep the old one)"
                : `Password (at least ${PASSWORD_MIN} characters)`
            } value=${password}
            onInput=${setPassword} required=${!user} />
        ${user && html`<p class="muted">${user.name} will have to log in again.</p>`}
      </div>
    <//>
  `;
}

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
            <button type="button" onClick=${() => navigator.clipboard?.writeText(made.token)}>
              Copy
            </button>
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

function OwnPassword({ onClose }) {
  const [old, setOld] = useState("");
  const [password, setPassword] = useState("");
  const send = () =>
    api("/session/password", { method: "POST", body: { old_password: old, password } });
  return html`
    <${Dialog} title="Change password" send="Change" onSend=${send} onClose=${onClose}>
      <div class="fields">
        <label>
          Current password
          <input type="password" autocomplete="current-password" required value=${old}
              onInput=${(event) => setOld(event.target.value)} />
        </label>
        <${Secret} label=${`New password (at least ${PASSWORD_MIN} characters)`} value=${password}
            onInput=${setPassword} required />
        <p class="muted">Your other sessions will end.</p>
      </div>
    <//>
  `;
}

function Remove({ what, title, text, send = "Delete", confirm, onClose }) {
  return html`
    <${Dialog} title=${title} send=${send} danger confirm=${confirm}
        onSend=${() => api(what, { method: "DELETE" })} onClose=${onClose}>
      <p>${text}</p>
    <//>
  `;
}

const plain = (label, text, onClick) => html`
  <button type="button" class="plain" aria-label=${label} onClick=${onClick}>${text}</button>
`;

function Users({ me, ask }) {
  const users = useApi("/users");
  const done = () => {
    ask(null);
    users.reload();
  };
  const change = (user) => ask(html`<${EditUser} user=${user} onClose=${done} />`);
  const remove = (user) =>
    ask(html`
      <${Remove} what=${`/users/${named(user.name)}`} title=${`Delete ${user.name}`}
          confirm=${user.name} onClose=${done}
          text="The user is logged out at once and cannot log in again. The audit trail is kept." />
    `);
  const columns = [
    { name: "name", title: "User" },
    { name: "role", title: "Role", cell: (each) => html`<${Role} of=${each} />` },
    { name: "sessions", title: "Sessions", number: true },
    { name: "created_ms", title: "Created", time: true, cell: (each) => time(each.created_ms) },
    {
      name: "do",
      title: "",
      fixed: true,
      cell: (each) => html`
        ${plain(`Change ${each.name}`, "change", () => change(each))}${" "}
        ${plain(`Delete ${each.name}`, "delete", () => remove(each))}
      `,
    },
  ];
  return html`
    <section class="card">
      <div class="head">
        <h2>Users</h2>
        <button type="button" disabled=${me.is_read_only} onClick=${() => change(null)}>
          New user
        </button>
      </div>
      <${Loaded} from=${users}>
        ${(data) => html`<${Table} id="users" sort="name" rows=${data.users} columns=${columns} />`}
      <//>
    </section>
  `;
}

function Tokens({ me, ask }) {
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
              empty="No tokens." />
        `}
      <//>
    </section>
  `;
}

function Sessions({ ask }) {
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

/** Without users everybody may do everything. */
export const mayAdminister = (me) => (me.role === "admin" || me.needs_setup) && !me.read_only;

export function Access({ me }) {
  const [asked, ask] = useState(null);
  const isAdmin = me.role === "admin" && !me.needs_setup;
  return html`
    <${Head} title="Users and tokens">
      ${
        me.name &&
        html`
          <button type="button"
              onClick=${() => ask(html`<${OwnPassword} onClose=${() => ask(null)} />`)}>
            Change password
          </button>
        `
      }
    <//>
    ${
      me.needs_setup &&
      html`
        <p class="notice bad">
          There are no users yet, so anybody who can reach these pages can do everything. To create
          the first user, open the link that the broker printed at its start: see the output of
          ${" "}
          <code>appliance serve</code>.
        </p>
      `
    }
    ${
      !me.needs_setup &&
      !isAdmin &&
      html`
        <p class="muted">
          You are logged in as ${me.name}, ${me.role}. Only an admin can manage users.
        </p>
      `
    }
    ${
      isAdmin &&
      html`
        <${Users} me=${me} ask=${ask} />
        <${Tokens} me=${me} ask=${ask} />
        <${Sessions} ask=${ask} />
      `
    }
    ${asked}
  `;
}
