// The options of an export: what each means, its default, and what may be typed.
const OF_LOG = 'earliest, latest, an offset, @2026-11-01, or {"0": 5} by partition';

export const GROUPS = { tables: "Tables", keeping: "Retention and late records", range: "Range" };

/** `default` is the job's, where nothing is set. `brief`: its name beside a value. */
export const FIELDS = [
  {
    name: "layout",
    group: "files",
    brief: "a folder each",
    label: "A folder for each",
    choices: [
      ["", "as they are there already; else hour"],
      ["hour", "hour"],
      ["day", "day"],
    ],
    hint:
      "Days are for topics with little data. A target keeps what a topic began with. Default: " +
      "that, in a new one hour.",
  },
  {
    name: "zone",
    group: "files",
    brief: "clocks of",
    label: "Clocks that tell hour and day",
    placeholder: "UTC",
    list: "zones",
    hint: "A zone, such as Europe/Berlin. Default: as the target has it, a new one UTC.",
  },
  {
    name: "partition_by",
    group: "files",
    brief: "times by",
    label: "The time of a record is",
    choices: [
      ["timestamp", "its timestamp"],
      ["append", "when it was appended (LogAppendTime)"],
      ["field", "in a field of its value"],
    ],
    hint: "It decides the folder. Default: its timestamp.",
  },
  {
    name: "time_field",
    group: "files",
    brief: "field",
    label: "Field with the time",
    placeholder: "order.created_at",
    hint:
      "ISO 8601, a date, or a number since 1970, in JSON or Avro. Records without it are dead " +
      "letters.",
    isShown: ({ partition_by: way }) => way === "field",
  },
  {
    name: "file_bytes",
    group: "files",
    kind: "size",
    brief: "files near",
    label: "Cut files near",
    least: 2 ** 20,
    hint: "Such as 128 MiB; 1 MiB or more. Default: no file is cut.",
  },
  {
    name: "schema_json",
    group: "columns",
    kind: "long",
    brief: "a schema of its own",
    label: "Schema of the values, as JSON",
    hint:
      'Avro: that of all values. Else {"fields": {"id": "long"}}. Default: the first run infers ' +
      "it from a sample and pins it. appliance export schema TOPIC --propose shows one.",
    isShown: ({ schema }) => schema !== "raw",
  },
  {
    name: "framing",
    group: "columns",
    brief: "framing",
    label: "Before each Avro value",
    choices: [
      ["", "Confluent's header of five bytes"],
      ["none", "nothing"],
    ],
    default: "confluent",
    hint: "The header is skipped. Default: Confluent's.",
    isShown: ({ schema }) => schema === "avro",
  },
  {
    name: "dead_letter_share",
    group: "columns",
    kind: "share",
    brief: "dead letters up to",
    label: "Share of dead letters that fails a run",
    default: 0.5,
    hint: "0 to 1. With more of them nothing is committed. Default: 0.5.",
    isShown: ({ schema, partition_by: way }) => schema !== "raw" || way === "field",
  },
  {
    name: "table",
    group: "tables",
    kind: "flag",
    brief: "Iceberg",
    label: "Keep an Iceberg table of each topic",
    hint: "It follows each run with one snapshot of the same Parquet files. Default: none.",
  },
  {
    name: "table_name",
    group: "tables",
    brief: "as",
    label: "Iceberg: namespace and name",
    placeholder: "lake.{topic}",
    hint: "NAMESPACE.NAME, where {topic} is the topic's. Default: lake.{topic}.",
    isShown: ({ table }) => table,
  },
  {
    name: "catalog",
    group: "tables",
    brief: "in the catalog",
    label: "Iceberg: catalog",
    hint:
      "A name in pyiceberg's configuration of the scheduler. Default: an SQLite file in the " +
      "folder. An object store has no room for one: there it is needed.",
    isShown: ({ table }) => table,
  },
  {
    name: "delta",
    group: "tables",
    kind: "flag",
    brief: "Delta",
    label: "Keep a Delta table of each topic",
    hint: "Also beside Iceberg. Only of a folder: it finds its files by links. Default: none.",
  },
  {
    name: "hold_bytes",
    group: "keeping",
    kind: "size",
    brief: "held up to",
    label: "Hold unexported records, up to",
    default: 0,
    least: 0,
    hint:
      "Retention keeps them, until that is so much more than it would leave. Such as 10 GiB. " +
      "Default: 0, none. A cluster has no holds.",
  },
  {
    name: "grace_seconds",
    group: "keeping",
    kind: "whole",
    brief: "complete after seconds",
    label: "Seconds until an hour or day is complete",
    default: 3600,
    hint: "Then its folder gets _SUCCESS. Later records still go there. Default: 3600.",
  },
  {
    name: "accept_loss",
    group: "keeping",
    kind: "flag",
    brief: "goes on behind losses",
    label: "Go on where unexported records are deleted or damaged",
    hint:
      "Retention has deleted them, or the disk has lost them. Default: a run stops there, " +
      "and says which.",
  },
  {
    name: "from",
    group: "range",
    kind: "bound",
    brief: "from",
    label: "The first run begins at",
    default: "earliest",
    hint: `${OF_LOG}. Later runs go on where the last one ended. Default: earliest.`,
  },
  {
    name: "to",
    group: "range",
    kind: "bound",
    brief: "to",
    label: "Runs end at",
    default: "latest",
    hint: `${OF_LOG}. Default: latest.`,
  },
  {
    name: "isolation",
    group: "range",
    brief: "transactions",
    label: "Records of transactions",
    choices: [
      ["", "only committed ones"],
      ["read_uncommitted", "also open and aborted ones"],
    ],
    default: "read_committed",
    hint: "Default: only committed ones.",
  },
  {
    name: "split_bytes",
    group: "range",
    kind: "size",
    brief: "tasks of",
    label: "Log that one task reads",
    default: 128 * 2 ** 20,
    least: 1,
    hint: "A failed task repeats so much. Default: 128 MiB, or the size of files.",
  },
];
