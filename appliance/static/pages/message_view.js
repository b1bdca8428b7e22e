// One message, whole: key, value and headers; the one before and the one behind it; its address.
import { html, useEffect, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { href } from "../router.js";
import { Facts } from "../parts/bits.js";
import { Copy } from "../parts/copy.js";
import { Dialog } from "../parts/dialog.js";
import { asWords } from "../parts/schemas.js";
import { bytes, count, time } from "../format.js";
import { Part, Headers } from "./message_parts.js";
import { pathOf } from "./message_search.js";

const WHOLE_BYTES_MAX = 1 << 20; // larger ones are shown whole when somebody wants it
const AROUND = 20; // messages before the one that a link names

export const size = (each) => (each.key?.size ?? 0) + (each.value?.size ?? 0);
export const placeOf = (each) => `${each.partition}:${each.offset}`;
export const isAt = (place) => (each) => placeOf(each) === placeOf(place);

/** The place that an address names, or null. */
export function placeIn(text = "") {
  const found = /^(\d{1,9}):(\d{1,16})$/.exec(text);
  return found && { partition: Number(found[1]), offset: Number(found[2]) };
}

const schemaWords = (query) =>
  asWords(query)
    .map(([name, word]) => `&${name}=${word}`)
    .join("");

/** The address of this message, with those around it for a list. */
function linkTo(topic, place, query) {
  const hash = href(["topics", topic], {
    tab: "messages",
    from: "offset",
    offset: Math.max(0, place.offset - AROUND),
    partition: place.partition,
    ...Object.fromEntries(asWords(query)),
    record: placeOf(place),
  });
  return new URL(hash, location.href).href;
}

/** The message at this place: the beginning of a long one, or all of it. */
function useMessage(topic, place, query) {
  const at = `from=offset:${place.offset}&partition=${place.partition}&limit=1`;
  const path = `${pathOf(topic)}/messages?${at}${schemaWords(query)}`;
  const [wanted, want] = useState(null);
  const begun = useApi(path);
  const found = begun.data?.messages.find(isAt(place));
  const isCut = Boolean(found?.key?.is_cut || found?.value?.is_cut);
  const isWhole = wanted === path || (isCut && size(found) <= WHOLE_BYTES_MAX);
  const whole = useApi(isCut && isWhole ? `${path}&full=true` : null);
  return {
    message: whole.data?.messages.find(isAt(place)) ?? found,
    isCut: isCut && !isWhole,
    error: begun.error ?? whole.error,
    isThere: begun.data === undefined || found !== undefined,
    load: () => want(path),
  };
}

/** Why there is no message at a place. */
function whyNot({ partition, offset }, partitions) {
  const log = partitions.find((each) => each.partition === partition);
  if (log && offset < log.log_start_offset)
    return `It was deleted: the partition starts at ${count(log.log_start_offset)}.`;
  if (log && offset >= log.high_watermark)
    return `It is not written, or not visible yet: readers see up to ${count(log.high_watermark)}.`;
  return "It was compacted away, or is a marker or an aborted message of a transaction.";
}

/** Of the partition, where the list does not have the message: the next place, or null. */
async function beside(topic, { partition, offset }, step, partitions) {
  const log = partitions.find((each) => each.partition === partition);
  const end = Math.min(offset, log?.high_watermark ?? offset);
  let words =
    step > 0
      ? `from=offset:${offset + 1}&partition=${partition}`
      : `from=newest&cursor=${partition}:0:${end}`;
  for (;;) {
    const look = await api(`${pathOf(topic)}/messages?${words}&limit=1`);
    if (look.messages.length || look.is_complete || !look.next) return look.messages[0] ?? null;
    const from = step > 0 ? "oldest" : "newest";
    words = `from=${from}&cursor=${encodeURIComponent(look.next)}`;
  }
}

/** The steps to the messages beside it: in the list if that has them, else in its partition. */
function useSteps({ topic, partitions, place, rows, onMove }) {
  const [said, say] = useState("");
  const index = rows.findIndex(isAt(place));
  const step = async (by) => {
    say("");
    if (index >= 0) {
      const next = rows[index + by];
      if (next) onMove(next);
      return;
    }
    if (by < 0 && place.offset === 0) return say("this is the first");
    try {
      const found = await beside(topic, place, by, partitions);
      if (found) onMove(found);
      else say(by > 0 ? "this is the last" : "this is the first");
    } catch (error) {
      say(error.message);
    }
  };
  useEffect(() => {
    const pressed = (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
      if (event.target.matches("input, select, textarea")) return;
      event.preventDefault();
      step(by);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
  return {
    step,
    where: said || (index >= 0 ? `${index + 1} of ${rows.length}` : ""),
    isFirst: index === 0,
    isLast: index >= 0 && index === rows.length - 1,
  };
}

const forCopy = (data) =>
  data === null || data === undefined ? null : data.form === "hex" ? { hex: data.text } : data.text;

const asJson = (topic, each) =>
  JSON.stringify(
    {
      topic,
      partition: each.partition,
      offset: each.offset,
      timestamp_ms: each.timestamp_ms,
      key: forCopy(each.key),
      value: forCopy(each.value),
      headers: each.headers.map(({ name, value }) => ({ name, value: forCopy(value) })),
    },
    null,
    2,
  );

function Steps({ steps, children }) {
  return html`
    <div class="row steps">
      <button type="button" disabled=${steps.isFirst} title="Arrow left"
          onClick=${() => steps.step(-1)}>
        ← Previous
      </button>
      <button type="button" disabled=${steps.isLast} title="Arrow right"
          onClick=${() => steps.step(1)}>
        Next →
      </button>
      <span class="muted" role="status">${steps.where}</span>
      <span style="flex:1"></span>
      ${children}
    </div>
  `;
}

export function Whole(all) {
  const { topic, partitions, place, rows, query, onClose } = all;
  const steps = useSteps(all);
  const found = useMessage(topic, place, query);
  const whole = found.message ?? (found.isThere ? rows.find(isAt(place)) : undefined);
  return html`
    <${Dialog} title=${`${topic}-${place.partition}, offset ${count(place.offset)}`} cancel="Close"
        onClose=${onClose} wide>
      <${Steps} steps=${steps}>
        <${Copy} title="copy link" text=${() => linkTo(topic, place, query)} />
        ${
          whole &&
          !found.isCut &&
          html`<${Copy} title="copy as JSON" text=${() => asJson(topic, whole)} />`
        }
      <//>
      ${found.error && html`<p class="notice bad" role="alert">${found.error.message}</p>`}
      ${
        !found.isThere &&
        html`
          <p class="notice warn" role="alert">
            There is no message at this offset. ${whyNot(place, partitions)}
          </p>
        `
      }
      ${
        whole &&
        html`
          <${Facts} rows=${[
            ["Time", time(whole.timestamp_ms, true)],
            ["Size", bytes(size(whole))],
          ]} />
          ${
            found.isCut &&
            html`
              <p class="notice">
                Only the beginning is shown.${" "}
                <button type="button" onClick=${found.load}>Load all ${bytes(size(whole))}</button>
              </p>
            `
          }
          ${[
            ["Key", whole.key],
            ["Value", whole.value],
          ].map(
            ([name, data]) => html`
              <${Part} key=${`${name} ${placeOf(place)}`} name=${name} data=${data} />
            `,
          )}
          <${Headers} rows=${whole.headers} />
        `
      }
    <//>
  `;
}
