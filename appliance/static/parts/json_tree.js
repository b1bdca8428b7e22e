// JSON as a tree that can be folded. What is drawn is bounded: of a large value the outer levels
// are open, of a long list and of a long text the beginning is shown.
import { html, useMemo, useState } from "../html.js";
import { some } from "../format.js";
import { childrenOf, plainly } from "./json_text.js";

const OPEN_MAX = 120; // lines that are open at first
const LIST_MAX = 20; // a longer one is folded at first
const PART = 100; // children of one node that are drawn at once
const TEXT_MAX = 1000; // characters of one text

/** The nodes that are open at first: the outer ones, as long as there is room. */
function openOf(root) {
  const open = new Set();
  let lines = 1;
  for (const level = [root]; level.length;) {
    const node = level.shift();
    const children = childrenOf(node) ?? [];
    const own = Math.min(PART, children.length);
    if (node !== root && (own === 0 || own > LIST_MAX || lines + own > OPEN_MAX)) continue;
    lines += own;
    open.add(node);
    level.push(...children.slice(0, PART).map(([, child]) => child));
  }
  return open;
}

function Value({ node }) {
  const [isWhole, setWhole] = useState(false);
  if (node.kind !== "string") return html`<span class=${`j-${node.kind}`}>${node.raw}</span>`;
  const text = JSON.stringify(plainly(node));
  const isCut = text.length > TEXT_MAX && !isWhole;
  return html`
    <span class="j-string">${isCut ? text.slice(0, TEXT_MAX) : text}</span>${
      isCut &&
      html`
        ${" "}<button type="button" class="plain" onClick=${() => setWhole(true)}>
          … all ${some(text.length, "character")}
        </button>
      `
    }
  `;
}

function Branch({ name, node, open }) {
  const [isOpen, setOpen] = useState(open.has(node));
  const [most, setMost] = useState(PART);
  const children = childrenOf(node);
  const label = name !== undefined && html`<span class="j-name">${name}</span>: `;
  if (children === null || children.length === 0)
    return html`
      <li>
        ${label}${
          children === null
            ? html`<${Value} node=${node} />`
            : html`<span class="muted">${node.kind === "object" ? "{}" : "[]"}</span>`
        }
      </li>
    `;
  const isObject = node.kind === "object";
  const about = some(children.length, isObject ? "field" : "item");
  return html`
    <li>
      <button type="button" class="fold" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
        <span aria-hidden="true">${isOpen ? "▾" : "▸"}</span>
        ${label}<span class="muted">${isObject ? `{ ${about} }` : `[ ${about} ]`}</span>
      </button>
      ${
        isOpen &&
        html`
          <ul>
            ${children.slice(0, most).map(
              ([key, child], index) => html`
                  <${Branch} key=${index} name=${key} node=${child} open=${open} />
                `,
            )}
            ${
              children.length > most &&
              html`
                <li>
                  <button type="button" class="plain" onClick=${() => setMost(most + PART)}>
                    ${Math.min(PART, children.length - most)} more of ${children.length}
                  </button>
                </li>
              `
            }
          </ul>
        `
      }
    </li>
  `;
}

export function Tree({ node }) {
  const open = useMemo(() => openOf(node), [node]);
  return html`<ul class="tree" tabindex="0"><${Branch} node=${node} open=${open} /></ul>`;
}
