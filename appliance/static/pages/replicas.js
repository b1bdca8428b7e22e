// Replicas: of a cluster as a whole, and of one topic.
import { html } from "../html.js";
import { useApi } from "../api.js";
import { href } from "../router.js";
import { Badge, Loaded, Mark } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { count, duration } from "../format.js";

const LEVEL = { ok: "good", behind: "warn", "too few in sync": "bad", "no leader": "bad" };
const WORST_FIRST = ["no leader", "too few in sync", "behind"];
const MEANING = {
  "no leader": "have no leader: nobody can write to them or read them",
  "too few in sync":
    "have too few replicas in sync: what is written does not count until another one is",
  behind: "are behind: they are served, and have fewer copies than they should",
};

const lag = (each) =>
  each.is_in_sync
    ? "in sync"
    : each.end_offset < 0
      ? "has not fetched yet"
      : `${count(each.lag)} records, ${duration(each.behind_ms / 1000)} behind`;

const partitionColumns = (isOfAll) => [
  ...(isOfAll
    ? [
        {
          name: "topic",
          title: "Topic",
          cell: (each) => html`
            <a href=${href(["topics", each.topic], { tab: "replicas" })}>${each.topic}</a>
          `,
        },
      ]
    : []),
  { name: "partition", title: "Partition", number: true },
  {
    name: "verdict",
    title: "State",
    wide: true,
    cell: (each) => html`<${Badge} level=${LEVEL[each.verdict]}>${each.verdict}<//>`,
  },
  {
    name: "leader",
    title: "Leader",
    number: true,
    cell: (each) => each.leader ?? "–",
  },
  {
    name: "replicas",
    title: "Replicas",
    value: (each) => each.replicas.join(", "),
  },
  {
    name: "in_sync",
    title: "In sync",
    value: (each) => each.in_sync.join(", "),
    cell: (each) => html`
      ${each.in_sync.join(", ") || "–"} <span class="muted">(${each.least} wanted)</span>
    `,
  },
  {
    name: "offline",
    title: "Not there",
    value: (each) => each.offline.join(", "),
    cell: (each) => each.offline.join(", ") || "–",
  },
  {
    name: "followers",
    title: "Followers",
    wide: true,
    value: (each) => Math.max(-1, ...each.followers.map((one) => one.lag)),
    cell: (each) =>
      each.followers.length
        ? each.followers.map((one) => html`<div>${one.node_id}: ${lag(one)}</div>`)
        : html`<span class="muted">see broker ${each.leader ?? "–"}</span>`,
  },
  { name: "leader_epoch", title: "Epoch", number: true },
];

const brokerColumns = (found) => [
  {
    name: "node_id",
    title: "Broker",
    number: true,
    cell: (each) => html`
      ${each.node_id}
      ${each.node_id === found.node_id && html` <${Badge}>this one<//>`}
      ${each.node_id === found.controller && html` <${Badge}>controller<//>`}
    `,
  },
  {
    name: "state",
    title: "State",
    wide: true,
    value: (each) => (each.address === null ? "not there" : each.is_leaving ? "leaving" : "there"),
    cell: (each) =>
      each.address === null
        ? html`<${Badge} level="bad">not there<//>`
        : each.is_leaving
          ? html`<${Badge} level="warn">leaving<//>`
          : html`<${Badge} level="good">there<//>`,
  },
  { name: "address", title: "Address", wide: true, cell: (each) => each.address ?? "–" },
  { name: "rack", title: "Rack", cell: (each) => each.rack || "–" },
  {
    name: "leads",
    title: "Leads",
    number: true,
    cell: (each) => html`
      ${count(each.leads)} <span class="muted">of ${count(each.preferred)} preferred</span>
    `,
  },
  { name: "replicas", title: "Replicas", number: true, cell: (each) => count(each.replicas) },
  { name: "in_sync", title: "In sync", number: true, cell: (each) => count(each.in_sync) },
  {
    name: "reasons",
    title: "Says",
    wide: true,
    value: (each) => each.reasons.join("; "),
    cell: (each) => each.reasons.map((one) => html`<div>${one}</div>`),
  },
];

function Sentence({ found }) {
  const total = Object.values(found.verdicts).reduce((sum, each) => sum + each, 0);
  const bad = WORST_FIRST.filter((each) => found.verdicts[each]);
  const level = LEVEL[bad[0] ?? "ok"];
  return html`
    <section class=${`card sentence ${level}`}>
      <div class="mark" style="font-size:1.3rem"><${Mark} level=${level} /></div>
      <div>
        ${bad.length === 0 && html`<p>All replicas of ${count(total)} partitions are in sync.</p>`}
        ${bad.map(
          (each) => html`
            <p>
              ${count(found.verdicts[each])} of ${count(total)} partitions ${MEANING[each]}.
            </p>
          `,
        )}
        <p class="muted">ZooKeeper ${found.zookeeper}: ${found.session}</p>
      </div>
    </section>
  `;
}

export const ReplicasOfAll = ({ found }) => html`
  <${Sentence} found=${found} />
  <section class="card">
    <div class="head"><h2>Brokers</h2></div>
    <${Table} id="brokers" columns=${brokerColumns(found)}
        rows=${found.brokers.map((each) => ({ ...each, key: each.node_id }))} />
  </section>
  ${
    found.troubles.length > 0 &&
    html`
      <section class="card">
        <div class="head"><h2>Partitions that are not well</h2></div>
        <${Table} id="troubles" columns=${partitionColumns(true)} text=${(each) => each.topic}
            rows=${found.troubles.map((each) => ({
              ...each,
              key: `${each.topic}-${each.partition}`,
            }))} />
      </section>
    `
  }
`;

export function ReplicasOfTopic({ topic }) {
  const replicas = useApi(`/topics/${encodeURIComponent(topic)}/replicas`, 3);
  return html`
    <${Loaded} from=${replicas}>
      ${(found) => html`
        <section class="card">
          <${Table} id=${`replicas-${topic}`} columns=${partitionColumns(false)} sort="partition"
              rows=${found.partitions.map((each) => ({ ...each, key: each.partition }))} />
        </section>
      `}
    <//>
  `;
}
