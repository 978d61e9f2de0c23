// The tasks of the caller, for operators those of all: filters, live. `#/tasks`. One task is
// `#/tasks/ID`, in task.js.
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { handleOf, useAgents } from "../lib/agents.js";
import { api, isOperator } from "../lib/api.js";
import { count, line, plural, safe, shortId, stateName, stateTone, stateWord } from "../lib/format.js";
import { hear } from "../lib/live.js";
import { useCalmly, useReread } from "../lib/reread.js";
import { filterBy, go, link } from "../lib/router.js";
import { useLoaded } from "../lib/state.js";
import { ensureStyle } from "../lib/style.js";
import { Empty, Id, Loading, Problem, State, Time } from "../parts/basics.js";
import { VirtualList, useNarrow } from "../parts/vlist.js";

const PAGE = 200;
// A page more is read while this many rows are left below.
const AHEAD = 60;
// How far a text is looked for by itself; a button goes on.
const SEARCHED = 5000;
const STATES = ["SUBMITTED", "WORKING", "INPUT_REQUIRED", "AUTH_REQUIRED", "COMPLETED", "FAILED", "CANCELED", "REJECTED"];
const SINCE = [["", "Any time"], ["1h", "Last hour"], ["24h", "Last day"], ["7d", "Last 7 days"], ["30d", "Last 30 days"]];
const HOURS = { "1h": 1, "24h": 24, "7d": 168, "30d": 720 };
const FILTERS = ["state", "agent", "context", "since", "caller", "tenant", "q"];

const loadTask = () => import("./task.js");

export default function Tasks({ path, query }) {
  const [isReady, setReady] = useState(false);
  useEffect(() => {
    ensureStyle("tasks").then(() => setReady(true));
  }, []);
  if (!isReady) return html`<${Loading} />`;
  return path.length > 1 ? html`<${OneTask} key=${path[1]} id=${path[1]} query=${query} />` : html`<${TaskList} query=${query} />`;
}

function OneTask(props) {
  const { data, error, again } = useLoaded(loadTask, []);
  if (error) return html`<${Problem} error=${error} again=${again} />`;
  if (!data) return html`<${Loading} />`;
  return html`<${data.default} ...${props} />`;
}

// What the gateway filters by. A relative time is fixed when the list begins, so that its pages fit.
export function filtersOf(query, now = Date.now()) {
  const states = (query.state ?? "").split(",").filter(Boolean).map((state) => `TASK_STATE_${stateName(state)}`);
  const hours = HOURS[query.since];
  return {
    state: states.join(","),
    agent: query.agent,
    contextId: query.context,
    principal: query.caller,
    tenant: query.tenant,
    since: hours ? new Date(now - hours * 3_600_000).toISOString() : query.since,
  };
}

const EMPTY = { items: [], next: "", total: 0, isWhole: false, error: null };

