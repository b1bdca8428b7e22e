// Bytes in hex beside ASCII, and what they are if they are plainly a number.
import { html, useState } from "../html.js";
import { some, time } from "../format.js";

const WIDE = 16; // bytes in a line, half of it on a telephone
const PART = 4096; // bytes that are drawn at once
const CENTURY_MS = [946_684_800_000, 4_102_444_800_000]; // from the year 2000 to 2100

/** Characters that no text has: such data are bytes that happen to be valid UTF-8. */
export const isBinary = (text) => /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/.test(text);

export function bytesOf({ form, text }) {
  if (form !== "hex") return new TextEncoder().encode(text);
  const pairs = text.match(/../g) ?? [];
  return Uint8Array.from(pairs, (pair) => parseInt(pair, 16));
}

const pairsOf = (bytes) => [...bytes].map((each) => each.toString(16).padStart(2, "0"));

/** Four or eight bytes whose first are all 0 or all 255, as of numbers that are not huge: what they
    are as a signed number, the highest byte first, as Java writes them. Else an empty text. */
export function numberIn(bytes) {
  const high = { 4: bytes.subarray(0, 1), 8: bytes.subarray(0, 2) }[bytes.length];
  if (!high || !(high.every((each) => each === 0) || high.every((each) => each === 255))) return "";
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (bytes.length === 4) return `int32 ${view.getInt32(0)}`;
  const value = view.getBigInt64(0);
  const isTime = value >= CENTURY_MS[0] && value < CENTURY_MS[1];
  return `int64 ${value}${isTime ? `, as a time ${time(Number(value), true)}` : ""}`;
}

/** A key, a value or a header in one line: text, or bytes in hex with their number, if they are
    one. The number is one way to read the bytes, so these stand beside it. */
export function inShort(data, most = 200) {
  if (data.form !== "hex" && !isBinary(data.text.slice(0, most))) return data.text.slice(0, most);
  const bytes = bytesOf({ form: data.form, text: data.text.slice(0, most * 2) }).subarray(0, most);
  const number = bytes.length === data.size ? numberIn(bytes) : "";
  return `${pairsOf(bytes).join(" ")}${number && ` (${number})`}`;
}

function line(bytes, from, wide) {
  const part = bytes.subarray(from, from + wide);
  const ascii = String.fromCharCode(
    ...part.map((each) => (each >= 32 && each < 127 ? each : 46)), // a dot for all others
  );
  const place = from.toString(16).padStart(4, "0");
  return `${place}  ${pairsOf(part)
    .join(" ")
    .padEnd(wide * 3 - 1)}  ${ascii}`;
}

export function Hex({ data }) {
  const [most, setMost] = useState(PART);
  const bytes = bytesOf(data);
  const wide = matchMedia("(max-width: 820px)").matches ? WIDE / 2 : WIDE;
  const shown = Math.min(most, bytes.length);
  const lines = [];
  for (let from = 0; from < shown; from += wide) lines.push(line(bytes, from, wide));
  const number = bytes.length === data.size && numberIn(bytes);
  return html`
    <pre class="hex" tabindex="0">${lines.join("\n")}</pre>
    ${number && html`<p class="muted">Read as a number: ${number}</p>`}
    ${
      bytes.length > shown &&
      html`
        <button type="button" class="plain" onClick=${() => setMost(most + 4 * PART)}>
          ${some(bytes.length - shown, "byte")} more
        </button>
      `
    }
  `;
}
