// Which time a page shows. It is in the address, so a bookmark keeps it.
import { html } from "../html.js";
import { setQuery } from "../router.js";
import { inputTime, ofInput, zoneName } from "../format.js";

const MINUTE_S = 60,
  HOUR_S = 3600,
  DAY_S = 86_400;
const LAST = {
  "15m": ["15 minutes", 15 * MINUTE_S],
  "1h": ["hour", HOUR_S],
  "6h": ["6 hours", 6 * HOUR_S],
  "1d": ["day", DAY_S],
  "7d": ["week", 7 * DAY_S],
  "30d": ["30 days", 30 * DAY_S],
};
const FIRST = "1h";

/** `from_s` and `to_s`; `isNow`: the end is now, whenever that is. */
export function rangeOf({ last, from, to }, now = Date.now()) {
  const now_s = Math.ceil(now / 1000);
  if (from && to && Number(from) < Number(to))
    return { from_s: Number(from), to_s: Number(to), isNow: false };
  const [, seconds] = LAST[last] ?? LAST[FIRST];
  return { from_s: now_s - seconds, to_s: now_s, isNow: true };
}

export function TimeRange({ query }) {
  const { from_s, to_s, isNow } = rangeOf(query);
  const chosen = isNow ? (query.last in LAST ? query.last : FIRST) : "own";
  const choose = (event) =>
    event.target.value === "own"
      ? setQuery({ last: "", from: from_s, to: to_s })
      : setQuery({ last: event.target.value, from: "", to: "" });
  const set = (name) => (event) => {
    const at = ofInput(event.target.value);
    if (!Number.isNaN(at)) setQuery({ last: "", from: from_s, to: to_s, [name]: at / 1000 });
  };
  return html`
    <fieldset class="range">
      <legend class="hidden-text">Time shown</legend>
      <label>
        Time${" "}
        <select name="last" value=${chosen} onChange=${choose}>
          ${Object.entries(LAST).map(
            ([key, [words]]) => html`<option value=${key}>the last ${words}</option>`,
          )}
          <option value="own">from … to …</option>
        </select>
      </label>
      ${
        !isNow &&
        html`
          <label>from <input type="datetime-local" value=${inputTime(from_s * 1000)}
              onChange=${set("from")} /></label>
          <label>to <input type="datetime-local" value=${inputTime(to_s * 1000)}
              onChange=${set("to")} /></label>
        `
      }
      <span class="muted">${zoneName()}</span>
    </fieldset>
  `;
}
