// The form of an export.
import { html, useState } from "../html.js";
import { api } from "../api.js";
import { Dialog } from "../parts/dialog.js";
import { EXAMPLES, NextTimes, zoneIn } from "../parts/schedule.js";

const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
const plain = (text) => text.split(/[\s,]+/).filter(Boolean);

/** Creates or changes an export. Fields that the form does not have keep their values. */
export function Edit({ of, onClose }) {
  const known = of?.schedule;
  const [name, setName] = useState(of?.name ?? "");
  const [by, setBy] = useState(of?.pattern ? "pattern" : "topics");
  const [which, setWhich] = useState(of ? (of.pattern ?? of.topics.join(" ")) : "");
  const [target, setTarget] = useState(of?.target ?? "");
  const [schema, setSchema] = useState(of?.schema ?? "raw");
  const [when, setWhen] = useState(of ? (known?.when ?? known?.cron ?? "") : "every hour at :05");
  const [zone, setZone] = useState(known ? (known.timezone ?? "UTC") : here);
  const [jitter, setJitter] = useState(known?.jitter_seconds ?? 60);
  const [retries, setRetries] = useState(known?.retries ?? 3);
  const itsZone = zoneIn(when) ?? zone;
  const send = () => {
    const { status, ...rest } = of ?? {};
    const schedule = when.trim()
      ? {
          when: when.trim(),
          timezone: itsZone,
          jitter_seconds: Number(jitter),
          retries: Number(retries),
        }
      : null;
    const body = {
      ...rest,
      name,
      target,
      schema,
      schedule,
      topics: by === "topics" ? plain(which) : [],
      pattern: by === "pattern" ? which.trim() : null,
    };
    return api(`/exports/${encodeURIComponent(name)}`, { method: "PUT", body });
  };
  const field = (label, value, set, more = {}) => html`
    <label>
      ${label}
      <input autocomplete="off" spellcheck=${false} value=${value}
          onInput=${(event) => set(event.target.value)} ...${more} />
    </label>
  `;
  return html`
    <${Dialog} title=${of ? `Change ${of.name}` : "New export"} send=${of ? "Save" : "Create"}
        onSend=${send} onClose=${onClose}>
      <div class="fields">
        ${
          !of &&
          field("Name", name, setName, { required: true, pattern: "[a-zA-Z0-9._\\-]{1,100}" })
        }
        <label>
          Select topics by
          <select value=${by} onChange=${(event) => setBy(event.target.value)}>
            <option value="topics">name</option>
            <option value="pattern">pattern</option>
          </select>
        </label>
        ${field(
          by === "topics"
            ? "Topics, separated by spaces"
            : "Pattern (a regular expression for the whole name)",
          which,
          setWhich,
          { required: true },
        )}
        ${field("Target, a folder or s3://BUCKET/FOLDER", target, setTarget, { required: true })}
        <label>
          Columns
          <select value=${schema} onChange=${(event) => setSchema(event.target.value)}>
            <option value="raw">key and value as they are stored</option>
            <option value="json">the fields of JSON values</option>
            ${of?.schema === "avro" && html`<option value="avro">those of an Avro schema</option>`}
          </select>
        </label>
        ${field("Schedule, in words or cron (empty: manual)", when, setWhen, {
          placeholder: "daily 02:00",
          list: "schedules",
        })}
        <datalist id="schedules">
          ${EXAMPLES.map((each) => html`<option value=${each}></option>`)}
        </datalist>
        ${
          when.trim() &&
          html`
            ${field("Time zone", itsZone, setZone, {
              required: true,
              disabled: itsZone === zoneIn(when),
            })}
            <div>Next runs<${NextTimes} words=${when} zone=${itsZone} /></div>
            ${field("Random delay, up to seconds", jitter, setJitter, {
              type: "number",
              min: 0,
            })}${field("Retries", retries, setRetries, { type: "number", min: 0 })}
          `
        }
      </div>
    <//>
  `;
}
