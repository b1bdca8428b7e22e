// What the user may not do: the button is disabled, and says why.
import { html } from "../html.js";

/** Why an operation on a topic or group would be refused; "": it would not. `allowed` comes with
    its data, and is undefined until then. */
export function refusal(me, allowed, operation, what) {
  if (me.is_read_only) return "admin.read.only is set: nothing can be changed here.";
  if (!allowed) return "not loaded yet";
  return allowed.includes(operation) ? "" : missing(me, operation, what);
}

export const missing = (me, operation, what) =>
  `${me.name ?? "You"} may not ${operation.replace("_", " ")} ${what}: ` +
  (me.is_ruled ? "no access rule or role allows it, or a rule denies it." : `${me.role} only.`);

/** Why nothing can be changed that only operators and admins change. */
export function fixed({ is_read_only: isReadOnly, role, name }) {
  if (isReadOnly) return "admin.read.only is set: nothing can be changed here.";
  return ["operator", "admin"].includes(role) ? "" : `${name} is ${role}, wanted operator.`;
}

/** Sees the broker as a whole: health, clients, losses. */
export const seesBroker = (me) => me.allowed?.includes("describe") ?? true;

export const Act = ({ why, children, ...rest }) => html`
  <button type="button" ...${rest} disabled=${Boolean(why)} title=${why || undefined}>
    ${children}
  </button>
`;

/** Instead of a page that would be refused. */
export const NotAllowed = ({ me, title, wanted }) => html`
  <h1 tabindex="-1">${title}</h1>
  <p class="notice">${missing(me, wanted, "the cluster")} An admin can grant it.</p>
`;
