// `Waterfall`: the exchanges of a task or a context as bars on one axis of time, those of agents that
// were called below the exchange that led to them. Each bar opens its exchange.
import { html, useEffect, useMemo, useState } from "../../lib/html.js";
import { api } from "../../lib/api.js";
import { clock, duration, line, plural, safe, shortId, stateWord } from "../../lib/format.js";
import { link } from "../../lib/router.js";
import { Empty } from "../../parts/basics.js";
import { VirtualList } from "../../parts/vlist.js";
import { nameOf } from "./parts.js";

const MOST_TASKS = 30;
const MOST_ROWS = 5000;
const DEEPEST = 12;

const pathOf = (url) => url.replace(/^https?:\/\/[^/]*/, "");
const begin = (row) => Date.parse(row.at);
const end = (row, now) => (row.ms === null ? now : begin(row) + row.ms);

// Turns and calls of tasks, where the gateway tells them: by the id of the task.
function useTimelines(tasks, isLive) {
  const [known, setKnown] = useState(new Map());
  const key = tasks.join(" ");
  useEffect(() => {
    if (!isLive) return undefined;
    const controller = new AbortController();
    (async () => {
      const found = new Map();
      const wanted = [...tasks];
      while (wanted.length && found.size < MOST_TASKS) {
        const id = wanted.shift();
        if (found.has(id)) continue;
        try {
          const timeline = await api(`/tasks/${encodeURIComponent(id)}/timeline`, { signal: controller.signal });
          found.set(id, timeline);
          for (const call of timeline.calls ?? []) if (call.taskId) wanted.push(call.taskId);
        } catch {
          // A task of another caller, or one that is gone: its exchanges are shown without it.
          found.set(id, {});
        }
        if (controller.signal.aborted) return;
      }
      setKnown(found);
    })();
    return () => controller.abort();
  }, [key, isLive]);
  return known;
}

// Everything that belongs to the task or context: its exchanges, what these led to, and the exchanges
// of the tasks that were reached so.
function belonging(log, seed) {
  const found = new Map();
  const origins = new Map();
  const tasks = new Set();
  const take = (row, depth) => {
    if (!row || found.has(row.id) || found.size >= MOST_ROWS || depth > DEEPEST) return;
    found.set(row.id, row);
    for (const child of log.childrenOf(row.id)) take(child, depth + 1);
    if (row.side === "client") {
      const reached = reachedBy(log, row);
      if (reached && !origins.has(reached.id)) {
        origins.set(reached.id, row.id);
        take(reached, depth + 1);
        if (reached.taskId && !tasks.has(reached.taskId)) {
          if (madeTask(reached)) tasks.add(reached.taskId);
          for (const other of log.rows) if (other.taskId === reached.taskId) take(other, depth + 1);
        }
      }
    }
  };
  for (const row of log.rows) {
    if (seed(row)) {
      if (madeTask(row)) tasks.add(row.taskId);
      take(row, 0);
    }
  }
  return { rows: [...found.values()], origins, tasks: [...tasks] };
}

// Whether the exchange proves that its task exists: others may ask for any id.
const madeTask = (row) => row.taskId && row.side === "server" && /^Send/.test(row.operation) && row.status === 200;

// A backend may be another agent of this gateway: its exchange has the same path and size, within the
// time of the request.
function reachedBy(log, row) {
  const [from, to] = [begin(row) - 1, end(row, Date.now()) + 1];
  const path = pathOf(row.url);
  const { rows } = log;
  // Rows are in the order of their beginning.
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (begin(rows[middle]) < from) low = middle + 1;
    else high = middle;
  }
  for (let i = low; i < rows.length && begin(rows[i]) <= to; i++) {
    const other = rows[i];
    if (other.side === "server" && other.id !== row.parent && pathOf(other.url) === path && other.requestBytes === row.requestBytes) return other;
  }
  return null;
}

export function barsOf(log, seed, timelines, now = Date.now()) {
  const { rows, origins, tasks } = belonging(log, seed);
  const nodes = new Map();
  for (const row of rows) {
    const parent = row.side === "client" ? row.parent : origins.get(row.id) ?? "";
    nodes.set(row.id, { key: row.id, kind: "exchange", row, parent, from: begin(row), to: end(row, now), isOpen: row.ms === null, agent: row.agent, name: nameOf(row) });
  }
  const firstOf = (taskId) => rows.filter((row) => row.side === "server" && row.taskId === taskId).sort((a, b) => begin(a) - begin(b))[0]?.id ?? "";
  for (const [taskId, timeline] of timelines) {
    for (const turn of timeline.turns ?? []) {
      if (!turn.startedAt && !turn.queuedAt) continue;
      const from = Date.parse(turn.queuedAt ?? turn.startedAt);
      nodes.set(`turn ${taskId} ${turn.number}`, {
        key: `turn ${taskId} ${turn.number}`, kind: "turn", parent: firstOf(taskId), from, startedAt: Date.parse(turn.startedAt ?? turn.queuedAt),
        to: turn.endedAt ? Date.parse(turn.endedAt) : now, isOpen: !turn.endedAt, agent: "", name: `turn ${turn.number}${turn.outcome ? `: ${stateWord(turn.outcome)}` : ""}`, taskId,
      });
    }
    for (const call of timeline.calls ?? []) {
      const key = `call ${call.id}`;
      const callerTask = call.callerTaskId ?? "";
      nodes.set(key, {
        key, kind: "call", parent: nodes.has(`call ${call.parent}`) ? `call ${call.parent}` : firstOf(callerTask || taskId), from: Date.parse(call.createdAt),
        to: call.endedAt ? Date.parse(call.endedAt) : now, isOpen: !call.endedAt, agent: call.callee, name: `call${call.skill ? ` ${call.skill}` : ""}: ${call.status}`, callId: call.id,
      });
      const reached = call.taskId && firstOf(call.taskId);
      if (reached && nodes.has(reached) && reached !== nodes.get(key).parent) nodes.get(reached).parent = key;
    }
  }
  const below = new Map();
  for (const node of nodes.values()) {
    const parent = nodes.has(node.parent) && node.parent !== node.key ? node.parent : "";
    below.set(parent, [...(below.get(parent) ?? []), node]);
  }
  const bars = [];
  const visit = (key, depth) => {
    for (const node of (below.get(key) ?? []).sort((a, b) => a.from - b.from)) {
      if (node.isPlaced || depth > DEEPEST * 2) continue;
      node.isPlaced = true;
      bars.push({ ...node, depth });
      visit(node.key, depth + 1);
    }
  };
  visit("", 0);
  return { bars, tasks };
}

