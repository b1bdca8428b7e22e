// Between a definition of an export and the texts of its form.
import { asSize, ofSize } from "../parts/size.js";
import { FIELDS } from "./export_options.js";

/** As the form shows a definition. */
export function written(of) {
  const options = of?.options ?? {};
  const [way, ...field] = (of?.partition_by ?? "timestamp").split(":");
  const shown = FIELDS.map(({ name, kind, default: usual, choices }) => {
    const value = options[name] ?? null;
    if (kind === "flag") return [name, Boolean(value)];
    if (value === null || (choices && value === usual)) return [name, ""];
    if (kind === "size") return [name, asSize(value)];
    return [name, typeof value === "object" ? JSON.stringify(value) : String(value)];
  });
  return { ...Object.fromEntries(shown), partition_by: way, time_field: field.join(":") };
}

class Wrong extends Error {}

const READ = {
  size(text, { least }) {
    const size = ofSize(text);
    if (!(size >= least))
      throw new Wrong(`got ${text}, wanted a size such as 128 MiB, ${asSize(least)} or more`);
    return size;
  },
  whole(text) {
    if (!/^\d{1,15}$/.test(text)) throw new Wrong(`got ${text}, wanted a whole number, 0 or more`);
    return Number(text);
  },
  share(text) {
    const share = Number(text);
    if (!(share >= 0 && share <= 1)) throw new Wrong(`got ${text}, wanted a number from 0 to 1`);
    return share;
  },
  bound(text) {
    if (/^\d{1,15}$/.test(text)) return Number(text);
    if (!text.startsWith("{")) return text;
    return parsed(text, 'offsets by partition, as {"0": 5}');
  },
  long(text) {
    parsed(text, "the schema as JSON");
    return text;
  },
};

function parsed(text, wanted) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Wrong(`${error.message}. Wanted ${wanted}`);
  }
}

/** What one field comes to; null: it is not set. Throws an error with what to do. */
export function read(field, values) {
  const value = values[field.name];
  if (field.isShown?.(values) === false) return null;
  if (field.name === "table") return value ? "iceberg" : null;
  if (field.kind === "flag") return value || null;
  const text = value.trim();
  return text === "" ? null : (READ[field.kind]?.(text, field) ?? text);
}

const OF_DEFINITION = ["partition_by", "time_field"];

/** `options` and `partition_by` of a definition, and what is wrong by the fields' names. */
export function definitionOf(values, known) {
  const options = { ...known?.options };
  const faults = {};
  for (const field of FIELDS.filter(({ name }) => !OF_DEFINITION.includes(name))) {
    delete options[field.name];
    try {
      const value = read(field, values);
      if (value !== null) options[field.name] = value;
    } catch (error) {
      if (!(error instanceof Wrong)) throw error;
      faults[field.name] = error.message;
    }
  }
  const { partition_by: way, time_field: name } = values;
  if (way === "field" && !name.trim()) faults.time_field = "wanted the name of a field";
  const by = way === "field" ? `field:${name.trim()}` : way;
  const isSaid = known?.partition_by || by !== "timestamp";
  return { options, partition_by: isSaid ? by : null, faults };
}

const isSet = ({ name, isShown }, values) =>
  isShown?.(values) !== false &&
  values[name] &&
  !(name === "partition_by" && values[name] === "timestamp");

/** What is set, in words: for the head of a folded group, and for the export's page. */
export const settings = (values, groups) =>
  FIELDS.filter((each) => groups.includes(each.group) && isSet(each, values)).map(
    ({ name, kind, brief }) =>
      ["flag", "long"].includes(kind) ? brief : `${brief} ${values[name]}`,
  );
