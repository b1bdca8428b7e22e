// What is looked for: the fields of a search, and the buttons beside them. On a telephone the
// fields are folded, so that the first message is in sight.
import { html, useState } from "../html.js";
import { setQuery } from "../router.js";
import { ShownAs } from "../parts/schemas.js";

const LIMITS = [50, 100, 500, 1000];

/** The fields that are folded, in words. */
function inWords({ from = "newest", offset, at, partition, limit = 100, key, where }) {
  const begin =
    from === "offset" ? `offset ${offset || "?"}` : from === "time" ? at || "time ?" : from;
  const filters = [key, where].filter(Boolean).length;
  return [
    begin,
    partition ? `partition ${partition}` : "all partitions",
    `at most ${limit}`,
    filters && (filters === 1 ? "1 filter" : "2 filters"),
  ]
    .filter(Boolean)
    .join(" · ");
}

function Fields({ query, partitions, schemas, onInvalid }) {
  const from = query.from ?? "newest";
  const set = (name) => (event) => setQuery({ [name]: event.target.value });
  return html`
    <div class="row options">
      <label>
        From
        <select value=${from} onChange=${set("from")}>
          <option value="newest">newest</option>
          <option value="oldest">oldest</option>
          <option value="offset">offset</option>
          <option value="time">time</option>
        </select>
      </label>
      ${
        from === "offset" &&
        html`
          <label>
            Offset
            <input inputmode="numeric" pattern="-?[0-9]+" required value=${query.offset ?? ""}
                onInput=${set("offset")} onInvalid=${onInvalid} />
          </label>
        `
      }
      ${
        from === "time" &&
        html`
          <label>
            Time
            <input type="datetime-local" step="1" required value=${query.at ?? ""}
                onInput=${set("at")} onInvalid=${onInvalid} />
          </label>
        `
      }
      <label>
        Partition
        <select value=${query.partition ?? ""} onChange=${set("partition")}>
          <option value="">all</option>
          ${partitions.map((each) => html`<option>${each.partition}</option>`)}
        </select>
      </label>
      <label>
        Limit
        <select value=${query.limit ?? 100} onChange=${set("limit")}>
          ${LIMITS.map((limit) => html`<option>${limit}</option>`)}
        </select>
      </label>
      <label>
        Key
        <input spellcheck=${false} class="mono" style="width:11em" placeholder="any"
            value=${query.key ?? ""} onInput=${set("key")} />
      </label>
      <${ShownAs} schemas=${schemas} query=${query} set=${set} />
      <label style="flex:1 1 300px">
        Filter
        <input data-filter spellcheck=${false} class="mono"
            placeholder='value contains "refund" and value.user.id = 42'
            value=${query.where ?? ""} onInput=${set("where")} />
      </label>
    </div>
  `;
}

/** The children are the buttons of other actions. */
export function SearchForm(all) {
  const { query, isRunning, isFollowing, onSearch, onStop, onFollow, children } = all;
  const [isOpen, setOpen] = useState(false);
  return html`
    <form class="fields search-form" data-open=${isOpen || undefined}
        onSubmit=${(event) => {
          event.preventDefault();
          setOpen(false);
          onSearch();
        }}>
      <button type="button" class="plain unfold" aria-expanded=${isOpen}
          onClick=${() => setOpen(!isOpen)}>
        ${isOpen ? "▾ fold the fields" : `▸ ${inWords(query)}`}
      </button>
      <${Fields} ...${all} onInvalid=${() => setOpen(true)} />
      <div class="row">
        <button class="primary">Search</button>
        ${isRunning && html`<button type="button" onClick=${onStop}>Stop</button>`}
        <button type="button" aria-pressed=${isFollowing} onClick=${onFollow}>
          ${isFollowing ? "Stop following" : "Follow"}
        </button>
        <span style="flex:1"></span>
        <span class="row options">${children}</span>
      </div>
    </form>
  `;
}
