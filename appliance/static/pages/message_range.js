// A range of messages: downloaded as a file, or copied to another topic after a preview.
import { html, useEffect, useRef, useState } from "../html.js";
import { api } from "../api.js";
import { Dialog } from "../parts/dialog.js";
import { bytes, count, ofInput, some, time } from "../format.js";
import { pathOf } from "./message_search.js";

const FORMATS = [
  ["jsonl", "JSON lines"],
  ["csv", "CSV"],
  ["arrow", "Arrow stream"],
  ["parquet", "Parquet"],
];
const PREVIEW = 5; // messages

const boundOf = ({ kind, value }) =>
  kind === "time" ? `time:${ofInput(value)}` : kind === "offset" ? `offset:${value}` : undefined;
const first = { kind: "all", value: "" };

function End({ label, whole, chosen, choose }) {
  const { kind, value } = chosen;
  return html`
    <label>
      ${label}
      <select value=${kind} onChange=${(event) => choose({ kind: event.target.value, value: "" })}>
        <option value="all">${whole}</option>
        <option value="offset">offset</option>
        <option value="time">time</option>
      </select>
    </label>
    ${
      kind !== "all" &&
      html`
        <label>
          ${kind === "time" ? "Time" : "Offset"}
          <input required type=${kind === "time" ? "datetime-local" : "number"} step="1"
              value=${value} onInput=${(event) => choose({ kind, value: event.target.value })} />
        </label>
      `
    }
  `;
}

/** The range as the broker resolves it, as soon as it is chosen. */
function useRange(topic, partition) {
  const [from, setFrom] = useState(first);
  const [until, setUntil] = useState(first);
  const [only, setOnly] = useState(partition ?? "");
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  const asking = useRef();
  const isWhole = [from, until].every((each) => each.kind === "all" || each.value !== "");
  const asked = new URLSearchParams(
    Object.entries({ from: boundOf(from), until: boundOf(until), partition: only }).filter(
      ([, value]) => value !== undefined && value !== "",
    ),
  ).toString();
  useEffect(() => {
    const abort = new AbortController();
    setFound(null);
    setError(null);
    if (isWhole) {
      asking.current = api(`${pathOf(topic)}/range?${asked}`, { signal: abort.signal });
      asking.current.then(
        setFound,
        (refused) => refused.name === "AbortError" || setError(refused.message),
      );
    }
    return () => abort.abort();
  }, [topic, asked, isWhole]);
  /** Waits until the broker has resolved the range. */
  const cursor = async () => {
    const { cursor } = await asking.current;
    if (!cursor) throw new Error("No records in this range.");
    return cursor;
  };
  return { from, setFrom, until, setUntil, only, setOnly, found, error, cursor };
}

function Range({ range, partitions, where }) {
  const { found, error } = range;
  return html`
    <div class="row">
      <${End} label="From" whole="first record" chosen=${range.from} choose=${range.setFrom} />
      <${End} label="Up to" whole="last record" chosen=${range.until} choose=${range.setUntil} />
      <label>
        Partition
        <select value=${range.only} onChange=${(event) => range.setOnly(event.target.value)}>
          <option value="">all</option>
          ${partitions.map((each) => html`<option>${each.partition}</option>`)}
        </select>
      </label>
    </div>
    ${error && html`<p class="notice bad" role="alert">${error}</p>`}
    ${
      found &&
      html`
        <p class="muted" role="status">
          ${
            found.offsets
              ? `${some(found.offsets, "offset")} in ${some(found.partitions.length, "partition")}`
              : "No records in this range."
          }
          ${where ? html`; only messages where <code>${where}</code>` : ""}
        </p>
      `
    }
  `;
}

