// `Peer`: an agent of the gateway as A2A shows it. It speaks 1.0 and 0.3, over JSON-RPC and HTTP+JSON,
// and gives everything in the form of 1.0, so that the views know one form.
import { ApiError, me, refusal, request } from "./api.js";
import { isOver, isWaitingForPerson, stateName } from "./format.js";
import { events } from "./sse.js";

const METHODS = {
  "1.0": { send: "SendMessage", stream: "SendStreamingMessage", get: "GetTask", cancel: "CancelTask", subscribe: "SubscribeToTask" },
  0.3: { send: "message/send", stream: "message/stream", get: "tasks/get", cancel: "tasks/cancel", subscribe: "tasks/resubscribe" },
};
const FIRST_PAUSE_MS = 400;
const LONGEST_PAUSE_MS = 10_000;
const POLL_MS = 1000;

export class A2AError extends ApiError {
  constructor(code, message, data, status) {
    const reason = (Array.isArray(data) ? data : []).map((each) => each?.reason).find(Boolean) ?? "";
    super(status, message, { reason });
    this.code = code;
    this.data = data;
  }
}

export class Peer {
  constructor({ jsonrpcPath, restPath = "", version = "1.0", binding = "jsonrpc", canStream = true }) {
    Object.assign(this, { jsonrpcPath, restPath, version, binding, canStream });
  }

  // The request of an operation, as it goes to the wire: { method, url, headers, body }. The
  // inspector shows it and makes a line for curl of it.
  compose(operation, params, { lastSeq = null, key = "" } = {}) {
    const headers = { "A2A-Version": this.version };
    if (lastSeq !== null) headers["Last-Event-ID"] = String(lastSeq);
    if (key) headers["Idempotency-Key"] = key;
    if (this.binding === "rest" && this.version === "1.0") return this.#composeRest(operation, params, headers);
    const body = {
      jsonrpc: "2.0",
      id: crypto.randomUUID(),
      method: METHODS[this.version][operation],
      params: this.version === "0.3" ? toV03(operation, params) : params,
    };
    return { method: "POST", url: this.jsonrpcPath, headers: { ...headers, "Content-Type": "application/json" }, body };
  }

