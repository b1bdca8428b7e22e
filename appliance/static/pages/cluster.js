// All brokers of a path in ZooKeeper as one. Of a cluster: its replicas; of brokers that are only
// found there: their health, by their own word, and their topics.
import { html } from "../html.js";
import { useApi } from "../api.js";
import { Badge, Head, LEVELS, Loaded, Mark } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { count } from "../format.js";
import { ReplicasOfAll } from "./replicas.js";

const level = (status) => LEVELS[status] ?? "bad"; // unreachable, too
const partitions = (broker) => Object.values(broker.topics).reduce((sum, each) => sum + each, 0);

const columns = (own) => [
  {
    name: "id",
    title: "Broker",
    number: true,
    cell: (each) => html`${each.id}${each.id === own && html` <${Badge}>this one<//>`}`,
  },
  { name: "address", title: "Address", wide: true },
  {
    name: "status",
    title: "Health",
    wide: true,
    cell: (each) => html`<${Badge} level=${level(each.status)}>${each.status}<//>`,
  },
  {
    name: "topics",
    title: "Topics",
    number: true,
    value: (each) => Object.keys(each.topics).length,
    cell: (each) => count(Object.keys(each.topics).length),
  },
  {
    name: "partitions",
    title: "Partitions",
    number: true,
    value: partitions,
    cell: (each) => count(partitions(each)),
  },
  {
    name: "admin",
    title: "Console",
    wide: true,
    cell: (each) => html`<a href=${each.admin} rel="noreferrer">${each.admin}</a>`,
  },
  {
    name: "reasons",
    title: "Why",
    wide: true,
    value: (each) => each.reasons.join("; "),
    cell: (each) => each.reasons.map((one) => html`<div>${one}</div>`),
  },
];
const TOPICS = [
  { name: "topic", title: "Topic" },
  { name: "partitions", title: "Partitions", number: true, cell: (each) => count(each.partitions) },
  {
    name: "brokers",
    title: "Brokers",
    value: (each) => each.brokers.length,
    cell: (each) => each.brokers.join(", "),
  },
];

const WithoutZooKeeper = () => html`
  <section class="card">
    <p>This broker is by itself: it is registered in no ZooKeeper.</p>
    <p class="muted">
      Brokers that register below one path of a ZooKeeper are shown here as one: the health of each,
      and their topics with the sum of their partitions. Set${" "}
      <code>zookeeper.connect=HOST:2181/PATH</code> in the settings of each, with a${" "}
      <code>node.id</code> of its own, and start them again.
    </p>
  </section>
`;

function Together({ found }) {
  const well = found.brokers.filter((each) => each.status === "ok").length;
  return html`
    <section class=${`card sentence ${level(found.status)}`}>
      <div class="mark" style="font-size:1.3rem"><${Mark} level=${level(found.status)} /></div>
      <div>
        <p>Brokers that are well: ${count(well)} of ${count(found.brokers.length)}.</p>
        <p class="muted">ZooKeeper ${found.zookeeper}</p>
      </div>
    </section>
    <section class="card">
      <div class="head"><h2>Brokers</h2></div>
      <${Table} id="brokers" columns=${columns(found.node_id)} empty="No broker is registered."
          rows=${found.brokers.map((each) => ({ ...each, key: each.id }))} />
    </section>
    <section class="card">
      <div class="head"><h2>Topics of all</h2></div>
      <${Table} id="together" columns=${TOPICS} text=${(each) => each.topic}
          empty="No broker has a topic."
          rows=${found.topics.map((each) => ({ ...each, key: each.topic }))} />
    </section>
  `;
}

function BrokersOfPath() {
  const cluster = useApi("/cluster", 10);
  return html`
    <${Loaded} from=${cluster}>
      ${(found) =>
        found.zookeeper === null
          ? html`<${WithoutZooKeeper} />`
          : html`<${Together} found=${found} />`}
    <//>
  `;
}

export function Cluster() {
  const replicas = useApi("/replicas", 5);
  return html`
    <${Head} title="Cluster" />
    <${Loaded} from=${replicas}>
      ${(found) =>
        found.zookeeper === null
          ? html`<${BrokersOfPath} />`
          : html`<${ReplicasOfAll} found=${found} />`}
    <//>
  `;
}