// The list as far as it is read, the tasks that are new since, and how to read on.
function useTaskList(query) {
  const key = FILTERS.slice(0, -1).map((name) => query[name] ?? "").join("\n");
  const [list, setList] = useState({ ...EMPTY, isLoading: true });
  const [fresh, setFresh] = useState([]);
  const state = useRef(null);
  if (state.current?.key !== key) {
    state.current?.controller.abort();
    state.current = { key, filters: filtersOf(query), controller: new AbortController(), ids: new Map(), items: [], fresh: new Map(), isReading: false, next: "", begun: false };
  }
  const current = state.current;
  const show = (more = {}) => {
    if (state.current === current) setList((before) => ({ ...before, items: current.items, ...more }));
  };

  const readOn = async () => {
    if (current.isReading || (current.begun && !current.next)) return;
    current.isReading = true;
    show({ isLoading: true });
    try {
      const page = await api("/tasks", { query: { ...current.filters, pageSize: PAGE, pageToken: current.next }, signal: current.controller.signal });
      const added = page.items.filter((task) => !current.ids.has(task.id));
      for (const task of added) current.ids.set(task.id, task);
      current.items = current.items.concat(added);
      current.next = page.nextPageToken;
      current.begun = true;
      current.isReading = false;
      show({ total: page.total, isWhole: !page.nextPageToken, error: null, isLoading: false, begun: true });
    } catch (error) {
      current.isReading = false;
      if (!current.controller.signal.aborted) show({ error, isLoading: false });
    }
  };

  const renew = () => {
    Object.assign(current, { ids: new Map(), items: [], fresh: new Map(), next: "", begun: false, filters: filtersOf(query) });
    setFresh([]);
    return readOn();
  };

  // The first rows as they are now: known ones change in place, others are counted as new.
  const look = async () => {
    if (!current.begun) return readOn();
    if (current.isLooking) return;
    current.isLooking = true;
    try {
      const page = await api("/tasks", { query: { ...current.filters, pageSize: 50 }, signal: current.controller.signal });
      if (!current.items.length && page.items.length) {
        await renew();
        return;
      }
      for (const task of page.items) {
        if (current.ids.has(task.id)) replace(task);
        else current.fresh.set(task.id, task);
      }
      setFresh([...current.fresh.values()]);
      show({ total: page.total, error: null });
    } catch (error) {
      if (!current.controller.signal.aborted) show({ error });
    } finally {
      current.isLooking = false;
    }
  };

  const replace = (task) => {
    const before = current.ids.get(task.id);
    const index = current.items.indexOf(before);
    current.ids.set(task.id, task);
    if (index < 0) return;
    current.items = current.items.slice();
    current.items[index] = task;
  };

  // A change of a task: its row changes at once, or goes if it does not fit the filter any more.
  const onTask = (data) => {
    const before = current.ids.get(data.id);
    const wanted = current.filters.state;
    const isGone = Boolean(wanted) && !wanted.split(",").includes(data.state);
    if (before) {
      if (isGone) {
        current.items = current.items.filter(({ id }) => id !== data.id);
        current.ids.delete(data.id);
        show({ total: Math.max(0, list.total - 1) });
      } else if (before.state !== data.state) {
        replace({ ...before, state: data.state, statusAt: data.at ?? before.statusAt });
        show();
      }
    }
    // One that still fits stays: the button that counts it has to show it.
    if (isGone && current.fresh.delete(data.id)) setFresh([...current.fresh.values()]);
  };

  const showFresh = () => {
    const added = [...current.fresh.values()].filter(({ id }) => !current.ids.has(id));
    // More than one page of news: there may be others between them and the list.
    if (added.length >= 50) return void renew();
    for (const task of added) current.ids.set(task.id, task);
    current.items = added.concat(current.items);
    current.fresh = new Map();
    setFresh([]);
    show();
  };

  useEffect(() => {
    setList({ ...EMPTY, isLoading: true });
    setFresh([]);
    readOn();
    return () => current.controller.abort();
  }, [key]);

  return { ...list, fresh, readOn, renew, look, onTask, showFresh };
}

