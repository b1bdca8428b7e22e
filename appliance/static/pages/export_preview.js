// What an export's target, folders and schema come to, while somebody types them.
import { html } from "../html.js";
import { bytes, count, some } from "../format.js";
import { ofSize } from "../parts/size.js";

const STORES = {
  s3: ["an S3 store", "s3"],
  s3a: ["an S3 store", "s3"],
  gs: ["Google Cloud Storage", "gcs"],
  gcs: ["Google Cloud Storage", "gcs"],
  abfs: ["Azure's storage", "abfs"],
  abfss: ["Azure's storage", "abfs"],
};
const COLUMNS_SHOWN = 8;

export const schemeOf = (target) => /^(\w+):\/\//.exec(target.trim())?.[1];
export const isStore = (target) => ![undefined, "file"].includes(schemeOf(target));

export function Where({ target }) {
  const scheme = schemeOf(target);
  const [store, extra] = STORES[scheme] ?? [];
  if (store)
    return html`
      <p>
        In ${store}. The scheduler and its workers need
        ${" "}<code>appliance-log[${extra}]</code>${" "} and find the credentials in their own
        environment; none belongs here. Readers take the files that
        ${" "}<code>appliance export files</code>${" "} lists.
      </p>
    `;
  if (isStore(target)) return html`<p>Wanted s3://, gs:// or abfs://, or the path of a folder.</p>`;
  return html`<p>A folder: an absolute path that all Spark workers see.</p>`;
}

/** Of now, by the clocks of a zone; null: the browser does not know it. */
function nowIn(zone) {
  const wanted = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit" };
  try {
    const told = new Intl.DateTimeFormat("en-US", {
      timeZone: zone,
      hourCycle: "h23",
      ...wanted,
    }).formatToParts(new Date());
    return Object.fromEntries(told.map(({ type, value }) => [type, value]));
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

export function folderOf({ target, topic, layout, zone }) {
  const now = nowIn(zone.trim() || "UTC");
  if (now === null) return null;
  const root = (target.trim() || "TARGET").replace(/\/+$/, "");
  const date = `date=${now.year}-${now.month}-${now.day}`;
  const hour = layout === "day" ? "" : `hour=${now.hour}/`;
  return `${root}/topic=${topic || "TOPIC"}/${date}/${hour}`;
}

export function Folder({ values, topic }) {
  const folder = folderOf({ ...values, topic });
  const size = ofSize(values.file_bytes);
  if (folder === null)
    return html`
      <p class="said bad">
        ${values.zone}: this browser knows no such zone. Wanted a name such as Europe/Berlin.
      </p>
    `;
  return html`
    <p>A record of now would go to</p>
    <pre class="path">${folder}${topic || "TOPIC"}+PARTITION+FROM+TO.parquet</pre>
    ${size > 0 && html`<p>then …+part1.parquet and so on, each of about ${bytes(size)}</p>`}
  `;
}

export function Size({ text }) {
  const size = text.trim() ? ofSize(text) : NaN;
  return size > 0 && html`<p>= ${count(size)} bytes</p>`;
}

/** The columns that a typed schema makes, or why it is none. */
export function Columns({ text }) {
  if (!text.trim()) return null;
  let found;
  try {
    found = JSON.parse(text);
  } catch (error) {
    return html`<p class="said bad">${error.message}</p>`;
  }
  const fields = found?.fields ?? {};
  const names = Array.isArray(fields) ? fields.map((each) => each?.name) : Object.keys(fields);
  const more = names.length > COLUMNS_SHOWN ? ", …" : "";
  return html`
    <p>
      ${some(names.length, "column")}${names.length > 0 && ": "}${
        names.slice(0, COLUMNS_SHOWN).join(", ") + more
      }
    </p>
  `;
}
