// Users of Kafka and the console, and the parts that tokens and sessions share with them.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { Badge, Loaded } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Table } from "../parts/table.js";
import { time } from "../format.js";

const ROLES = { viewer: "can view", operator: "can view and change", admin: "can do everything" };
// Tokens are for the admin port alone.
const ROLES_OF_USERS = { none: "does what access rules allow", ...ROLES };
const PASSWORD_MIN = 10;
const DELETED =
  "The user is logged out at once and cannot log in again, nor with certificates or tokens " +
  "from before. The audit trail is kept.";

export const Role = ({ of }) => html`
  <${Badge}>${of.role}<//> ${!of.may_read && html`<span class="muted">cannot read messages</span>`}
`;

export const named = (name) => encodeURIComponent(name);

export function Rights({ role, setRole, mayRead, setMayRead, roles = ROLES }) {
  return html`
    <label>
      Role
      <select value=${role} onChange=${(event) => setRole(event.target.value)}>
        ${Object.entries(roles).map(
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
        <${Rights} ...${{ role, setRole, mayRead, setMayRead }} roles=${ROLES_OF_USERS} />
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

export function OwnPassword({ onClose }) {
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

export function Remove({ what, title, text, send = "Delete", confirm, onClose }) {
  return html`
    <${Dialog} title=${title} send=${send} danger confirm=${confirm}
        onSend=${() => api(what, { method: "DELETE" })} onClose=${onClose}>
      <p>${text}</p>
    <//>
  `;
}

export const plain = (label, text, onClick) => html`
  <button type="button" class="plain" aria-label=${label} onClick=${onClick}>${text}</button>
`;

export function Users({ me, ask }) {
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
          text=${DELETED} />
    `);
  const columns = [
    { name: "name", title: "User" },
    { name: "role", title: "Role", cell: (each) => html`<${Role} of=${each} />` },
    { name: "kafka", title: "Kafka", cell: (each) => each.kafka.join(", ") || "no" },
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
