// Sizes as people write them: 128 MiB, 1 GB, or bytes.
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
const FACTORS = Object.fromEntries([
  ...["b", "byte", "bytes", ""].map((unit) => [unit, 1]),
  ...["k", "m", "g", "t"].flatMap((letter, at) => [
    [`${letter}b`, 1000 ** (at + 1)],
    [`${letter}ib`, 1024 ** (at + 1)],
  ]),
]);

/** In bytes; NaN: it is none. */
export function ofSize(text) {
  const [, number, unit] = /^\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*$/i.exec(text) ?? [];
  const bytes = Number(number) * FACTORS[unit?.toLowerCase()];
  return Number.isSafeInteger(bytes) ? bytes : NaN;
}

/** Exactly, in the largest unit that it has a whole number of. */
export function asSize(bytes) {
  let unit = 0;
  for (; bytes && bytes % 1024 === 0 && unit < UNITS.length - 1; unit++) bytes /= 1024;
  return unit ? `${bytes} ${UNITS[unit]}` : String(bytes);
}
