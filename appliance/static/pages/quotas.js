// Quotas of clients: how much each may write and read, and the forms that set them.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { Badge, Head, Loaded } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Act, refusal } from "../parts/rights.js";
import { Table } from "../parts/table.js";

const WRITE = "producer_byte_rate";
const READ = "consumer_byte_rate";
const CONNECT = "connection_creation_rate";

// What a quota can be for: the parts of its entity.
const KINDS = [
  ["user", "a user", ["user"]],
  ["client", "a client id", ["client_id"]],
  ["both", "a client id of a user", ["user", "client_id"]],
  ["ip", "an address", ["ip"]],
];
const LABELS = { user: "User", client_id: "Client id", ip: "Address" };
const FIELDS = {
  [WRITE]: "Write, bytes per second",
  [READ]: "Read, bytes per second",
  [CONNECT]: "New connections per second",
};
const fieldsOf = (parts) => (parts.includes("ip") ? [CONNECT] : [WRITE, READ]);

const valueOf = (quota, name) => quota.values.find((each) => each.name === name);
const others = (quota) => quota.values.filter((each) => !(each.name in FIELDS));

const limit = (name, title) => ({
  name,
  title,
  number: true,
  value: (each) => valueOf(each, name)?.value ?? null,
  cell: (each) => valueOf(each, name)?.words ?? "–",
});

const columns = (why, change, remove) => [
  { name: "who", title: "For", cell: (each) => each.who },
  limit(WRITE, "Write"),
  limit(READ, "Read"),
  limit(CONNECT, "New connections"),
  {
    name: "others",
    title: "Others",
    wide: true,
    value: (each) =>
      others(each)
        .map((one) => `${one.name} ${one.words}`)
        .join(", "),
    cell: (each) =>
      others(each).map(
        (one) => html`
          ${one.name} ${one.words} ${!one.has_effect && html`<${Badge}>no effect<//>`} 
        `,
      ),
  },
  {
    name: "do",
    title: "",
    fixed: true,
    cell: (each) => html`
      <${Act} class="plain" why=${why} aria-label=${`Change the quota of ${each.who}`}
          onClick=${() => change(each)}>
        change
      <//>
      ${" "}
      <${Act} class="plain" why=${why} aria-label=${`Remove the quota of ${each.who}`}
          onClick=${() => remove(each)}>
        remove
      <//>
    `,
  },
];

const send = (entity, values) => api("/quotas", { method: "POST", body: { entity, values } });

const written = (quota, name) =>
  (quota &&
    valueOf(quota, name)
      ?.words.replace("/s", "")
      .replace(/^about .*/, "")) ||
  String((quota && valueOf(quota, name)?.value) ?? "");

/** `quota`: the one to change; without it, a new one. */
function Change({ quota, onClose }) {
  const [kind, setKind] = useState("user");
  const parts = quota ? Object.keys(quota.entity) : KINDS.find(([id]) => id === kind)[2];
  const [names, setNames] = useState({});
  const [values, setValues] = useState(
    Object.fromEntries(Object.keys(FIELDS).map((name) => [name, written(quota, name)])),
  );
  const put = (set, name) => (event) => set((old) => ({ ...old, [name]: event.target.value }));
  const change = () => {
    const entity =
      quota?.entity ?? Object.fromEntries(parts.map((part) => [part, names[part]?.trim() || null]));
    const asked = fieldsOf(parts)
      .map((name) => [name, values[name].trim() || null])
      .filter(([name, value]) => value !== null || (quota && valueOf(quota, name)));
    if (asked.length === 0) throw new Error("Wanted a limit at least.");
    return send(entity, Object.fromEntries(asked));
  };
  return html`
    <${Dialog} title=${quota ? `Quota of ${quota.who}` : "New quota"}
        send=${quota ? "Change" : "Add"} onSend=${change} onClose=${onClose}>
      <div class="fields">
        ${
          !quota &&
          html`
            <label>
              It is for
              <select value=${kind} onChange=${(event) => setKind(event.target.value)}>
                ${KINDS.map(([id, text]) => html`<option value=${id}>${text}</option>`)}
              </select>
            </label>
            ${parts.map(
              (part) => html`
                <label key=${part}>
                  ${LABELS[part]} (empty: all without a quota of their own)
                  <input autocomplete="off" spellcheck=${false} value=${names[part] ?? ""}
                      onInput=${put(setNames, part)} />
                </label>
              `,
            )}
          `
        }
        ${fieldsOf(parts).map(
          (name) => html`
            <label key=${name}>
              ${FIELDS[name]} (empty: no limit)
              <input autocomplete="off" spellcheck=${false} value=${values[name]}
                  placeholder=${name === CONNECT ? "20" : "10 MiB"}
                  onInput=${put(setValues, name)} />
            </label>
          `,
        )}
        <p class="muted">
          It counts from the next request on. A user's quota is shared by all clients of the user;
          one of a client id is for each client id.
        </p>
      </div>
    <//>
  `;
}

function Remove({ quota, onClose }) {
  const none = Object.fromEntries(quota.values.map((each) => [each.name, null]));
  return html`
    <${Dialog} title=${`Remove the quota of ${quota.who}`} send="Remove" danger
        onSend=${() => send(quota.entity, none)} onClose=${onClose}>
      <p>Another quota that fits these clients counts then, or none.</p>
    <//>
  `;
}

export function Quotas({ me }) {
  const quotas = useApi("/quotas", 10);
  const [asked, ask] = useState(null);
  const why =
    refusal(me, me.allowed, "alter_configs", "the cluster") ||
    (me.role === "admin" || me.is_ruled || me.needs_setup ? "" : "admin only");
  const done = () => {
    ask(null);
    quotas.reload();
  };
  const change = (quota) => ask(html`<${Change} quota=${quota} onClose=${done} />`);
  const remove = (quota) => ask(html`<${Remove} quota=${quota} onClose=${done} />`);
  return html`
    <${Head} title="Quotas">
      <${Act} class="primary" why=${why} onClick=${() => change()}>New quota<//>
    <//>
    <section class="card">
      <${Loaded} from=${quotas}>
        ${(data) => html`
          <${Table} id="quotas" sort="who" columns=${columns(why, change, remove)}
              rows=${data.quotas.map((each) => ({ ...each, key: JSON.stringify(each.entity) }))}
              text=${(each) => each.who}
              empty=${html`
                <p>No quotas: every client writes and reads as fast as it can.</p>
                <p>New quota limits a user, a client id or an address.</p>
              `} />
        `}
      <//>
    </section>
    ${asked}
  `;
}
