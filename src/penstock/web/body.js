// Renders the value of a message: JSON indented and highlighted, other text as it is, binary data as a hex dump.
// Values are untrusted, so they only ever become text nodes.

import { h } from "./dom.js";
import { bytes } from "./format.js";

const SHOWN_MAX = 20_000; // Characters; more would slow the page down.
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

// One line.
export function preview(message) {
  if (message.text !== undefined) return message.text.slice(0, 200).replace(/\s+/g, " ");
  if (message.value === null) return "tombstone";
  return `binary, ${bytes(decoded(message.value).length)}`;
}

export function size(message) {
  if (message.text !== undefined) return new TextEncoder().encode(message.text).length;
  return message.value === null ? 0 : decoded(message.value).length;
}

export function whole(message) {
  if (message.value === null) return h("p", { class: "note" }, "Tombstone: the key was deleted.");
  if (message.text === undefined) return h("pre", { class: "code" }, hexadecimal(decoded(message.value)));
  const text = message.text.slice(0, SHOWN_MAX);
  const rest = message.text.length - text.length;
  const shown = isJson(message.text) && !rest ? setJson(text) : text;
  return [
    h("pre", { class: "code", tabindex: "0" }, shown),
    rest > 0 && h("p", { class: "note" }, `${rest} more characters not shown.`),
  ];
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
