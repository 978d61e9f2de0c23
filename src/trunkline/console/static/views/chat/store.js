// `Conversation`: one conversation with one agent. It goes on while another one is shown, and what
// the gateway does not keep of it (drafts, messages on the way, answers without a task) is kept here.
import { ApiError, api, me, request } from "../../lib/api.js";
import { peerOf } from "../../lib/a2a.js";
import { isOver, isWaitingForPerson, line } from "../../lib/format.js";
import { hear } from "../../lib/live.js";
import { Value, remember, remembered } from "../../lib/state.js";
import { announce, notify } from "../../parts/basics.js";
import { Transcript, textOf } from "./transcript.js";

const MOST_REMEMBERED = 200;
const MOST_LOADED = 20;
// An ended task with more than this is drawn from its last state and not from its events.
const MOST_REPLAYED = 4_000_000;
const MOST_KEPT_CHARS = 60_000;
// HTTP/1.1 allows six connections to a host: further answers are polled.
const STREAMS = 4;

// Rises when the list of conversations changes.
export const listVersion = new Value(0);
const bump = () => listVersion.set(listVersion.get() + 1);

const open = new Map();
const agents = new Map();

export class Conversation {
  constructor({ handle, contextId = "", key = "", title = "", updatedAt = "", taskIds = [], local = [], outbox = null, agentName = "" }) {
    this.key = key || (contextId ? keyOf(handle, contextId) : `new ${crypto.randomUUID()}`);
    Object.assign(this, { handle, contextId, title, updatedAt, taskIds, local, outbox, agentName });
    this.transcript = new Transcript();
    // Rises with every change that is to be drawn, at most once in a frame.
    this.version = new Value(0);
    this.run = null;
    this.connection = "";
    this.phase = "idle";
    this.sent = null;
    this.load = null;
    this.problem = null;
    this.earlier = 0;
    this.files = [];
    // Of the last answer: when it began and ended, and how much it was.
    this.measured = { begin: 0, first: 0, last: 0, chars: 0, bytes: 0, events: 0 };
    this.way = remembered(`way.${handle}`, { version: "", binding: "" });
    for (const message of local) this.transcript.addMessage(message, { at: message.at });
  }

  get draft() {
    if (this.isBeside) return this.besideDraft ?? "";
    return remembered(`draft.${this.contextId ? this.key : this.handle}`, "");
  }

  set draft(text) {
    if (this.isBeside) {
      this.besideDraft = text;
      return;
    }
    remember(`draft.${this.contextId ? this.key : this.handle}`, text || undefined);
  }

  get isBusy() {
    return this.phase === "sending" || this.phase === "running";
  }

  // The task that waits for a person, which the next message answers.
  get waiting() {
    let found = null;
    for (const task of this.transcript.tasks.values()) if (isWaitingForPerson(task.state)) found = task;
    return found;
  }

  get running() {
    let found = null;
    for (const task of this.transcript.tasks.values()) if (task.state && !isOver(task.state) && !isWaitingForPerson(task.state)) found = task;
    return found;
  }

  changed() {
    if (this.frame) return;
    this.frame = true;
    const draw = () => {
      this.frame = false;
      this.version.set(this.version.get() + 1);
    };
    // A hidden tab has no frames, but its title still says what runs.
    if (document.hidden) setTimeout(draw, 250);
    else requestAnimationFrame(draw);
  }

  keep() {
    const all = remembered("chats", []).filter((each) => each.key !== this.key);
    if (this.contextId || this.local.length || this.outbox) {
      const { key, handle, contextId, title, updatedAt, agentName } = this;
      all.unshift({ key, handle, contextId, title, updatedAt, agentName, state: this.state(), taskIds: this.taskIds.slice(-50), local: kept(this.local), outbox: keptOutbox(this.outbox) });
    }
    remember("chats", all.slice(0, MOST_REMEMBERED));
    bump();
  }

  state() {
    return [...this.transcript.tasks.values()].at(-1)?.state ?? "";
  }

  async agent() {
    return agentOf(this.handle);
  }

  async peer({ canStream: hasPlace = true } = {}) {
    const agent = await this.agent();
    const canStream = hasPlace && agent.card?.capabilities?.streaming !== false;
    return peerOf(agent, { version: this.way.version || undefined, binding: this.way.binding || undefined, canStream });
  }

