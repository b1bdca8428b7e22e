// What the broker's numbers were: charts of the last month, of the broker, a topic or a group.
import { html, useMemo, useState } from "../html.js";
import { useApi } from "../api.js";
import { href } from "../router.js";
import { Chart } from "../parts/chart.js";
import { Head, Loaded } from "../parts/bits.js";
import { TimeRange, rangeOf } from "../parts/time_range.js";
import { bytes, count, duration, rate, short } from "../format.js";

const ms = (value) => duration(value === null ? null : value / 1000);
ms.steps = duration.steps.map((each) => Number((each * 1000).toPrecision(3)));
const processors = (value) => (value === null ? "–" : value.toFixed(2));
const lines = (...names) => Object.fromEntries(names);

const TRAFFIC = {
  title: "Traffic",
  series: lines(["in", "in_bytes_per_s"], ["out", "out_bytes_per_s"]),
  unit: rate,
  idle: "Idle: nothing came in or went out.",
};
const LAG = [
  {
    title: "Consumer lag, records",
    series: lines(["lag", "lag_records"]),
    unit: short,
    idle: "No lag: all was read.",
  },
  {
    title: "Consumer lag, time",
    series: lines(["lag", "lag_seconds"]),
    unit: duration,
    idle: "No lag: all was read.",
  },
];
const took = (title, what, idle) => ({
  title,
  series: lines(["p50", `${what}_p50_ms`], ["p99", `${what}_p99_ms`]),
  unit: ms,
  none: idle, // without requests there is no time to measure
});
const OF_BROKER = [
  TRAFFIC,
  {
    title: "Requests a second",
    series: lines(["produce", "produces_per_s"], ["fetch", "fetches_per_s"]),
    unit: short,
    idle: "Idle: no requests.",
  },
  took("Time of produce requests", "produce", "Idle: no produce requests."),
  took("Time of fetch requests", "fetch", "Idle: no fetch requests with data."),
  took("Time of syncs to the disk", "commit", "Idle: nothing was synced."),
  ...LAG,
  {
    title: "Disk",
    series: lines(["logs", "logs_bytes"], ["free", "free_bytes"]),
    unit: bytes,
  },
  { title: "Connections", series: lines(["clients", "connections"]), unit: count },
  { title: "Processors in use", series: lines(["broker", "processors"]), unit: processors },
  { title: "Memory", series: lines(["broker", "memory_bytes"]), unit: bytes },
];
const OF_TOPIC = [TRAFFIC, { title: "Size", series: lines(["size", "size_bytes"]), unit: bytes }];

/** What is shown, by the query: its path in the API, its name, its page. */
function subjectOf({ topic, group }) {
  if (topic)
    return {
      path: `/topics/${encodeURIComponent(topic)}/history`,
      name: `topic ${topic}`,
      page: href(["topics", topic]),
      charts: OF_TOPIC,
    };
  if (group)
    return {
      path: `/groups/${encodeURIComponent(group)}/history`,
      name: `group ${group}`,
      page: href(["groups", group]),
      charts: LAG,
    };
  return { path: "/history", name: "", page: "", charts: OF_BROKER };
}

/** A series at `times`, which others may have more of: between two of its values, or for a while
    behind its last, it is undefined; where it was not measured for longer than usual, null. */
function valuesAt(times, series, value, step_s) {
  const own = series.at_s;
  const pauses = own.slice(1).map((at, index) => at - own[index]);
  const usual = pauses.sort((a, b) => a - b)[Math.floor(pauses.length / 2)] ?? 0;
  const longest = 2 * Math.max(usual, step_s);
  let next = 0;
  return times.map((second) => {
    while (own[next] < second) next++;
    if (own[next] === second) return series[value][next];
    return (own[next] ?? second) - own[next - 1] <= longest ? undefined : null;
  });
}

/** [seconds[], values[]…]; a step that is missing is a gap in the line. */
function aligned(data, names, value) {
  const each = names.map((name) => data.series[name]);
  const seconds = [...new Set(each.flatMap((one) => one.at_s))].sort((a, b) => a - b);
  const times = [];
  for (const at of seconds) {
    const last = times.at(-1);
    if (last !== undefined && at - last > 2 * data.step_s) times.push(last + data.step_s);
    times.push(at);
  }
  return [times, ...each.map((one) => valuesAt(times, one, value, data.step_s))];
}

function One({ chart, data, value }) {
  const names = Object.keys(chart.series);
  const drawn = useMemo(() => aligned(data, Object.values(chart.series), value), [data, value]);
  return html`
    <section class="card">
      <h2>${chart.title}</h2>
      ${
        drawn[0].length < 2
          ? html`<p class="muted idle">${chart.none ?? "Nothing was measured in this time."}</p>`
          : html`
            <${Chart} label=${chart.title} series=${names} data=${drawn} unit=${chart.unit}
                height=${150} idle=${chart.idle} span=${[data.from_s, data.to_s]} />
          `
      }
    </section>
  `;
}

const STEPS = { 10: "10 seconds", 60: "a minute", 600: "10 minutes", 3600: "an hour" };

export function History({ route }) {
  const { query } = route;
  const subject = subjectOf(query);
  const [value, setValue] = useState("mean");
  const [now, setNow] = useState(Date.now());
  const { from_s, to_s, isNow } = rangeOf(query, now);
  const found = useApi(`${subject.path}?from_s=${from_s}&to_s=${to_s}`);
  const again = () => (isNow ? setNow(Date.now()) : found.reload());
  return html`
    <${Head} title=${subject.name ? `History of ${subject.name}` : "History"}
        crumbs=${
          subject.page &&
          html`<a href=${subject.page}>${subject.name}</a> · <a href="#/history">the broker</a>`
        }>
      <button type="button" onClick=${again}>Now</button>
    <//>
    <div class="filters">
      <${TimeRange} query=${query} />
      <label>
        Values${" "}
        <select value=${value} onChange=${(event) => setValue(event.target.value)}>
          <option value="mean">the mean of each step</option>
          <option value="max">the highest of each step</option>
        </select>
      </label>
    </div>
    <${Loaded} from=${found}>
      ${(data) => html`
        <p class="muted">
          A step is ${STEPS[data.step_s]}. ${data.kept_days} days are kept on the broker's disk.
          ${
            data.left_out > 0 &&
            html` ${count(data.left_out)} numbers of topics and groups have no history: they are
            more than <code>admin.history.series.max</code>.`
          }
        </p>
        <div class="charts">
          ${subject.charts.map(
            (chart) =>
              html`<${One} key=${chart.title} chart=${chart} data=${data} value=${value} />`,
          )}
        </div>
      `}
    <//>
  `;
}
