// `Journal`: the events of one task as summaries, in pages that are read when they come into sight.
// `Recording`: the same events in full, from which the task of any sequence is put together.
import { api } from "./api.js";
import { isOver, stateName } from "./format.js";
import { Value } from "./state.js";

const PAGE = 500;
// How many bytes of events one answer should have.
const SLICE_BYTES = 400_000;
const MOST_FULL = 1000;

export class Journal {
  #pages = new Map();
  #loading = new Map();
  #frame = 0;

  constructor(id) {
    this.id = id;
    this.prunedTo = 0;
    this.lastSeq = 0;
    this.error = null;
    // Counts the changes, for the views.
    this.changes = new Value(0);
  }

  get length() {
    return Math.max(0, this.lastSeq - this.prunedTo);
  }

  // Rows of a list: the summary, or only its sequence while it is not read.
  at(index) {
    const seq = this.prunedTo + 1 + index;
    return this.bySeq(seq) ?? { seq, isMissing: true };
  }

  bySeq(seq) {
    return this.#pages.get(pageOf(seq))?.items[(seq - 1) % PAGE];
  }

  grow(lastSeq, prunedTo = this.prunedTo) {
    if (lastSeq <= this.lastSeq && prunedTo === this.prunedTo) return;
    this.lastSeq = Math.max(lastSeq, this.lastSeq);
    this.prunedTo = prunedTo;
    this.#changed();
  }

  get readCount() {
    let count = 0;
    for (const { upTo } of this.#pages.values()) count += ((upTo - 1) % PAGE) + 1;
    return Math.min(count, this.length);
  }

  // Read the events of these sequences, and stop reading others.
  want(firstSeq, lastSeq) {
    const [first, last] = [pageOf(Math.max(1, firstSeq)), pageOf(Math.max(1, Math.min(lastSeq, this.lastSeq)))];
    for (const [page, { controller, isKept }] of this.#loading) {
      if (!isKept && (page < first || page > last)) controller.abort();
    }
    for (let page = first; page <= last; page++) this.#read(page);
  }

  // Read all events, page by page, until `signal` stops it.
  async readAll(signal) {
    for (let page = pageOf(this.prunedTo + 1); page <= pageOf(this.lastSeq); page++) {
      if (signal.aborted) return;
      await this.#read(page, signal);
      if (this.error) return;
    }
  }

  stop() {
    for (const { controller } of this.#loading.values()) controller.abort();
    cancelAnimationFrame(this.#frame);
  }

  again() {
    this.error = null;
    this.#changed();
  }

  #read(page, signal = null) {
    const end = Math.min((page + 1) * PAGE, this.lastSeq);
    const upTo = this.#pages.get(page)?.upTo ?? 0;
    if (upTo >= end) return Promise.resolve();
    const underWay = this.#loading.get(page);
    if (underWay) return underWay.done;
    const controller = new AbortController();
    signal?.addEventListener("abort", () => controller.abort(), { once: true });
    const done = this.#load(page, Math.max(upTo, page * PAGE), controller.signal).then(
      () => (this.error = null),
      (error) => {
        if (!controller.signal.aborted) this.error = error;
      },
    ).then(() => {
      this.#loading.delete(page);
      this.#changed();
    });
    this.#loading.set(page, { controller, done, isKept: signal !== null });
    return done;
  }

  async #load(page, after, signal) {
    const end = (page + 1) * PAGE;
    let next = after;
    while (next !== null && next < end) {
      const query = { after: next, limit: end - next };
      const answer = await api(`/tasks/${encodeURIComponent(this.id)}/events`, { query, signal });
      const kept = this.#pages.get(page) ?? { items: [], upTo: 0 };
      for (const item of answer.items) {
        if (item.seq > end) break;
        kept.items[(item.seq - 1) % PAGE] = item;
        kept.upTo = item.seq;
      }
      if (answer.items.length) {
        this.#pages.set(page, kept);
        this.lastSeq = Math.max(this.lastSeq, answer.items.at(-1).seq);
      }
      this.prunedTo = answer.prunedTo ?? this.prunedTo;
      next = answer.items.length ? answer.nextAfter : null;
      this.#changed();
    }
  }

  #changed() {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.changes.update((n) => n + 1);
    });
  }
}

const pageOf = (seq) => Math.floor((seq - 1) / PAGE);

// What an artifact holds from one sequence on. Chunks are appended to it, and it can be read as it
// was at any sequence: a text remembers where each chunk of it ended.
class Version {
  pieces = [];

  constructor(seq, artifact) {
    this.seq = seq;
    this.head = [{ seq, ...artifact, parts: undefined }];
    for (const part of artifact.parts ?? []) this.#push(seq, part);
  }

  append(seq, chunk) {
    const { parts = [], ...head } = chunk;
    const before = this.head.at(-1);
    if ((head.name ?? before.name) !== before.name || head.metadata) {
      const metadata = { ...before.metadata, ...head.metadata };
      this.head.push({ ...before, ...head, name: head.name || before.name, metadata, seq });
    }
    const last = this.pieces.at(-1);
    // As the gateway folds a chunk: its first text goes on with the last one.
    const isJoined = last?.text !== undefined && isBareText(parts[0]);
    if (isJoined) {
      last.text += parts[0].text;
      last.seqs.push(seq);
      last.ends.push(last.text.length);
    }
    for (const part of isJoined ? parts.slice(1) : parts) this.#push(seq, part);
  }

