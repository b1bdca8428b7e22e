// The console knows nothing that the REST API does not say; everything goes through here.
import { useCallback, useEffect, useRef, useState } from "./html.js";

const BASE = "/api/v1";

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

let onLoggedOut = () => {};
export const whenLoggedOut = (callback) => { onLoggedOut = callback; };

export async function api(path, { method = "GET", body, signal } = {}) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  let answer;
  try {
    answer = await fetch(BASE + path, {
      method, signal, headers, credentials: "same-origin", body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "The broker does not answer. It may be restarting; this page tries again.");
  }
  // an answer that was cut off is no answer; only what is refused may come without JSON
  const told = answer.status === 204 ? null : await answer.json().catch((error) => { if (answer.ok) throw error; return null; });
  if (answer.ok) return told;
  if (answer.status === 401 && !["/login", "/session"].includes(path)) onLoggedOut();
  const { code = `http_${answer.status}`, message = answer.statusText } = told?.error ?? {};
  throw new ApiError(answer.status, code, message);
}

/** What `path` says, again every `every` seconds while the page is looked at. Null path: nothing is asked. */
export function useApi(path, every = 0) {
  const [state, setState] = useState({ data: undefined, error: null, path });
  const current = useRef();
  const reload = useCallback(async () => {
    if (path === null) return;
    current.current?.abort();
    const abort = (current.current = new AbortController());
    try {
      const data = await api(path, { signal: abort.signal });
      setState({ data, error: null, path });
    } catch (error) {
      // what was known before stays in sight, beside the error
      if (error.name !== "AbortError") setState((old) => ({ data: old.path === path ? old.data : undefined, error, path }));
    }
  }, [path]);
  useEffect(() => {
    reload();
    const timer = every && setInterval(() => { if (!document.hidden) reload(); }, every * 1000);
    return () => { clearInterval(timer); current.current?.abort(); };
  }, [reload, every]);
  // an answer to another path is not an answer
  return { data: state.path === path ? state.data : undefined, error: state.path === path ? state.error : null, reload };
}

/** Server-sent events as long as the caller is on the page. The browser connects again by itself. `named`: what takes
    events of other names than "message". */
export function useEvents(path, onEvent, named = {}) {
  const latest = useRef();
  latest.current = { onEvent, named };
  useEffect(() => {
    const source = new EventSource(BASE + path);
    source.onmessage = (event) => latest.current.onEvent(JSON.parse(event.data));
    for (const name of Object.keys(named)) source.addEventListener(name, (event) => latest.current.named[name](JSON.parse(event.data)));
    return () => source.close();
  }, [path]);
}
