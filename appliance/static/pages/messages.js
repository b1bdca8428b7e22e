// The messages of a topic: a search in steps, with progress and a stop button, or the live stream.
import { html, useEffect, useMemo, useRef, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { setQuery } from "../router.js";
import { Facts, Mark } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { SchemaDialog, ShownAs, asWords, useSchemas } from "../parts/schemas.js";
import { bytes, count, percent, some, time } from "../format.js";
import { Following, KEPT } from "./following.js";
import { Export, Replay } from "./message_range.js";

const LIMITS = [50, 100, 500, 1000];

const pathOf = (topic) => `/topics/${encodeURIComponent(topic)}`;
const keyOf = (each) => `${each.partition}-${each.offset}`;
const newestFirst = (a, b) => b.timestamp_ms - a.timestamp_ms || b.offset - a.offset;

function begin({ from = "newest", offset = "", at = "" }) {
  if (from === "offset") return `offset:${offset || 0}`;
  return from === "time" ? `time:${at ? new Date(at).getTime() : 0}` : from;
}

/** The key of the form is one more condition of the filter. */
const conditions = ({ key, where }) =>
  [key && `key = ${JSON.stringify(key)}`, where].filter(Boolean).join(" and ");

function words(query, found, cursor) {
  const limit = Number(query.limit ?? 100);
  const text = new URLSearchParams({ from: begin(query), limit: Math.max(1, limit - found) });
  if (query.partition) text.set("partition", query.partition);
  if (conditions(query)) text.set("filter", conditions(query));
  if (cursor) text.set("cursor", cursor);
  for (const [name, word] of asWords(query)) text.set(name, word);
  return text;
}

/** A search is many requests. It can be stopped between two of them. */
function useSearch(topic) {
  const [state, setState] = useState({ rows: [], status: "idle", scanned: 0, left: 0 });
  const running = useRef(0);
  const stop = () => {
    running.current++;
    setState((old) => ({ ...old, status: "stopped" }));
  };
  const start = async (query) => {
    const own = ++running.current;
    const limit = Number(query.limit ?? 100);
    let found = { rows: [], status: "running", scanned: 0, left: 0, problems: 0 },
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
          status: isDone ? "ended" : "running",
          scanned: found.scanned + look.scanned_offsets,
          left: look.left_offsets,
          problems: found.problems + look.problems.length,
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

function Status({ search }) {
  const { status, scanned, left, rows, error, problems, isAll } = search;
  if (status === "failed") return html`<p class="notice bad" role="alert">${error}</p>`;
  const looked = count(scanned);
  const share = percent(scanned / (scanned + left || 1));
  const progress = `${looked} of ${count(scanned + left)} offsets searched (${share})`;
  const rest = isAll ? "" : `; ${count(left)} not searched`;
  const text = {
    idle: "",
    running: `searching: ${progress}, ${count(rows.length)} found`,
    stopped: `stopped after ${looked} offsets, ${count(rows.length)} found${rest}`,
    ended: rows.length
      ? `${count(rows.length)} found in ${some(scanned, "offset")}${rest}`
      : scanned
        ? `No match in ${some(scanned, "offset")}.`
        : "No records in this range.",
  }[status];
  return html`
    <p class="muted" role="status">
      ${text}${problems ? ` ${problems} batches are unreadable.` : ""}
    </p>
  `;
}

function livePath(topic, query) {
  const filter = conditions(query);
  const words = new URLSearchParams([...(filter ? [["filter", filter]] : []), ...asWords(query)]);
  return `${pathOf(topic)}/messages/live?${words}`;
}

function pretty(data) {
  if (data === null) return "null";
  if (!["json", "avro", "protobuf"].includes(data.form) || data.is_cut) return data.text;
  // JavaScript would change numbers that it cannot hold: such a text is shown as it is
  if (/\d{16,}/.test(data.text)) return data.text;
  try {
    return JSON.stringify(JSON.parse(data.text), null, 2);
  } catch {
    return data.text; // Avro has NaN, JSON does not
  }
}

const Short = ({ data }) =>
  data === null
    ? html`<i class="muted">null</i>`
    : html`
      ${data.problem && html`<span title=${data.problem}><${Mark} level="warn" /></span> `}
      <span class="mono">${data.text.slice(0, 200)}</span>
    `;
const size = (each) => (each.key?.size ?? 0) + (each.value?.size ?? 0);

/** A row is drawn once, because its message does not change. */
function Row({ of: each, onOpen }) {
  return useMemo(
    () => html`
      <tr data-row>
        <td class="num" data-label="Partition">${each.partition}</td>
        <td class="num" data-label="Offset">
          <button type="button" class="plain" onClick=${() => onOpen(each)}>
            ${count(each.offset)}
          </button>
        </td>
        <td class="time" data-label="Time">${time(each.timestamp_ms, true)}</td>
        <td class="long" data-label="Key"><${Short} data=${each.key} /></td>
        <td class="long fill" data-label="Value"><${Short} data=${each.value} /></td>
        <td class="num" data-label="Headers">${each.headers.length || ""}</td>
        <td class="num" data-label="Size">${bytes(size(each))}</td>
      </tr>
    `,
    [each],
  );
}

const form = ({ form, schema_id: id }) => (id === undefined ? form : `${form} · schema ${id}`);

function Whole({ topic, row, query, onClose }) {
  const as = asWords(query)
    .map(([name, word]) => `&${name}=${word}`)
    .join("");
  const at = `from=offset:${row.offset}&partition=${row.partition}`;
  const answer = useApi(`${pathOf(topic)}/messages?${at}&limit=1&full=true${as}`);
  const whole = answer.data?.messages[0] ?? row;
  const copy = (data) => navigator.clipboard?.writeText(data.text);
  return html`
    <${Dialog} title=${`${topic}-${row.partition}, offset ${count(row.offset)}`} onClose=${onClose}
        wide>
      <${Facts} rows=${[
        ["Time", time(whole.timestamp_ms, true)],
        ["Size", bytes(size(whole))],
      ]} />
      ${[
        ["Key", whole.key],
        ["Value", whole.value],
      ].map(
        ([name, data]) => html`
          <section>
            <div class="head">
              <h3>${name}${data && ` · ${form(data)} · ${bytes(data.size)}`}</h3>
              ${
                data &&
                html`
                  <button type="button" class="plain" onClick=${() => copy(data)}>copy</button>
                `
              }
            </div>
            ${data?.problem && html`<p class="notice warn">${data.problem}</p>`}
            <pre tabindex="0">${pretty(data)}</pre>
          </section>
        `,
      )}
      <section>
        <h3>Headers</h3>
        ${
          whole.headers.length
            ? html`
              <${Facts}
                  rows=${whole.headers.map((each) => [
                    each.name,
                    html`<span class="mono">${each.value?.text ?? "null"}</span>`,
                  ])} />
            `
            : html`<p class="muted">none</p>`
        }
      </section>
    <//>
  `;
}

function Write({ topic, partitions, onClose }) {
  const [key, setKey] = useState("");
  const [value, setValue] = useState("");
  const [partition, setPartition] = useState("");
  const [headers, setHeaders] = useState("");
  const [isNull, setNull] = useState(false);
  const write = async () => {
    const named = headers
      .split("\n")
      .filter(Boolean)
      .map((line) => line.split(/:\s?(.*)/s))
      .map(([name, text = ""]) => ({ name, value: { text } }));
    const message = {
      key: key === "" ? null : { text: key },
      value: isNull ? null : { text: value },
      headers: named,
      ...(partition !== "" && { partition: Number(partition) }),
    };
    await api(`${pathOf(topic)}/messages`, { method: "POST", body: { messages: [message] } });
  };
  return html`
    <${Dialog} title=${`Produce to ${topic}`} send="Produce" onSend=${write} onClose=${onClose}>
      <div class="fields">
        <label>
          Partition
          <select value=${partition} onChange=${(event) => setPartition(event.target.value)}>
            <option value="">by key</option>
            ${partitions.map((each) => html`<option>${each.partition}</option>`)}
          </select>
        </label>
        <label>
          Key (empty: no key)
          <input spellcheck=${false} value=${key}
              onInput=${(event) => setKey(event.target.value)} />
        </label>
        <label>
          Value
          <textarea rows="6" spellcheck=${false} disabled=${isNull} value=${value}
              onInput=${(event) => setValue(event.target.value)}></textarea>
        </label>
        <label class="check">
          <input type="checkbox" checked=${isNull}
              onChange=${(event) => setNull(event.target.checked)} />
          null (deletes the key in a compacted topic)
        </label>
        <label>
          Headers, one per line, as name: value
          <textarea rows="2" spellcheck=${false} value=${headers}
              onInput=${(event) => setHeaders(event.target.value)}></textarea>
        </label>
      </div>
    <//>
  `;
}

export function Messages({ topic, partitions, query, me }) {
  const search = useSearch(topic);
  const schemas = useSchemas(topic);
  const [opened, open] = useState(null);
  const [asking, ask] = useState(null);
  const [live, setLive] = useState(null);
  const from = query.from ?? "newest";
  const look = () => {
    setLive(null);
    search.start(query);
  };
  useEffect(look, []);
  const set = (name) => (event) => setQuery({ [name]: event.target.value });
  const rows = live ?? [...search.rows].sort(newestFirst);
  const close = () => {
    ask(null);
    look();
  };
  return html`
    <section class="card fields">
      <form class="fields"
          onSubmit=${(event) => {
            event.preventDefault();
            look();
          }}>
        <div class="row">
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
                    onInput=${set("offset")} />
              </label>
            `
          }
          ${
            from === "time" &&
            html`
              <label>
                Time
                <input type="datetime-local" step="1" required value=${query.at ?? ""}
                    onInput=${set("at")} />
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
          <${ShownAs} schemas=${schemas.data} query=${query} set=${set} />
          <label style="flex:1 1 300px">
            Filter
            <input data-filter spellcheck=${false} class="mono"
                placeholder='value contains "refund" and value.user.id = 42'
                value=${query.where ?? ""} onInput=${set("where")} />
          </label>
        </div>
        <div class="row">
          <button class="primary">Search</button>
          ${
            search.status === "running" &&
            html`<button type="button" onClick=${search.stop}>Stop</button>`
          }
          <button type="button" aria-pressed=${live !== null}
              onClick=${() => {
                search.stop();
                setLive(live === null ? [] : null);
              }}>
            ${live === null ? "Follow" : "Stop following"}
          </button>
          <span style="flex:1"></span>
          <button type="button" disabled=${me.read_only} onClick=${() => ask("schemas")}>
            Schemas
          </button>
          <button type="button" onClick=${() => ask("export")}>Export</button>
          <button type="button" disabled=${me.read_only} onClick=${() => ask("replay")}>
            Replay
          </button>
          <button type="button" disabled=${me.read_only} onClick=${() => ask("write")}>
            Produce
          </button>
        </div>
      </form>
      ${
        live === null
          ? html`<${Status} search=${search} />`
          : html`
            <${Following} path=${livePath(topic, query)}
                onRows=${(news) => setLive((old) => [...news, ...(old ?? [])].slice(0, KEPT))} />
          `
      }
      ${
        rows.length > 0 &&
        html`
          <div class="scroll">
            <table class="cards messages" id="messages">
              <thead>
                <tr>
                  <th scope="col" class="num">Partition</th>
                  <th scope="col" class="num">Offset</th>
                  <th scope="col">Time</th>
                  <th scope="col">Key</th>
                  <th scope="col">Value</th>
                  <th scope="col" class="num">Headers</th>
                  <th scope="col" class="num">Size</th>
                </tr>
              </thead>
              <tbody>
                ${rows.map((each) => html`<${Row} key=${keyOf(each)} of=${each} onOpen=${open} />`)}
              </tbody>
            </table>
          </div>
        `
      }
      ${
        opened &&
        html`<${Whole} topic=${topic} query=${query} row=${opened} onClose=${() => open(null)} />`
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
        asking === "export" &&
        html`
          <${Export} topic=${topic} partitions=${partitions} partition=${query.partition}
              where=${conditions(query)} onClose=${() => ask(null)} />
        `
      }
    </section>
  `;
}
