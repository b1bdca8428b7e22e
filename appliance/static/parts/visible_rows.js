// Draws only the visible rows of a long table. Empty rows above and below keep the height.
import { useEffect, useRef, useState } from "../html.js";

const ALL = 250; // rows: up to here a table is drawn completely
const AROUND = 20; // extra rows on both sides, so that a little scrolling draws nothing
const ROW_PX = 37; // until a row was measured

const rounded = (row) => Math.floor(row / AROUND) * AROUND;

/** [first, end) of the rows to draw, the pixels above and below, and a ref for the tbody. */
export function useWindow(count) {
  const body = useRef(null);
  const row = useRef(ROW_PX);
  const [range, setRange] = useState([0, ALL]);
  const isWhole = count <= ALL;
  useEffect(() => {
    if (isWhole) return undefined;
    let frame = 0;
    const look = () => {
      frame = 0;
      const drawn = body.current?.querySelectorAll("tr[data-row]") ?? [];
      if (drawn.length === 0) return;
      row.current =
        (drawn[drawn.length - 1].getBoundingClientRect().bottom -
          drawn[0].getBoundingClientRect().top) /
          drawn.length || ROW_PX;
      const top = body.current.getBoundingClientRect().top;
      const first = Math.max(0, rounded(-top / row.current) - AROUND);
      const end = rounded((innerHeight - top) / row.current) + 2 * AROUND;
      setRange((old) => (old[0] === first && old[1] === end ? old : [first, end]));
    };
    const ask = () => {
      frame ||= requestAnimationFrame(look);
    };
    ask();
    addEventListener("scroll", ask, { passive: true });
    addEventListener("resize", ask);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener("scroll", ask);
      removeEventListener("resize", ask);
    };
  }, [count, isWhole]);
  if (isWhole) return { body, first: 0, end: count, above: 0, below: 0 };
  const end = Math.min(count, range[1]);
  const first = Math.min(range[0], Math.max(0, end - AROUND));
  return { body, first, end, above: first * row.current, below: (count - end) * row.current };
}
