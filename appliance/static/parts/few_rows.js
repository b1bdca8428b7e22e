// On a telephone a row of a table is a card, and a page of a hundred cards has no end: a table has
// few rows there, until somebody asks for more.
import { html, useEffect, useState } from "../html.js";
import { count } from "../format.js";

const FEW = 15;
const NARROW = matchMedia("(max-width: 820px)"); // as in app.css

function useNarrow() {
  const [isNarrow, setNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const changed = () => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", changed);
    return () => NARROW.removeEventListener("change", changed);
  }, []);
  return isNarrow;
}

/** How many of so many rows to show, and the button for more. */
export function useFew(rows) {
  const isNarrow = useNarrow();
  const [most, setMost] = useState(FEW);
  const length = isNarrow ? Math.min(most, rows) : rows;
  const more =
    length < rows &&
    html`
      <button type="button" class="more" onClick=${() => setMost(most * 2)}>
        Show ${count(Math.min(most, rows - length))} more of ${count(rows)}
      </button>
    `;
  return { length, more };
}
