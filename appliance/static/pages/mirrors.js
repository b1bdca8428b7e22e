// Topics that a mirror writes here, and their lag behind the source.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { href } from "../router.js";
import { Badge, Head, Loaded } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Table } from "../parts/table.js";
import { NewMirror } from "./mirror_new.js";
import { ago, bytes, count, duration, some, time } from "../format.js";

const LEVELS = {
  "caught up": "good",
  behind: "warn",
  "no link": "bad",
  refused: "bad",
  silent: "bad",
  paused: "warn",
  pausing: "warn",
  ended: "",
  "not reported": "",
};
const LATE_S = 60; // a mirror of a busy topic always has some lag, which needs no warning
const State = ({ of }) => html`
  <${Badge} level=${of.state === "behind" && of.lag_s < LATE_S ? "" : (LEVELS[of.state] ?? "warn")}>
    ${of.state}
  <//>
`;
// the column of failures is shown only if there is one
const columns = (topics) =>
  TOPICS.filter((each) => each.name !== "failure" || topics.some((topic) => topic.failure));
const lost = (each) =>
  each.lost_offsets > 0 &&
  html`${" "}<span class="muted">(${count(each.lost_offsets)} lost)</span>`;

const TOPICS = [
  {
    name: "topic",
    title: "Topic",
    cell: (each) => html`<a href=${href(["topics", each.topic])}>${each.topic}</a>`,
  },
  { name: "state", title: "State", cell: (each) => html`<${State} of=${each} />` },
  {
    name: "lag_records",
    title: "Lag, records",
    number: true,
    cell: (each) => html`${count(each.lag_records)}${lost(each)}`,
  },
  { name: "lag_s", title: "Lag, time", number: true, cell: (each) => duration(each.lag_s) },
  { name: "end_offset", title: "Offsets", number: true, cell: (each) => count(each.end_offset) },
  {
    name: "last_write_ms",
    title: "Last record",
    number: true,
    cell: (each) => ago(each.last_write_ms),
  },
  { name: "mirror", title: "Mirror", value: (each) => each.mirror ?? "–" },
  { name: "failure", title: "Error", long: true },
  // the topic's id only shows whether the topic was created again
  {
    name: "source",
    title: "Source",
    wide: true,
    cell: (each) => html`<code title=${each.source}>${each.source.split("/")[0]}</code>`,
  },
];

function Forget({ mirror, onClose }) {
  return html`
    <${Dialog} title=${`Forget ${mirror}`} send="Forget"
        onSend=${() => api(`/mirrors/${encodeURIComponent(mirror)}`, { method: "DELETE" })}
        onClose=${onClose}>
      <p>
        This removes the report of the mirror from this page until its next report. The mirror
        itself keeps running.
      </p>
    <//>
  `;
}

/** What is to be thought of a mirror, and to be done. */
function verdict(of) {
  const lag = `${some(of.lag_records, "record")}, ${duration(of.lag_s)} behind`;
  switch (of.state) {
    case "caught up":
      return "It has all that the source had at its last report.";
    case "behind":
      return of.lag_s < LATE_S
        ? `${lag}, as with any busy source.`
        : `Late: ${lag}. If that does not fall, the line or one of the brokers is too slow.`;
    case "no link":
      return of.last_failure
        ? `It does not reach a side, and tries again by itself: ${of.last_failure}`
        : "It is not connected to both sides yet.";
    case "silent":
      return "It has stopped, or does not reach this broker. Look at its own output.";
    case "ended":
      return "It was stopped, or it was to end with --once.";
    case "paused":
      return `${lag}. Resume lets it go on where it was; what the source deletes is lost.`;
    case "pausing":
      return "It pauses with its next report.";
    default:
      return "";
  }
}

function Mirror({ of, onForget, onChanged, me }) {
  const refused = Object.entries(of.refused);
  const [error, setError] = useState("");
  const pause = () =>
    api(`/mirrors/${encodeURIComponent(of.mirror)}`, {
      method: "PATCH",
      body: { is_paused: !of.is_paused },
    }).then(onChanged, (it) => setError(it.message));
  const verb = of.is_paused ? "Resume" : "Pause";
  return html`
    <section class="card fields">
      <div class="head">
        <h2>${of.mirror} <${State} of=${of} /></h2>
        <div class="actions">
          <button type="button" disabled=${me.read_only} title=${me.why_fixed || undefined}
              aria-label=${`${verb} ${of.mirror}`} onClick=${pause}>
            ${verb}
          </button>
          <button type="button" class="plain" disabled=${me.read_only}
              title=${me.why_fixed || undefined} aria-label=${`Forget ${of.mirror}`}
              onClick=${onForget}>
            forget
          </button>
        </div>
      </div>
      ${error && html`<p class="notice bad" role="alert">${error}</p>`}
      <p><b>${verdict(of)}</b></p>
      <p>
        From <code>${of.source}</code>: ${some(of.topics, "topic")}, ${some(of.records, "record")}
        ${" "}and ${bytes(of.bytes)} since its start
        ${
          of.lost_offsets
            ? `; ${count(of.lost_offsets)} offsets deleted in the source before they were mirrored`
            : ""
        }.
      </p>
      <p class="muted">
        Reported ${time(of.reported_ms)}, ${ago(of.reported_ms)}.
        ${of.failures ? ` ${some(of.failures, "failure")}, last: ${of.last_failure}` : ""}
      </p>
      ${
        refused.length > 0 &&
        html`
          <div class="notice bad">
            <p>Not mirrored until this is mended:</p>
            <ul style="margin:0;padding-left:18px">
              ${refused.map(([name, why]) => html`<li><b>${name}</b>: ${why}</li>`)}
            </ul>
          </div>
        `
      }
    </section>
  `;
}

const NoMirrors = () => html`
  <p>No mirror writes to this broker.</p>
  <p>A mirror copies topics of another broker, with their offsets. New mirror makes its command.</p>
`;

export function Mirrors({ me }) {
  const mirrors = useApi("/mirrors", 5);
  const [forgotten, forget] = useState(null);
  const [making, setMaking] = useState(false);
  return html`
    <${Head} title="Mirrors">
      <button type="button" class="primary" onClick=${() => setMaking(true)}>New mirror</button>
    <//>
    <${Loaded} from=${mirrors}>
      ${(data) => html`
        ${data.mirrors.map(
          (each) => html`
            <${Mirror} key=${each.mirror} of=${each} me=${me}
                onChanged=${mirrors.reload} onForget=${() => forget(each.mirror)} />
          `,
        )}
        <section class="card">
          <div class="head"><h2>Topics</h2></div>
          <${Table} id="mirrors" sort="-lag_records" rows=${data.topics}
              columns=${columns(data.topics)}
              text=${(each) => `${each.topic} ${each.state} ${each.source}`}
              empty=${html`<${NoMirrors} />`} />
        </section>
        ${
          data.topics.some((each) => each.state === "not reported") &&
          html`
            <p class="muted">
              Only the mirror knows the end of its source. It reports its lag here if it is started
              with <code>--report</code>.
            </p>
          `
        }
      `}
    <//>
    ${making && html`<${NewMirror} onClose=${() => setMaking(false)} />`}
    ${
      forgotten &&
      html`
        <${Forget} mirror=${forgotten}
            onClose=${() => {
              forget(null);
              mirrors.reload();
            }} />
      `
    }
  `;
}
