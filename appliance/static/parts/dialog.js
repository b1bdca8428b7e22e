// A dialog before an action. It stays open and shows the error if the broker refuses the action.
import { html, useEffect, useRef, useState } from "../html.js";

/** `onSend` runs the action. `danger` colours the button. `confirm` is a text that the user must
    type before the button works. */
export function Dialog({
  title,
  children,
  send = "OK",
  cancel = "Cancel",
  danger = false,
  confirm,
  onSend,
  onClose,
  wide = false,
}) {
  const box = useRef();
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const [typed, setTyped] = useState("");
  useEffect(() => {
    box.current.showModal();
    return () => box.current?.close();
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      if ((await onSend()) !== false) onClose();
    } catch (refused) {
      setError(refused.message);
    }
    setBusy(false);
  };
  return html`
    <dialog ref=${box} aria-labelledby="dialog-title"
        style=${wide ? "width:min(980px,calc(100vw - 28px))" : ""}
        onCancel=${(event) => {
          event.preventDefault();
          onClose();
        }}>
      <form onSubmit=${submit}>
        <h2 id="dialog-title">${title}</h2>
        ${children}
        ${
          confirm &&
          html`
            <label>
              <span>Type <code>${confirm}</code> to confirm</span>
              <input autocomplete="off" spellcheck=${false} value=${typed}
                  onInput=${(event) => setTyped(event.target.value)} />
            </label>
          `
        }
        ${error && html`<p class="notice bad" role="alert">${error}</p>`}
        <div class="row" style="justify-content:flex-end">
          <button type="button" onClick=${onClose}>${cancel}</button>
          ${
            onSend &&
            html`
              <button class=${`primary ${danger ? "danger" : ""}`}
                  disabled=${busy || (confirm && typed !== confirm)}>
                ${busy ? "…" : send}
              </button>
            `
          }
        </div>
      </form>
    </dialog>
  `;
}
