// A field of a form: its meaning and what it comes to below it, and beside it what is wrong.
import { html, useEffect, useState } from "../html.js";

function Control({ kind, choices, value, set, ...rest }) {
  const typed = (event) => set(event.target.value);
  if (kind === "flag")
    return html`
      <input type="checkbox" checked=${value} onChange=${(event) => set(event.target.checked)}
          ...${rest} />
    `;
  if (choices)
    return html`
      <select value=${value} onChange=${typed} ...${rest}>
        ${choices.map(([id, text]) => html`<option value=${id}>${text}</option>`)}
      </select>
    `;
  if (kind === "long")
    return html`
      <textarea rows="5" spellcheck=${false} value=${value} onInput=${typed} ...${rest} />
    `;
  return html`
    <input autocomplete="off" spellcheck=${false} value=${value} onInput=${typed} ...${rest} />
  `;
}

/** `children`: what the value comes to, as it is typed. */
export function Field({ name, kind = "text", label, hint, fault, children, ...rest }) {
  const isFlag = kind === "flag";
  const ids = [`${name}-told`, ...(fault ? [`${name}-fault`] : [])].join(" ");
  return html`
    <div class="field">
      <label class=${isFlag ? "check" : ""}>
        ${!isFlag && label}
        <${Control} name=${name} kind=${kind} aria-describedby=${ids}
            aria-invalid=${fault ? "true" : undefined} ...${rest} />
        ${isFlag && label}
      </label>
      ${fault && html`<p class="notice bad" role="alert" id=${`${name}-fault`}>${fault}</p>`}
      <div class="told" id=${`${name}-told`}>${hint && html`<p>${hint}</p>`}${children}</div>
    </div>
  `;
}

/** Fields that belong together; folded, with their state in words, until somebody needs them. */
export function Fold({ title, summary, isOpen, children }) {
  const [open, setOpen] = useState(isOpen);
  useEffect(() => {
    if (isOpen) setOpen(true);
  }, [isOpen]);
  return html`
    <details class="folded" open=${open} onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>${title} <span class="muted">${summary}</span></summary>
      <div class="fields">${children}</div>
    </details>
  `;
}

export const Group = ({ title, children }) => html`
  <fieldset class="group">
    <legend>${title}</legend>
    <div class="fields">${children}</div>
  </fieldset>
`;

/** To the first field that is wrong, also within what is folded. */
export function toFault() {
  const first = document.querySelector('dialog [aria-invalid="true"]');
  const folded = first?.closest("details");
  if (folded) folded.open = true;
  first?.focus();
}
