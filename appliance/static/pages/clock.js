// For Home, while the machine's clock is in doubt: what it says, what is believed, and a person's word.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { Loaded } from "../parts/bits.js";
import { mayAdminister } from "./access.js";
import { Dialog } from "../parts/dialog.js";
import { time } from "../format.js";

function Confirm({ found, onClose }) {
  const send = () => api("/clock/confirm", { method: "POST" });
  return html`<${Dialog} title=${`Say that it is ${time(found.wall_ms)} now`} send="The clock is right" onSend=${send} onClose=${onClose}>
    <p>${time(found.believed_ms)} was believed.</p>
    <p>What is too old by the machine's clock is deleted and expired from then on: records by the retention of their topics first of all. That cannot be taken back.</p><//>`;
}

export function DoubtedClock({ me }) {
  const [isAsking, ask] = useState(false);
  const clock = useApi("/clock", 5);
  return html`<${Loaded} from=${clock}>${(found) => found.doubt && html`<section class="card" id="clock"><div class="head"><h2>The machine's clock is not believed</h2>
      <button type="button" disabled=${!mayAdminister(me)} title=${mayAdminister(me) ? undefined : "An admin may say so."} onClick=${() => ask(true)}>It is right</button></div>
    <p>It says ${time(found.wall_ms)}, and ${time(found.believed_ms)} was believed. Until one of them is known to be right nothing is deleted or expired by time.</p></section>
    ${isAsking && html`<${Confirm} found=${found} onClose=${() => { ask(false); clock.reload(); }} />`}`}<//>`;
}
