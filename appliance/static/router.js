// Addresses stand behind the #, so that a filter or an opened topic can be kept as a bookmark.
import { useEffect, useState } from "./html.js";

export function parse(hash) {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  return { parts, query: Object.fromEntries(new URLSearchParams(query)) };
}

export function href(parts, query = {}) {
  const set = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const text = new URLSearchParams(set).toString();
  return "#/" + parts.map(encodeURIComponent).join("/") + (text ? "?" + text : "");
}

export const go = (parts, query) => { location.hash = href(parts, query); };

export function useRoute() {
  const [route, setRoute] = useState(() => parse(location.hash));
  useEffect(() => {
    const changed = () => setRoute(parse(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

/** Changes what stands behind the ?, without a step in the browser's history for every key. */
export function setQuery(change) {
  const { parts, query } = parse(location.hash);
  history.replaceState(null, "", href(parts, { ...query, ...change }));
  dispatchEvent(new HashChangeEvent("hashchange"));
}
