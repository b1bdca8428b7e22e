// Requests to the REST API. The console has no other source of data.
import { useCallback, useEffect, useRef, useState } from "./html.js";
import { useLive } from "./live.js";

const BASE = "/api/v1";
const AGAIN_MS = 2000;

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

let onLoggedOut = () => {};
export const whenLoggedOut = (callback) => {
  onLoggedOut = callback;
};

export async function api(path, { method = "GET", body, signal } = {}) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  let answer;
  try {
    answer = await fetch(BASE + path, {
      method,
      signal,
      headers,
      credentials: "same-origin",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(
      0,
      "unreachable",
      "The broker does not answer. It may be restarting. This page retries.",
    );
  }
  // an answer that was cut off is an error; only a refusal may come without JSON
  const answered =
    answer.status === 204
      ? null
      : await answer.json().catch((error) => {
          if (answer.ok) throw error;
          return null;
        });
  if (answer.ok) return answered;
  if (answer.status === 401 && !["/login", "/session"].includes(path)) onLoggedOut();
  const { code = `http_${answer.status}`, message = answer.statusText } = answered?.error ?? {};
  throw new ApiError(answer.status, code, message);
}

/** Whether the same request may succeed soon: the broker begins, ends, or has much to do. */
const mayPass = ({ name, status }) => name !== "AbortError" && !(status > 0 && status < 500);

/** The response of `path`, requested again every `every` seconds while the page is visible, when
    the broker is back, and where it could not answer. A null path sends no request. `at` is the
    time of the last response. After an error `data` is still that response. */
export function useApi(path, every = 0) {
  const [state, setState] = useState({ data: undefined, error: null, path, at: 0 });
  const isCut = useLive((now) => now.isCut);
  const current = useRef();
  const again = useRef();
  const wasCut = useRef(isCut);
  const reload = useCallback(async () => {
    if (path === null) return;
    current.current?.abort();
    clearTimeout(again.current);
    const abort = (current.current = new AbortController());
    try {
      const data = await api(path, { signal: abort.signal });
      setState({ data, error: null, path, at: Date.now() });
    } catch (error) {
      // the last answer stays visible beside the error and is marked as old, but not after a 404
      const isGone = error.status === 404;
      if (error.name !== "AbortError")
        setState((old) => ({
          ...old,
          data: old.path === path && !isGone ? old.data : undefined,
          error,
          path,
        }));
      if (!every && mayPass(error)) again.current = setTimeout(reload, AGAIN_MS);
    }
  }, [path, every]);
  useEffect(() => {
    reload();
    const timer =
      every &&
      setInterval(() => {
        if (!document.hidden) reload();
      }, every * 1000);
    return () => {
      clearInterval(timer);
      clearTimeout(again.current);
      current.current?.abort();
    };
  }, [reload, every]);
  useEffect(() => {
    if (wasCut.current && !isCut) reload();
    wasCut.current = isCut;
  }, [isCut, reload]);
  // a response to another path does not count
  return {
    data: state.path === path ? state.data : undefined,
    error: state.path === path ? state.error : null,
    at: state.at,
    isCut,
    reload,
  };
}

/** Server-sent events while the caller is on the page; none of a null path. `named` has a handler
    for each event name other than "message". Returns whether the stream is interrupted, and how
    often it was. Events during an interruption are lost. */
export function useEvents(path, onEvent, named = {}) {
  const latest = useRef();
  latest.current = { onEvent, named };
  const [state, setState] = useState({ isCut: false, gaps: 0 });
  useEffect(() => {
    if (path === null) return undefined;
    let source, again;
    setState({ isCut: false, gaps: 0 });
    const open = () => {
      source = new EventSource(BASE + path);
      source.onmessage = (event) => latest.current.onEvent(JSON.parse(event.data));
      for (const name of Object.keys(named))
        source.addEventListener(name, (event) =>
          latest.current.named[name](JSON.parse(event.data)),
        );
      source.onopen = () => setState((old) => (old.isCut ? { ...old, isCut: false } : old));
      source.onerror = () => {
        setState((old) => (old.isCut ? old : { isCut: true, gaps: old.gaps + 1 }));
        // the browser retries by itself unless it got an answer; then we have to
        if (source.readyState === EventSource.CLOSED) again = setTimeout(open, AGAIN_MS);
      };
    };
    open();
    return () => {
      clearTimeout(again);
      source.close();
    };
  }, [path]);
  return state;
}
