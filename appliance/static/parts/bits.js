// Small parts that many pages use.
import { html, useEffect, useState } from "../html.js";
import { ago, clock } from "../format.js";

export const MARKS = { good: "✓", warn: "▲", bad: "✕", unknown: "?" };
export const LEVELS = {
  ok: "good",
  degraded: "warn",
  failing: "bad",
  recovering: "warn",
  stopping: "warn",
};
const WORDS = { good: "OK", warn: "warning", bad: "failing", unknown: "unknown" };

/** A shape beside the colour, and a word for screen readers. */
export const Mark = ({ level }) => html`
  <span class=${`mark ${level}`} aria-hidden="true">${MARKS[level]}</span>
  <span class="hidden-text">${WORDS[level]}: </span>
`;
export const Badge = ({ level = "", children }) => html`
  <span class=${`badge ${level}`}>
    ${level && html`<span aria-hidden="true">${MARKS[level]}</span>`}
    ${children}
  </span>
`;

export function Tile({ title, value, unit, href, level, children }) {
  const inside = html`
    <h3>${title}</h3>
    <div class="value">
      ${level && html`<${Mark} level=${level} />`} ${value}
      ${unit && html` <small>${unit}</small>`}
    </div>
    ${children}
  `;
  return href
    ? html`<a class="card tile" href=${href}>${inside}</a>`
    : html`<div class="card tile">${inside}</div>`;
}

export function Head({ title, crumbs, children, level }) {
  return html`
    <div class="head">
      <div>
        ${crumbs && html`<p class="crumbs">${crumbs}</p>`}
        <h1 tabindex="-1">${level && html`<${Mark} level=${level} /> `}${title}</h1>
      </div>
      <div class="actions">${children}</div>
    </div>
  `;
}

/** How long ago, as time goes on. The time stands beside it: a screen reader is not told each
    second. */
export function Age({ of }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((count) => count + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  return html`<span aria-hidden="true">${ago(of)}</span>`;
}

/** The data of a page, or an error. Old data is shown with its time, its age, without colours. */
export function Loaded({ from, children }) {
  const { data, error, at, isCut } = from;
  const isOld = isCut || error;
  const notice = error && html`<p class="notice bad" role="alert">${error.message}</p>`;
  if (data === undefined) return notice || html`<p class="muted" aria-busy="true">…</p>`;
  const old = html`
    <p class="notice warn">
      <${Mark} level="unknown" /> State at ${clock(at)}, <${Age} of=${at} />. The present state is
      unknown.
    </p>
  `;
  return html`
    <div class=${isOld ? "loaded old" : "loaded"}>
      ${!isCut && notice}${isOld && old}
      <div class="loaded">${children(data)}</div>
    </div>
  `;
}

export function Bar({ share, level = "good" }) {
  const width = Math.max(0, Math.min(1, share || 0)) * 100;
  const fill = { good: "var(--accent)", warn: "var(--warn)", bad: "var(--bad)" }[level];
  return html`
    <svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
      <rect width=${width} height="8" fill=${fill} />
    </svg>
  `;
}

export const Facts = ({ rows }) => html`
  <dl class="facts">
    ${rows.filter(Boolean).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}
  </dl>
`;

/** The key figures at the top of a page. `aside`: not on a telephone. */
export const Strip = ({ facts, aside = false }) => html`
  <dl class=${`card strip${aside ? " aside" : ""}`}>
    ${facts
      .filter(Boolean)
      .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>
`;
