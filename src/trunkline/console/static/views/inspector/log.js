// `wireLog`: the exchanges that the gateway has recorded, as this page knows them, and `View`: those
// that fit a filter. Both are flat arrays that grow at the end; changes are told once per frame.
import { api } from "../../lib/api.js";
import { hear, liveness } from "../../lib/live.js";
import { remember, remembered, Value } from "../../lib/state.js";
import { compile, parse, remoteQueries } from "./filter.js";

const MOST_ROWS = 100_000;
const PAGE = 500;
const AGAIN_MS = 5000;
// How long a frame may work on a filter, so that typing stays smooth.
const SLICE_MS = 8;
const MOST_PINS = 200;
const MOST_RECORDS = 30;

const inNextFrame = (work) => {
  let isAsked = false;
  return () => {
    if (isAsked) return;
    isAsked = true;
    // A hidden tab has no frames, but its list goes on.
    const run = () => {
      isAsked = false;
      work();
    };
    if (document.hidden) setTimeout(run, 250);
    else requestAnimationFrame(run);
  };
};

// What the log of the gateway and that of a file have in common.
class Rows {
  rows = [];
  // Rises when rows came, changed or went.
  changes = new Value(0);
  byId = new Map();
  children = new Map();
  #numbers = 0;

  constructor() {
    this.tell = inNextFrame(() => this.changes.set(this.changes.get() + 1));
  }

  find(id) {
    return this.byId.get(id) ?? null;
  }

  childrenOf(id) {
    return (this.children.get(id) ?? []).map((each) => this.byId.get(each)).filter(Boolean);
  }

  take(row) {
    const known = this.byId.get(row.id);
    if (known) {
      // News that waited for a page may be older than the page.
      if (known.ms !== null && row.ms === null) return known;
      Object.assign(known, row);
      known.round = (known.round ?? 0) + 1;
    } else {
      row.round = 0;
      row.number = this.#numbers++;
      this.rows.push(row);
      this.byId.set(row.id, row);
    }
    const own = this.byId.get(row.id);
    if (own.parent) {
      const siblings = this.children.get(own.parent) ?? [];
      if (!siblings.includes(own.id)) this.children.set(own.parent, [...siblings, own.id]);
    }
    return own;
  }
}

class WireLog extends Rows {
  error = new Value(null);
  isRead = new Value(false);
  dropped = new Value(0);
  changed = new Set();
  // How often rows were removed from the front, so that views count anew.
  removals = 0;
  isLive = true;
  #users = 0;
  #stops = [];
  #reading = null;
  #isAskedAgain = false;
  #waiting = [];
  #records = new Map();

  // Follows the gateway while a view is shown; what is known stays for the next one.
  use() {
    if (this.#users++ === 0) {
      this.#stops = [
        hear("wire", (row) => this.#hear(row)),
        hear("resync", () => this.read({ mayBeNew: true })),
      ];
      const timer = setInterval(() => liveness.get() === "on" || this.read(), AGAIN_MS);
      this.#stops.push(() => clearInterval(timer));
      this.read({ mayBeNew: true });
    }
    return () => {
      if (--this.#users === 0) for (const stop of this.#stops) stop();
    };
  }

  // Reads on behind the last row before which all exchanges are over, for those may have changed.
  async read({ mayBeNew = false } = {}) {
    if (this.#reading) {
      this.#isAskedAgain = true;
      return this.#reading;
    }
    this.#reading = this.#readOn(mayBeNew).then(
      () => this.error.set(null),
      (error) => this.error.set(error),
    );
    await this.#reading;
    this.#reading = null;
    for (const row of this.#waiting.splice(0)) this.#add(row);
    this.isRead.set(true);
    if (this.#isAskedAgain) {
      this.#isAskedAgain = false;
      this.read();
    }
    return undefined;
  }

  async #readOn(mayBeNew) {
    // A gateway that restarted has a new log, and knows none of these ids.
    if (mayBeNew && this.rows.length && !(await this.#hasLast())) this.empty();
    let after = this.#firstOpen();
    while (true) {
      const page = await api("/wire", { query: { after, limit: PAGE } });
      for (const row of page.items) this.#add(row);
      this.dropped.set(page.dropped ?? 0);
      if (!page.nextAfter) return;
      after = page.nextAfter;
    }
  }

  #firstOpen() {
    // Streams stay open long; those that are older than these are asked for when they end.
    const from = Math.max(0, this.rows.length - 200);
    const open = this.rows.findIndex((row, i) => i >= from && row.ms === null);
    const at = open < 0 ? this.rows.length - 1 : open - 1;
    return this.rows[at]?.id ?? "";
  }

  // Whether the gateway still has the last row. Asked by the list, because browsers log each 404.
  async #hasLast() {
    const { items } = await api("/wire", { query: { after: this.rows.at(-2)?.id ?? "", limit: 1 } });
    return items[0]?.id === this.rows.at(-1).id;
  }

