// The form of an export: all that `appliance export define` takes.
import { html, useEffect, useState } from "../html.js";
import { api } from "../api.js";
import { Dialog } from "../parts/dialog.js";
import { Field, Fold, Group, toFault } from "../parts/field.js";
import { EXAMPLES, NextTimes, zoneIn } from "../parts/schedule.js";
import { definitionOf, settings, written } from "./export_fields.js";
import { FIELDS, GROUPS } from "./export_options.js";
import { Columns, Folder, isStore, Size, Where } from "./export_preview.js";

const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
const plain = (text) => text.split(/[\s,]+/).filter(Boolean);
const zones = Intl.supportedValuesOf?.("timeZone") ?? [];

const COLUMNS = [
  ["raw", "key and value as they are stored"],
  ["json", "the fields of JSON values"],
  ["registry", "fields by a schema registry (Avro, Protobuf, JSON)"],
  ["avro", "the fields of Avro values, all of one schema"],
];
const MEANING = {
  raw: "As Spark's Kafka connector has them, with partition, offset, timestamp and headers.",
  json: "With _key, _offset and others; what has no column is in _rest.",
  registry:
    "By the schema id in each value or header. The scheduler asks the registry that its " +
    "environment names (APPLIANCE_EXPORT_REGISTRY).",
  avro: "By the schema beside it, which all values must have. Workers need fastavro.",
};

function valuesOf(of) {
  const known = of?.schedule;
  return {
    ...written(of),
    name: of?.name ?? "",
    by: of?.pattern ? "pattern" : "topics",
    which: of ? (of.pattern ?? of.topics.join(" ")) : "",
    target: of?.target ?? "",
    schema: of?.schema ?? "raw",
    when: of ? (known?.when ?? known?.cron ?? "") : "every hour at :05",
    timezone: known ? (known.timezone ?? "UTC") : here,
    jitter_seconds: known?.jitter_seconds ?? 60,
    retries: known?.retries ?? 3,
  };
}

const scheduleOf = ({ when, timezone, jitter_seconds: jitter, retries }) =>
  when.trim()
    ? {
        when: when.trim(),
        timezone: zoneIn(when) ?? timezone,
        jitter_seconds: Number(jitter),
        retries: Number(retries),
      }
    : null;

/** Which field an error of the broker is about: "options.zone: got …". null: none that is here. */
function faultIn(error) {
  if (error.status === 409 && error.message.includes("there is one already"))
    return ["name", "there is an export of this name: choose another, or change that one"];
  const [, path, said] = /^([a-z_.]+): (.*)$/s.exec(error.message) ?? [];
  if (error.status !== 400 || !path) return null;
  const last = path.split(".").pop();
  const ways = { cron: "when", topics: "which", pattern: "which" };
  const name = ways[last] ?? last;
  return document.querySelector(`dialog [name="${name}"]`) ? [name, said] : null;
}

/** Creates or changes an export. Fields that the form does not have keep their values. */
export function Edit({ of, onClose }) {
  const [values, setValues] = useState(() => valuesOf(of));
  const [faults, setFaults] = useState({});
  const [tries, setTries] = useState(0);
  const [version] = useState(of?.status.version ?? "new");
  useEffect(toFault, [tries]);
  const told = (found) => {
    setFaults(found);
    setTries((count) => count + 1);
    return false;
  };
  const send = async () => {
    const { status, ...rest } = of ?? {};
    const { faults: found, ...made } = definitionOf(values, of);
    if (Object.keys(found).length) return told(found);
    const body = {
      ...rest,
      ...made,
      name: values.name,
      target: values.target.trim(),
      schema: values.schema,
      schedule: scheduleOf(values),
      topics: values.by === "topics" ? plain(values.which) : [],
      pattern: values.by === "pattern" ? values.which.trim() : null,
    };
    try {
      await api(`/exports/${encodeURIComponent(values.name)}?version=${version}`, {
        method: "PUT",
        body,
      });
    } catch (error) {
      const fault = faultIn(error);
      if (!fault) throw error;
      return told(Object.fromEntries([fault]));
    }
    return true;
  };
  const set = (name) => (value) => {
    setValues((old) => ({ ...old, [name]: value }));
    setFaults(({ [name]: _, ...others }) => others);
  };
  const given = (name) => ({ name, value: values[name], set: set(name), fault: faults[name] });
  return html`
    <${Dialog} title=${of ? `Change ${of.name}` : "New export"} send=${of ? "Save" : "Create"} wide
        onSend=${send} onClose=${onClose}>
      <datalist id="zones">${zones.map((each) => html`<option value=${each}></option>`)}</datalist>
      <${What} isNew=${!of} given=${given} by=${values.by} />
      <${Group} title="Folders and files">
        <${Options} group="files" values=${values} given=${given} />
        <div class="wide">
          <${Folder} values=${values}
              topic=${values.by === "topics" ? plain(values.which)[0] : ""} />
        </div>
      <//>
      <${Group} title="Values">
        <${Field} ...${given("schema")} label="Columns" choices=${COLUMNS}
            hint=${MEANING[values.schema]} />
        <${Options} group="columns" values=${values} given=${given} />
      <//>
      <${When} values=${values} given=${given} />
      ${Object.entries(GROUPS).map(
        ([group, title]) => html`
          <${Options} key=${group} group=${group} title=${title} values=${values} given=${given}
              faults=${faults} />
        `,
      )}
    <//>
  `;
}

