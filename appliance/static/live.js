// What changes by itself: one stream of events for the page, open while somebody looks at it. A browser has six
// connections for a host, so what is in the background must hold none.
import { useEffect, useState } from "./html.js";

const KEPT = 600; // samples of traffic: ten minutes
const AGAIN_MS = 2000;
// A sample comes every second. Who says nothing for so long has stopped, though its connection may still stand.
const SILENT_MS = 5000;

// what is known of the broker is known from this stream alone: when it is lost, nothing is known
let state = { samples: [], health: undefined, skipped: 0, isCut: false, since: 0 };
let source = null, again = null, listening = null, heard = 0;
const watching = new Set();

function changed(change) {
  state = { ...state, ...change };
  watching.forEach((each) => each(state));
}

function grown(samples) {
  if (samples.length === 0) return state.samples;
  return [...state.samples.filter((each) => each.number < samples[0].number), ...samples].slice(-KEPT);
}

function open() {
  close();
  source = new EventSource("/api/v1/live");
  heard = Date.now();
  const on = (name, take) => source.addEventListener(name, (event) => { heard = Date.now(); changed(take(JSON.parse(event.data))); });
  // a sample whose number is not larger than the last is one of another process: the broker was started again
  on("traffic", ({ samples }) => ({ samples: samples.at(-1)?.number <= state.samples.at(-1)?.number ? samples : grown(samples), isCut: false }));
  on("health", (health) => ({ health, isCut: false }));
  on("skipped", ({ events }) => ({ skipped: state.skipped + events }));
  source.onerror = () => {
    cut();
    // the browser goes on trying unless it was answered; then it is for us to ask again
    if (source.readyState === EventSource.CLOSED) again = setTimeout(open, AGAIN_MS);
  };
  listening = setInterval(() => { if (Date.now() - heard > SILENT_MS) { cut(); open(); } }, 1000);
}

/** From now on nothing is known. `since`: when it was last heard of, however often is tried again. */
function cut() {
  changed({ isCut: true, since: state.isCut ? state.since : heard, health: undefined });
}

function close() {
  if (state.health) changed({ health: undefined }); // nobody listens: it is not shown as if it were of now
  clearInterval(listening);
  clearTimeout(again);
  source?.close();
  source = null;
}

const seen = () => (document.hidden ? close() : open());

/** For the frame: the stream is open as long as this is shown. */
export function useStream() {
  useEffect(() => {
    seen();
    document.addEventListener("visibilitychange", seen);
    return () => { document.removeEventListener("visibilitychange", seen); close(); };
  }, []);
}

/** What `pick` takes from {samples, health, skipped, isCut, since}; drawn again when that has changed. */
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