  #hear(row) {
    if (!row?.id) return;
    // Pages that are being read come before it.
    if (this.#reading && !this.byId.has(row.id)) this.#waiting.push(row);
    else this.#add(row);
  }

  #add(row) {
    const own = this.take(row);
    if (own.round) this.changed.add(own);
    if (this.rows.length > MOST_ROWS * 1.1) {
      for (const gone of this.rows.splice(0, this.rows.length - MOST_ROWS)) {
        this.byId.delete(gone.id);
        this.children.delete(gone.id);
      }
      this.removals++;
    }
    this.tell();
  }

  empty() {
    this.rows = [];
    this.byId.clear();
    this.children.clear();
    this.#records.clear();
    this.removals++;
    this.tell();
  }

  // One exchange with all that was kept of it. Those that are over are kept for a while.
  async record(id, { signal } = {}) {
    const known = this.#records.get(id);
    if (known) return known;
    const record = await api(`/wire/${encodeURIComponent(id)}`, { signal });
    if (record.ms !== null) {
      this.#records.set(id, record);
      if (this.#records.size > MOST_RECORDS) this.#records.delete(this.#records.keys().next().value);
    }
    return record;
  }

  // The rows of a query that only the gateway can answer, which become known here too.
  async ids(query, { signal } = {}) {
    const ids = new Set();
    let after = "";
    do {
      const page = await api("/wire", { query: { ...query, after, limit: PAGE }, signal });
      for (const row of page.items) ids.add(row.id);
      after = page.nextAfter;
    } while (after);
    return ids;
  }
}

export const wireLog = new WireLog();

// The log of a session file, which asks nobody.
export class FileLog extends Rows {
  error = new Value(null);
  isRead = new Value(true);
  dropped = new Value(0);
  changed = new Set();
  removals = 0;
  isLive = false;
  #records = new Map();
  #texts = new Map();

  constructor(session) {
    super();
    this.session = session;
    for (const record of session.records) {
      this.#records.set(record.id, record);
      const { requestHeaders, requestBody, responseHeaders, responseBody, frames, ...row } = record;
      this.take(row);
    }
  }

  use() {
    return () => {};
  }

  async record(id) {
    const record = this.#records.get(id);
    if (!record) throw new Error("The file has no exchange with this id.");
    return record;
  }

