// Rates and size of a topic, as this page has seen them since it was opened.
import { html, useEffect, useState } from "../html.js";
import { Chart } from "../parts/chart.js";
import { href } from "../router.js";
import { bytes, duration, rate } from "../format.js";

const KEPT = 600; // samples of a topic: half an hour
const TOPICS_KEPT = 10; // the last that were looked at
const seen = new Map();

/** Keeps what a topic told of itself, also while another page is shown. */
export function useSamples(topic, { data, at }) {
  const [samples, setSamples] = useState(seen.get(topic) ?? []);
  useEffect(() => {
    if (!data) return;
    const last = samples.at(-1);
    if (last && at <= last.at) return;
    const { received_bytes_per_s: into, sent_bytes_per_s: out, size_bytes: size } = data;
    const next = [...samples, { at, into, out, size }].slice(-KEPT);
    seen.delete(topic);
    seen.set(topic, next);
    if (seen.size > TOPICS_KEPT) seen.delete(seen.keys().next().value);
    setSamples(next);
  }, [data, at]);
  return samples;
}

const column = (samples, name) => samples.map((each) => each[name]);

export function Rates({ topic, samples }) {
  const times = samples.map((each) => each.at / 1000);
  const lasted = samples.length > 1 ? times.at(-1) - times[0] : 0;
  return html`
    <p class="muted">
      ${
        lasted > 0
          ? `The last ${duration(lasted)}, since this page first showed the topic.`
          : "This page keeps what it shows from now on."
      }${" "}
      The last month is in its <a href=${href(["history"], { topic })}>history</a>.
    </p>
    <div class="pair">
      <section class="card">
        <h2>Traffic</h2>
        <${Chart} label="Traffic of the topic, in and out" series=${["in", "out"]} unit=${rate}
            data=${[times, column(samples, "into"), column(samples, "out")]} />
      </section>
      <section class="card">
        <h2>Size</h2>
        <${Chart} label="Size of the topic" series=${["size"]} unit=${bytes}
            data=${[times, column(samples, "size")]} />
      </section>
    </div>
  `;
}
