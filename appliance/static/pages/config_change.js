// The dialog that changes a config of one topic or of several: what it means, what it accepts, and
// what would become of each topic, while one types.
import { html, useEffect, useRef, useState } from "../html.js";
import { api } from "../api.js";
import { Dialog } from "../parts/dialog.js";
import { some } from "../format.js";
import { Results, inWords, several } from "./several_topics.js";

const PAUSE_MS = 300; // of typing
const PREVIEWED = 50; // topics

/** The values to choose from; none: any text. */
function choices({ type, choices: all }) {
  if (type === "boolean") return all.length > 0 ? all : ["true", "false"];
  if (type !== "list" || all.length === 0) return all;
  return [...all, all.join(",")];
}

/** As a person would write it. */
const written = ({ value, words }) => (words && !words.startsWith("about ") ? words : value);

/** What would become of the topics with these configs; none while nothing is asked. */
function usePreview(topics, configs) {
  const [preview, setPreview] = useState([]);
  const asked = useRef(0);
  const text = JSON.stringify(configs);
  useEffect(() => {
    const number = ++asked.current;
    setPreview([]);
    if (!configs) return undefined;
    const show = (results) => asked.current === number && setPreview(results);
    const ask = () =>
      several("configs", topics.slice(0, PREVIEWED), { configs, dry_run: true }, show).catch(
        () => {},
      );
    const timer = setTimeout(ask, PAUSE_MS);
    return () => {
      asked.current++;
      clearTimeout(timer);
    };
  }, [text]);
  return preview;
}

const Choose = ({ rows, chosen, onChoose }) => html`
  <label>
    Config
    <select value=${chosen} onChange=${(event) => onChoose(event.target.value)}>
      ${[...new Set(rows.map((each) => each.group))].map(
        (group) => html`
          <optgroup label=${group}>
            ${rows
              .filter((each) => each.group === group)
              .map((each) => html`<option value=${each.name}>${each.name}</option>`)}
          </optgroup>
        `,
      )}
    </select>
  </label>
`;

function Value({ config, value, disabled, onInput }) {
  const all = choices(config);
  const set = (event) => onInput(event.target.value);
  return html`
    <label>
      Value
      ${
        all.length > 0
          ? html`
            <select disabled=${disabled} value=${value} onChange=${set}>
              ${[...new Set([...all, value])].map(
                (each) => html`<option value=${each}>${each || "(empty)"}</option>`,
              )}
            </select>
          `
          : html`<input spellcheck=${false} disabled=${disabled} value=${value} onInput=${set} />`
      }
    </label>
    ${all.length === 0 && html`<p class="muted">Wanted: ${config.accepts}.</p>`}
  `;
}

/** `rows`: of the topic, or what a topic has that says nothing. `first`: the one to change. With
    `why` it cannot be changed, and the dialog says what it is. */
export function ChangeConfig({ topics, rows, first = rows[0], why = "", onClose, onChanged }) {
  const isOne = topics.length === 1;
  const [name, setName] = useState(first.name);
  const config = rows.find((each) => each.name === name);
  const [value, setValue] = useState(written(config));
  const [back, setBack] = useState(false);
  const [results, setResults] = useState(null);
  const isSame = isOne && value === written(config);
  const configs = { [name]: back ? null : value };
  const preview = usePreview(topics, why || (isSame && !back) || results ? null : configs);
  const choose = (next) => {
    setName(next);
    setValue(written(rows.find((each) => each.name === next)));
    setBack(false);
  };
  const change = async () => {
    if (isOne) {
      await api(`/topics/${encodeURIComponent(topics[0])}`, { method: "PATCH", body: { configs } });
      return onChanged();
    }
    await several("configs", topics, { configs, dry_run: false }, setResults);
    onChanged();
    return false;
  };
  const isToDo = !why && !results;
  return html`
    <${Dialog} title=${isOne ? config.name : `Change ${some(topics.length, "topic")}`}
        send=${isOne ? "Change" : `Change ${some(topics.length, "topic")}`}
        cancel=${isToDo ? "Cancel" : "Close"} onSend=${isToDo ? change : undefined}
        onClose=${onClose}>
      <div class="fields">
        ${!isOne && isToDo && html`<${Choose} rows=${rows} chosen=${name} onChoose=${choose} />`}
        ${config.doc && html`<p class="muted">${config.doc}</p>`}
        ${config.no_effect && html`<p class="notice">${config.no_effect}</p>`}
        ${
          isToDo &&
          html`
            <${Value} key=${name} config=${config} value=${value} disabled=${back}
                onInput=${setValue} />
          `
        }
        ${why && html`<p class="muted">Wanted: ${config.accepts}.</p>`}
        ${
          isToDo &&
          (!isOne || config.source === "topic") &&
          html`
            <label class="check">
              <input type="checkbox" checked=${back}
                  onChange=${(event) => setBack(event.target.checked)} />
              Use the broker's default: ${inWords(config.broker_value, config.broker_words)}
            </label>
          `
        }
        ${why && html`<p class="notice">${why}</p>`}
        ${
          preview.length > 0 &&
          topics.length > PREVIEWED &&
          html`<p class="muted">Of the first ${PREVIEWED}:</p>`
        }
        <${Results} results=${results ?? preview} label=${results ? "Results" : "Preview"} />
      </div>
    <//>
  `;
}
