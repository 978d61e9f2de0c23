// `readSession`: a session file of any origin, as records that this page can show. Every member is
// checked and copied by name, so that nothing of the file but texts and numbers comes further.
const FORMAT = "trunkline-session.1";
const MOST_BYTES = 64 * 1024 * 1024;
const MOST_RECORDS = 20_000;
const MOST_FRAMES = 100_000;

const text = (value, most = 2000) => (typeof value === "string" ? value.slice(0, most) : "");
const number = (value) => (typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : 0);
const one = (value, allowed) => (allowed.includes(value) ? value : allowed[0]);
const list = (value, most) => (Array.isArray(value) ? value.slice(0, most) : []);

function body(value) {
  const found = value !== null && typeof value === "object" ? value : {};
  const kept = typeof found.base64 === "string" ? { base64: found.base64 } : { text: text(found.text, MOST_BYTES) };
  return { ...kept, size: number(found.size ?? (found.text ?? "").length) };
}

const headers = (value) =>
  list(value, 200)
    .filter((pair) => Array.isArray(pair) && pair.length === 2)
    .map(([name, content]) => [text(name, 200), text(content, 16_384)]);

const finding = (value) => ({
  rule: text(value?.rule, 200),
  severity: one(value?.severity, ["note", "warning", "error"]),
  pointer: text(value?.pointer),
  text: text(value?.text),
});

function frame(value) {
  return {
    ms: number(value?.ms),
    direction: one(value?.direction, ["out", "in"]),
    data: text(value?.data, MOST_BYTES),
    size: number(value?.size ?? value?.data?.length),
    eventId: text(value?.eventId, 200),
    event: text(value?.event, 200),
    isInjected: value?.isInjected === true,
  };
}

function record(value, place) {
  return {
    id: text(value.id, 200) || `record-${place}`,
    side: one(value.side, ["server", "client"]),
    agent: text(value.agent, 300),
    at: Number.isNaN(Date.parse(value.at)) ? new Date(0).toISOString() : text(value.at, 60),
    // A file has no exchange that goes on.
    ms: number(value.ms),
    operation: text(value.operation, 200),
    binding: one(value.binding, ["http", "jsonrpc", "rest", "websocket"]),
    version: text(value.version, 20),
    httpMethod: text(value.httpMethod, 20),
    url: text(value.url),
    peer: text(value.peer, 300),
    status: value.status === null || value.status === undefined ? null : number(value.status),
    requestBytes: number(value.requestBytes),
    responseBytes: number(value.responseBytes),
    events: number(value.events),
    taskId: text(value.taskId, 300),
    contextId: text(value.contextId, 300),
    principal: text(value.principal, 300),
    parent: text(value.parent, 200),
    error: text(value.error),
    fault: text(value.fault),
    truncated: value.truncated === true,
    requestHeaders: headers(value.requestHeaders),
    requestBody: body(value.requestBody),
    responseHeaders: headers(value.responseHeaders),
    responseBody: body(value.responseBody),
    frames: list(value.frames, MOST_FRAMES).map(frame),
    framesLeftOut: number(value.framesLeftOut) + Math.max(0, (value.frames?.length ?? 0) - MOST_FRAMES),
    framesBeforeGap: number(value.framesBeforeGap),
    findings: Array.isArray(value.findings) ? list(value.findings, 500).map(finding) : undefined,
  };
}

// Throws an Error with a sentence for the reader.
export async function readSession(file) {
  if (file.size > MOST_BYTES) throw new Error("The file is larger than 64 MB. Export fewer exchanges: filter by a task or an agent first.");
  let value;
  try {
    value = JSON.parse(await file.text());
  } catch {
    throw new Error("This is not a session file: it is not JSON.");
  }
  if (value === null || typeof value !== "object" || value.format !== FORMAT || !Array.isArray(value.records)) {
    throw new Error(`This is not a session file: its format is not "${FORMAT}".`);
  }
  const found = value.records.filter((each) => each !== null && typeof each === "object" && !Array.isArray(each));
  const records = new Map();
  found.slice(0, MOST_RECORDS).forEach((each, place) => {
    const read = record(each, place);
    if (!records.has(read.id)) records.set(read.id, read);
  });
  return {
    name: text(file.name, 200),
    exportedAt: text(value.exportedAt, 60),
    gateway: typeof value.gateway === "string" ? text(value.gateway, 300) : text(value.gateway?.publicUrl ?? value.gateway?.version, 300),
    records: [...records.values()],
    leftOut: value.records.length - records.size,
  };
}

// The same file made here, for filters that the gateway's own export does not know.
export const writeSession = (records, gateway) =>
  JSON.stringify({ format: FORMAT, exportedAt: new Date().toISOString(), gateway, records, tasks: [] }, null, 1);