  async ids({ q, taskId }) {
    const wanted = (q ?? taskId).toLowerCase();
    return new Set([...this.#records.keys()].filter((id) => this.#textOf(id).includes(wanted)));
  }

  #textOf(id) {
    if (!this.#texts.has(id)) this.#texts.set(id, JSON.stringify(this.#records.get(id)).toLowerCase());
    return this.#texts.get(id);
  }
}

// Pins are of this browser.
export const pins = new Value(new Set(remembered("pins", [])));

export function pin(id, isPinned) {
  pins.update((before) => {
    const next = new Set(before);
    if (isPinned) next.add(id);
    else next.delete(id);
    const kept = [...next].slice(-MOST_PINS);
    remember("pins", kept);
    return new Set(kept);
  });
}

// The rows of a log that match a filter, in their order. New rows are tested as they come; a filter that
// changes is applied in slices.
export class View {
  shown = [];
  changes = new Value(0);
  problem = new Value("");
  isSearching = new Value(false);
  #log;
  #fits = () => true;
  #terms = [];
  #next = 0;
  // The rows that fit so far, and their ids. They take the place of `shown` when all rows were tested.
  #made = this.shown;
  #isIn = new Set();
  #removals = 0;
  #hits = new Map();
  #clearedTo = null;
  #stop;
  #searching = null;
  #searchAgain = 0;
  #isOver = false;
  #isWaiting = false;

  constructor(log) {
    this.#log = log;
    this.#removals = log.removals;
    this.#stop = log.changes.follow(() => this.#onChange());
  }

  close() {
    this.#isOver = true;
    this.#stop();
    this.#searching?.abort();
    clearTimeout(this.#searchAgain);
  }

  set(text) {
    this.#terms = parse(text);
    this.#hits = new Map();
    this.#begin();
    this.#search();
  }

  // Rows up to here are not shown, but for those that are pinned.
  clear() {
    this.#clearedTo = this.#log.rows.at(-1) ?? null;
    this.#begin();
  }

  unclear() {
    this.#clearedTo = null;
    this.#begin();
  }

  get isCleared() {
    return this.#clearedTo !== null;
  }

  get isComplete() {
    return this.#next >= this.#log.rows.length;
  }

  // After pins changed.
  again() {
    if (this.#clearedTo || this.#terms.some(({ field, value }) => field === "is" && value === "pinned")) this.#begin();
  }

  #begin() {
    const compiled = compile(this.#terms, { isPinned: (id) => pins.get().has(id), hits: this.#hits });
    this.problem.set(compiled.problem);
    this.#fits = compiled.fits;
    this.#made = [];
    this.#isIn = new Set();
    this.#next = 0;
    this.#removals = this.#log.removals;
    this.#work();
  }

  #onChange() {
    if (this.#removals !== this.#log.removals) {
      this.#begin();
      return;
    }
    for (const row of this.#log.changed) this.#again(row);
    this.#log.changed.clear();
    this.#work();
    if (this.#log.isLive && remoteQueries(this.#terms).size && !this.#searchAgain) {
      this.#searchAgain = setTimeout(() => {
        this.#searchAgain = 0;
        this.#search();
      }, 1000);
    }
  }

  // A row that changed may fit now, or no more. Rows have rising numbers, so its place is found fast.
  #again(row) {
    const reached = this.#log.rows[this.#next - 1]?.number ?? -1;
    const fits = this.#fits(row);
    if (row.number > reached || fits === this.#isIn.has(row.id)) return;
    let [from, to] = [0, this.#made.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.#made[middle].number < row.number) from = middle + 1;
      else to = middle;
    }
    if (!fits) {
      this.#isIn.delete(row.id);
      this.#made.splice(from, 1);
    } else if (!this.#clearedTo || row.number > this.#clearedTo.number) {
      this.#isIn.add(row.id);
      this.#made.splice(from, 0, row);
    }
  }

  #work = () => {
    const end = performance.now() + SLICE_MS;
    const { rows } = this.#log;
    const clearedTo = this.#clearedTo?.number ?? -1;
    while (this.#next < rows.length) {
      const row = rows[this.#next];
      if (this.#fits(row) && (row.number > clearedTo || pins.get().has(row.id))) {
        this.#made.push(row);
        this.#isIn.add(row.id);
      }
      this.#next++;
      if (this.#next % 256 === 0 && performance.now() > end) break;
    }
    if (this.#next >= rows.length) {
      this.shown = this.#made;
      this.changes.set(this.changes.get() + 1);
    } else if (!this.#isOver && !this.#isWaiting) {
      this.#isWaiting = true;
      requestAnimationFrame(() => {
        this.#isWaiting = false;
        this.#work();
      });
    }
  };

  async #search() {
    this.#searching?.abort();
    const queries = remoteQueries(this.#terms);
    if (!queries.size) {
      this.isSearching.set(false);
      return;
    }
    const searching = (this.#searching = new AbortController());
    this.isSearching.set(true);
    try {
      const hits = new Map();
      for (const [key, query] of queries) hits.set(key, await this.#log.ids(query, { signal: searching.signal }));
      if (searching.signal.aborted) return;
      const isNew = [...hits].some(([key, ids]) => ids.size !== (this.#hits.get(key)?.size ?? 0));
      this.#hits = hits;
      if (isNew) this.#begin();
    } catch {
      // The rows that this page knows are filtered all the same.
    }
    if (!searching.signal.aborted) this.isSearching.set(false);
  }
}
