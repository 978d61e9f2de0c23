// `Transcript`: the entries of one conversation, in the order of its events. Chunks of an artifact
// are one entry, phases of a tool are one entry, and an event that was seen counts once.
import { isOver, isWaitingForPerson, stateName } from "../../lib/format.js";

// Notes and steps behind one another are one entry up to this number, so that a run of 100,000
// steps does not become 100,000 elements.
const MOST_STEPS = 500;

export class Transcript {
  entries = [];
  tasks = new Map();
  // Entries by what names them, so that an event finds its entry at once.
  #places = new Map();
  #next = 1;

  // Returns the task of the event, or null for a message without a task.
  take(event) {
    if (event.message) {
      this.addMessage(event.message);
      return null;
    }
    if (event.gap || event.closing !== undefined) return null;
    const body = event.task ?? event.statusUpdate ?? event.artifactUpdate;
    const id = event.task ? body.id : body?.taskId;
    if (!id) return null;
    const task = this.task(id, body.contextId);
    if (event.seq !== null && !event.task) {
      if (event.seq <= task.lastSeq) return task;
      task.events += 1;
    }
    if (event.seq !== null) task.lastSeq = Math.max(task.lastSeq, event.seq);
    if (event.task) this.#takeTask(task, body);
    else if (event.statusUpdate) this.#takeStatus(task, body.status ?? {}, body.metadata);
    else this.#takeArtifact(task, body);
    return task;
  }

  task(id, contextId = "") {
    let task = this.tasks.get(id);
    if (!task) {
      task = { id, contextId, state: "", statusAt: "", lastSeq: 0, events: 0, turn: 0, answers: "", unsaid: [], question: null, stop: null };
      this.tasks.set(id, task);
    }
    task.contextId ||= contextId ?? "";
    return task;
  }

