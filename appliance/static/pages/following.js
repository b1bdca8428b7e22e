// Messages as they are written. A topic can be written far faster than a page can be drawn: what comes is gathered, a few
// times a second the newest of it are drawn together, and of the rest is told how many they were.
import { html, useEffect, useRef, useState } from "../html.js";
import { useEvents } from "../api.js";
import { count, some } from "../format.js";

const DRAWN_EVERY_MS = 250; // nobody reads faster, and the tab has time for whoever clicks
const DRAWN_MAX = 100; // messages at a time: 400 a second
export const KEPT = 500; // on the page, which takes about 10 ms to draw; older ones leave it

/** Gathers what is given one by one. `onRows` gets the newest first; answers what takes one, and how many were left out. */
function useGathered(onRows) {
  const [left, setLeft] = useState(0);
  const latest = useRef(), waiting = useRef({ rows: [], left: 0, timer: null, frame: null });
  latest.current = onRows;
  useEffect(() => () => { clearTimeout(waiting.current.timer); cancelAnimationFrame(waiting.current.frame); }, []);
  const draw = () => {
    const { rows, left: more } = waiting.current;
    waiting.current = { rows: [], left: 0, timer: null, frame: null };
    if (rows.length) latest.current(rows.reverse());
    if (more) setLeft((old) => old + more);
  };
  const soon = () => {
    const own = waiting.current;
    own.timer ??= setTimeout(() => { own.frame = requestAnimationFrame(draw); }, DRAWN_EVERY_MS);
  };
  return {
    left,
    take: (row) => {
      const own = waiting.current;
      // no more than is drawn is kept: a tab in the background is not drawn for hours
      if (own.rows.push(row) > DRAWN_MAX) { own.rows.shift(); own.left++; }
      soon();
    },
    leave: (number) => { waiting.current.left += number; soon(); },
  };
}

export function Following({ path, onRows }) {
  const { left, take, leave } = useGathered(onRows);
  const [isAnew, setAnew] = useState(false);
  const { isCut, gaps } = useEvents(path, take, { skipped: (told) => leave(told.offsets), deleted: () => setAnew(true) });
  const missed = gaps > 0 && html`; interrupted ${gaps === 1 ? "once" : some(gaps, "time")}, and what was written meanwhile is not shown`;
  return html`<p class="muted" role="status">${isCut ? "not following: the broker does not answer; this page tries again" : "following what is written"}${left > 0 && ` … ${count(left)} more came too fast and are not shown`}${missed}${isAnew && "; the topic was deleted meanwhile, and whatever comes is of another one of its name"}</p>`;
}
