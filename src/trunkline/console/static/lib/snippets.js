// A request as lines to run elsewhere: curl, the command line of Trunkline, and Python.
import { gateway, me } from "./api.js";

export const quoted = (text) => `'${String(text).replaceAll("'", `'\\''`)}'`;

// What a program needs to be the same caller: nothing on this machine, else a key of its own. The
// cookie of the page is not for programs, and is never shown.
const needsKey = () => me.get()?.principal !== "@anonymous";

function absolute(url) {
  return new URL(url, gateway.get()?.publicUrl || location.origin).href.replace(/^https?:\/\/[^/]*/, location.origin);
}

// `composed` is what `Peer.compose` gives: { method, url, headers, body }.
export function asCurl({ method, url, headers, body }) {
  const words = [`curl -sS${isStream({ url, headers, body }) ? "N" : ""}`];
  if (method !== "POST" || body === undefined) words.push(`-X ${method}`);
  words.push(quoted(absolute(url)));
  for (const [name, value] of Object.entries(headers)) words.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (needsKey()) words.push(`-H "Authorization: Bearer $TRUNKLINE_KEY"`);
  if (body !== undefined) words.push(`--data-binary ${quoted(typeof body === "string" ? body : JSON.stringify(body))}`);
  return words.join(" \\\n  ");
}

function isStream({ url, body }) {
  const method = typeof body === "object" ? body?.method : "";
  return /:(stream|subscribe)$/.test(url) || /Streaming|Subscribe|stream|resubscribe/.test(method ?? "");
}

const TEXT_OF = (params) => (params?.message?.parts ?? []).map((part) => part.text ?? part.data?.text ?? "").join("");

// The same as a command, where there is one for it; "" where there is none.
export function asCli(operation, params, url) {
  const agent = quoted(absolute(url));
  const key = needsKey() ? ' --token "$TRUNKLINE_KEY"' : "";
  const { message } = params ?? {};
  switch (operation) {
    case "send":
      return `trunkline send ${agent} ${quoted(TEXT_OF(params))}${message?.taskId ? ` --task ${quoted(message.taskId)}` : ""}${key}`;
    case "stream":
      return `trunkline stream ${agent} ${quoted(TEXT_OF(params))}${message?.taskId ? ` --task ${quoted(message.taskId)}` : ""}${key}`;
    case "get":
      return `trunkline status ${agent} ${quoted(params.id)}${key}`;
    case "subscribe":
      return `trunkline watch ${agent} ${quoted(params.id)}${key}`;
    case "cancel":
      return `trunkline cancel ${agent} ${quoted(params.id)}${key}`;
    default:
      return "";
  }
}

// JSON as a literal of Python.
export function pythonLiteral(value, indent = 0) {
  const pad = "    ".repeat(indent + 1);
  const end = "    ".repeat(indent);
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "string") return pythonString(value);
  if (typeof value === "number") return String(value);
  if (Array.isArray(value)) {
    return value.length ? `[\n${value.map((each) => pad + pythonLiteral(each, indent + 1)).join(",\n")},\n${end}]` : "[]";
  }
  const members = Object.entries(value).filter(([, each]) => each !== undefined);
  if (!members.length) return "{}";
  return `{\n${members.map(([k, v]) => `${pad}${pythonString(k)}: ${pythonLiteral(v, indent + 1)}`).join(",\n")},\n${end}}`;
}

// JSON strings are strings of Python, but for the line separators and surrogates that JSON leaves.
const pythonString = (text) =>
  JSON.stringify(text).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .replace(/(\\u[dD][89abAB][0-9a-f]{2})(\\u[dD][c-fC-F][0-9a-f]{2})/g, (_, high, low) => {
      const point = (parseInt(high.slice(2), 16) - 0xd800) * 0x400 + parseInt(low.slice(2), 16) - 0xdc00 + 0x10000;
      return `\\U${point.toString(16).padStart(8, "0")}`;
    });

export function asPython({ method, url, headers, body }) {
  const key = needsKey() ? `\nheaders["Authorization"] = f"Bearer {os.environ['TRUNKLINE_KEY']}"` : "";
  return `import json
${needsKey() ? "import os\n" : ""}import urllib.request

headers = ${pythonLiteral(headers)}${key}
${body === undefined ? "data = None" : `body = ${pythonLiteral(typeof body === "string" ? safeParse(body) : body)}\ndata = json.dumps(body).encode()`}
request = urllib.request.Request(${pythonString(absolute(url))}, data, headers, method=${pythonString(method)})
with urllib.request.urlopen(request) as response:
    for line in response:
        print(line.decode(), end="")
`;
}

function safeParse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