  // The messages of a task, of which replayed events show only where they belong.
  expect(task, messages) {
    task.unsaid = messages.filter((each) => each.role === "ROLE_USER" && !this.#places.has(`m ${each.messageId}`));
  }

  addMessage(message, more = {}) {
    const name = `m ${message.messageId}`;
    const known = this.#places.get(name);
    if (known) {
      known.taskId ||= message.taskId ?? "";
      return known;
    }
    return this.#add(name, {
      kind: "message",
      role: message.role,
      messageId: message.messageId,
      parts: message.parts ?? [],
      taskId: message.taskId ?? "",
      metadata: message.metadata,
      raw: message,
      ...more,
    });
  }

  // Answers without a task among the tasks, by their times.
  sort() {
    const at = (entry) => (entry.taskId ? this.tasks.get(entry.taskId)?.startedAt : entry.at) ?? "";
    this.entries.sort((a, b) => (at(a) < at(b) ? -1 : at(a) > at(b) ? 1 : 0));
  }

  addError(error, taskId = "") {
    return this.#add(null, { kind: "error", error, taskId });
  }

  #add(name, entry) {
    entry.id = this.#next++;
    entry.version = 0;
    this.entries.push(entry);
    if (name) this.#places.set(name, entry);
    return entry;
  }

  #takeTask(task, snapshot) {
    for (const message of snapshot.history ?? []) {
      if (message.role === "ROLE_USER") this.addMessage({ ...message, taskId: task.id });
      else if (!this.#isNote(task, message)) this.#note(task, message);
    }
    for (const artifact of snapshot.artifacts ?? []) this.#takeArtifact(task, { artifact });
    task.metadata = snapshot.metadata ?? task.metadata;
    this.#takeStatus(task, snapshot.status ?? {});
  }

  // Whether the message says what the artifacts of the answer say already.
  #isNote(task, message) {
    return this.#places.has(`n ${message.messageId}`) || this.#isAnswer(task, message);
  }

  #isAnswer(task, message) {
    const text = textOf(message.parts);
    if (!text) return !(message.parts ?? []).some((part) => part.data !== undefined || part.raw !== undefined || part.url !== undefined);
    for (let i = this.entries.length - 1; i >= 0; i--) {
      const entry = this.entries[i];
      if (entry.taskId === task.id && entry.kind === "artifact" && textOf(entry.parts) === text) return true;
    }
    return false;
  }

  #takeStatus(task, status, metadata) {
    const before = task.state;
    task.state = status.state ?? task.state;
    task.statusAt = status.timestamp ?? task.statusAt;
    task.startedAt ??= status.timestamp;
    if (metadata) task.statusMetadata = metadata;
    // A turn begins: its message stands here.
    if (stateName(task.state) === "SUBMITTED" && before) {
      task.turn += 1;
      const said = task.unsaid.find((each) => !this.#places.has(`m ${each.messageId}`));
      if (said) this.addMessage({ ...said, taskId: task.id });
    }
    const { message } = status;
    task.question = isWaitingForPerson(task.state) ? (message ?? { parts: [] }) : null;
    if (message && isWaitingForPerson(task.state)) {
      const known = this.#places.get(`q ${message.messageId}`);
      if (!known) this.#add(`q ${message.messageId}`, { kind: "question", parts: message.parts ?? [], message, taskId: task.id, state: task.state, raw: message });
    } else if (message && isOver(task.state)) {
      if (!this.#isNote(task, message)) {
        this.#add(`n ${message.messageId}`, { kind: "message", role: "ROLE_AGENT", messageId: message.messageId, parts: message.parts ?? [], taskId: task.id, outcome: task.state, metadata: message.metadata, raw: message });
      }
    } else if (message) this.#note(task, message);
  }

  #note(task, message) {
    const name = `n ${message.messageId}`;
    if (this.#places.has(name) || this.#places.has(`q ${message.messageId}`)) {
      const known = this.#places.get(name);
      if (known?.kind === "steps") {
        const step = known.steps.find((each) => each.id === message.messageId);
        if (step) step.parts = message.parts;
        known.version += 1;
      }
      return;
    }
    const steps = this.#steps(task);
    steps.steps.push({ kind: "note", id: message.messageId, parts: message.parts ?? [], raw: message });
    steps.version += 1;
    this.#places.set(name, steps);
  }

  // The last entry, if it holds steps of this task; else a new one.
  #steps(task) {
    const last = this.entries.at(-1);
    if (last?.kind === "steps" && last.taskId === task.id && last.steps.length < MOST_STEPS) return last;
    return this.#add(null, { kind: "steps", taskId: task.id, steps: [] });
  }

  #takeArtifact(task, { artifact, append, lastChunk }) {
    if (!artifact) return;
    const tool = toolOf(artifact);
    const name = `a ${task.id} ${artifact.artifactId}`;
    if (tool) {
      this.#takeTool(task, name, artifact, tool, append);
      return;
    }
    let entry = this.#places.get(name);
    if (!entry) entry = this.#add(name, { kind: "artifact", taskId: task.id, artifactId: artifact.artifactId, parts: [], chunks: 0 });
    entry.name = artifact.name ?? entry.name;
    entry.description = artifact.description ?? entry.description;
    entry.metadata = artifact.metadata ?? entry.metadata;
    entry.isLast = Boolean(lastChunk);
    entry.chunks += 1;
    entry.version += 1;
    if (append) join(entry.parts, artifact.parts ?? []);
    else entry.parts = (artifact.parts ?? []).map((part) => ({ ...part }));
  }

  #takeTool(task, name, artifact, tool, append) {
    const known = this.#places.get(name);
    const steps = known ?? this.#steps(task);
    let step = known?.steps.find((each) => each.id === artifact.artifactId);
    if (!step) {
      step = { kind: "tool", id: artifact.artifactId, name: tool.name, phases: [] };
      steps.steps.push(step);
      this.#places.set(name, steps);
    }
    if (!append && step.phases.at(-1)?.phase === tool.phase && tool.phase !== "update") step.phases.pop();
    step.phases.push(tool);
    step.raw = artifact;
    step.isDone = tool.phase === "result" || tool.phase === "error" || step.isDone;
    step.isError = tool.isError || step.isError;
    steps.version += 1;
  }
}

export const textOf = (parts) =>
  (parts ?? []).map((part) => part.text).filter((text) => text !== undefined).join("\n");

// What an artifact says of a tool, or null.
export function toolOf(artifact) {
  const { metadata } = artifact;
  const part = (artifact.parts ?? []).find((each) => typeof each.data === "object" && each.data !== null);
  const isTool = metadata?.source === "tool" || (typeof part?.data.tool === "string" && typeof part?.data.phase === "string");
  if (!isTool) return null;
  const said = part?.data ?? {};
  return {
    name: String(metadata?.toolName ?? said.tool ?? artifact.name ?? "tool"),
    phase: String(metadata?.phase ?? said.phase ?? "result"),
    data: said.data !== undefined ? said.data : (part?.data ?? textOf(artifact.parts)),
    isError: said.isError === true || said.phase === "error",
  };
}

// Put the parts of a chunk behind those that are there: text behind text, bytes behind bytes.
function join(parts, more) {
  for (const part of more) {
    const last = parts.at(-1);
    const isSame = last && (part.mediaType ?? "") === (last.mediaType ?? "") && (part.filename ?? "") === (last.filename ?? "");
    if (isSame && part.text !== undefined && last.text !== undefined) last.text += part.text;
    else if (isSame && part.raw !== undefined && last.raw !== undefined) (last.pieces ??= [last.raw]).push(part.raw);
    else parts.push({ ...part });
  }
}
