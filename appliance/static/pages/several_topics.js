// Several topics at once: the requests, and the dialogs with a result line for each.
import { html, useEffect, useState } from "../html.js";
import { api } from "../api.js";
import { Badge } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { some } from "../format.js";

const AT_ONCE = 50; // topics in one request: results come bit by bit

/** The result of each topic. `onPart` gets those that there are, after each request. */
export async function several(what, topics, body, onPart = () => {}) {
  const found = [];
  for (let first = 0; first < topics.length; first += AT_ONCE) {
    const part = { ...body, topics: topics.slice(first, first + AT_ONCE) };
    const answer = await api(`/several-topics/${what}`, { method: "POST", body: part });
    found.push(...answer.results);
    onPart([...found]);
  }
  return found;
}

const LEVELS = { deleted: "good", changed: "good", unchanged: "good", refused: "bad" };
export const inWords = (value, words) => words || value || "–";

const changed = ({ name, before, after, before_words: was, after_words: is }) =>
  `${name}: ${inWords(before, was)} → ${inWords(after, is)}`;

const told = ({ text, changes }) => [text, ...changes.map(changed)].filter(Boolean).join("; ");

export const Results = ({ results, label }) => html`
  <ul class="results" aria-label=${label} aria-live="polite" tabindex="0">
    ${results.map(
      (each) => html`
        <li key=${each.topic}>
          <b>${each.topic}</b>
          ${" "}
          <${Badge} level=${LEVELS[each.outcome] ?? ""}>${each.outcome}<//>
          ${" "}
          <span class="muted">${told(each)}</span>
        </li>
      `,
    )}
  </ul>
`;

/** First what would go, then what became of each. */
export function DeleteTopics({ topics, onClose }) {
  const [plan, setPlan] = useState(null);
  const [results, setResults] = useState(null);
  const [error, setError] = useState("");
  useEffect(() => {
    several("delete", topics, { dry_run: true }).then(setPlan, (it) => setError(it.message));
  }, []);
  const wanted = (plan ?? []).filter((each) => each.outcome !== "refused");
  const remove = async () => {
    const names = wanted.map((each) => each.topic);
    await several("delete", names, { dry_run: false }, setResults);
    return false;
  };
  const what = some(wanted.length, "topic");
  const isToDo = wanted.length > 0 && !results;
  return html`
    <${Dialog} title=${`Delete ${some(topics.length, "topic")}`} danger
        send=${`Delete ${what}`} confirm=${isToDo ? `delete ${what}` : undefined}
        cancel=${results ? "Close" : "Cancel"} onSend=${isToDo ? remove : undefined}
        onClose=${onClose}>
      ${error && html`<p class="notice bad" role="alert">${error}</p>`}
      ${!plan && !error && html`<p class="muted" aria-busy="true">…</p>`}
      ${plan && html`<${Results} results=${results ?? plan} label="Topics" />`}
      ${isToDo && html`<p>These topics are deleted with their records. This cannot be undone.</p>`}
    <//>
  `;
}