function What({ isNew, given, by }) {
  const topics = by === "topics";
  return html`
    <${Group} title="What, and where to">
      ${
        isNew &&
        html`
          <${Field} ...${given("name")} label="Name" required pattern="[a-zA-Z0-9._\\-]{1,100}"
              hint="Letters, digits, dots, underscores and hyphens; it cannot be changed later." />
        `
      }
      <${Field} ...${given("by")} label="Select topics by"
          choices=${[
            ["topics", "name"],
            ["pattern", "pattern"],
          ]} />
      <${Field} ...${given("which")} required
          label=${
            topics
              ? "Topics, separated by spaces"
              : "Pattern (a regular expression for the whole name)"
          } />
      <${Field} ...${given("target")} label="Target, a folder or s3://BUCKET/FOLDER" required
          hint="It must be below a --root of the scheduler.">
        <${Where} target=${given("target").value} />
      <//>
    <//>
  `;
}

function When({ values, given }) {
  const own = zoneIn(values.when);
  return html`
    <${Group} title="When">
      <${Field} ...${given("when")} label="Schedule, in words or cron (empty: manual)"
          placeholder="daily 02:00" list="schedules" />
      <datalist id="schedules">
        ${EXAMPLES.map((each) => html`<option value=${each}></option>`)}
      </datalist>
      ${
        values.when.trim() &&
        html`
          <${Field} ...${given("timezone")} value=${own ?? values.timezone} label="Time zone"
              required list="zones" disabled=${Boolean(own)} />
          <div class="wide">
            Next runs<${NextTimes} words=${values.when} zone=${own ?? values.timezone} />
          </div>
          <${Field} ...${given("jitter_seconds")} label="Random delay, up to seconds" type="number"
              min=${0} />
          <${Field} ...${given("retries")} label="Retries" type="number" min=${0}
              hint="Of a failed run, after 30 s, 60 s and so on." />
        `
      }
    <//>
  `;
}

/** The options of a group. With a title they are folded until one is set. */
function Options({ group, title, values, given, faults = {} }) {
  const shown = FIELDS.filter((each) => each.group === group && each.isShown?.(values) !== false);
  const fields = shown.map(
    ({ isShown, least, brief, default: usual, group: _, ...field }) => html`
      <${Field} key=${field.name} ...${field} ...${given(field.name)}
          disabled=${field.name === "delta" && isStore(values.target) && !values.delta}>
        ${field.kind === "size" && html`<${Size} text=${values[field.name]} />`}
        ${field.kind === "long" && html`<${Columns} text=${values[field.name]} />`}
      <//>
    `,
  );
  if (!title) return fields;
  const isWrong = shown.some(({ name }) => faults[name]);
  const set = settings(values, [group]);
  const [isUsed] = useState(set.length > 0);
  return html`
    <${Fold} title=${title} summary=${set.join(", ") || "as usual"} isOpen=${isUsed || isWrong}>
      ${fields}
    <//>
  `;
}
