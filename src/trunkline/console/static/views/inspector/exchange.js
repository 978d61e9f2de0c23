// What can be read from one recorded exchange: its JSON, what was spoken, and the request as it can be
// sent again.
import { api } from "../../lib/api.js";
import { asCli, variable } from "../../lib/snippets.js";

export const MASK = "***";

export const header = (headers, name) => headers.find(([each]) => each.toLowerCase() === name)?.[1] ?? "";

export function json(text) {
  if (!text) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// The payload of a frame: what stands behind `data:` in the bytes of a server-sent event, or the whole
// message of a WebSocket.
export function payload(frame) {
  const isEvent = /^(?:data|id|event|retry)?:/m.test(frame.data) && !frame.data.startsWith("{");
  if (!isEvent) return frame.data;
  return frame.data
    .split(/\r\n|\n|\r/)
    .filter((line) => line === "data" || line.startsWith("data:"))
    .map((line) => line.slice(5).replace(/^ /, ""))
    .join("\n");
}

export function bodyText(body) {
  if (body.text !== undefined) return body.text;
  if (body.base64 === undefined) return "";
  return body.base64;
}

const NAMES = {
  "message/send": "SendMessage", "message/stream": "SendStreamingMessage", "tasks/get": "GetTask",
  "tasks/cancel": "CancelTask", "tasks/resubscribe": "SubscribeToTask", "tasks/list": "ListTasks",
};

// Version, operation and binding; of a request to a backend they are read from what was sent.
export function spoken(record) {
  if (record.operation && record.version) return record;
  const sent = json(bodyText(record.requestBody));
  const method = typeof sent?.method === "string" ? sent.method : "";
  return {
    version: record.version || header(record.requestHeaders, "a2a-version") || (method.includes("/") ? "0.3" : ""),
    operation: record.operation || NAMES[method] || method,
    binding: record.binding === "http" && sent?.jsonrpc ? "jsonrpc" : record.binding,
  };
}

export const isStream = (record) => header(record.responseHeaders, "content-type").startsWith("text/event-stream");

// Headers that a client makes anew, or that only this browser or connection needs.
const OF_CONNECTION =
  /^(host|content-length|connection|keep-alive|transfer-encoding|te|trailer|upgrade|accept-encoding|user-agent|origin|referer|cookie|trunkline-page|priority|sec-.*|proxy-.*|pragma|cache-control|accept-language)$/i;

export const ownHeaders = (record) => record.requestHeaders.filter(([name]) => !OF_CONNECTION.test(name));

// The request for lib/snippets.js: the body as it was sent, and a variable of the shell in place of
// each masked header. `masked` has their names.
export function composed(record) {
  const masked = [];
  const headers = {};
  for (const [name, value] of ownHeaders(record)) {
    if (!value.includes(MASK)) {
      headers[name] = value;
      continue;
    }
    const env = /^authorization$/i.test(name) ? "TRUNKLINE_KEY" : `HEADER_${name.toUpperCase().replace(/[^A-Z0-9]/g, "_")}`;
    const scheme = /^(\S+) \*\*\*$/.exec(value)?.[1] ?? (env === "TRUNKLINE_KEY" ? "Bearer" : "");
    masked.push(`${name} (${env})`);
    headers[name] = variable(env, scheme ? `${scheme} ` : "");
  }
  const text = bodyText(record.requestBody);
  if (text.includes(MASK)) masked.push("a member of the body");
  return {
    masked,
    request: { method: record.httpMethod, url: record.url, headers, body: text || undefined, isStream: record.events > 0 },
  };
}

const CLI = { SendMessage: "send", SendStreamingMessage: "stream", GetTask: "get", CancelTask: "cancel", SubscribeToTask: "subscribe" };

// "" where the command line has no such request.
export function cliOf(record) {
  const operation = CLI[spoken(record).operation];
  if (!operation || !/^\/|^https?:/.test(record.url)) return "";
  const sent = json(bodyText(record.requestBody));
  const path = record.url.replace(/[?#].*$/, "");
  // The address of the agent is before the paths of HTTP+JSON.
  const agent = path.replace(/\/(message:(send|stream)|tasks(\/.*)?)$/, "");
  const id = /\/tasks\/([^/:]+)/.exec(path)?.[1];
  const params = sent?.jsonrpc ? sent.params : { ...sent, ...(id ? { id: decodeURIComponent(id) } : {}) };
  if (operation !== "send" && operation !== "stream" && typeof params?.id !== "string") return "";
  return asCli(operation, params, agent);
}

const MOST_TEXT = 2_000_000;

// Findings of the gateway have pointers that begin with the part of the record. They become
// `{ request, response, order, isChecked }`.
export function sorted(record) {
  const found = { request: [], response: [], order: [], isChecked: isJudged(record) };
  for (const finding of record.findings) {
    const [, part, rest] = /^\/(request|response|frames)(.*)$/s.exec(finding.pointer) ?? [null, "request", finding.pointer];
    found[part === "frames" ? "order" : part].push({ ...finding, pointer: rest });
  }
  return found;
}

export const isJudged = ({ binding, version }) => ["jsonrpc", "rest"].includes(binding) && ["1.0", "0.3"].includes(version);

// The same by the checks of this gateway, for a record of a file that has no findings.
export async function check(record, { signal } = {}) {
  const { version, operation, binding } = spoken(record);
  const found = { request: [], response: [], order: [], isChecked: false };
  const isA2A = (binding === "jsonrpc" || binding === "rest") && operation && operation !== "GetAgentCard";
  if (isA2A && !record.truncated) {
    found.isChecked = true;
    const about = { binding, version: version === "0.3" ? "0.3" : "1.0", operation };
    const ask = async (more) => (await api("/checks", { method: "POST", body: { ...about, ...more }, signal })).findings;
    const small = (text) => text.length <= MOST_TEXT;
    const query = record.url.split("?")[1] ?? "";
    const sent = bodyText(record.requestBody);
    if (small(sent)) {
      found.request = await ask({ direction: "request", text: sent, headers: Object.fromEntries(record.requestHeaders), query });
    }
    const answer = bodyText(record.responseBody);
    if (isStream(record)) {
      const events = record.frames.map((frame) => ({ data: payload(frame), eventId: frame.eventId || undefined, event: frame.event || undefined }))
        .filter(({ data }) => data);
      const isWhole = !record.framesLeftOut && !record.error && !record.fault && record.ms !== null;
      if (events.length && !record.framesLeftOut && small(events.map(({ data }) => data).join(""))) {
        found.order = await ask({ events, resumed: Boolean(header(record.requestHeaders, "last-event-id")), complete: isWhole });
      }
    } else if (record.status !== null && answer && small(answer)) {
      found.response = await ask({ direction: "response", text: answer, status: record.status, headers: Object.fromEntries(record.responseHeaders) });
    }
  }
  return found;
}

export const allFindings = (found) => [...found.request, ...found.response, ...found.order];

// Places where a text stands in an exchange: `[{ part, path, text }]`, at most `most`.
export function search(record, wanted, most = 200) {
  const found = [];
  const needle = wanted.toLowerCase();
  const add = (part, path, text, frame) => {
    if (found.length < most && text.toLowerCase().includes(needle)) found.push({ part, path, text, frame });
  };
  const tree = (part, value, path, depth, frame) => {
    if (found.length >= most || depth > 60) return;
    if (value !== null && typeof value === "object") {
      for (const [name, each] of Object.entries(value)) {
        if (name.toLowerCase().includes(needle)) add(part, `${path}/${name}`, name, frame);
        tree(part, each, `${path}/${name}`, depth + 1, frame);
      }
    } else add(part, path, String(value), frame);
  };
  const body = (part, text, frame) => {
    if (!text.toLowerCase().includes(needle)) return;
    const value = json(text);
    if (value !== null && typeof value === "object") tree(part, value, "", 0, frame);
    else add(part, "", text, frame);
  };
  add("request", "url", record.url);
  for (const [name, value] of record.requestHeaders) add("request header", name, `${name}: ${value}`);
  body("request", bodyText(record.requestBody));
  for (const [name, value] of record.responseHeaders) add("response header", name, `${name}: ${value}`);
  body("response", bodyText(record.responseBody));
  record.frames.forEach((frame, place) => body(`event ${place + 1}`, payload(frame), place));
  return found;
}
