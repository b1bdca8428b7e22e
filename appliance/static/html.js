// The three libraries, under the names that all pages use.
import { h, render, Fragment } from "./vendor/preact.mjs";
import htm from "./vendor/htm.mjs";

export { render, Fragment };
export { useCallback, useEffect, useMemo, useRef, useState } from "./vendor/hooks.mjs";
export const html = htm.bind(h);