  // Read the tasks of the conversation, and go on with the one that runs.
  open() {
    this.load ??= this.#load().catch((error) => {
      this.problem = error;
      this.load = null;
      this.changed();
    });
    return this.load;
  }

  async #load() {
    this.problem = null;
    if (this.contextId) await this.#loadTasks();
    // A message that was on its way when the page closed: its key keeps it from running twice.
    const { outbox } = this;
    if (outbox && !this.run) this.#start((options) => this.#converse(outbox.params, outbox.key, options));
  }

  async #loadTasks() {
    const ids = new Set(this.taskIds);
    try {
      const page = await api("/tasks", { query: { contextId: this.contextId, agent: this.handle, principal: me.get().principal, pageSize: 100 } });
      for (const item of [...page.items].reverse()) ids.add(item.id);
    } catch (error) {
      if (!(error instanceof ApiError) || ![404, 403, 405].includes(error.status)) throw error;
    }
    // The ids of tasks begin with their time.
    const ordered = [...ids].sort();
    this.taskIds = ordered;
    this.earlier = Math.max(0, ordered.length - MOST_LOADED);
    const peer = await this.peer();
    for (const id of ordered.slice(this.earlier)) {
      if (this.transcript.tasks.has(id)) continue;
      await this.#loadTask(peer, id).catch((error) => {
        if (error.status === 401 || error.status === 0) throw error;
        this.taskIds = this.taskIds.filter((each) => each !== id);
      });
    }
    if (this.local.length) this.transcript.sort();
    this.changed();
  }

  async #loadTask(peer, id) {
    const task = await peer.getTask(id);
    if (!this.title) this.title = titleOf(task.history?.[0]);
    const size = (task.artifacts ?? []).reduce((sum, each) => sum + textOf(each.parts).length, 0);
    if (isOver(task.status?.state) && size > MOST_REPLAYED) {
      this.take({ seq: null, task });
      return;
    }
    const known = this.transcript.task(id, task.contextId);
    this.transcript.expect(known, (task.history ?? []).slice(0));
    const since = task.status?.timestamp ?? "";
    const replay = async (options) => this.#read((await this.peer(options)).follow(id, { ...options, lastSeq: 0, since }));
    if (isOver(task.status?.state)) {
      await replay({});
      // What its events did not say.
      this.take({ seq: null, task });
    } else this.#start(replay);
  }

  #measure(event) {
    const { measured } = this;
    if (!this.isBeside || !measured.begin || event.closing !== undefined) return;
    measured.events += 1;
    measured.bytes += JSON.stringify(event).length;
    const parts = event.artifactUpdate?.artifact?.parts ?? event.message?.parts;
    if (!parts) return;
    measured.last = performance.now();
    measured.first ||= measured.last;
    measured.chars += textOf(parts).length;
  }

  take(event) {
    this.#measure(event);
    const task = this.transcript.take(event);
    if (task) {
      if (!this.taskIds.includes(task.id)) {
        this.taskIds.push(task.id);
        this.#adopt(task.contextId);
      }
    } else if (event.message) {
      this.local.push({ ...event.message, at: new Date().toISOString() });
      this.#adopt(event.message.contextId);
    }
    if (event.closing !== undefined || event.gap) return;
    this.changed();
  }

  // The id that the gateway gave to this conversation.
  #adopt(contextId) {
    if (contextId && !this.contextId) {
      const draft = this.draft;
      this.draft = "";
      remember("chats", remembered("chats", []).filter((each) => each.key !== this.key));
      open.delete(this.key);
      this.contextId = contextId;
      this.key = keyOf(this.handle, contextId);
      open.set(this.key, this);
      if (draft) this.draft = draft;
      this.onContext?.();
    }
    this.outbox = null;
    this.keep();
  }

  async send(parts, { taskId = "", metadata } = {}) {
    const message = { messageId: crypto.randomUUID(), role: "ROLE_USER", parts };
    if (this.contextId) message.contextId = this.contextId;
    if (taskId) message.taskId = taskId;
    if (metadata) message.metadata = metadata;
    const params = { message };
    const key = crypto.randomUUID();
    this.transcript.addMessage(message, { at: new Date().toISOString() });
    this.title ||= titleOf(message);
    this.updatedAt = new Date().toISOString();
    this.outbox = { params, key };
    this.run?.abort();
    this.keep();
    await this.#start((options) => this.#converse(params, key, options));
  }

  async #converse(params, key, options) {
    const { message } = params;
    const entry = this.transcript.addMessage(message);
    this.sent = { bytes: JSON.stringify(params).length };
    this.measured = { begin: performance.now(), first: 0, last: 0, chars: 0, bytes: 0, events: 0 };
    let isFirst = true;
    const peer = await this.peer(options);
    for await (const event of peer.converse(params, { ...options, key })) {
      if (isFirst && event.closing === undefined) {
        isFirst = false;
        this.phase = "running";
        this.outbox = null;
        if (event.message) this.local.push({ ...message, at: entry.at });
        const body = event.task ?? event.statusUpdate ?? event.artifactUpdate;
        entry.taskId ||= body?.taskId ?? body?.id ?? "";
        entry.version += 1;
        this.take(event);
        this.keep();
        continue;
      }
      this.take(event);
    }
  }

  async #read(events) {
    for await (const event of events) {
      this.phase = "running";
      this.take(event);
    }
  }

  // One run at a time reads events: the next one takes over.
  async #start(read) {
    this.run?.abort();
    const controller = new AbortController();
    this.run = controller;
    this.phase = "sending";
    this.problem = null;
    this.changed();
    const slot = await takeSlot();
    const onConnection = (connection) => {
      if (this.connection === connection) return;
      this.connection = connection;
      this.changed();
    };
    if (this.outbox) announce(`Sent to ${line(this.agentName || this.handle, 60)}`);
    try {
      await read({ signal: controller.signal, onConnection, canStream: slot.canStream });
    } catch (error) {
      if (controller.signal.aborted) return;
      this.outbox = null;
      this.transcript.addError(error);
    } finally {
      slot.release();
      if (this.run === controller) {
        this.run = null;
        this.phase = "idle";
        this.connection = "";
        this.updatedAt = new Date().toISOString();
        this.sent = null;
        if (this.measured.begin && !this.waiting) this.measured.last = performance.now();
        this.keep();
        this.changed();
        const waiting = this.waiting;
        announce(`${line(this.agentName || this.handle, 60)} ${waiting ? "asks" : "has finished"}`);
      }
    }
  }

  // Look again at a task that waited and has news, as when somebody answered elsewhere.
  async refresh(taskId) {
    if (this.run) return;
    const peer = await this.peer();
    const snapshot = await peer.getTask(taskId);
    const task = this.transcript.task(taskId);
    if (isOver(snapshot.status?.state)) {
      // Ended, or something was added to it after its end.
      this.take({ seq: null, task: snapshot });
      return;
    }
    if (snapshot.status?.state === task.state && snapshot.status?.timestamp === task.statusAt) return;
    this.transcript.expect(task, snapshot.history ?? []);
    const since = snapshot.status?.timestamp ?? "";
    await this.#start(async (options) => this.#read((await this.peer(options)).follow(taskId, { ...options, lastSeq: task.lastSeq || null, since })));
  }

  async stop(taskId) {
    const task = this.transcript.task(taskId);
    task.stop = { word: "requested" };
    this.changed();
    try {
      const peer = await this.peer();
      const after = await peer.cancel(taskId);
      const isCanceled = String(after?.status?.state ?? "").includes("CANCELED");
      task.stop = isCanceled ? { word: "canceled" } : { word: "refused", reason: `The task is ${after?.status?.state ?? "unchanged"}.` };
      if (after) this.take({ seq: null, statusUpdate: { taskId, contextId: this.contextId, status: after.status } });
    } catch (error) {
      const isUnsupported = error.code === -32601 || error.reason === "UNSUPPORTED_OPERATION";
      task.stop = isUnsupported ? { word: "unsupported" } : { word: "refused", reason: error.message };
    }
    this.changed();
  }

  async loadEarlier() {
    const peer = await this.peer();
    const from = Math.max(0, this.earlier - MOST_LOADED);
    const fresh = new Transcript();
    const now = this.transcript;
    for (const id of this.taskIds.slice(from, this.earlier)) {
      const task = await peer.getTask(id).catch(() => null);
      if (task) fresh.take({ seq: null, task });
    }
    for (const entry of fresh.entries) entry.id = `e${from}.${entry.id}`;
    now.entries.unshift(...fresh.entries);
    for (const [id, task] of fresh.tasks) if (!now.tasks.has(id)) now.tasks.set(id, task);
    this.earlier = from;
    this.changed();
  }

  setWay(way) {
    this.way = way;
    remember(`way.${this.handle}`, way);
    this.changed();
  }
}

