// What changes by itself: one stream of events for the page, open while somebody looks at it. A browser has six
// connections for a host, so what is in the background must hold none.
import { useEffect, useState } from "./html.js";

const KEPT = 600; // samples of traffic: ten minutes
const AGAIN_MS = 2000;

let state = { samples: [], health: undefined, skipped: 0, isCut: false };
let source = null, again = null;
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
  const on = (name, take) => source.addEventListener(name, (event) => changed(take(JSON.parse(event.data))));
  // a sample whose number is not larger than the last is one of another process: the broker was started again
  on("traffic", ({ samples }) => ({ samples: samples.at(-1)?.number <= state.samples.at(-1)?.number ? samples : grown(samples), isCut: false }));
  on("health", (health) => ({ health, isCut: false }));
  on("skipped", ({ events }) => ({ skipped: state.skipped + events }));
  source.onerror = () => {
    changed({ isCut: true });
    // the browser goes on trying unless it was answered; then it is for us to ask again
    if (source.readyState === EventSource.CLOSED) again = setTimeout(open, AGAIN_MS);
  };
}

function close() {
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

/** What `pick` takes from {samples, health, skipped, isCut}; drawn again when that has changed. */
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
