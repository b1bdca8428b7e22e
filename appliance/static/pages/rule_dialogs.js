// Dialogs of access rules: one more, one less.
import { html, useState } from "../html.js";
import { api } from "../api.js";
import { Dialog } from "../parts/dialog.js";

const CLUSTER = "kafka-cluster"; // its only name

// What can be done to each, as Kafka has it
const OPERATIONS = {
  topic: [
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "describe_configs",
    "alter_configs",
    "all",
  ],
  group: ["read", "delete", "describe", "describe_configs", "alter_configs", "all"],
  cluster: [
    "create",
    "alter",
    "describe",
    "cluster_action",
    "describe_configs",
    "alter_configs",
    "idempotent_write",
    "all",
  ],
  transactional_id: ["write", "describe", "two_phase_commit", "all"],
  delegation_token: ["describe", "all"],
  user: ["create_tokens", "describe_tokens", "all"],
};

const words = (text) => text.replaceAll("_", " ");

const Choice = ({ label, value, onChange, from }) => html`
  <label>
    ${label}
    <select value=${value} onChange=${(event) => onChange(event.target.value)}>
      ${from.map(([id, text]) => html`<option value=${id}>${text}</option>`)}
    </select>
  </label>
`;

const Text = ({ label, value, onInput, ...rest }) => html`
  <label>
    ${label}
    <input required autocomplete="off" spellcheck=${false} value=${value} ...${rest}
        onInput=${(event) => onInput(event.target.value)} />
  </label>
`;

export function AddRule({ onClose }) {
  const [rule, setRule] = useState({
    principal: "User:",
    permission: "allow",
    resource_type: "topic",
    resource_name: "",
    pattern_type: "literal",
    operation: "read",
    host: "*",
  });
  const put = (name) => (value) => setRule((before) => ({ ...before, [name]: value }));
  const kind = rule.resource_type;
  const isCluster = kind === "cluster";
  const choose = (resource_type) =>
    setRule((before) => ({ ...before, resource_type, operation: OPERATIONS[resource_type][0] }));
  const send = () => {
    const of = isCluster ? { resource_name: CLUSTER, pattern_type: "literal" } : {};
    return api("/acls", { method: "POST", body: { acls: [{ ...rule, ...of }] } });
  };
  return html`
    <${Dialog} title="New rule" send="Add" onSend=${send} onClose=${onClose}>
      <div class="fields">
        <${Text} label="Who" value=${rule.principal} onInput=${put("principal")}
            pattern="[^:]+:.+" title="User:NAME, or User:* for everybody" />
        <${Choice} label="May" value=${rule.permission} onChange=${put("permission")}
            from=${[
              ["allow", "allow"],
              ["deny", "deny, whatever else allows it"],
            ]} />
        <${Choice} label="Resource" value=${kind} onChange=${choose}
            from=${Object.keys(OPERATIONS).map((each) => [each, words(each)])} />
        <${Choice} label="Operation" value=${rule.operation} onChange=${put("operation")}
            from=${OPERATIONS[kind].map((each) => [each, words(each)])} />
        ${
          !isCluster &&
          html`
            <${Text} label="Name (* is every name)" value=${rule.resource_name}
                onInput=${put("resource_name")} />
            <${Choice} label="It is about" value=${rule.pattern_type}
                onChange=${put("pattern_type")}
                from=${[
                  ["literal", "this name"],
                  ["prefixed", "all names that begin so"],
                ]} />
          `
        }
        <${Text} label="From (an address; * is anywhere)" value=${rule.host}
            onInput=${put("host")} />
      </div>
    <//>
  `;
}

export function RemoveRule({ rule, onClose }) {
  const { key: _, ...exactly } = rule;
  const send = () => api("/acls/remove", { method: "POST", body: { ...exactly, dry_run: false } });
  const all = rule.pattern_type === "prefixed" ? "all that begin with " : "";
  return html`
    <${Dialog} title="Remove a rule" send="Remove" danger onSend=${send} onClose=${onClose}>
      <p>
        <code>${rule.principal}</code>: ${rule.permission} ${words(rule.operation)} on
        ${" "}${words(rule.resource_type)} ${all}<code>${rule.resource_name}</code>,
        ${" "}from ${rule.host === "*" ? "anywhere" : rule.host}.
      </p>
      <p>
        ${
          rule.permission === "deny"
            ? "What another rule or a role allows is allowed again, from the next request on."
            : "What no other rule and no role allows is refused, from the next request on."
        }
      </p>
    <//>
  `;
}
