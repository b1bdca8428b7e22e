// New messages, live. A topic can be written faster than a page can be drawn. So messages are
// collected and the newest are drawn together a few times a second. While somebody reads, nothing
// moves: what comes meanwhile is collected and counted.
import { html, useEffect, useRef, useState } from "../html.js";
import { useEvents } from "../api.js";
import { count, some } from "../format.js";

const DRAWN_EVERY_MS = 250; // nobody reads faster, and the tab stays responsive
const KEPT = 500; // on the page, and of those that wait; older ones are removed
const SCROLLED_PX = 8;

const NOTHING = { rows: [], came: 0, left: 0, meanwhile: 0, isAnew: false, elsewhere: [] };
const EMPTY = () => ({ rows: [], came: 0, left: 0 });

/** Collects messages, and draws them unless `isReading`. */
function useCollected(isReading) {
  const [state, setState] = useState(NOTHING);
  const reading = useRef();
  const waiting = useRef(EMPTY());
  const due = useRef({ timer: null, frame: null });
  reading.current = isReading;
  const draw = () => {
    due.current = { timer: null, frame: null };
    const { rows, came, left } = waiting.current;
    if (reading.current) return setState((old) => ({ ...old, meanwhile: came }));
    waiting.current = EMPTY();
    setState((old) => ({
      ...old,
      rows: rows.length ? [...rows.reverse(), ...old.rows].slice(0, KEPT) : old.rows,
      came: old.came + came,
      left: old.left + left,
      meanwhile: 0,
    }));
  };
  const soon = () => {
    const own = due.current;
    own.timer ??= setTimeout(() => {
      own.frame = requestAnimationFrame(draw);
    }, DRAWN_EVERY_MS);
  };
  const forget = () => {
    clearTimeout(due.current.timer);
    cancelAnimationFrame(due.current.frame);
    due.current = { timer: null, frame: null };
    waiting.current = EMPTY();
  };
  useEffect(() => forget, []);
  useEffect(() => {
    if (!isReading) soon();
  }, [isReading]);
  return {
    state,
    begin: () => {
      forget();
      setState(NOTHING);
    },
    tell: (change) => setState((old) => ({ ...old, ...change })),
    take: (row) => {
      const own = waiting.current;
      own.came++;
      // a tab in the background may not be drawn for hours, so only the newest are kept
      if (own.rows.push(row) > KEPT) {
        own.rows.shift();
        own.left++;
      }
      soon();
    },
    leave: (number) => {
      waiting.current.came += number;
      waiting.current.left += number;
      soon();
    },
  };
}

/** Whether the page is scrolled down from where it was when the following began. */
function useScrolled(isOn) {
  const [isScrolled, setScrolled] = useState(false);
  useEffect(() => {
    if (!isOn) return undefined;
    let start = scrollY;
    const look = () => {
      start = Math.min(start, scrollY);
      setScrolled(scrollY > start + SCROLLED_PX);
    };
    addEventListener("scroll", look, { passive: true });
    return () => {
      removeEventListener("scroll", look);
      setScrolled(false);
    };
  }, [isOn]);
  return isScrolled;
}

/** Follows the stream of `path`; null: does not. `isOpen`: somebody reads one message. */
export function useFollowing(path, isOpen) {
  const isScrolled = useScrolled(path !== null);
  const isReading = isOpen || isScrolled;
  const { state, begin, take, leave, tell } = useCollected(isReading);
  useEffect(begin, [path]);
  const events = useEvents(path, take, {
    skipped: (event) => leave(event.offsets),
    deleted: () => tell({ isAnew: true }),
    elsewhere: (event) => tell({ elsewhere: event.partitions }),
  });
  return { ...state, ...events, isReading };
}

export function Followed({ by }) {
  const { came, left, meanwhile, isAnew, elsewhere, isCut, gaps, isReading } = by;
  const missed =
    gaps > 0 &&
    html`
      ; interrupted ${gaps === 1 ? "once" : some(gaps, "time")}: messages of these times are not
      shown
    `;
  const now = isCut
    ? "not following: the broker does not answer; this page retries"
    : isReading
      ? `paused while you read; ${some(meanwhile, "message")} came meanwhile`
      : `following new messages: ${count(came)}`;
  return html`
    <p class=${isReading ? "muted followed paused" : "muted followed"} role="status">
      ${now}
      ${left > 0 && ` … ${count(left)} messages came too fast and are not shown`}${missed}
      ${
        elsewhere.length > 0 &&
        `; not of ${some(elsewhere.length, "partition")}: ${elsewhere[0].where}`
      }
      ${isAnew && "; the topic was deleted, and new messages are of another topic with this name"}
      ${
        isReading &&
        html`
          ${" "}<button type="button" onClick=${() => scrollTo(0, 0)}>Go on</button>
        `
      }
    </p>
  `;
}
