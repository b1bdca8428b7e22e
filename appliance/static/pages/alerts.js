// Alerts by mail and webhook: where they go, what was sent and when, what failed, and a test.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { Badge, Head, Loaded } from "../parts/bits.js";
import { Act } from "../parts/rights.js";
import { Table } from "../parts/table.js";
import { mayAdminister } from "./access.js";
import { count, time } from "../format.js";

const LEVELS = { failing: "bad", degraded: "warn", ok: "good" };
const STATES = { sent: "good", waiting: "warn", failed: "bad" };

const CHANNELS = [
  { name: "channel", title: "Channel" },
  { name: "target", title: "To", long: true },
  { name: "waiting", title: "Waiting", number: true, cell: (each) => count(each.waiting) },
  { name: "sent", title: "Sent since the start", number: true, cell: (each) => count(each.sent) },
  { name: "given_up", title: "Given up", number: true, cell: (each) => count(each.given_up) },
  {
    name: "fault",
    title: "State",
    wide: true,
    cell: (each) =>
      each.fault
        ? html`<${Badge} level="bad">fails<//> ${each.fault}`
        : html`<${Badge} level="good">ok<//>`,
  },
];
const TOLD = [
  {
    name: "level",
    title: "Level",
    cell: (each) => html`<${Badge} level=${LEVELS[each.level]}>${each.level}<//>`,
  },
  { name: "area", title: "Area" },
  { name: "text", title: "What", long: true },
  { name: "began_ms", title: "Since", number: true, cell: (each) => time(each.began_ms) },
];

const Delivery = ({ of }) => html`
  <div>
    ${of.channel} <${Badge} level=${STATES[of.state]}>${of.state}<//>
    ${of.error && html` <span class="muted">${of.error} (${count(of.tries)}×)</span>`}
  </div>
`;
const SENT = [
  { name: "at_ms", title: "At", number: true, cell: (each) => time(each.at_ms) },
  {
    name: "level",
    title: "Level",
    cell: (each) =>
      each.kind === "test"
        ? html`<${Badge}>test<//>`
        : html`<${Badge} level=${LEVELS[each.level]}>${each.level}<//>`,
  },
  { name: "subject", title: "What", wide: true },
  {
    name: "deliveries",
    title: "Delivered",
    wide: true,
    value: (each) => each.deliveries.map((one) => one.state).join(),
    cell: (each) => each.deliveries.map((one) => html`<${Delivery} of=${one} />`),
  },
];

function Test({ me, isOn, onSent }) {
  const [state, become] = useState({});
  const send = () => {
    become({ isBusy: true });
    api("/alerts/test", { method: "POST", body: {} }).then(
      (sent) => {
        become({ sent });
        onSent();
      },
      (error) => become({ error: error.message }),
    );
  };
  const why = !mayAdminister(me)
    ? "Only an admin can send a test."
    : isOn
      ? ""
      : "Alerts go nowhere yet.";
  return html`
    <div class="actions">
      <span role="status">
        ${state.isBusy && "Sending…"}
        ${state.sent?.deliveries.map((each) => html`<${Delivery} of=${each} />`)}
      </span>
      <${Act} why=${why || (state.isBusy ? "It is being sent." : "")} onClick=${send}>
        Send a test
      <//>
    </div>
    ${state.error && html`<p class="notice bad" role="alert">${state.error}</p>`}
  `;
}

const Nowhere = () => html`
  <p class="notice">
    Alerts go nowhere. Set <code>alerts.mail.server</code>, <code>alerts.mail.from</code> and${" "}
    <code>alerts.mail.to</code>, or <code>alerts.webhook.url</code>, in the settings file, and start
    the broker again.
  </p>
`;

export function Alerts({ me }) {
  const alerts = useApi("/alerts", 5);
  return html`
    <${Head} title="Alerts" />
    <${Loaded} from=${alerts}>
      ${(found) => html`
        <section class="card" id="channels">
          <div class="head">
            <h2>Where they go</h2>
            <${Test} me=${me} isOn=${found.channels.length > 0} onSent=${alerts.reload} />
          </div>
          ${
            found.channels.length > 0
              ? html`
                <${Table} id="ways" columns=${CHANNELS}
                    rows=${found.channels.map((each) => ({ ...each, key: each.channel }))} />
              `
              : html`<${Nowhere} />`
          }
        </section>
        <section class="card">
          <div class="head"><h2>Told, and not over</h2></div>
          <${Table} id="told" columns=${TOLD} empty="Nothing that was told is wrong."
              rows=${found.told.map((each, key) => ({ ...each, key }))} />
        </section>
        <section class="card">
          <div class="head"><h2>Sent</h2></div>
          <${Table} id="sent" columns=${SENT} text=${(each) => each.subject}
              empty=${html`
                <p>Nothing was sent yet.</p>
                <p>Send a test shows whether messages arrive.</p>
              `}
              rows=${found.alerts.map((each) => ({ ...each, key: each.id }))} />
        </section>
      `}
    <//>
  `;
}