  #push(seq, part) {
    this.pieces.push(isBareText(part) ? { seq, text: part.text, seqs: [seq], ends: [part.text.length] } : { seq, part });
  }

  artifactAt(seq) {
    const { seq: _, ...head } = lastUpTo(this.head, seq);
    const parts = [];
    for (const piece of this.pieces) {
      if (piece.seq > seq) break;
      if (piece.part) parts.push(piece.part);
      else parts.push({ text: piece.text.slice(0, piece.ends[countUpTo(piece.seqs, seq) - 1]) });
    }
    return { ...head, parts };
  }
}

const isBareText = (part) => typeof part?.text === "string" && !part.metadata && !part.filename && !part.mediaType;

// How many of the ascending numbers are at most `limit`.
function countUpTo(numbers, limit) {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

function lastUpTo(items, seq) {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (items[middle].seq <= seq) low = middle + 1;
    else high = middle;
  }
  return items[low - 1];
}

export class Recording {
  // The last event that is read, and the one before the first.
  seq = 0;
  first = 0;
  #limit = 200;
  #task = {};
  #statuses = [];
  #history = [];
  #artifacts = new Map();
  #times = [];
  #lines = [];
  #knownIds = new Set();
  #turnSeq = 0;

  // `messageAt(seq)` gives the message of a caller that this event accepted: the public form of an
  // event has only its status.
  constructor(id, messageAt) {
    this.id = id;
    this.messageAt = messageAt;
  }

  // One more slice of events, towards `seq`.
  async read(signal) {
    const query = { after: this.seq, limit: this.#limit, detail: "full" };
    const answer = await api(`/tasks/${encodeURIComponent(this.id)}/events`, { query, signal });
    let size = 1;
    for (const item of answer.items) {
      this.apply(item);
      size += item.size;
    }
    const wanted = Math.round((answer.items.length * SLICE_BYTES) / size);
    if (answer.items.length) this.#limit = Math.max(10, Math.min(MOST_FULL, wanted));
    return answer.items.length;
  }

  apply(item) {
    if (item.seq <= this.seq) return;
    if (!this.first) this.first = item.seq;
    this.seq = item.seq;
    const at = item.at ? Date.parse(item.at) : NaN;
    const before = this.#times.at(-1) ?? at;
    this.#times.push(Number.isNaN(at) ? before : Math.max(at, before || at));
    this.#lines.push({ seq: item.seq, name: item.name, state: item.state, at: item.at, text: item.text, kind: item.kind });
    const event = item.event?.[item.name] ?? item.event ?? {};
    if (item.name === "task") this.#begin(item.seq, event);
    else if (item.name === "artifactUpdate") this.#artifact(item.seq, event);
    else this.#status(item, event.status ?? {});
  }

  #begin(seq, task) {
    this.#task = task;
    this.#statuses.push({ seq, status: task.status ?? {} });
    for (const message of task.history ?? []) this.#remember(seq, message);
    for (const artifact of task.artifacts ?? []) this.#artifact(seq, { artifact });
  }

  #status(item, status) {
    const { seq, kind } = item;
    const before = this.#statuses.at(-1)?.status.state;
    if (stateName(before) === "SUBMITTED" && stateName(status.state) === "WORKING") this.#turnSeq = seq;
    if (kind.startsWith("retried.")) this.#undoTurn(seq);
    if (kind.startsWith("message.")) {
      const message = this.messageAt(seq);
      if (message) this.#remember(seq, message);
    }
    // A piece of a longer text is shown, and not kept.
    if (status.message && !kind.startsWith("shown.") && !this.#knownIds.has(status.message.messageId)) this.#remember(seq, status.message);
    this.#statuses.push({ seq, status });
  }

  #remember(seq, message) {
    this.#knownIds.add(message.messageId);
    this.#history.push({ seq, message, gone: Infinity });
  }

  #artifact(seq, { artifact, append }) {
    if (!artifact) return;
    const versions = this.#artifacts.get(artifact.artifactId) ?? [];
    if (append && versions.length && !versions.at(-1).isGone) versions.at(-1).append(seq, artifact);
    else versions.push(new Version(seq, artifact));
    this.#artifacts.set(artifact.artifactId, versions);
  }

  // The gateway runs the turn again: what it had said and made does not count.
  #undoTurn(seq) {
    for (const each of this.#history) {
      if (each.seq >= this.#turnSeq && each.message.role !== "ROLE_USER") each.gone = Math.min(each.gone, seq);
    }
    for (const versions of this.#artifacts.values()) {
      const before = lastUpTo(versions, this.#turnSeq);
      if (before && !before.isGone) versions.push(new Version(seq, before.artifactAt(this.#turnSeq)));
      else versions.push({ seq, isGone: true });
    }
  }

  taskAt(seq) {
    const status = lastUpTo(this.#statuses, seq)?.status ?? {};
    const history = [];
    for (const each of this.#history) {
      if (each.seq > seq) break;
      if (each.gone > seq) history.push(each.message);
    }
    const artifacts = [];
    for (const versions of this.#artifacts.values()) {
      const version = lastUpTo(versions, seq);
      if (version && !version.isGone) artifacts.push(version.artifactAt(seq));
    }
    const { history: _, artifacts: __, ...rest } = this.#task;
    return { ...rest, status, history, artifacts };
  }

  timeOf(seq) {
    return this.#times[seq - this.first];
  }

  lineOf(seq) {
    return this.#lines[seq - this.first];
  }

  isOverAt(seq) {
    return isOver(lastUpTo(this.#statuses, seq)?.status.state);
  }
}
