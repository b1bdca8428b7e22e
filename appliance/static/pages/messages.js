// The messages of a topic: a search in steps, with progress and a stop button, or the live stream.
import { html, useEffect, useMemo, useState } from "../html.js";
import { setQuery } from "../router.js";
import { Act, refusal } from "../parts/rights.js";
import { SchemaDialog, asWords, useSchemas } from "../parts/schemas.js";
import { Followed, useFollowing } from "./following.js";
import { Write } from "./message_produce.js";
import { Columns, columnsIn } from "./message_columns.js";
import { SearchForm } from "./message_form.js";
import { Export, Replay } from "./message_range.js";
import { pathOf, conditions, useSearch, Status } from "./message_search.js";
import { MessageTable } from "./message_table.js";
import { placeIn, placeOf, Whole } from "./message_view.js";

const openMessage = (each) => setQuery({ record: placeOf(each) });
const closeMessage = () => setQuery({ record: "" });
const oldestFirst = (a, b) => a.timestamp_ms - b.timestamp_ms || a.offset - b.offset;
/** Where the search began is on top. */
const orderOf = ({ from = "newest" }) =>
  from === "newest" ? (a, b) => oldestFirst(b, a) : oldestFirst;

function livePath(topic, query) {
  const filter = [query.partition && `partition = ${query.partition}`, conditions(query)]
    .filter(Boolean)
    .join(" and ");
  const words = new URLSearchParams([...(filter ? [["filter", filter]] : []), ...asWords(query)]);
  return `${pathOf(topic)}/messages/live?${words}`;
}

export function Messages({ topic, partitions, query, me, allowed }) {
  const why = (operation) => refusal(me, allowed, operation, `topic ${topic}`);
  const search = useSearch(topic);
  const schemas = useSchemas(topic);
  const opened = placeIn(query.record);
  const columns = useMemo(() => columnsIn(query), [query.columns]);
  const [asking, ask] = useState(null);
  const [isFollowing, setFollowing] = useState(false);
  const isReading = opened !== null || asking !== null;
  const followed = useFollowing(isFollowing ? livePath(topic, query) : null, isReading);
  const look = () => {
    setFollowing(false);
    search.start(query);
  };
  useEffect(look, []);
  const found = useMemo(() => [...search.rows].sort(orderOf(search)), [search.rows]);
  const rows = isFollowing ? followed.rows : found;
  const close = () => {
    ask(null);
    if (!isFollowing) look();
  };
  return html`
    <section class="card fields">
      <${SearchForm} query=${query} partitions=${partitions} schemas=${schemas.data}
          isRunning=${search.status === "running"} isFollowing=${isFollowing} onSearch=${look}
          onStop=${search.stop}
          onFollow=${() => {
            search.stop();
            setFollowing(!isFollowing);
          }}>
        <${Act} why=${why("alter_configs")} onClick=${() => ask("schemas")}>Schemas<//>
        <button type="button" onClick=${() => ask("columns")}>Columns</button>
        <button type="button" onClick=${() => ask("export")}>Export</button>
        <${Act} why=${me.is_ruled && !me.is_read_only ? "" : me.why_fixed}
            onClick=${() => ask("replay")}>
          Replay
        <//>
        <${Act} why=${why("write")} onClick=${() => ask("write")}>Produce<//>
      <//>
      ${isFollowing ? html`<${Followed} by=${followed} />` : html`<${Status} search=${search} />`}
      ${
        rows.length > 0 &&
        html`<${MessageTable} rows=${rows} columns=${columns} onOpen=${openMessage} />`
      }
      ${
        opened &&
        html`
          <${Whole} topic=${topic} partitions=${partitions} place=${opened} rows=${rows}
              query=${query} onMove=${openMessage} onClose=${closeMessage} />
        `
      }
      ${
        asking === "write" &&
        html`<${Write} topic=${topic} partitions=${partitions} onClose=${close} />`
      }
      ${
        asking === "replay" &&
        html`
          <${Replay} topic=${topic} partitions=${partitions} partition=${query.partition}
              where=${conditions(query)} onClose=${() => ask(null)} />
        `
      }
      ${
        asking === "schemas" &&
        html`
          <${SchemaDialog} topic=${topic} schemas=${schemas.data}
              onClose=${() => {
                schemas.reload();
                close();
              }} />
        `
      }
      ${
        asking === "columns" &&
        html`<${Columns} rows=${rows} columns=${columns} onClose=${() => ask(null)} />`
      }
      ${
        asking === "export" &&
        html`
          <${Export} topic=${topic} partitions=${partitions} partition=${query.partition}
              where=${conditions(query)} onClose=${() => ask(null)} />
        `
      }
    </section>
  `;
}
