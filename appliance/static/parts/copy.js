// A button that copies a text. Browsers give a page without TLS no clipboard, except on loopback:
// there the text is selected and copied as by hand.
import { html, useEffect, useRef, useState } from "../html.js";

const SAID_MS = 1500;

function copiedByHand(text, beside) {
  const area = Object.assign(document.createElement("textarea"), { value: text, readOnly: true });
  area.className = "hidden-text";
  beside.after(area); // inside the same dialog: others cannot have the focus
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  beside.focus();
  return isDone;
}

export function Copy({ text, title = "copy", what = "" }) {
  const button = useRef();
  const timer = useRef();
  const [said, say] = useState("");
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    const wanted = text();
    const isDone = await (navigator.clipboard
      ? navigator.clipboard.writeText(wanted).then(
          () => true,
          () => copiedByHand(wanted, button.current),
        )
      : copiedByHand(wanted, button.current));
    say(isDone ? "copied" : "not copied: the browser refuses");
    clearTimeout(timer.current);
    timer.current = setTimeout(() => say(""), SAID_MS);
  };
  return html`
    <button type="button" class="plain" ref=${button} onClick=${copy}>
      ${said || title}${what && html`<span class="hidden-text"> ${what}</span>`}
    </button>
  `;
}