const keyOf = (handle, contextId) => `${handle} ${contextId}`;

const titleOf = (message) => line(textOf(message?.parts), 80) || (message?.parts?.length ? "Files" : "");

// Local storage is small: large bytes are not kept there.
const kept = (messages) =>
  messages.slice(-100).map((message) => ({ ...message, parts: (message.parts ?? []).map(smaller) }));

function smaller(part) {
  if ((part.raw?.length ?? 0) > MOST_KEPT_CHARS) return { text: `[${part.filename ?? "file"}: not kept by this browser]` };
  if ((part.text?.length ?? 0) > MOST_KEPT_CHARS) return { ...part, text: `${part.text.slice(0, MOST_KEPT_CHARS)}…` };
  return part;
}

// A message that cannot be kept whole is not sent again after a reload.
function keptOutbox(outbox) {
  return outbox && JSON.stringify(outbox).length < 500_000 ? outbox : null;
}

// All conversations that this browser knows, the newest first.
export function remembering() {
  const all = remembered("chats", []);
  const keys = new Set(all.map((each) => each.key));
  const fresh = [...open.values()].filter((each) => !keys.has(each.key) && (each.contextId || each.transcript.entries.length));
  return [...fresh, ...all].sort((a, b) => String(b.updatedAt).localeCompare(String(a.updatedAt)));
}

