// Dead letters of a run: why each did not parse, its record in the log, and writing them again.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { href } from "../router.js";
import { Loaded } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { count, some, word } from "../format.js";

const AROUND = 20; // messages before it in the list behind it

/** The record, with those around it. */
const placeOf = ({ topic, partition, offset }) =>
  href(["topics", topic], {
    tab: "messages",
    from: "offset",
    offset: Math.max(0, offset - AROUND),
    partition,
    record: `${partition}:${offset}`,
  });

const nameOf = ({ topic, partition, offset }) => `${topic}-${partition}, offset ${count(offset)}`;

const Letter = ({ of }) => html`
  <tr>
    <td>
      ${
        of.is_in_log
          ? html`<a href=${placeOf(of)}>${nameOf(of)}</a>`
          : html`
            ${nameOf(of)} <span class="muted">no longer in the log</span>
          `
      }
    </td>
    <td class="breaks">${of.why}</td>
  </tr>
`;

function Letters({ found, target }) {
  const more = found.total - found.letters.length;
  return html`
    ${
      found.letters.length > 0 &&
      html`
        <div class="scroll" tabindex="0" role="region" aria-label="Dead letters">
          <table>
            <thead><tr><th scope="col">Record</th><th scope="col">Why</th></tr></thead>
            <tbody>${found.letters.map((each) => html`<${Letter} of=${each} />`)}</tbody>
          </table>
        </div>
      `
    }
    ${
      more > 0 &&
      html`<p class="muted">${some(more, "more dead letter")} not reported one by one.</p>`
    }
    <p>
      All dead letters of the target, with their records, also when the log no longer has them:
    </p>
    <pre tabindex="0">appliance export dead-letters --target ${word(target)}</pre>
  `;
}

/** By topic, as the ranges that a replay takes. */
function rangesOf(letters) {
  const found = new Map();
  for (const { topic, partition, offset } of letters) {
    const ranges = found.get(topic) ?? [];
    found.set(topic, [...ranges, `${partition}:${offset}:${offset + 1}`]);
  }
  return found;
}

async function replayed(letters, to) {
  let total = 0;
  let unread = 0;
  for (const [topic, ranges] of rangesOf(letters)) {
    for (let cursor = ranges.join(","); cursor;) {
      const part = await api(`/topics/${encodeURIComponent(topic)}/replay`, {
        method: "POST",
        body: { to_topic: to, cursor, dry_run: false },
      });
      total += part.count;
      unread += part.unread_offsets;
      cursor = part.next;
      if (part.stopped) throw new Error(`${some(total, "record")} written: ${part.stopped}`);
    }
  }
  return { total, unread };
}

export function DeadLetters({ of, run, onClose }) {
  const path = `/exports/${encodeURIComponent(of.name)}/runs/${encodeURIComponent(run.id)}`;
  const found = useApi(`${path}/dead-letters`);
  const [to, setTo] = useState("");
  const [done, setDone] = useState(null);
  const there = (found.data?.letters ?? []).filter((each) => each.is_in_log);
  const send = async () => {
    setDone(await replayed(there, to));
    return false;
  };
  return html`
    <${Dialog} title=${`Dead letters of run ${run.id}`} wide cancel="Close" onClose=${onClose}
        send=${`Replay ${some(there.length, "record")}`}
        onSend=${there.length && done === null ? send : undefined}>
      <${Loaded} from=${found}>
        ${(data) => html`<${Letters} found=${data} target=${of.target} />`}
      <//>
      ${
        there.length > 0 &&
        html`
          <label>
            Replay to topic
            <input required autocomplete="off" spellcheck=${false} value=${to}
                onInput=${(event) => setTo(event.target.value)} />
          </label>
          <p class="muted">
            Replaying copies the records that are in the log. In a topic of this export the next run
            takes the copies, by the schema of that time; other readers of that topic get them
            again, too.
          </p>
        `
      }
      ${done !== null && html`<p role="status">${some(done.total, "record")} written to ${to}</p>`}
      ${
        done?.unread > 0 &&
        html`<p class="notice">
          ${some(done.unread, "offset")} could not be read, and are left out
        </p>`
      }
    <//>
  `;
}
