// Numbers for people. Offsets and counts are numbers or texts; a text is never rounded.
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"]; // as in the broker's messages
const dash = "–";
const NB = "\u00a0"; // a number and its unit stay on one line
const missing = (value) => value === null || value === undefined || Number.isNaN(value);

export function bytes(value) {
  if (missing(value)) return dash;
  let size = Number(value),
    unit = 0;
  for (; Math.abs(size) >= 1024 && unit < UNITS.length - 1; unit++) size /= 1024;
  return `${size.toFixed(unit === 0 ? 0 : 1)}${NB}${UNITS[unit]}`;
}

export const rate = (value) => (missing(value) ? dash : `${bytes(value)}/s`);

// Between two lines of a chart: what is round in the unit that is written beside them.
const powers = (base, from, to) =>
  Array.from({ length: to - from }, (_, at) => base ** (from + at));
bytes.steps = rate.steps = powers(2, 0, 50);

export function count(value) {
  if (missing(value)) return dash;
  return typeof value === "string"
    ? value.replace(/\B(?=(\d{3})+$)/g, " ")
    : Math.round(value).toLocaleString("en-US").replaceAll(",", " ");
}

/** "1 group", "3 groups". */
export const some = (value, one, more = `${one}s`) =>
  `${count(value)} ${Number(value) === 1 ? one : more}`;

/** As one word of a shell: who copies a command runs nothing that somebody put into a name. */
export const word = (text) =>
  /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

export function short(value) {
  if (missing(value)) return dash;
  if (value < 10000) return count(value);
  const step = value >= 999.5e6 ? [1e9, "G"] : value >= 999.5e3 ? [1e6, "M"] : [1e3, "k"];
  return `${(value / step[0]).toPrecision(3)} ${step[1]}`;
}

const two = (large, unit, small, smaller) =>
  small ? `${large}${NB}${unit} ${small}${NB}${smaller}` : `${large}${NB}${unit}`;

export function duration(seconds) {
  if (missing(seconds)) return dash;
  const s = Math.abs(seconds);
  if (s < 0.00005) return `0${NB}s`;
  if (s < 0.00095) return `${(s * 1000).toFixed(1)}${NB}ms`;
  if (s < 0.9995) return `${Math.round(s * 1000)}${NB}ms`;
  if (s < 59.95) return `${s < 9.95 ? s.toFixed(1) : Math.round(s)}${NB}s`;
  if (s < 3599.5) return two(Math.floor(Math.round(s) / 60), "min", Math.round(s) % 60, "s");
  if (s < 86400) return two(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "min");
  if (s < 365 * 86400) return two(Math.floor(s / 86400), "d", Math.floor((s % 86400) / 3600), "h");
  return `${(s / 86400 / 365).toFixed(1)}${NB}years`;
}

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
duration.steps = [
  ...powers(10, -4, 1).flatMap((each) =>
    [1, 2, 5].map((times) => Number((each * times).toPrecision(1))),
  ),
  ...[10, 15, 30],
  ...[1, 2, 5, 10, 15, 30].map((each) => each * MINUTE),
  ...[1, 2, 3, 6, 12].map((each) => each * HOUR),
  ...[1, 2, 5, 10, 30, 100, 365].map((each) => each * DAY),
];

const pad = (value, size = 2) => String(value).padStart(size, "0");

const ZONE = "zone";
/** The browser's zone, or UTC for who compares with a server's log. */
export const isUtc = () => localStorage.getItem(ZONE) === "utc";
export function setUtc(wanted) {
  localStorage.setItem(ZONE, wanted ? "utc" : "local");
}

const localZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;
function offset() {
  const minutes = -new Date().getTimezoneOffset();
  const size = Math.abs(minutes);
  return `UTC${minutes < 0 ? "-" : "+"}${pad(Math.floor(size / 60))}:${pad(size % 60)}`;
}
/** "Europe/Berlin, UTC+01:00", or "UTC". */
export const zoneName = () =>
  isUtc() || localZone() === "UTC" ? "UTC" : `${localZone()}, ${offset()}`;
export const localZoneName = localZone;

/** In the zone of one's choice: 2026-11-26T10:15:02.123. */
function iso(ms) {
  const at = Number(ms);
  const shift = isUtc() ? 0 : new Date(at).getTimezoneOffset() * 60_000;
  return new Date(at - shift).toISOString().slice(0, 23);
}

export const clock = (ms) => iso(ms).slice(11, 19);

export function time(ms, withMs = false) {
  if (missing(ms) || ms < 0 || ms > 8.64e15 - 864e5) return dash;
  return iso(ms)
    .replace("T", " ")
    .slice(0, withMs ? 23 : 19);
}

/** What a field for a time takes and gives, in the zone of one's choice; milliseconds. */
export const inputTime = (ms) => iso(ms).slice(0, 16);
export const ofInput = (value) => (value ? Date.parse(isUtc() ? `${value}Z` : value) : NaN);

/** A span of time; the day of both ends is written once. */
export function span(from, to) {
  if (missing(from) || from < 0) return time(to);
  const [first, last] = [time(from), time(to)];
  return `${first} – ${first.slice(0, 10) === last.slice(0, 10) ? last.slice(11) : last}`;
}

export const ago = (ms, now = Date.now()) =>
  missing(ms) || ms < 0
    ? dash
    : now - ms < 1000
      ? "just now"
      : `${duration((now - ms) / 1000)} ago`;
export const percent = (share) =>
  missing(share) ? dash : `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)}${NB}%`;
