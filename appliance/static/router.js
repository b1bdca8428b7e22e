// The route is behind the # of the address, so a bookmark keeps a filter or an open topic.
import { useEffect, useState } from "./html.js";

export function parse(hash) {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  return { parts, query: Object.fromEntries(new URLSearchParams(query)) };
}

export function href(parts, query = {}) {
  const set = Object.entries(query).filter(
    ([, value]) => value !== "" && value !== null && value !== undefined,
  );
  const text = new URLSearchParams(set).toString();
  return "#/" + parts.map(encodeURIComponent).join("/") + (text ? "?" + text : "");
}

export const go = (parts, query) => {
  location.hash = href(parts, query);
};

export function useRoute() {
  const [route, setRoute] = useState(() => parse(location.hash));
  useEffect(() => {
    const changed = () => setRoute(parse(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

/** Changes the query of the route without a new entry in the browser's history. */
export function setQuery(change) {
  const { parts, query } = parse(location.hash);
  history.replaceState(null, "", href(parts, { ...query, ...change }));
  dispatchEvent(new HashChangeEvent("hashchange"));
}