  #composeRest(operation, params, headers) {
    const id = encodeURIComponent(params.id ?? "");
    const [method, path, body] = {
      send: ["POST", "/message:send", params],
      stream: ["POST", "/message:stream", params],
      get: ["GET", `/tasks/${id}${params.historyLength === undefined ? "" : `?historyLength=${params.historyLength}`}`],
      cancel: ["POST", `/tasks/${id}:cancel`, {}],
      subscribe: ["POST", `/tasks/${id}:subscribe`],
    }[operation];
    const type = body ? { "Content-Type": "application/json" } : {};
    return { method, url: this.restPath + path, headers: { ...headers, ...type }, body };
  }

  async #answer(composed, signal) {
    const response = await request(composed.url, {
      method: composed.method,
      headers: composed.headers,
      body: composed.body === undefined ? undefined : JSON.stringify(composed.body),
      signal,
    });
    const isStream = (response.headers.get("content-type") ?? "").startsWith("text/event-stream");
    if (isStream && response.ok) return { response, isStream };
    if (!response.ok && this.binding === "rest") throw await refusal(response);
    let body;
    try {
      body = await response.clone().json();
    } catch {
      throw response.ok
        ? new ApiError(response.status, "The agent's answer is not JSON, or it broke off.")
        : await refusal(response);
    }
    if (body?.error && this.binding !== "rest") {
      throw new A2AError(body.error.code, body.error.message ?? "The agent refused the request.", body.error.data, response.status);
    }
    if (!response.ok) throw await refusal(response);
    return { result: this.binding === "rest" ? body : body?.result };
  }

  // `{ task }` or `{ message }`.
  async send(params, { signal, key } = {}) {
    const { result } = await this.#answer(this.compose("send", params, { key }), signal);
    return this.version === "0.3" ? fromV03(result) : result;
  }

  async getTask(id, { historyLength, signal } = {}) {
    const { result } = await this.#answer(this.compose("get", { id, historyLength }), signal);
    return this.version === "0.3" ? taskFromV03(result) : result;
  }

  async cancel(id, { signal } = {}) {
    const { result } = await this.#answer(this.compose("cancel", { id }), signal);
    return this.version === "0.3" ? taskFromV03(result) : result;
  }

  // The events of one connection, `{ seq, task | message | statusUpdate | artifactUpdate | gap | closing }`.
  async *#stream(composed, signal) {
    const { response, isStream, result } = await this.#answer(composed, signal);
    if (!isStream) {
      // An agent may answer with a whole response where a stream was asked for.
      yield { seq: null, ...(this.version === "0.3" ? fromV03(result) : result) };
      return;
    }
    for await (const event of events(response)) {
      if (event.comment !== undefined) {
        yield { seq: null, closing: event.comment };
        continue;
      }
      const data = JSON.parse(event.data);
      if (event.event === "gap") {
        yield { seq: null, gap: data };
        continue;
      }
      const isEnvelope = this.binding !== "rest" || data?.jsonrpc;
      if (isEnvelope && data?.error) throw new A2AError(data.error.code, data.error.message, data.error.data, 200);
      if (!isEnvelope && data?.error) throw new A2AError(data.error.code, data.error.message, data.error.details, 200);
      const result = isEnvelope ? data.result : data;
      const seq = event.id === null ? null : Number(event.id);
      yield { seq, ...(this.version === "0.3" ? fromV03(result) : result) };
    }
  }

  stream(params, { signal, key } = {}) {
    return this.#stream(this.compose("stream", params, { key }), signal);
  }

  subscribe(id, { lastSeq = null, signal } = {}) {
    return this.#stream(this.compose("subscribe", { id }, { lastSeq }), signal);
  }

  // Send a message and follow its task until it ends or waits for a person, over any number of
  // connections: a lost one is resumed behind the last event. The key lets the message be sent
  // again without a second run, also after a reload. `onConnection` gets "open", "lost",
  // "signed-out" or "resumed".
  async *converse(params, { signal, key = crypto.randomUUID(), onConnection = () => {} } = {}) {
    if (!this.canStream) {
      yield* this.#sendAndPoll(params, { signal, key, onConnection });
      return;
    }
    const known = { taskId: null, seq: null, state: "" };
    const pauses = new Pauses(signal, onConnection);
    while (!known.taskId) {
      try {
        for await (const event of this.stream(params, { signal, key })) {
          pauses.reset();
          onConnection("open");
          note(known, event);
          yield event;
          if (event.message || isWaitingForPerson(known.state)) return;
        }
        // The connection ended without an answer, as a gateway that stops does: ask again.
        if (!known.taskId) await pauses.after(null);
      } catch (error) {
        if (signal?.aborted || !isPassing(error)) throw error;
        await pauses.after(error);
      }
    }
    yield* this.follow(known.taskId, { lastSeq: known.seq, state: known.state, signal, onConnection });
  }

  // The events of a task behind `lastSeq`, until it ends or waits for a person. A question older
  // than `since` was answered meanwhile, and does not end it.
  async *follow(taskId, { lastSeq = null, state = "", since = "", signal, onConnection = () => {} } = {}) {
    const known = { taskId, seq: lastSeq, state };
    const isDone = (event) =>
      isOver(known.state) || (isWaitingForPerson(known.state) && !(timeOf(event) && timeOf(event) < since));
    const pauses = new Pauses(signal, onConnection);
    let isFirst = true;
    if (isDone()) return;
    while (true) {
      try {
        if (!this.canStream) {
          if (!isFirst) await rest(POLL_MS, signal);
          const task = await this.getTask(taskId, { signal });
          note(known, { seq: null, task });
          onConnection("open");
          yield { seq: null, task };
          if (isDone()) return;
        } else {
          let last = null;
          for await (const event of this.subscribe(taskId, { lastSeq: known.seq, signal })) {
            pauses.reset();
            onConnection(isFirst ? "open" : "resumed");
            note(known, event);
            if (event.task || event.statusUpdate) last = event;
            yield event;
            // A subscription goes on behind a question; the answer opens a stream of its own. An
            // ended task may have later events in its journal: they come before the stream ends.
            if (isWaitingForPerson(known.state) && isDone(event)) return;
          }
          if (last && isDone(last)) return;
        }
      } catch (error) {
        if (signal?.aborted) throw error;
        if (!isPassing(error)) {
          // It ended and everything was seen, or this agent's events cannot be read again.
          yield { seq: null, task: await this.getTask(taskId, { signal }) };
          return;
        }
        await pauses.after(error);
      }
      if (isOver(known.state)) return;
      if (this.canStream && !isFirst) await pauses.after(null);
      isFirst = false;
    }
  }

  async *#sendAndPoll(params, { signal, key, onConnection }) {
    const configuration = { ...params.configuration, returnImmediately: true };
    const pauses = new Pauses(signal, onConnection);
    let result;
    while (!result) {
      try {
        result = await this.send({ ...params, configuration }, { signal, key });
      } catch (error) {
        if (signal?.aborted || !isPassing(error)) throw error;
        await pauses.after(error);
      }
    }
    yield { seq: null, ...result };
    if (result.task) yield* this.follow(result.task.id, { state: result.task.status?.state, signal, onConnection });
  }
}

// The pauses between attempts, each twice the last one.
class Pauses {
  #ms = FIRST_PAUSE_MS;

  constructor(signal, onConnection) {
    this.signal = signal;
    this.onConnection = onConnection;
  }

  reset() {
    this.#ms = FIRST_PAUSE_MS;
  }

