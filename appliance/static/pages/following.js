// New messages, live. A topic can be written faster than a page can be drawn. So messages are
// collected and the newest are drawn together a few times a second. The rest is only counted.
import { html, useEffect, useRef, useState } from "../html.js";
import { useEvents } from "../api.js";
import { count, some } from "../format.js";

const DRAWN_EVERY_MS = 250; // nobody reads faster, and the tab stays responsive
const DRAWN_MAX = 100; // messages at a time: 400 a second
export const KEPT = 500; // on the page, which takes about 10 ms to draw; older ones are removed

/** Collects messages. `onRows` gets the newest first. Returns `take` for a message, `leave` for
    messages that the broker skipped, and the number of skipped ones. */
function useCollected(onRows) {
  const [left, setLeft] = useState(0);
  const latest = useRef();
  const waiting = useRef({ rows: [], left: 0, timer: null, frame: null });
  latest.current = onRows;
  useEffect(
    () => () => {
      clearTimeout(waiting.current.timer);
      cancelAnimationFrame(waiting.current.frame);
    },
    [],
  );
  const draw = () => {
    const { rows, left: more } = waiting.current;
    waiting.current = { rows: [], left: 0, timer: null, frame: null };
    if (rows.length) latest.current(rows.reverse());
    if (more) setLeft((old) => old + more);
  };
  const soon = () => {
    const own = waiting.current;
    own.timer ??= setTimeout(() => {
      own.frame = requestAnimationFrame(draw);
    }, DRAWN_EVERY_MS);
  };
  return {
    left,
    take: (row) => {
      const own = waiting.current;
      // a tab in the background may not be drawn for hours, so only the newest are kept
      if (own.rows.push(row) > DRAWN_MAX) {
        own.rows.shift();
        own.left++;
      }
      soon();
    },
    leave: (number) => {
      waiting.current.left += number;
      soon();
    },
  };
}

export function Following({ path, onRows }) {
  const { left, take, leave } = useCollected(onRows);
  const [isAnew, setAnew] = useState(false);
  const [elsewhere, setElsewhere] = useState([]);
  const { isCut, gaps } = useEvents(path, take, {
    skipped: (event) => leave(event.offsets),
    deleted: () => setAnew(true),
    elsewhere: (event) => setElsewhere(event.partitions),
  });
  const missed =
    gaps > 0 &&
    html`
      ; interrupted ${gaps === 1 ? "once" : some(gaps, "time")}: messages of these times are not
      shown
    `;
  return html`
    <p class="muted" role="status">
      ${
        isCut
          ? "not following: the broker does not answer; this page retries"
          : "following new messages"
      }
      ${left > 0 && ` … ${count(left)} messages came too fast and are not shown`}${missed}
      ${
        elsewhere.length > 0 &&
        `; not of ${some(elsewhere.length, "partition")}: ${elsewhere[0].where}`
      }
      ${isAnew && "; the topic was deleted, and new messages are of another topic with this name"}
    </p>
  `;
}
