// The live stream of the page: one connection, open while the page is visible. A browser has six
// connections to a host, so a page in the background must hold none.
import { useEffect, useState } from "./html.js";

const KEPT = 600; // samples of traffic: ten minutes
const AGAIN_MS = 2000;
// A sample comes every second. After such a silence the broker has stopped, even if its connection
// stands.
const SILENT_MS = 5000;

// the state of the broker comes from this stream alone; without the stream it is unknown
let state = { samples: [], health: undefined, skipped: 0, isCut: false, since: 0 };
let source = null,
  again = null,
  listening = null,
  heard = 0;
const watching = new Set();

function changed(change) {
  state = { ...state, ...change };
  watching.forEach((each) => each(state));
}

function grown(samples) {
  if (samples.length === 0) return state.samples;
  return [...state.samples.filter((each) => each.number < samples[0].number), ...samples].slice(
    -KEPT,
  );
}

function open() {
  close();
  source = new EventSource("/api/v1/live");
  heard = Date.now();
  const on = (name, take) =>
    source.addEventListener(name, (event) => {
      heard = Date.now();
      changed(take(JSON.parse(event.data)));
    });
  // a sample whose number is not larger than the last one is of another process: a restart
  on("traffic", ({ samples }) => ({
    samples: samples.at(-1)?.number <= state.samples.at(-1)?.number ? samples : grown(samples),
    isCut: false,
  }));
  on("health", (health) => ({ health, isCut: false }));
  on("skipped", ({ events }) => ({ skipped: state.skipped + events }));
  source.onerror = () => {
    cut();
    // the browser retries by itself unless it got an answer; then we have to
    if (source.readyState === EventSource.CLOSED) again = setTimeout(open, AGAIN_MS);
  };
  listening = setInterval(() => {
    if (Date.now() - heard > SILENT_MS) {
      cut();
      open();
    }
  }, 1000);
}

/** The state is unknown from now on. `since` is the time of the last event, through all retries. */
function cut() {
  changed({ isCut: true, since: state.isCut ? state.since : heard, health: undefined });
}

function close() {
  if (state.health) changed({ health: undefined }); // a hidden page must not show an old health
  clearInterval(listening);
  clearTimeout(again);
  source?.close();
  source = null;
}

const seen = () => (document.hidden ? close() : open());

/** For the frame: opens the stream while the frame is shown, to who may see the broker. */
export function useStream(isAllowed) {
  useEffect(() => {
    if (!isAllowed) return;
    seen();
    document.addEventListener("visibilitychange", seen);
    return () => {
      document.removeEventListener("visibilitychange", seen);
      close();
    };
  }, [isAllowed]);
}

/** What `pick` selects from the state; the caller is drawn again when that changes. */
export function useLive(pick) {
  const [value, setValue] = useState(() => pick(state));
  useEffect(() => {
    const take = (now) => setValue(pick(now));
    watching.add(take);
    take(state);
    return () => watching.delete(take);
  }, []);
  return value;
}
