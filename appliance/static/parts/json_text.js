// Reads JSON without loss: a number keeps its text, for JavaScript rounds large ones.
// A node: {kind: "object", entries: [[name, node]]}, {kind: "array", items: [node]}, and
// {kind: "string" | "number" | "word", raw} with the text as it was written.
const DEPTH_MAX = 200;
const TOKEN = /[\s]*([{}[\],:"]|[-\w.+]+)/y;
const WORDS = new Set(["true", "false", "null"]);
const NUMBER = /^-?(\d+(\.\d+)?([eE][+-]?\d+)?|Infinity)$|^NaN$/; // the last two in Avro

class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  next() {
    TOKEN.lastIndex = this.at;
    const found = TOKEN.exec(this.text)?.[1];
    if (found === undefined) throw new SyntaxError(`no JSON at ${this.at}`);
    this.at = TOKEN.lastIndex;
    return found;
  }

  /** From behind the first quote: with both quotes. */
  string() {
    const begin = this.at - 1;
    for (
      let end = this.text.indexOf('"', this.at);
      end >= 0;
      end = this.text.indexOf('"', end + 1)
    ) {
      let slashes = 0;
      while (this.text[end - 1 - slashes] === "\\") slashes++;
      if (slashes % 2) continue;
      this.at = end + 1;
      return this.text.slice(begin, this.at);
    }
    throw new SyntaxError(`no end of the text at ${begin}`);
  }

  /** The parts up to the closing bracket, each read by `read(token)`. */
  list(closing, read) {
    const found = [];
    let token = this.next();
    if (token === closing) return found;
    for (;;) {
      found.push(read(token));
      const behind = this.next();
      if (behind === closing) return found;
      if (behind !== ",") throw new SyntaxError(`no comma before ${this.at}`);
      token = this.next();
    }
  }

  node(token, depth) {
    if (depth > DEPTH_MAX) throw new SyntaxError(`deeper than ${DEPTH_MAX}`);
    if (token === "[")
      return { kind: "array", items: this.list("]", (each) => this.node(each, depth + 1)) };
    if (token === "{")
      return {
        kind: "object",
        entries: this.list("}", (each) => {
          if (each !== '"') throw new SyntaxError(`no name before ${this.at}`);
          const name = JSON.parse(this.string());
          if (this.next() !== ":") throw new SyntaxError(`no colon before ${this.at}`);
          return [name, this.node(this.next(), depth + 1)];
        }),
      };
    if (token === '"') return { kind: "string", raw: this.string() };
    if (WORDS.has(token)) return { kind: "word", raw: token };
    if (NUMBER.test(token)) return { kind: "number", raw: token };
    throw new SyntaxError(`got ${token.slice(0, 20)}`);
  }
}

/** The node, or null if the text is no JSON, or too deep for a tree. */
export function parsed(text) {
  const reader = new Reader(text);
  try {
    const node = reader.node(reader.next(), 0);
    return reader.text.slice(reader.at).trim() === "" ? node : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

/** As text over several lines, with two spaces for each level. */
export function indented(node, margin = "") {
  const inner = `${margin}  `;
  const lines =
    node.kind === "object"
      ? node.entries.map(([name, each]) => `${JSON.stringify(name)}: ${indented(each, inner)}`)
      : node.kind === "array"
        ? node.items.map((each) => indented(each, inner))
        : null;
  if (lines === null) return node.raw;
  const [open, close] = node.kind === "object" ? "{}" : "[]";
  if (lines.length === 0) return open + close;
  return `${open}\n${inner}${lines.join(`,\n${inner}`)}\n${margin}${close}`;
}

/** A text without its quotes and escapes; others as they were written. */
export function plainly(node) {
  if (node.kind !== "string") return node.raw;
  try {
    return JSON.parse(node.raw);
  } catch {
    return node.raw;
  }
}

export const childrenOf = (node) =>
  node.kind === "object" ? node.entries : node.kind === "array" ? [...node.items.entries()] : null;