  async after(error) {
    if (error?.status === 401) {
      this.onConnection("signed-out");
      await signedIn(this.signal);
      return;
    }
    if (error) this.onConnection("lost");
    await rest(Math.max(this.#ms, (error?.retryAfterS ?? 0) * 1000), this.signal);
    this.#ms = Math.min(this.#ms * 2, LONGEST_PAUSE_MS);
  }
}

// Resolves when somebody has signed in again.
function signedIn(signal) {
  return new Promise((done, stop) => {
    if (me.get()?.signedIn) {
      // The page does not know yet that the session is gone: look again in a moment.
      setTimeout(done, FIRST_PAUSE_MS);
      return;
    }
    const unfollow = me.follow((who) => {
      if (!who?.signedIn) return;
      unfollow();
      done();
    });
    signal?.addEventListener("abort", () => {
      unfollow();
      stop(signal.reason);
    }, { once: true });
  });
}

const timeOf = (event) => (event?.statusUpdate ?? event?.task)?.status?.timestamp ?? "";

// The peer of an AgentView of /api/v1/agents.
export function peerOf(agent, { version, binding, canStream = true } = {}) {
  const versions = agent.versions?.length ? agent.versions : ["1.0"];
  return new Peer({
    canStream,
    jsonrpcPath: agent.jsonrpcPath,
    restPath: agent.restPath,
    version: version ?? (versions.includes("1.0") ? "1.0" : versions[0]),
    binding: binding === "rest" && agent.restPath ? "rest" : "jsonrpc",
  });
}

function note(known, event) {
  if (event.seq !== null) known.seq = event.seq;
  if (event.gap) known.seq = null;
  if (event.task) {
    known.taskId = event.task.id;
    known.state = event.task.status?.state;
  } else if (event.statusUpdate) {
    known.taskId = event.statusUpdate.taskId;
    known.state = event.statusUpdate.status?.state;
  } else if (event.artifactUpdate) known.taskId = event.artifactUpdate.taskId;
}

// Whether trying again can help: no answer, a session that ended, or a gateway that says so.
function isPassing(error) {
  if (error instanceof ApiError) return error.status === 0 || [401, 429, 502, 503, 504].includes(error.status);
  return error instanceof TypeError || error?.name === "NetworkError";
}

function rest(ms, signal) {
  return new Promise((done, stop) => {
    const timer = setTimeout(done, ms * (0.75 + Math.random() / 2));
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      stop(signal.reason);
    }, { once: true });
  });
}

// 0.3 and its forms (A2A 0.3, 6 and 7), read and written.

const toState = (state) => `TASK_STATE_${stateName(state)}`;
const toRole = (role) => (String(role).toLowerCase().includes("agent") ? "ROLE_AGENT" : "ROLE_USER");

function partFromV03(part) {
  const more = part.metadata ? { metadata: part.metadata } : {};
  if (part.kind === "text") return { text: part.text, ...more };
  if (part.kind === "data") return { data: part.data, ...more };
  const file = part.file ?? {};
  const content = file.uri !== undefined ? { url: file.uri } : { raw: file.bytes };
  return { ...content, filename: file.name, mediaType: file.mimeType, ...more };
}

export function messageFromV03(message) {
  if (!message) return message;
  const { kind, ...rest } = message;
  return { ...rest, role: toRole(message.role), parts: (message.parts ?? []).map(partFromV03) };
}

function statusFromV03(status) {
  return { ...status, state: toState(status?.state), ...(status?.message ? { message: messageFromV03(status.message) } : {}) };
}

function artifactFromV03(artifact) {
  return { ...artifact, parts: (artifact?.parts ?? []).map(partFromV03) };
}

export function taskFromV03(task) {
  const { kind, ...rest } = task ?? {};
  return {
    ...rest,
    status: statusFromV03(task?.status),
    ...(task?.history ? { history: task.history.map(messageFromV03) } : {}),
    ...(task?.artifacts ? { artifacts: task.artifacts.map(artifactFromV03) } : {}),
  };
}

export function fromV03(result) {
  switch (result?.kind) {
    case "message":
      return { message: messageFromV03(result) };
    case "status-update":
      return { statusUpdate: { ...result, status: statusFromV03(result.status) } };
    case "artifact-update":
      return { artifactUpdate: { ...result, artifact: artifactFromV03(result.artifact) } };
    default:
      return { task: taskFromV03(result) };
  }
}

function partToV03(part) {
  const more = part.metadata ? { metadata: part.metadata } : {};
  if (part.text !== undefined) return { kind: "text", text: part.text, ...more };
  if (part.data !== undefined) return { kind: "data", data: part.data, ...more };
  const content = part.url !== undefined ? { uri: part.url } : { bytes: part.raw };
  return { kind: "file", file: { ...content, name: part.filename, mimeType: part.mediaType }, ...more };
}

function toV03(operation, params) {
  if (operation !== "send" && operation !== "stream") return params;
  const { message, configuration, ...rest } = params;
  const { returnImmediately, ...others } = configuration ?? {};
  return {
    ...rest,
    message: {
      ...message,
      kind: "message",
      role: toRole(message.role) === "ROLE_AGENT" ? "agent" : "user",
      parts: message.parts.map(partToV03),
    },
    ...(configuration ? { configuration: { ...others, ...(returnImmediately ? { blocking: false } : {}) } } : {}),
  };
}