// A log that grows is gone through again at most three times a second.
function useNowAndThen(log) {
  const [round, setRound] = useState(0);
  useEffect(() => {
    let timer = 0;
    const stop = log.changes.follow(() => {
      timer ||= setTimeout(() => {
        timer = 0;
        setRound((n) => n + 1);
      }, 350);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [log]);
  return round;
}

export function Waterfall({ log, taskId, contextId, query }) {
  const changes = useNowAndThen(log);
  const seed = useMemo(() => {
    const task = taskId.toLowerCase();
    const context = contextId.toLowerCase();
    return (row) => (task ? row.taskId.toLowerCase() === task : row.contextId.toLowerCase() === context);
  }, [taskId, contextId]);
  const [tasks, setTasks] = useState([]);
  const timelines = useTimelines(tasks, log.isLive);
  const { bars, tasks: found } = useMemo(() => barsOf(log, seed, timelines), [seed, changes, timelines]);
  const all = found.slice(0, MOST_TASKS);
  useEffect(() => setTasks(all), [all.join(" ")]);
  if (!taskId && !contextId) {
    return html`<${Empty} title="A waterfall is of one task or one context"><p>Filter by one: <code>task:ID</code> or <code>context:ID</code>. The page of an exchange links to its task's.</p><//>`;
  }
  if (!bars.length) {
    return html`<${Empty} title="No exchange of this ${taskId ? "task" : "context"} was recorded">
      <p>Only what passes while an agent is recorded is in the log. ${taskId && log.isLive ? html`What the task did is in <a href=${link("tasks", taskId)}>its timeline</a>.` : null}</p><//>`;
  }
  const from = bars.reduce((least, bar) => Math.min(least, bar.from), Infinity);
  const to = bars.reduce((most, bar) => Math.max(most, bar.to), from + 1);
  const whole = Math.max(1, to - from);
  const percent = (time) => Math.max(0, Math.min(100, ((time - from) / whole) * 100));
  const row = (bar) => {
    const href = bar.kind === "exchange" ? log.href(bar.row.id, query) : bar.kind === "call" ? link("calls", bar.callId) : link("tasks", bar.taskId);
    const isBad = bar.row && (bar.row.error || bar.row.status >= 400);
    const width = Math.max(0.4, percent(bar.to) - percent(bar.from));
    const waited = bar.kind === "turn" ? percent(bar.startedAt) - percent(bar.from) : 0;
    return html`<span role="gridcell" class="bar-name" style=${{ paddingLeft: `${Math.min(bar.depth, 8) * 0.9}rem` }}>
        ${log.isLive || bar.kind === "exchange" ? html`<a href=${href}>${line(bar.name, 80)}</a>` : line(bar.name, 80)}${" "}<span class="quiet">${line(bar.agent, 60)}</span></span>
      <span role="gridcell" class="bar-lane"><i class=${`bar ${bar.kind} ${bar.row?.side ?? ""} ${isBad ? "bad" : ""} ${bar.isOpen ? "open" : ""}`}
          style=${{ left: `${Math.min(99.6, percent(bar.from))}%`, width: `${width}%` }} title=${`${clock(new Date(bar.from).toISOString())}, ${duration(bar.to - bar.from)}`}>
          ${waited > 0.3 ? html`<b style=${{ width: `${(waited / width) * 100}%` }} title="in the queue"></b>` : null}</i></span>
      <span role="gridcell" class="right mono">${bar.isOpen ? "open" : duration(bar.to - bar.from)}</span>`;
  };
  const open = (bar) => {
    if (bar.kind === "exchange") location.hash = log.href(bar.row.id, query);
  };
  return html`<div class="waterfall">
    <p class="quiet">${plural(bars.filter(({ kind }) => kind === "exchange").length, "exchange")} in ${duration(whole)}${all.length > 1 ? html`, of ${plural(all.length, "task")}` : ""}.
      ${taskId && log.isLive ? html` <a href=${link("tasks", taskId)}>Task ${safe(shortId(taskId), 60)}</a>` : null}
      <span class="legend"><i class="bar server"></i> to the gateway <i class="bar client"></i> to a backend <i class="bar turn"></i> turn, dotted in the queue <i class="bar call"></i> call of an agent</span></p>
    <div class="axis" aria-hidden="true"><span></span><span class="marks">${[0, 0.25, 0.5, 0.75, 1].map((part) => html`<em>${part ? duration(whole * part) : "0"}</em>`)}</span><span></span></div>
    <${VirtualList} label="Waterfall" className="bars" rows=${bars} rowHeight=${32} row=${row} rowKey=${(bar) => bar.key} onSelect=${open} />
  </div>`;
}
