// A table with sorting and filter. Of a long table only the visible rows are drawn.
import { html, useMemo } from "../html.js";
import { setQuery, useRoute } from "../router.js";
import { useFew } from "./few_rows.js";
import { useWindow } from "./visible_rows.js";

const collator = new Intl.Collator(undefined, { numeric: true });

const compare = (a, b) => {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1; // unknown values come last in both directions
  if (b === null || b === undefined) return -1;
  return typeof a === "number" && typeof b === "number"
    ? a - b
    : collator.compare(String(a), String(b));
};

function sorted(rows, columns, name) {
  const down = name.startsWith("-");
  const column = columns.find((each) => each.name === name.replace(/^-/, ""));
  if (!column) return rows;
  const value = column.value ?? ((row) => row[column.name]);
  return rows
    .map((row) => [value(row), row])
    .sort(([a], [b]) => (down && a != null && b != null ? compare(b, a) : compare(a, b)))
    .map(([, row]) => row);
}

function Heading({ column, sort, children }) {
  const isBy = sort.replace(/^-/, "") === column.name;
  const down = isBy && sort.startsWith("-");
  const next = isBy
    ? down
      ? column.name
      : `-${column.name}`
    : column.number
      ? `-${column.name}`
      : column.name;
  const order = isBy ? (down ? "descending" : "ascending") : undefined;
  return html`
    <th scope="col" class=${column.number ? "num" : ""} aria-sort=${order}>
      ${children}
      ${
        column.fixed
          ? column.title
          : html`
            <button type="button" onClick=${() => setQuery({ sort: next })}>
              ${column.title}${isBy ? (down ? " ↓" : " ↑") : ""}
            </button>
          `
      }
    </th>
  `;
}

function csv(rows, columns) {
  // A spreadsheet takes such a start for a formula, and anybody can write these texts. Numbers stay
  // numbers.
  const harmless = (text) =>
    /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(text) &&
    !/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)
      ? `'${text}`
      : text;
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const cell = (text) => quoted(harmless(text));
  const lines = rows.map((row) =>
    columns
      .map((column) => cell(String((column.value ?? ((r) => r[column.name]))(row) ?? "")))
      .join(","),
  );
  return [columns.map((column) => cell(column.title)).join(","), ...lines].join("\n") + "\n";
}

export function download(name, text, type = "text/csv") {
  const link = Object.assign(document.createElement("a"), {
    href: URL.createObjectURL(new Blob([text], { type })),
    download: name,
  });
  link.click();
  URL.revokeObjectURL(link.href);
}

/** A box in front of a row's first cell. `choose`: {chosen, set(names), may(row)}. */
function Pick({ row, choose: { chosen, set, may } }) {
  const change = (event) => {
    const next = new Set(chosen);
    if (event.target.checked) next.add(row.name);
    else next.delete(row.name);
    set(next);
  };
  return html`
    <input type="checkbox" class="pick" aria-label=${`Choose ${row.name}`} disabled=${!may(row)}
        checked=${chosen.has(row.name)} onChange=${change} />
  `;
}

/** The box of all rows that the filter shows. */
function PickAll({ rows, choose: { chosen, set, may } }) {
  const names = rows.filter(may).map((row) => row.name);
  const picked = names.filter((name) => chosen.has(name)).length;
  const isAll = names.length > 0 && picked === names.length;
  return html`
    <input type="checkbox" class="pick" aria-label="Choose all shown" disabled=${names.length === 0}
        checked=${isAll} indeterminate=${picked > 0 && !isAll}
        onChange=${() => set(new Set(isAll ? [] : names))} />
  `;
}

/** `columns`: {name, title, value(row), cell(row), number, fixed (not sortable), long (cut off),
    wide (a line of its own on a telephone)}. `text(row)` is the text that the filter searches.
    `group(row)` is a heading over rows that stand together, as long as nobody sorts. `kind`:
    "compact", on a telephone the first two columns and the last. */
export function Table({
  rows,
  columns,
  text,
  id,
  sort: first = "",
  caption,
  empty = "No entries.",
  tools,
  group,
  choose,
  kind = "",
}) {
  const { query } = useRoute();
  const hasRows = rows.length > 0; // else there is nothing to filter or to download
  const sort = query.sort ?? first;
  const wanted = (query.filter ?? "").toLowerCase();
  const shown = useMemo(() => {
    const kept =
      wanted && text ? rows.filter((row) => text(row).toLowerCase().includes(wanted)) : rows;
    return sorted(kept, columns, sort);
  }, [rows, columns, sort, wanted]);
  const { length, more } = useFew(shown.length);
  const { body, first: from, end, above, below } = useWindow(length);
  const space = (px) =>
    px > 0 &&
    html`
      <tr class="space" aria-hidden="true">
        <td colspan=${columns.length} style=${`height:${px}px`}></td>
      </tr>
    `;
  return html`
    <div>
      ${
        (hasRows ? text || tools : tools) &&
        html`
          <div class="row table-tools">
            ${
              text &&
              hasRows &&
              html`
                <input class="search" type="search" data-filter placeholder="Filter ( / )"
                    aria-label="Filter the table" value=${query.filter ?? ""}
                    onInput=${(event) => setQuery({ filter: event.target.value })} />
              `
            }
            <span class="muted" role="status">
              ${wanted ? `${shown.length} of ${rows.length}` : ""}
            </span>
            <span style="flex:1"></span>
            ${tools}
            ${
              hasRows &&
              html`
                <button type="button" onClick=${() => download(`${id}.csv`, csv(shown, columns))}>
                  CSV
                </button>
              `
            }
          </div>
        `
      }
      ${
        shown.length === 0
          ? html`
            <div class="empty">
              ${wanted ? `No match for “${query.filter}” in ${rows.length} rows.` : empty}
            </div>
          `
          : html`
            <div class="scroll">
              <table class=${`cards ${kind}`} id=${id} aria-rowcount=${shown.length + 1}>
                ${caption && html`<caption>${caption}</caption>`}
                <thead>
                  <tr>
                    ${columns.map(
                      (column) => html`
                        <${Heading} key=${column.name} column=${column} sort=${sort}>
                          ${
                            choose &&
                            column === columns[0] &&
                            html`<${PickAll} rows=${shown} choose=${choose} />`
                          }
                        <//>
                      `,
                    )}
                  </tr>
                </thead>
                <tbody ref=${body}>
                  ${space(above)}
                  ${shown.slice(from, end).map(
                    (row, index) => html`
                      ${
                        group &&
                        !sort &&
                        (from + index === 0 || group(row) !== group(shown[from + index - 1])) &&
                        html`
                          <tr class="group" key=${`group ${group(row)}`}>
                            <th scope="rowgroup" colspan=${columns.length}>${group(row)}</th>
                          </tr>
                        `
                      }
                      <tr key=${row.key ?? row.name ?? from + index} data-row
                          aria-rowindex=${from + index + 2}>
                        ${columns.map(
                          (column) => html`
                            <td key=${column.name} data-label=${column.title}
                                class=${[
                                  column.number && "num",
                                  column.long && "long",
                                  column.wide && "wide",
                                  column.time && "time",
                                ]
                                  .filter(Boolean)
                                  .join(" ")}>
                              ${
                                choose &&
                                column === columns[0] &&
                                html`<${Pick} row=${row} choose=${choose} />`
                              }
                              ${(column.cell ?? column.value ?? ((r) => r[column.name]))(row)}
                            </td>
                          `,
                        )}
                      </tr>
                    `,
                  )}
                  ${space(below)}
                </tbody>
              </table>
            </div>
            ${more}
          `
      }
    </div>
  `;
}
