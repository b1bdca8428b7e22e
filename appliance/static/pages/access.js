// Users, tokens of programs, and sessions.
import { html, useState } from "../html.js";
import { Head } from "../parts/bits.js";
import { Sessions } from "./sessions.js";
import { Tokens } from "./tokens.js";
import { OwnPassword, Users } from "./users.js";

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
