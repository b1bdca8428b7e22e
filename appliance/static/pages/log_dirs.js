// The directories of records: room and state of each, moves between them, and what opens one again.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { Badge, Loaded } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Act } from "../parts/rights.js";
import { Table } from "../parts/table.js";
import { mayAdminister } from "./access.js";
import { bytes, count, some } from "../format.js";

const STATES = { open: "good", doubtful: "warn", offline: "bad" };
const isOpen = (dir) => dir.state !== "offline";

const State = ({ of }) => html`
  <${Badge} level=${STATES[of.state]}>${of.state}<//>
  ${of.is_full && html` <${Badge} level="bad">full: writes are refused<//>`}
  ${of.why && html` <span class="muted">${of.why}</span>`}
`;
const COLUMNS = [
  { name: "path", title: "Directory" },
  { name: "partitions", title: "Partitions", number: true, cell: (dir) => count(dir.partitions) },
  {
    name: "free_bytes",
    title: "Free",
    number: true,
    cell: (dir) => (isOpen(dir) ? `${bytes(dir.free_bytes)} of ${bytes(dir.total_bytes)}` : "–"),
  },
  { name: "state", title: "State", wide: true, cell: (dir) => html`<${State} of=${dir} />` },
];
const MOVES = [
  { name: "topic", title: "Topic" },
  { name: "partition", title: "Partition", number: true },
  { name: "target", title: "To", long: true },
  {
    name: "copied_bytes",
    title: "Copied",
    number: true,
    cell: (move) => `${bytes(move.copied_bytes)} of ${bytes(move.size_bytes)}`,
  },
  { name: "why", title: "Failed, is tried again", wide: true },
];

const sent = (action, dir) => () =>
  api(`/log-dirs/${action}`, { method: "POST", body: { path: dir.path } });

const Reopen = ({ dir, onClose }) => html`
  <${Dialog} title="Open a directory again" send="Open again" onSend=${sent("reopen", dir)}
      onClose=${onClose}>
    <p>
      <code>${dir.path}</code> is closed, and opened as after a crash. What it has is not served
      meanwhile: ${some(dir.partitions, "partition")}. If that does not succeed it stays closed, and
      is tried again by itself.
    </p>
  <//>
`;
const GiveUp = ({ dir, onClose }) => html`
  <${Dialog} title="Give up a directory" send="Give up" danger confirm=${dir.path}
      onSend=${sent("give-up", dir)} onClose=${onClose}>
    <p>
      All records in <code>${dir.path}</code> are lost, even if the disk is found later. What it has
      begins anew, empty, where there is room: ${some(dir.partitions, "partition")}. The ledger
      tells of the loss.
    </p>
  <//>
`;

function Listed({ found, me, onDone }) {
  const [asked, ask] = useState(null);
  const done = () => {
    ask(null);
    onDone();
  };
  const why = mayAdminister(me) ? "" : "Only an admin can do that.";
  const action = (words, Asked, dir, more = "") => html`
    <${Act} class="plain" why=${why || more} aria-label=${`${words} ${dir.path}`}
        onClick=${() => ask(html`<${Asked} dir=${dir} onClose=${done} />`)}>
      ${words}
    <//>
  `;
  const acts = {
    name: "do",
    title: "",
    fixed: true,
    cell: (dir) => html`
      ${action("open again", Reopen, dir)}
      ${action("give up", GiveUp, dir, isOpen(dir) ? "It is open." : "")}
    `,
  };
  return html`
    <section class="card" id="log-dirs">
      <div class="head"><h2>Directories of records</h2></div>
      <${Table} id="directories" columns=${[...COLUMNS, acts]}
          rows=${found.log_dirs.map((each) => ({ ...each, key: each.path }))} />
      ${
        found.moves.length > 0 &&
        html`
          <h3>Partitions on the move</h3>
          <${Table} id="moves" columns=${MOVES}
              rows=${found.moves.map((each, key) => ({ ...each, key }))} />
        `
      }
      ${asked}
    </section>
  `;
}

/** Nothing where there is only the data directory. */
export function LogDirs({ me }) {
  const dirs = useApi("/log-dirs", 5);
  return html`
    <${Loaded} from=${dirs}>
      ${(found) =>
        found.log_dirs.some((each) => each.id) &&
        html`<${Listed} found=${found} me=${me} onDone=${dirs.reload} />`}
    <//>
  `;
}