export function Export({ topic, partitions, partition, where, onClose }) {
  const range = useRange(topic, partition);
  const [format, setFormat] = useState("jsonl");
  const send = async () => {
    const asked = new URLSearchParams({
      format,
      cursor: await range.cursor(),
      ...(where && { filter: where }),
    });
    // an error of the filter must show here, not in the file
    const probe = new URLSearchParams({
      from: "newest",
      limit: 1,
      ...(where && { filter: where }),
    });
    await api(`${pathOf(topic)}/messages?${probe}`);
    Object.assign(document.createElement("a"), {
      href: `/api/v1${pathOf(topic)}/export?${asked}`,
      download: `${topic}.${format}`,
    }).click();
  };
  return html`
    <${Dialog} title=${`Export messages of ${topic}`} send="Download" onSend=${send}
        onClose=${onClose}>
      <div class="fields">
        <label>
          Format
          <select value=${format} onChange=${(event) => setFormat(event.target.value)}>
            ${FORMATS.map(([id, title]) => html`<option value=${id}>${title}</option>`)}
          </select>
        </label>
        <${Range} range=${range} partitions=${partitions} where=${where} />
      </div>
    <//>
  `;
}

const cut = (data) =>
  data === null
    ? html`<i class="muted">null</i>`
    : html`<span class="mono">${data.text.slice(0, 120)}</span>`;

function Preview({ found }) {
  return html`
    <p class="notice">
      ${found.next ? "At least " : ""}${some(found.count, "message")}, ${bytes(found.bytes)} in
      ${" "}
      ${some(found.scanned_offsets, "offset")}.${found.first.length ? " First messages:" : ""}
    </p>
    <${NotRead} offsets=${found.unread_offsets} what=${found.unread[0]?.what} />
    ${
      found.first.length > 0 &&
      html`
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col" class="num">Partition</th>
                <th scope="col" class="num">Offset</th>
                <th scope="col">Time</th>
                <th scope="col">Key</th>
                <th scope="col">Value</th>
              </tr>
            </thead>
            <tbody>
              ${found.first.slice(0, PREVIEW).map(
                (each) => html`
                  <tr>
                    <td class="num">${each.partition}</td>
                    <td class="num">${count(each.offset)}</td>
                    <td class="time">${time(each.timestamp_ms)}</td>
                    <td class="long">${cut(each.key)}</td>
                    <td class="long">${cut(each.value)}</td>
                  </tr>
                `,
              )}
            </tbody>
          </table>
        </div>
      `
    }
  `;
}

function NotRead({ offsets, what }) {
  return (
    offsets > 0 &&
    html`<p class="notice">
      ${some(offsets, "offset")} could not be read, and are left out: ${what}
    </p>`
  );
}

export function Replay({ topic, partitions, partition, where, onClose }) {
  const range = useRange(topic, partition);
  const [to, setTo] = useState("");
  const [preview, setPreview] = useState(null);
  const [done, setDone] = useState(null); // what was written and what was not read
  const [left, setLeft] = useState(null); // the cursor behind that: a second try goes on there
  useEffect(() => {
    setPreview(null);
    setDone(null);
    setLeft(null);
  }, [range.found?.cursor, to]);
  const send = async () => {
    const cursor = await range.cursor();
    const body = { to_topic: to, cursor, filter: where };
    if (preview === null) {
      setPreview(
        await api(`${pathOf(topic)}/replay`, { method: "POST", body: { ...body, dry_run: true } }),
      );
      return false;
    }
    let sum = done ?? { count: 0, unread: 0, what: "" };
    for (let next = left ?? cursor; next;) {
      const part = await api(`${pathOf(topic)}/replay`, {
        method: "POST",
        body: { ...body, cursor: next, dry_run: false },
      });
      sum = {
        count: sum.count + part.count,
        unread: sum.unread + part.unread_offsets,
        what: sum.what || part.unread[0]?.what,
      };
      next = part.next;
      setDone(sum);
      setLeft(next ?? "");
      if (part.stopped) throw new Error(part.stopped);
    }
    return sum.unread > 0 && left !== "" ? false : undefined; // first it is read
  };
  return html`
    <${Dialog} title=${`Replay messages of ${topic}`}
        send=${preview === null ? "Preview" : "Replay"} onSend=${send} onClose=${onClose} wide>
      <div class="fields">
        <label>
          Target topic
          <input required spellcheck=${false} value=${to}
              onInput=${(event) => setTo(event.target.value)} />
        </label>
        <${Range} range=${range} partitions=${partitions} where=${where} />
        ${preview && html`<${Preview} found=${preview} />`}
        ${done !== null && html`<p role="status">${some(done.count, "message")} written</p>`}
        ${done !== null && html`<${NotRead} offsets=${done.unread} what=${done.what} />`}
      </div>
    <//>
  `;
}