function TaskList({ query }) {
  const operator = isOperator();
  // On a narrow page the filters open by a button.
  const [isOpen, setOpen] = useState(FILTERS.some((name) => name !== "q" && query[name]));
  const [text, setText] = useState(query.q ?? "");
  useEffect(() => setText(query.q ?? ""), [query.q]);
  useEffect(() => {
    const timer = setTimeout(() => (query.q ?? "") !== text && filterBy({ q: text }), 200);
    return () => clearTimeout(timer);
  }, [text]);
  const list = useTaskList(query);
  const look = useCalmly(list.look, 1500);
  useReread(list.look);
  const onTask = useRef(null);
  onTask.current = (data) => {
    list.onTask(data);
    look();
  };
  useEffect(() => hear("task", (data) => onTask.current(data)), []);
  useAgents([...new Set(list.items.slice(-PAGE).map(({ agent }) => agent))]);

  const q = (query.q ?? "").trim().toLowerCase();
  const rows = useMemo(() => (q ? list.items.filter((task) => isFound(task, q)) : list.items), [list.items, q]);
  const [searchTo, setSearchTo] = useState(SEARCHED);
  useEffect(() => setSearchTo(SEARCHED), [q]);
  const isSearching = Boolean(q) && !list.isWhole && list.items.length < searchTo && !list.error;
  // A text is looked for in all pages, one after the other.
  useEffect(() => {
    if (isSearching) list.readOn();
  }, [isSearching, list.items.length, list.isLoading]);
  const byId = useExactTask((query.q ?? "").trim());
  const shown = byId && !rows.some(({ id }) => id === byId.id) ? [byId, ...rows] : rows;

  const isFiltered = FILTERS.some((name) => query[name]);
  const near = (first, last) => {
    if (!q && last > list.items.length - AHEAD) list.readOn();
  };
  return html`<div class="view fill tasks">
    <div class="view-head"><h1>Tasks</h1>
      <input type="search" data-filter aria-label="Filter tasks by text or id" placeholder="Text or id  /" value=${text} onInput=${(event) => setText(event.target.value)} />
      <button type="button" class="more-filters" aria-expanded=${String(isOpen)} onClick=${() => setOpen(!isOpen)}>Filters</button>
    </div>
    <${Filters} query=${query} operator=${operator} isOpen=${isOpen} />
    <${Problem} error=${list.error} again=${list.look} />
    <p class="row list-note" role="status">
      <span class="quiet">${noteOf(list, rows, q, isSearching)}</span>
      ${q && !list.isWhole && !isSearching && !list.error ? html`<button type="button" class="small" onClick=${() => setSearchTo(searchTo + SEARCHED)}>Search on</button>` : null}
      ${list.fresh.length ? html`<button type="button" class="small primary" onClick=${list.showFresh}>${list.fresh.length >= 50 ? "50+" : list.fresh.length} new</button>` : null}
      ${isFiltered ? html`<button type="button" class="small" onClick=${() => filterBy(Object.fromEntries(FILTERS.map((name) => [name, ""])))}>Clear filters</button>` : null}
    </p>
    ${shown.length
      ? html`<${Rows} rows=${shown} operator=${operator} onNear=${near} />`
      : !list.begun
        ? list.error ? null : html`<${Loading} what="Reading tasks" />`
        : isSearching
          ? null
          : html`<${NoTasks} isFiltered=${isFiltered} />`}
  </div>`;
}

function noteOf(list, rows, q, isSearching) {
  if (!list.begun) return "";
  if (q) return `${plural(rows.length, "task fits", "tasks fit")}; searched ${count(list.items.length)} of ${count(Math.max(list.total, list.items.length))}${isSearching ? "…" : ""}`;
  const total = Math.max(list.total, list.items.length);
  const read = list.items.length < total ? `, ${count(list.items.length)} read` : "";
  return `${plural(total, "task")}${read}${list.isLoading ? ", reading…" : ""}`;
}

const isFound = (task, q) =>
  [task.text, task.id, task.contextId, task.principal, handleOf(task.agent)].some((value) => String(value ?? "").toLowerCase().includes(q));

// The task of exactly this id, whatever its age and the other filters.
function useExactTask(text) {
  const [found, setFound] = useState(null);
  useEffect(() => {
    setFound(null);
    // Ids have digits; a request for each word that is typed would be in vain.
    if (!/^(?=.*\d)[\w.:-]{8,128}$/.test(text)) return undefined;
    const controller = new AbortController();
    api(`/tasks/${encodeURIComponent(text)}`, { signal: controller.signal }).then(setFound, () => {});
    return () => controller.abort();
  }, [text]);
  return found;
}

function NoTasks({ isFiltered }) {
  return isFiltered
    ? html`<${Empty} title="No task fits these filters"><p>Take a filter away. A task of any age is found by its whole id.</p><//>`
    : html`<${Empty} title="There are no tasks yet"><p><a href=${link("agents")}>Choose an agent</a> and send it a message, or use <code>trunkline send</code>.</p><//>`;
}

