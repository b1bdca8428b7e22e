// A line chart over time. For screen readers there are a sentence and a table with the same data.
import { html, useEffect, useMemo, useRef, useState } from "../html.js";
import uPlot from "../vendor/uplot.mjs";
import { time } from "../format.js";

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const DAYS_S = 2 * 86_400;
/** The time of day, or the day if there are several. */
const tick = (second, splits) =>
  splits.at(-1) - splits[0] > DAYS_S
    ? time(second * 1000).slice(5, 10)
    : time(second * 1000).slice(11);

const isKnown = (value) => value !== null && value !== undefined;

/** At a time for which others have a value, that of before; null: there is a gap. */
function valueAt(values, index) {
  let at = index;
  while (at > 0 && values[at] === undefined) at--;
  return values[at] ?? null;
}

/** A value beside the chart's lines: "64 KiB/s". */
const inWords = (value, unit) => unit(value).replace(/\.0(?=\D)/, "");

const SPIKE = 5;
/** Where the chart ends: one value that is many times the others must not flatten them. Infinity:
    there is none. */
export function ceiling(values) {
  const all = values
    .flat()
    .filter(isKnown)
    .sort((a, b) => a - b);
  const usual = all[Math.floor((all.length - 1) * 0.97)] ?? 0;
  return usual > 0 && all.at(-1) > SPIKE * usual ? 1.5 * usual : Infinity;
}

function highest(data, series) {
  let found = { value: -Infinity };
  series.forEach((name, index) =>
    data[index + 1].forEach((value, at) => {
      if (isKnown(value) && value > found.value) found = { value, name, second: data[0][at] };
    }),
  );
  return found;
}

function options(series, unit, width, height, limit) {
  const grid = { stroke: css("--line"), width: 1 };
  const axis = { stroke: css("--muted"), grid, ticks: { show: false }, font: "12px system-ui" };
  return {
    width,
    height,
    legend: { show: false },
    cursor: { y: false, points: { size: 7 } },
    scales: {
      x: { range: (_, low, high) => limit.span ?? [low, high] },
      y: {
        range: (_, low, high) => [
          Math.min(0, low),
          high > 0 ? Math.min(high * 1.08, limit.top) : 1,
        ],
      },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 28,
        values: (_, splits) => splits.map((second) => tick(second, splits)),
        space: 66,
      },
      {
        ...axis,
        size: 74,
        values: (_, splits) => splits.map((value) => inWords(value, unit)),
        ...(unit.steps && { incrs: unit.steps }),
      },
    ],
    series: [
      {},
      ...series.map((name, index) => ({
        label: name,
        stroke: css(`--plot-${index + 1}`),
        width: 2,
        points: { show: false },
        fill: index === 0 ? `color-mix(in srgb, ${css("--plot-1")} 12%, transparent)` : undefined,
      })),
    ],
  };
}

/** `data` is [seconds[], values of the first series[], …]: null for a gap, undefined where only
    others have a value. `unit` formats a value; `unit.steps` are round ones.
    `idle`: what to say when all values are 0. `span`: the time shown, if not that of the data. */
export function Chart({ label, series, data, unit, height = 190, idle, span }) {
  const box = useRef();
  const plot = useRef();
  const [asTable, setAsTable] = useState(false);
  const [at, setAt] = useState(null);
  const newest = data[0].length - 1;
  const theme = document.documentElement.dataset.theme;
  const [isWhole, setWhole] = useState(false);
  const cut = useMemo(() => ceiling(data.slice(1)), [data]);
  const limit = useRef({});
  limit.current.top = isWhole ? Infinity : cut;
  limit.current.span = span;
  const isIdle =
    idle && newest >= 0 && data.slice(1).every((each) => each.every((value) => !value));
  const isShort = newest < 1 && !span; // a line has two ends
  useEffect(() => {
    if (asTable || isIdle || isShort) return undefined;
    const holder = box.current;
    const made = new uPlot(
      options(series, unit, holder.clientWidth, height, limit.current),
      data,
      holder,
    );
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: holder.clientWidth, height }));
    watch.observe(holder);
    return () => {
      watch.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [asTable, isIdle, isShort, theme, series.join()]);
  useEffect(() => {
    plot.current?.setData(data);
  }, [data, isWhole]);
  const pointed = at === null ? newest : Math.min(at, newest);
  const values = series.map((name, index) => `${name} ${unit(valueAt(data[index + 1], pointed))}`);
  const said =
    newest < 0 ? "no data yet" : `${time(data[0][pointed] * 1000)}: ${values.join(", ")}`;
  const onKey = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -newest, End: newest }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(newest, pointed + step));
    setAt(next);
    if (plot.current)
      plot.current.setCursor({ left: plot.current.valToPos(data[0][next], "x"), top: 0 });
  };
  if (isIdle) return html`<p class="muted idle">${idle}</p>`;
  const top = cut === Infinity ? null : highest(data, series);
  return html`
    <div>
      <div class="head">
        <div class="legend">
          ${series.map(
            (name, index) => html`
              <span class=${`swatch-${index + 1}`}>
                ${name}${" "}
                <b class="num">
                  ${newest < 0 ? "–" : unit(valueAt(data[index + 1], pointed))}
                </b>
              </span>
            `,
          )}
        </div>
        <button type="button" class="plain" aria-pressed=${asTable}
            onClick=${() => setAsTable(!asTable)}>
          ${asTable ? "Show as chart" : "Show as table"}
        </button>
      </div>
      ${
        asTable
          ? html`
            <div class="scroll" style="max-height:260px;overflow-y:auto" tabindex="0" role="region"
                aria-label=${label}>
              <table>
                <thead>
                  <tr>
                    <th scope="col">Time</th>
                    ${series.map((name) => html`<th scope="col" class="num">${name}</th>`)}
                  </tr>
                </thead>
                <tbody>
                  ${data[0]
                    .map(
                      (second, index) => html`
                        <tr key=${second}>
                          <td>${time(second * 1000)}</td>
                          ${series.map(
                            (_, each) => html`<td class="num">${unit(data[each + 1][index])}</td>`,
                          )}
                        </tr>
                      `,
                    )
                    .reverse()}
                </tbody>
              </table>
            </div>
          `
          : html`
            <div class="chart" ref=${box} role="img" tabindex="0"
                aria-label=${`${label}. ${said}. Arrow keys move along the line.`}
                onKeyDown=${onKey} onBlur=${() => setAt(null)}></div>
            ${isShort && html`<p class="muted idle">The line begins with the next look.</p>`}
          `
      }
      ${
        top &&
        !asTable &&
        html`
          <p class="muted">
            The highest, ${top.name} ${unit(top.value)} at ${time(top.second * 1000)},
            ${isWhole ? " flattens the others." : " is above this chart."}${" "}
            <button type="button" class="plain" onClick=${() => setWhole(!isWhole)}>
              ${isWhole ? "Leave it out" : "Show it"}
            </button>
          </p>
        `
      }
    </div>
  `;
}
