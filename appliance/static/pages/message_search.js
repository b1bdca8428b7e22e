// A search through the messages of a topic: many requests, with progress and a stop button.
import { html, useEffect, useRef, useState } from "../html.js";
import { api } from "../api.js";
import { asWords } from "../parts/schemas.js";
import { count, ofInput, percent, some } from "../format.js";

export const pathOf = (topic) => `/topics/${encodeURIComponent(topic)}`;

function begin({ from = "newest", offset = "", at = "" }) {
  if (from === "offset") return `offset:${offset || 0}`;
  return from === "time" ? `time:${at ? ofInput(at) : 0}` : from;
}

/** The key of the form is one more condition of the filter. */
export const conditions = ({ key, where }) =>
  [key && `key = ${JSON.stringify(key)}`, where].filter(Boolean).join(" and ");

export function words(query, found, cursor) {
  const limit = Number(query.limit ?? 100);
  const text = new URLSearchParams({ from: begin(query), limit: Math.max(1, limit - found) });
  if (query.partition) text.set("partition", query.partition);
  if (conditions(query)) text.set("filter", conditions(query));
  if (cursor) text.set("cursor", cursor);
  for (const [name, word] of asWords(query)) text.set(name, word);
  return text;
}

/** A search is many requests. It can be stopped between two of them. */
export function useSearch(topic) {
  const [state, setState] = useState({ rows: [], status: "idle", scanned: 0, left: 0 });
  const running = useRef(0);
  const stop = () => {
    running.current++;
    setState((old) => ({ ...old, status: "stopped" }));
  };
  const start = async (query) => {
    const own = ++running.current;
    const limit = Number(query.limit ?? 100);
    const { from } = query;
    let found = { rows: [], from, status: "running", scanned: 0, left: 0, problems: 0 },
      cursor = null;
    setState(found);
    try {
      do {
        const look = await api(
          `${pathOf(topic)}/messages?${words(query, found.rows.length, cursor)}`,
        );
        if (own !== running.current) return;
        cursor = look.next;
        const rows = [...found.rows, ...look.messages];
        const isDone = look.is_complete || rows.length >= limit || !cursor;
        found = {
          rows,
          from,
          status: isDone ? "ended" : "running",
          scanned: found.scanned + look.scanned_offsets,
          left: look.left_offsets,
          problems: found.problems + look.problems.length,
          elsewhere: found.elsewhere ?? look.problems.map((each) => each.what).find(isElsewhere),
          isAll: look.is_complete,
        };
        setState(found);
      } while (found.status === "running");
    } catch (error) {
      if (own === running.current) setState({ ...found, status: "failed", error: error.message });
    }
  };
  useEffect(
    () => () => {
      running.current++;
    },
    [],
  );
  return { ...state, start, stop };
}

const isElsewhere = (what) => what.startsWith("not on this broker");

export function Status({ search }) {
  const { status, scanned, left, rows, error, problems, isAll, elsewhere } = search;
  if (status === "failed") return html`<p class="notice bad" role="alert">${error}</p>`;
  const looked = count(scanned);
  const share = percent(scanned / (scanned + left || 1));
  const progress = `${looked} of ${count(scanned + left)} offsets searched (${share})`;
  const rest = isAll ? "" : `; ${count(left)} not searched`;
  const text = {
    idle: "",
    running: `searching: ${progress}, ${some(rows.length, "match", "matches")}`,
    stopped: `stopped after ${looked} offsets, ${some(rows.length, "match", "matches")}${rest}`,
    ended: rows.length
      ? `${some(rows.length, "match", "matches")} in ${some(scanned, "offset")}${rest}`
      : scanned
        ? `No match in ${some(scanned, "offset")}.`
        : "No records in this range.",
  }[status];
  return html`
    <p class="muted" role="status">
      ${text}${problems && !elsewhere ? ` ${problems} batches are unreadable.` : ""}
      ${elsewhere && ` Not everything can be read here (${problems}): ${elsewhere}.`}
    </p>
  `;
}