function Filters({ query, operator, isOpen }) {
  const agents = useAgents();
  const chosen = new Set((query.state ?? "").split(",").filter(Boolean).map(stateName));
  const toggle = (state) => {
    const next = STATES.filter((each) => (each === state) !== chosen.has(each));
    filterBy({ state: next.join(",") });
  };
  const isPreset = SINCE.some(([value]) => value === (query.since ?? ""));
  return html`<div class=${`filters ${isOpen ? "" : "closed"}`}>
    <div class="row chips" role="group" aria-label="States">${STATES.map(
      (state) => html`<button key=${state} type="button" class=${`small state ${stateTone(state)}`} aria-pressed=${String(chosen.has(state))}
        onClick=${() => toggle(state)}><i aria-hidden="true"></i>${stateWord(state)}</button>`,
    )}</div>
    <${Typed} name="agent" label="Agent" query=${query} list="task-agents" />
    <datalist id="task-agents">${[...agents.values()].map(({ id, handle }) => html`<option key=${id} value=${safe(handle, 200)}></option>`)}</datalist>
    <${Typed} name="context" label="Context" query=${query} />
    ${operator ? html`<${Typed} name="caller" label="Caller" query=${query} /><${Typed} name="tenant" label="Tenant" query=${query} />` : null}
    <select aria-label="Changed since" value=${query.since ?? ""} onChange=${(event) => filterBy({ since: event.target.value })}>
      ${SINCE.map(([value, title]) => html`<option key=${value} value=${value}>${title}</option>`)}
      ${isPreset ? null : html`<option value=${query.since}>Since ${safe(query.since, 40)}</option>`}
    </select>
  </div>`;
}

// A field that filters when the typing ends.
export function Typed({ name, label, query, list, isFilter = false }) {
  const [text, setText] = useState(query[name] ?? "");
  useEffect(() => setText(query[name] ?? ""), [query[name]]);
  useEffect(() => {
    const timer = setTimeout(() => (query[name] ?? "") !== text.trim() && filterBy({ [name]: text.trim() }), 400);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<input class="typed" data-filter=${isFilter || undefined} aria-label=${label} placeholder=${label} list=${list} value=${text} onInput=${(event) => setText(event.target.value)} />`;
}

function Rows({ rows, operator, onNear }) {
  const isNarrow = useNarrow();
  const columns = [{ title: "State" }, { title: "Last words" }, { title: operator ? "Agent, caller" : "Agent" }, { title: "Task, context" }, { title: "Changed" }];
  return html`<${VirtualList} label="Tasks" className="task-rows" rows=${rows} rowHeight=${isNarrow ? 62 : 50}
    columns=${columns} rowKey=${(task) => task.id} onNear=${onNear} onSelect=${(task) => go("tasks", task.id)}
    row=${(task) => html`<span role="gridcell" class="c-state"><${State} state=${task.state} /></span>
      <span role="gridcell" class="c-text" dir="auto">${line(task.text) || html`<span class="quiet">(no text)</span>`}</span>
      <span role="gridcell" class="c-agent"><span>${safe(handleOf(task.agent), 100)}</span>
        ${operator ? html`<span class="quiet" title=${safe(callerOf(task), 300)}>${safe(callerOf(task), 100)}</span>` : null}</span>
      <span role="gridcell" class="c-id"><${Id} id=${task.id} href=${link("tasks", task.id)} />
        ${isNarrow ? null : html`<a class="id quiet" tabindex="-1" title=${`Tasks of the context ${safe(task.contextId, 300)}`} href=${link("tasks", { context: task.contextId })}>${shortId(safe(task.contextId, 200))}</a>`}</span>
      <span role="gridcell" class="c-time quiet"><${Time} at=${task.statusAt} /></span>`} />`;
}

export const callerOf = ({ principal, tenant }) => (tenant ? `${principal} @ ${tenant}` : principal);
