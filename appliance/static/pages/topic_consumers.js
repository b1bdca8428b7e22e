// Who reads a topic: its consumer groups, with what each has left of this topic.
import { html } from "../html.js";
import { useApi } from "../api.js";
import { href } from "../router.js";
import { Loaded } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { count, duration, some } from "../format.js";
import { State } from "./groups.js";

const notes = (group) =>
  [
    group.unread_partitions > 0 && `nobody reads ${some(group.unread_partitions, "partition")}`,
    group.no_commit_partitions > 0 &&
      `no commit yet in ${some(group.no_commit_partitions, "partition")}`,
    group.unknown_partitions > 0 && `${some(group.unknown_partitions, "partition")} unknown`,
  ]
    .filter(Boolean)
    .join(", ");

const COLUMNS = [
  {
    name: "group",
    title: "Group",
    cell: (group) => html`<a href=${href(["groups", group.group])}>${group.group}</a>`,
  },
  { name: "protocol", title: "Protocol" },
  { name: "state", title: "State", cell: (group) => html`<${State} state=${group.state} />` },
  { name: "members", title: "Members here", number: true },
  {
    name: "lag_records",
    title: "Lag, records",
    number: true,
    cell: (group) => count(group.lag_records),
  },
  {
    name: "lag_seconds",
    title: "Lag, time",
    number: true,
    cell: (group) => duration(group.lag_seconds),
  },
  { name: "notes", title: "Notes", value: notes },
];

export function Consumers({ topic, isReplicated }) {
  const found = useApi(`/topics/${encodeURIComponent(topic)}/consumers`, 5);
  return html`
    <section class="card">
      ${
        isReplicated &&
        html`<p class="muted">Groups of other brokers of the cluster are at those brokers.</p>`
      }
      <${Loaded} from=${found}>
        ${(data) => html`
          <${Table} id=${`consumers-${topic}`} sort="-lag_records" rows=${data.groups}
              columns=${COLUMNS} text=${(group) => group.group}
              empty=${html`
                <p>No consumer group reads this topic.</p>
                <p>
                  A group appears here when a consumer of it joins, or commits an offset. To read
                  without a group: <code>appliance consume ${topic}</code>
                </p>
              `} />
        `}
      <//>
    </section>
  `;
}
