// Renders the value of a message: JSON indented and highlighted, other text as it is, binary data as a hex dump.
// A value that the broker has decoded (`decode=true`) is JSON, too, with its schema and a switch to the raw bytes.
// Values are untrusted, so they only ever become text nodes.

import { h } from "./dom.js";
import { bytes } from "./format.js";
import { button } from "./widgets.js";

const SHOWN_MAX = 20_000; // Characters; more would slow the page down.
const KINDS = { AVRO: "Avro", JSON: "JSON Schema", PROTOBUF: "Protobuf" };
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

// One line.
export function preview(message) {
  const text = message.decoded?.text ?? (isText(message) ? message.text : undefined);
  if (text !== undefined) return text.slice(0, 200).replace(/\s+/g, " ");
  if (message.value === null) return "tombstone";
  const what = `binary, ${bytes(size(message))}`;
  return message.decoded ? `${what}, not decoded` : what;
}

export function size(message) {
  return message.value === null ? 0 : raw(message).length;
}

// Whether a value begins like one that names a schema (Confluent's wire format).
export function namesSchema(message) {
  return message.value !== null && !isText(message) && raw(message)[0] === 0;
}

// `shown.raw` is the state of the switch, for all messages of a page.
export function body(message, shown, redraw) {
  if (!message.decoded) return whole(message);
  const { text, problem } = message.decoded;
  const option = (label, isRaw) =>
    button(
      label,
      () => {
        shown.raw = isRaw;
        redraw();
      },
      { "aria-pressed": String(Boolean(shown.raw) === isRaw) },
    );
  return [
    h(
      "div",
      { class: "decoded-head" },
      h("span", { class: "note" }, schemaOf(message.decoded)),
      text !== undefined &&
        h(
          "div",
          { class: "switch", role: "group", "aria-label": "Value" },
          option("Decoded", false),
          option("Raw bytes", true),
        ),
    ),
    problem !== undefined && h("p", { class: "error-line" }, `Not decoded: ${problem}.`),
    text === undefined || shown.raw ? dump(message) : whole({ text }),
  ];
}

function schemaOf({ schema_id: id, version, type }) {
  return version === null ? `Schema id ${id}` : `${KINDS[type] ?? type}, schema id ${id}, version ${version}`;
}

export function whole(message) {
  if (message.value === null) return h("p", { class: "note" }, "Tombstone: the key was deleted.");
  if (!isText(message)) return dump(message);
  const text = message.text.slice(0, SHOWN_MAX);
  const rest = message.text.length - text.length;
  const shown = isJson(message.text) && !rest ? setJson(text) : text;
  return [
    h("pre", { class: "code", tabindex: "0" }, shown),
    rest > 0 && h("p", { class: "note" }, `${rest} more characters not shown.`),
  ];
}

const dump = (message) => h("pre", { class: "code", tabindex: "0" }, hexadecimal(raw(message)));

// Binary data that happen to be valid UTF-8 come as text, too; text does not begin with a zero byte.
const isText = (message) => message.text !== undefined && !message.text.startsWith("\0");

function raw(message) {
  return message.text === undefined ? decoded(message.value) : new TextEncoder().encode(message.text);
}

export function isJson(text) {
  if (!/^\s*[[{"\d\-tfn]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

// Describes a value while it is being typed.  Only text that looks like JSON is reported as invalid.
export function jsonHint(text) {
  if (!text.trim()) return { tone: "", words: "" };
  try {
    JSON.parse(text);
    return { tone: "good", words: "Valid JSON" };
  } catch (error) {
    if (!/^\s*[[{"]/.test(text)) return { tone: "", words: "Plain text" };
    const why = error.message.replace(/^JSON\.parse: /, "").replace(/ in JSON| \(line .*\)/g, "");
    return { tone: "warn", words: `Invalid JSON: ${why}. It will be published as plain text.` };
  }
}

// Works on tokens instead of parsing and serialising, so that numbers keep all digits and keys their order.
function setJson(text) {
  const found = [];
  let depth = 0;
  const tokens = text.match(TOKEN) ?? [];
  const line = () => found.push("\n" + "  ".repeat(depth));
  tokens.forEach((token, at) => {
    const before = tokens[at - 1];
    if ("}]".includes(token)) {
      depth--;
      if (!"{[".includes(before)) line();
    } else if (before === "," || "{[".includes(before ?? " ")) line();
    if (token === ":") found.push(": ");
    else if ("{}[],".includes(token)) found.push(token);
    else found.push(h("span", { class: tone(token, tokens[at + 1]) }, token));
    if ("{[".includes(token)) depth++;
  });
  return found;
}

function tone(token, next) {
  if (token.startsWith('"')) return next === ":" ? "json-name" : "json-text";
  return /^[-\d]/.test(token) ? "json-number" : "json-word";
}

function decoded(value) {
  return Uint8Array.from(atob(value), (letter) => letter.charCodeAt(0));
}

function hexadecimal(data) {
  const lines = [];
  for (let at = 0; at < Math.min(data.length, 1024); at += 16) {
    const row = [...data.slice(at, at + 16)];
    const hex = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const text = row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex.padEnd(47)}  ${text}`);
  }
  if (data.length > 1024) lines.push(`… ${data.length - 1024} more bytes`);
  return lines.join("\n");
}
