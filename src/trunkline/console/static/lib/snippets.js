// A request as lines to run elsewhere: curl, the command line of Trunkline, and Python.
import { gateway, me } from "./api.js";

// A word of the shell. Control characters could end a paste in a terminal, so they are written as
// numbers, in the form that bash and zsh know.
export function quoted(text) {
  const whole = String(text);
  if (!/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/.test(whole)) return `'${whole.replaceAll("'", `'\\''`)}'`;
  const escaped = whole.replace(/[\\']/g, "\\$&").replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return `$'${escaped}'`;
}

// What a program needs to be the same caller: nothing on this machine, else a key of its own. The
// cookie of the page is not for programs, and is never shown.
const needsKey = () => me.get()?.principal !== "@anonymous";

// Addresses of the gateway as this browser reaches it; those of other servers as they are.
function absolute(url) {
  const whole = new URL(url, location.origin);
  const own = URL.canParse(gateway.get()?.publicUrl) ? new URL(gateway.get().publicUrl).origin : location.origin;
  return whole.origin === own ? whole.href.replace(own, location.origin) : whole.href;
}

// A secret that the one who runs the lines puts into a variable of the environment.
export const variable = (name, before = "") => ({ variable: name, before });

const curlHeader = (name, value) =>
  value?.variable ? `${quoted(`${name}: ${value.before}`)}"$${value.variable}"` : quoted(`${name}: ${value}`);

const hasKey = (headers) => Object.keys(headers).some((name) => name.toLowerCase() === "authorization");

// `composed` is what `Peer.compose` gives: { method, url, headers, body }. A value of a header may be
// a `variable`.
export function asCurl({ method, url, headers, body, ...more }) {
  const words = [`curl -sS${more.isStream ?? isStream({ url, headers, body }) ? "N" : ""}`];
  if (method !== "POST" || body === undefined) words.push(`-X ${/^[A-Z]+$/.test(method) ? method : quoted(method)}`);
  words.push(quoted(absolute(url)));
  for (const [name, value] of Object.entries(headers)) words.push(`-H ${curlHeader(name, value)}`);
  if (needsKey() && !hasKey(headers)) words.push(`-H "Authorization: Bearer $TRUNKLINE_KEY"`);
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
  const needed = Object.entries(headers).filter(([, value]) => value?.variable);
  if (needsKey() && !hasKey(headers)) needed.push(["Authorization", variable("TRUNKLINE_KEY", "Bearer ")]);
  const plain = Object.fromEntries(Object.entries(headers).filter(([, value]) => !value?.variable));
  const secrets = needed.map(
    ([name, value]) => `\nheaders[${pythonString(name)}] = ${value.before ? `${pythonString(value.before)} + ` : ""}os.environ[${pythonString(value.variable)}]`,
  );
  // Numbers that JavaScript would round are left as they were sent.
  const isJson = typeof body !== "string" || (typeof safeParse(body) === "object" && !/\d{16}/.test(body));
  const data = isJson
    ? `body = ${pythonLiteral(typeof body === "string" ? safeParse(body) : body)}\ndata = json.dumps(body).encode()`
    : `data = ${pythonString(body)}.encode()`;
  return `${body !== undefined && isJson ? "import json\n" : ""}${needed.length ? "import os\n" : ""}import urllib.request

headers = ${pythonLiteral(plain)}${secrets.join("")}
${body === undefined ? "data = None" : data}
request = urllib.request.Request(${pythonString(absolute(url))}, data, headers, method=${pythonString(method)})
with urllib.request.urlopen(request) as response:
    for line in response:
        print(line.decode(), end="")
`;
}

export function asJavaScript({ method, url, headers, body }) {
  const named = { ...headers, ...(needsKey() ? { Authorization: variable("TRUNKLINE_KEY", "Bearer ") } : {}) };
  const lines = Object.entries(named).map(([name, value]) =>
    `    ${JSON.stringify(name)}: ${value?.variable ? `\`${value.before}\${process.env.${value.variable}}\`` : JSON.stringify(value)},`);
  return `const response = await fetch(${JSON.stringify(absolute(url))}, {
  method: ${JSON.stringify(method)},
  headers: {
${lines.join("\n")}
  },${body === undefined ? "" : `\n  body: JSON.stringify(${JSON.stringify(body, null, 2).replaceAll("\n", "\n  ")}),`}
});
console.log(await response.text());
`;
}

function safeParse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
