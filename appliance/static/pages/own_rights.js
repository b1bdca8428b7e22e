// The first page of users who may not see the broker as a whole: what they may do, by which rule.
import { html } from "../html.js";
import { Head } from "../parts/bits.js";
import { Explained } from "./rules.js";

export function OwnRights({ me }) {
  return html`
    <${Head} title="Home" />
    <p class="notice">
      You are logged in as ${me.name}${me.role === "none" ? ", without a role" : `, ${me.role}`}.
      ${" "}You see the topics and groups that access rules open to you, and nothing else of this
      broker. An admin can add rules.
    </p>
    <section class="card">
      <div class="head"><h2>What you may do</h2></div>
      <${Explained} principal=${`User:${me.name}`} />
    </section>
  `;
}