export function conversation(handle, contextId) {
  const key = keyOf(handle, contextId);
  if (!open.has(key)) {
    const known = remembered("chats", []).find((each) => each.key === key);
    open.set(key, new Conversation({ ...known, handle, contextId }));
  }
  return open.get(key);
}

// The conversation with an agent that has no id yet; there is one at a time for each agent.
export function newConversation(handle) {
  for (const each of open.values()) if (each.handle === handle && !each.contextId && !each.isBeside && !each.transcript.entries.length) return each;
  const made = new Conversation({ handle });
  open.set(made.key, made);
  return made;
}

// A conversation for a comparison: always a new one.
export function besideConversation(handle) {
  const made = new Conversation({ handle });
  made.isBeside = true;
  open.set(made.key, made);
  return made;
}

// Conversations that had a message on the way when the page was closed.
export function unsentOf(handle) {
  for (const each of open.values()) if (each.handle === handle && !each.contextId && !each.isBeside && each.transcript.entries.length) return each;
  const kept = remembered("chats", []).find((each) => each.handle === handle && !each.contextId && (each.outbox || each.local?.length));
  if (!kept) return null;
  const made = new Conversation(kept);
  open.set(made.key, made);
  return made;
}

export function forget(key) {
  open.get(key)?.run?.abort();
  open.delete(key);
  remember("chats", remembered("chats", []).filter((each) => each.key !== key));
  bump();
}

export const isOpenBusy = (key) => Boolean(open.get(key)?.isBusy);
export const busyCount = () => [...open.values()].filter((each) => each.isBusy).length;

export async function agentOf(handle) {
  if (!agents.has(handle)) {
    agents.set(
      handle,
      readAgent(handle).catch((error) => {
        agents.delete(handle);
        throw error;
      }),
    );
  }
  return agents.get(handle);
}

async function readAgent(handle) {
  const [owner, slug] = handle.split("/");
  const agent = await api(`/agents/by-handle/${encodeURIComponent(owner)}/${encodeURIComponent(slug)}`);
  let card = null;
  try {
    const response = await request(agent.cardPath, { headers: { "A2A-Version": "1.0" } });
    if (response.ok) card = await response.json();
  } catch {
    // Without its card an agent can still be talked to.
  }
  return { ...agent, card };
}

// A task elsewhere changed: a conversation that waits for it reads on.
hear("task", (news) => {
  for (const each of open.values()) {
    const task = each.transcript.tasks.get(news.id);
    if (task && !each.run && (news.lastSeq > task.lastSeq || news.state !== task.state)) each.refresh(news.id).catch(() => {});
  }
});

let streams = 0;

// A place among the connections of this browser, shared by its tabs where the browser has locks.
async function takeSlot() {
  for (let place = 0; place < STREAMS; place++) {
    const release = await locked(`trunkline-stream-${place}`);
    if (release) return { canStream: true, release };
  }
  return { canStream: false, release: () => {} };
}

function locked(name) {
  if (!navigator.locks) {
    if (streams >= STREAMS) return null;
    streams += 1;
    return () => {
      streams -= 1;
    };
  }
  return new Promise((answer) => {
    navigator.locks.request(name, { ifAvailable: true }, (lock) => {
      if (!lock) return answer(null);
      return new Promise((release) => answer(release));
    }).catch(() => answer(() => {}));
  });
}
