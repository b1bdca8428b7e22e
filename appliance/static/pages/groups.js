// Consumer groups and their lag.
import { html } from "../html.js";
import { useApi } from "../api.js";
import { href } from "../router.js";
import { Badge, Head, Loaded } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { count, duration, some } from "../format.js";

const LEVEL = { Stable: "good", Empty: "", Dead: "bad" };
export const State = ({ state }) => html`<${Badge} level=${LEVEL[state] ?? "warn"}>${state}<//>`;

const COLUMNS = [
  {
    name: "group",
    title: "Group",
    cell: (group) => html`<a href=${href(["groups", group.group])}>${group.group}</a>`,
  },
  { name: "protocol", title: "Protocol" },
  { name: "state", title: "State", cell: (group) => html`<${State} state=${group.state} />` },
  { name: "members", title: "Members", number: true },
  {
    name: "topics",
    title: "Topics",
    value: (group) => (group.topics ?? []).join(", "),
    long: true,
  },
  {
    name: "lag_records",
    title: "Lag, records",
    number: true,
    cell: (group) => html`
      ${count(group.lag_records)}
      ${
        group.no_commit_records > 0 &&
        html`
          ${" "}
          <span class="muted">
            (${count(group.no_commit_records)} in partitions without a commit)
          </span>
        `
      }
      ${
        group.unknown_partitions > 0 &&
        html`
          ${" "}
          <span class="muted">
            (${some(group.unknown_partitions, "partition")} unknown)
          </span>
        `
      }
    `,
  },
  {
    name: "lag_seconds",
    title: "Lag, time",
    number: true,
    cell: (group) => duration(group.lag_seconds),
  },
];

export function Groups() {
  const groups = useApi("/groups?limit=10000", 5);
  return html`
    <${Head} title="Consumers" />
    <section class="card">
      <${Loaded} from=${groups}>
        ${(data) => html`
          <${Table} id="groups" sort="-lag_records" rows=${data.groups} columns=${COLUMNS}
              text=${(group) => `${group.group} ${(group.topics ?? []).join(" ")}`}
              empty=${html`
                <p>No consumer groups yet.</p>
                <p>A group appears here when a consumer joins it or commits an offset.</p>
              `} />
        `}
      <//>
    </section>
  `;
}
