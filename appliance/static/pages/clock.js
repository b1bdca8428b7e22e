// For Home, while the broker does not trust the machine's clock: both times, and the confirmation.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { Loaded } from "../parts/bits.js";
import { mayAdminister } from "./access.js";
import { Dialog } from "../parts/dialog.js";
import { time } from "../format.js";

function Confirm({ state, onClose }) {
  const send = () => api("/clock/confirm", { method: "POST" });
  return html`
    <${Dialog} title=${`Confirm ${time(state.wall_ms)} as the time`} send="Confirm" onSend=${send}
        onClose=${onClose}>
      <p>The broker's estimate is ${time(state.believed_ms)}.</p>
      <p>
        Retention and expiry will use the machine's clock. Records that are too old by it are
        deleted. This cannot be undone.
      </p>
    <//>
  `;
}

export function DoubtedClock({ me }) {
  const [isAsking, ask] = useState(false);
  const clock = useApi("/clock", 5);
  return html`
    <${Loaded} from=${clock}>
      ${(state) =>
        state.doubt &&
        html`
          <section class="card" id="clock">
            <div class="head">
              <h2>The broker does not trust the machine's clock</h2>
              <button type="button" disabled=${!mayAdminister(me)}
                  title=${mayAdminister(me) ? undefined : "Only an admin can confirm the time."}
                  onClick=${() => ask(true)}>
                Confirm the time
              </button>
            </div>
            <p>
              The clock says ${time(state.wall_ms)}. The broker's estimate is${" "}
              ${time(state.believed_ms)}. Until this is resolved, nothing is deleted or expired by
              time.
            </p>
          </section>
          ${
            isAsking &&
            html`
              <${Confirm} state=${state}
                  onClose=${() => {
                    ask(false);
                    clock.reload();
                  }} />
            `
          }
        `}
    <//>
  `;
}
