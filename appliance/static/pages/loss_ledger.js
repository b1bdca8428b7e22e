// Losses and damage, and who has acknowledged them.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { href } from "../router.js";
import { Badge, Head, Loaded } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Table } from "../parts/table.js";
import { Scrub } from "./repair.js";
import { count, some, time } from "../format.js";

const isOpen = (each) => each.acknowledged_ms === null;
const isWhole = (each) => each.partition < 0; // the entry is about the whole directory
const where = (each) => (isWhole(each) ? "the data directory" : `${each.topic}-${each.partition}`);
const LEVEL = { lost: "bad", damaged: "warn", skipped: "" };

function offsets({ first_offset: first, last_offset: last }) {
  if (first < 0) return "–";
  if (last === null) return `from ${count(first)} on`;
  return first === last ? count(first) : `${count(first)} to ${count(last)}`;
}

const COLUMNS = [
  {
    name: "what",
    title: "Kind",
    value: (each) => each.kind,
    cell: (each) => html`<${Badge} level=${LEVEL[each.kind]}>${each.kind}<//>`,
  },
  {
    name: "topic",
    title: "Topic",
    cell: (each) =>
      isWhole(each) ? "–" : html`<a href=${href(["topics", each.topic])}>${each.topic}</a>`,
  },
  {
    name: "partition",
    title: "Partition",
    number: true,
    cell: (each) => (isWhole(each) ? "–" : each.partition),
  },
  {
    name: "offsets",
    title: "Offsets",
    number: true,
    value: (each) => each.first_offset,
    cell: offsets,
  },
  { name: "at_ms", title: "Detected", number: true, cell: (each) => time(each.at_ms) },
  { name: "cause", title: "Cause", wide: true },
  {
    name: "aside",
    title: "Set aside in",
    wide: true,
    cell: (each) => (each.aside ? html`<code>${each.aside}</code>` : "–"),
  },
];
const SEEN = {
  name: "seen",
  title: "Acknowledged",
  value: (each) => each.acknowledged_ms,
  cell: (each) =>
    isOpen(each)
      ? html`<${Badge} level="bad">open<//>`
      : `${time(each.acknowledged_ms)} by ${each.acknowledged_by}`,
};

/** Acknowledges `row`, or `all` open entries up to the newest that this page has loaded. */
function Acknowledge({ row, all, onClose }) {
  const body = row ? { ids: [row.id] } : { up_to_id: all.last_id };
  const send = () => api("/ledger/acknowledge", { method: "POST", body });
  const title = row
    ? `Acknowledge the entry of ${where(row)}`
    : `Acknowledge ${some(all.open, "entry", "entries")}`;
  const rows = row ? [row] : all.entries.filter(isOpen).slice(0, 8);
  return html`
    <${Dialog} title=${title} send="Acknowledge" onSend=${send} onClose=${onClose}>
      ${rows.map(
        (each) => html`
          <p>
            ${where(each)}${!isWhole(each) && `, offsets ${offsets(each)}`}, ${each.kind}:${" "}
            ${each.cause}
          </p>
        `,
      )}
      ${!row && all.open > rows.length && html`<p>And ${count(all.open - rows.length)} more.</p>`}
      <p class="muted">
        This restores nothing. Health no longer reports the entry. The ledger and the audit trail
        keep it with your name and the time.
      </p>
    <//>
  `;
}

/** A page of the ledger, with buttons that acknowledge one entry or all open ones. */
function Entries({ id, page, me, onChanged, isWhole }) {
  const [asking, ask] = useState(null);
  const button = {
    name: "acknowledge",
    title: "",
    fixed: true,
    cell: (each) => html`
      ${
        isOpen(each) &&
        html`
          <button type="button" disabled=${me.read_only || each.id === null}
              title=${me.why_fixed || undefined}
              aria-label=${`Acknowledge ${where(each)}, offsets ${offsets(each)}`}
              onClick=${() => ask({ row: each })}>
            Acknowledge
          </button>
        `
      }
    `,
  };
  const columns = [...COLUMNS, ...(isWhole ? [SEEN] : []), button];
  const tools =
    page.open > 1 &&
    html`
      <button type="button" disabled=${me.read_only} title=${me.why_fixed || undefined}
          onClick=${() => ask({ all: page })}>
        Acknowledge all ${count(page.open)}
      </button>
    `;
  return html`
    <${Table} id=${id} rows=${page.entries} columns=${columns} tools=${tools}
        text=${
          isWhole ? (each) => `${each.topic} ${each.cause} ${each.kind} ${each.aside}` : undefined
        } empty="No losses or damage." />
    ${
      asking &&
      html`
        <${Acknowledge} ...${asking}
            onClose=${() => {
              ask(null);
              onChanged();
            }} />
      `
    }
  `;
}

/** For Home: the newest open entries. */
export function OpenLosses({ me }) {
  const ledger = useApi("/ledger?state=open&limit=20", 5);
  return html`
    <section class="card">
      <div class="head"><h2>Open losses and damage</h2><a href="#/ledger">show all</a></div>
      <${Loaded} from=${ledger}>
        ${(data) => html`
          <${Entries} id="losses" page=${data} me=${me} onChanged=${ledger.reload} />
        `}
      <//>
    </section>
  `;
}

function openText(open) {
  if (open === 0) return "No open entries.";
  return `${some(open, "open entry", "open entries")}. Health reports each until acknowledged.`;
}

export function Ledger({ me, route }) {
  const before = route.query.before;
  const state = route.query.state ?? "open";
  const ledger = useApi(`/ledger?state=${state}${before ? `&before=${before}` : ""}`, 5);
  const link = (more) => href(["ledger"], { state, ...more });
  return html`
    <${Head} title="Losses and damage" />
    <nav class="tabs" aria-label="Entries">
      ${[
        ["open", "Open"],
        ["acknowledged", "Acknowledged"],
        ["all", "All"],
      ].map(
        ([id, title]) => html`
          <a href=${link({ state: id })} aria-current=${state === id ? "page" : undefined}>
            ${title}
          </a>
        `,
      )}
    </nav>
    <section class="card">
      <${Loaded} from=${ledger}>
        ${(data) => html`
          <p class="muted">
            ${openText(data.open)}
          </p>
          <${Entries} id="ledger" page=${data} me=${me} onChanged=${ledger.reload} isWhole />
          ${
            (before || data.next) &&
            html`
              <p class="row">
                ${before && html`<a href=${link({})}>newest</a>`}
                ${" "}
                ${data.next && html`<a href=${link({ before: data.next })}>older</a>`}
              </p>
            `
          }
        `}
      <//>
    </section>
    <${Scrub} me=${me} onFound=${ledger.reload} />
  `;
}
