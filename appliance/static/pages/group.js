// One group: its members, its offsets and lag, and the reset of its offsets.
import { html, useMemo, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { go, href } from "../router.js";
import { Head, Loaded, Strip } from "../parts/bits.js";
import { Act, refusal } from "../parts/rights.js";
import { Chart } from "../parts/chart.js";
import { Dialog } from "../parts/dialog.js";
import { Table } from "../parts/table.js";
import { count, duration, short, some } from "../format.js";
import { Reset } from "./group_reset.js";
import { State } from "./groups.js";

const PARTITIONS = [
  {
    name: "topic",
    title: "Topic",
    cell: (each) => html`<a href=${href(["topics", each.topic])}>${each.topic}</a>`,
  },
  { name: "partition", title: "Partition", number: true },
  {
    name: "committed",
    title: "Committed",
    number: true,
    cell: (each) =>
      each.no_commit_yet ? html`<span class="muted">no commit yet</span>` : count(each.committed),
  },
  {
    name: "end",
    title: "End",
    number: true,
    cell: (each) => (each.end_unknown ? html`<span class="muted">unknown</span>` : count(each.end)),
  },
  {
    name: "lag_records",
    title: "Lag, records",
    number: true,
    cell: (each) => html`
      ${count(each.lag_records)}
      ${
        each.lost_records > 0 &&
        html`${" "}<span class="muted">(${count(each.lost_records)} deleted unread)</span>`
      }
    `,
  },
  {
    name: "lag_seconds",
    title: "Lag, time",
    number: true,
    cell: (each) => duration(each.lag_seconds),
  },
  { name: "member", title: "Member", value: (each) => each.member_id ?? "none", long: true },
];

const MEMBERS = [
  {
    name: "member_id",
    title: "Member",
    long: true,
    cell: (each) => html`<code>${each.member_id}</code>`,
  },
  { name: "client_id", title: "Client" },
  { name: "host", title: "Host" },
  {
    name: "assignment",
    title: "Partitions",
    value: (each) =>
      Object.entries(each.partitions)
        .map(([topic, numbers]) => `${topic} ${numbers.join(" ")}`)
        .join(", "),
    long: true,
  },
];

// Of Kafka Streams.
const TASKS = {
  name: "tasks",
  title: "Tasks",
  value: (each) =>
    Object.entries(each.tasks ?? {})
      .filter(([, tasks]) => tasks.length > 0)
      .map(([role, tasks]) => `${role} ${tasks.join(" ")}`)
      .join(", "),
  long: true,
};

const columnsOf = (group) => (group.protocol === "streams" ? [...MEMBERS, TASKS] : MEMBERS);

function Remove({ group, onClose }) {
  const remove = async () => {
    await api(`/groups/${encodeURIComponent(group.group)}`, { method: "DELETE" });
    go(["groups"]);
  };
  return html`
    <${Dialog} title=${`Delete ${group.group}`} send="Delete" danger confirm=${group.group}
        onSend=${remove} onClose=${onClose}>
      <p>
        Its committed offsets are deleted. A consumer that joins this group again starts where its
        <code>auto.offset.reset</code> says.
      </p>
    <//>
  `;
}

/** One line for the group: the sum of the records, and the largest lag in time of its topics. */
function summed(topics) {
  const each = Object.values(topics);
  const at = each.map((samples) => new Map(samples.map((one) => [one.at_ms, one])));
  // What was unknown has no sample: a sum without it would look as if the group had caught up.
  const begins = each.map((samples) => samples[0]?.at_ms ?? Infinity);
  const isWhole = (time) => at.every((samples, i) => begins[i] > time || samples.has(time));
  const times = [...new Set(each.flatMap((samples) => samples.map((one) => one.at_ms)))]
    .filter(isWhole)
    .sort((a, b) => a - b);
  const all = times.map((time) => at.map((samples) => samples.get(time)).filter(Boolean));
  return [
    times.map((time) => time / 1000),
    all.map((row) => row.reduce((sum, one) => sum + one.records, 0)),
    all.map((row) => Math.max(0, ...row.map((one) => one.seconds ?? 0))),
  ];
}

function History({ group }) {
  const { data } = useApi(`/groups/${encodeURIComponent(group)}/lag`, 10);
  const [times, records, seconds] = useMemo(() => summed(data?.topics ?? {}), [data]);
  if (times.length < 2) return null;
  return html`
    <div class="pair">
      <section class="card">
        <h2>Lag, time</h2>
        <${Chart} label="Lag in seconds" series=${["lag"]} data=${[times, seconds]} unit=${duration}
            height=${150} />
      </section>
      <section class="card">
        <h2>Lag, records</h2>
        <${Chart} label="Lag in records" series=${["lag"]} data=${[times, records]} unit=${short}
            height=${150} />
      </section>
    </div>
  `;
}

export function Group({ route, me }) {
  const name = route.parts[1];
  const past = html`<a href=${href(["history"], { group: name })}>History</a>`;
  const group = useApi(`/groups/${encodeURIComponent(name)}`, 4);
  const [doing, setDoing] = useState(null);
  const why = (operation) => refusal(me, group.data?.allowed, operation, `group ${name}`);
  const close = () => {
    setDoing(null);
    group.reload();
  };
  return html`
    <${Head} title=${name} crumbs=${html`<a href="#/groups">Consumers</a> / ${past}`}>
      <${Act} class="primary" why=${why("read")} onClick=${() => setDoing("reset")}>
        Reset offsets
      <//>
      <${Act} class="danger" why=${why("delete")} onClick=${() => setDoing("delete")}>Delete<//>
    <//>
    <${Loaded} from=${group}>
      ${(data) => html`
        <${Strip}
            facts=${[
              ["State", html`<${State} state=${data.state} />`],
              ["Lag, time", duration(data.lag_seconds)],
              ["Lag, records", some(data.lag_records, "record")],
              data.no_commit_partitions > 0 && [
                "No commit yet",
                some(data.no_commit_partitions, "partition"),
              ],
              ["Members", count(data.members)],
              ["Protocol", [data.protocol, data.assignor].filter(Boolean).join(", ")],
              ["Generation", count(data.generation)],
            ]} />
        ${
          data.unread.length > 0 &&
          html`
            <p class="notice warn">
              No member of the group reads${" "}
              ${data.unread
                .slice(0, 8)
                .map((each) => `${each.topic} ${each.partition}`)
                .join(", ")}
              ${data.unread.length > 8 ? ` and ${count(data.unread.length - 8)} more` : ""}.
            </p>
          `
        }
        ${
          data.no_commit_records > 0 &&
          html`
            <p class="notice warn">
              The group has no committed offset yet for${" "}
              ${some(data.no_commit_partitions, "partition")}. Their lag of${" "}
              ${some(data.no_commit_records, "record")} counts from the first record.
            </p>
          `
        }
        ${
          data.unknown_partitions > 0 &&
          html`
            <p class="notice warn">
              ${some(data.unknown_partitions, "partition")} in no sum: other brokers do not tell
              where they end, or where the group is.
            </p>
          `
        }
        <${History} group=${name} />
        <section class="card">
          <div class="head"><h2>Partitions</h2></div>
          <${Table} id=${`group-${name}`} rows=${data.offsets} columns=${PARTITIONS} sort="topic"
              empty=${html`
                <p>No committed offsets yet.</p>
                <p>Consumers of the group commit them, or Reset offsets sets them for a topic.</p>
              `} />
        </section>
        <section class="card">
          <div class="head"><h2>Members</h2></div>
          <${Table} id=${`members-${name}`} rows=${data.member_rows} columns=${columnsOf(data)}
              empty=${html`
                <p>The group has no members.</p>
                <p>Start a consumer with <code>group.id=${name}</code>.</p>
              `} />
        </section>
        ${doing === "reset" && html`<${Reset} group=${data} onClose=${close} />`}
        ${doing === "delete" && html`<${Remove} group=${data} onClose=${close} />`}
      `}
    <//>
  `;
}
