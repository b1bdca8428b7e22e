// Schedules of exports: in words, and when they are due, in their zone and in UTC.
import { html, useEffect, useState } from "../html.js";
import { useApi } from "../api.js";

const TYPING_MS = 300;
const COUNT = 3;

export const EXAMPLES = [
  "every 15 minutes",
  "every hour at :05",
  "daily 02:00",
  "weekdays 07:30",
  "weekly Monday 03:30",
  "monthly 1 04:00",
];

export const wordsOf = (schedule) => schedule?.when ?? schedule?.cron ?? "manual";

/** Of words, which may end with one; not of cron, whose last field may be a day. */
export const zoneIn = (words) =>
  /^\s*[a-z]/i.test(words)
    ? / ([A-Z][\w+-]*\/[\w/+-]+|[A-Z]{2}[A-Z0-9+-]*)\s*$/.exec(words)?.[1]
    : undefined;

export function withZone(schedule) {
  const words = wordsOf(schedule);
  return schedule && !zoneIn(words) ? `${words} ${schedule.timezone ?? "UTC"}` : words;
}

/** What somebody types, once it rests. */
function useRested(text) {
  const [rested, rest] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => rest(text), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return rested;
}

/** The next times of a schedule, or why it is none. */
export function NextTimes({ words, zone, every = 0 }) {
  const query = new URLSearchParams({ when: words, timezone: zone, count: COUNT });
  const path = useRested(words.trim() ? `/export-schedule?${query}` : "");
  const { data, error } = useApi(path || null, every);
  if (error) return html`<span class="said bad" role="status">${error.message}</span>`;
  if (!data) return html`<span class="muted">${words.trim() ? "…" : "by hand"}</span>`;
  return html`
    <ul class="times" aria-label="Next times">
      ${data.next.map(
        (each) => html`
          <li>
            ${each.local}
            ${data.timezone !== "UTC" && html` <span class="muted">= ${each.utc}</span>`}
          </li>
        `,
      )}
    </ul>
  `;
}
