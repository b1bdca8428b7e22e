// A mirror is a program of its own, at either side: this form makes the command that starts it.
import { html, useState } from "../html.js";
import { useLive } from "../live.js";
import { Copy } from "../parts/copy.js";
import { Dialog } from "../parts/dialog.js";

const SAFE = /^[\w.,:/@%+=-]+$/;

/** As one word of a shell. */
const word = (text) => (SAFE.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

const FIELDS = [
  ["name", "Name", "one for each source"],
  ["source", "From: the source's address", "HOST:PORT[,…]"],
  ["target", "To: this broker's address", "HOST:PORT[,…]"],
  ["topics", "Topics: a regular expression", "measurements|alarms"],
  ["groups", "Groups whose offsets come along (empty: none)", "a regular expression"],
];

export function NewMirror({ onClose }) {
  const kafka = useLive((state) => state.health)?.listeners.kafka ?? "";
  const [values, setValues] = useState({ name: "mirror", target: String(kafka).split(",")[0] });
  const put = (name) => (event) => setValues((old) => ({ ...old, [name]: event.target.value }));
  const value = (name) => (values[name] ?? "").trim();
  const missing = ["name", "source", "target", "topics"].filter((name) => !value(name));
  const line = [
    "appliance mirror",
    `--name ${word(value("name"))}`,
    `--from ${word(value("source"))}`,
    `--to ${word(value("target"))}`,
    `--topics ${word(value("topics"))}`,
    value("groups") && `--groups ${word(value("groups"))}`,
    `--report ${location.protocol === "https:" ? location.origin : location.host}`,
  ]
    .filter(Boolean)
    .join(" ");
  return html`
    <${Dialog} title="New mirror" cancel="Close" onClose=${onClose}>
      <div class="fields">
        ${FIELDS.map(
          ([name, label, hint]) => html`
            <label key=${name}>
              ${label}
              <input autocomplete="off" spellcheck=${false} placeholder=${hint}
                  value=${values[name] ?? ""} onInput=${put(name)} />
            </label>
          `,
        )}
        ${
          missing.length > 0
            ? html`<p class="muted">Still wanted: ${missing.join(", ")}.</p>`
            : html`
              <div class="head">
                <h3>Run this where both brokers can be reached</h3>
                <${Copy} text=${() => line} title="copy" what="the command" />
              </div>
              <pre tabindex="0">${line}</pre>
              <p class="muted">
                It appears on this page with its first report. Where these pages have a login, give
                it the token of an operator in <code>APPLIANCE_TOKEN</code>: ${" "}
                <a href="#/access">Users and tokens</a> makes one.
              </p>
            `
        }
      </div>
    <//>
  `;
}
