// What passed the wire: every exchange of the agents that are recorded. `#/inspector`,
// `#/inspector/ID`, and `#/inspector/file` for a session file.
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { api, gateway, isOperator } from "../lib/api.js";
import { bytes, clock, count, duration, exact, fileName, line, plural, safe } from "../lib/format.js";
import { filterBy, go, link } from "../lib/router.js";
import { ensureStyle } from "../lib/style.js";
import { Value, useValue } from "../lib/state.js";
import { announce, Badge, Dialog, download, Empty, Field, Loading, notify, notifyError, Problem, Tabs } from "../parts/basics.js";
import { VirtualList } from "../parts/vlist.js";
import { FaultBanner, FaultForm, Recordings, useFaultsOf, useWireSettings } from "./inspector/control.js";
import { Detail } from "./inspector/detail.js";
import { isJudged } from "./inspector/exchange.js";
import { HELP, only, parse, toggled } from "./inspector/filter.js";
import { Verdict } from "./inspector/findings.js";
import { FileLog, pin, pins, View, wireLog } from "./inspector/log.js";
import { nameOf, Side, Status } from "./inspector/parts.js";
import { readSession, writeSession } from "./inspector/session-file.js";
import { Waterfall } from "./inspector/waterfall.js";

await ensureStyle("inspector");

const ROW_HEIGHT = 34;
// On a narrow screen a row has two lines.
const NARROW = matchMedia("(max-width: 44rem)");
const NARROW_ROW_HEIGHT = 52;
// A check reads the whole exchange, so only rows in sight are checked, and only of this size.
const MOST_CHECKED_BYTES = 256 * 1024;
const CHECK_AFTER_MS = 300;
const MOST_EXPORTED = 2000;
const CHIPS = [["is:problem", "Problems"], ["is:stream", "Streams"], ["is:open", "Open"], ["side:client", "To backends"], ["-op:GetAgentCard", "Without cards"], ["is:pinned", "Pinned"]];

// The file that is open, until the page is left.
const opened = new Value(null);

Object.assign(wireLog, {
  back: (query) => link("inspector", { q: query.q, view: query.view }),
  href: (id, query) => link("inspector", id, { q: query.q, view: query.view }),
});
Object.assign(FileLog.prototype, {
  back: (query) => link("inspector", "file", { q: query.q, view: query.view }),
  href: (id, query) => link("inspector", "file", id, { q: query.q, view: query.view }),
});

export default function Inspector({ path, query }) {
  const isFile = path[1] === "file";
  const file = useValue(opened);
  useOldQuery(query);
  if (isFile && !file) return html`<div class="view"><${Empty} title="No session file is open"><p>A file is forgotten when the page is loaded anew.</p><p><${OpenFile} /> <a class="button" href=${link("inspector")}>The log of this gateway</a></p><//></div>`;
  if (!isFile && !isOperator()) {
    return html`<div class="view"><div class="view-head"><h1>Inspector</h1></div>
      <${Empty} title="The log is for operators"><p>It holds the messages of all callers. A session file can be opened without it.</p><p><${OpenFile} /></p><//></div>`;
  }
  return html`<${Log} key=${isFile ? "file" : "live"} log=${isFile ? file : wireLog} id=${path[isFile ? 2 : 1] ?? ""} query=${query} />`;
}

// Other views link with ?taskId= and the like; the one filter of this view says the same.
function useOldQuery(query) {
  useEffect(() => {
    const terms = [["taskId", "task"], ["contextId", "context"], ["agent", "agent"]].filter(([name]) => query[name]);
    if (!terms.length) return;
    const q = [query.q, ...terms.map(([name, field]) => `${field}:${query[name]}`)].filter(Boolean).join(" ");
    filterBy({ taskId: "", contextId: "", agent: "", q });
  }, [query.taskId, query.contextId, query.agent]);
}

function Log({ log, id, query }) {
  const view = useMemo(() => new View(log), [log]);
  useEffect(() => () => view.close(), [view]);
  useEffect(() => log.use(), [log]);
  const pinned = useValue(pins);
  useEffect(() => view.again(), [pinned]);
  useEffect(() => view.set(query.q ?? ""), [query.q]);
  useValue(view.changes);
  const settings = useWireSettings(log.isLive);
  useFaultsOf(settings.data?.agents ?? []);
  const at = id ? view.shown.findIndex((row) => row.id === id) : -1;
  const around = { before: at > 0 ? view.shown[at - 1].id : "", after: at >= 0 ? view.shown[at + 1]?.id ?? "" : "" };
  // The list stays as it is behind an exchange, so that the way back leads to the same place.
  return html`<div class="inspector">
    <div class=${`view fill log ${id ? "behind" : ""}`} inert=${Boolean(id)} aria-hidden=${id ? "true" : undefined}>
      <${List} log=${log} view=${view} query=${query} settings=${settings} /></div>
    ${id ? html`<div class="over"><${log.isLive ? FaultBanner : FileBanner} log=${log} /><${Detail} key=${id} log=${log} id=${id} query=${query} around=${around} /></div>` : null}
  </div>`;
}

function List({ log, view, query, settings }) {
  const error = useValue(log.error);
  const isRead = useValue(log.isRead);
  const [isPaused, setPaused] = useState(null);
  const [dialog, setDialog] = useState("");
  const terms = useMemo(() => parse(query.q), [query.q]);
  const shown = isPaused ?? view.shown;
  const waiting = isPaused ? view.shown.length - isPaused.length : 0;
  const isWaterfall = query.view === "waterfall";
  const recorded = settings.data?.agents.filter(({ on }) => on) ?? [];
  useEffect(() => setPaused(null), [query.q]);
  return html`
    <div class="view-head"><h1>Inspector</h1>
      ${log.isLive
        ? html`<button type="button" class="small" onClick=${() => setDialog("recording")}>${recorded.length ? html`<i class="rec" aria-hidden="true"></i> ${plural(recorded.length, "agent")} recorded` : "Record agents"}</button>
            <button type="button" class="small" onClick=${() => setDialog("faults")}>Faults</button>`
        : null}
      <${OpenFile} />
      ${log.isLive ? html`<button type="button" class="small" disabled=${!view.shown.length} onClick=${() => setDialog("export")}>Export</button>` : null}
    </div>
    ${log.isLive ? html`<${FaultBanner} />` : html`<${FileBanner} log=${log} />`}
    <${FilterField} q=${query.q ?? ""} problem=${view.problem} isSearching=${view.isSearching} />
    <div class="row between bar-row">
      <${Tabs} label="View" current=${isWaterfall ? "waterfall" : "log"} tabs=${[["log", "Exchanges"], ["waterfall", "Waterfall"]]} onChange=${(name) => filterBy({ view: name === "waterfall" ? name : "" })} />
      ${isWaterfall
        ? null
        : html`<div class="row">
            <span class="quiet" role="status">${isPaused ? html`paused${waiting > 0 ? `, ${count(waiting)} new` : ""}` : html`${count(shown.length)} of ${count(log.rows.length)}`}</span>
            ${log.isLive
              ? html`<button type="button" class="small" aria-pressed=${String(Boolean(isPaused))} onClick=${() => setPaused(isPaused ? null : view.shown.slice())}>Pause</button>
                  ${view.isCleared
                    ? html`<button type="button" class="small" onClick=${() => view.unclear()}>Show all again</button>`
                    : html`<button type="button" class="small" disabled=${!log.rows.length} onClick=${() => { view.clear(); setPaused(null); }}>Clear</button>`}`
              : null}
          </div>`}
    </div>
    <${Problem} error=${error} again=${() => log.read()} />
    ${isWaterfall
      ? html`<${Waterfall} log=${log} taskId=${only(terms, "task")} contextId=${only(terms, "context")} query=${query} />`
      : !log.rows.length
        ? isRead
          ? html`<${NothingYet} log=${log} settings=${settings} recorded=${recorded} />`
          : html`<${Loading} what="Reading the log" />`
        : shown.length || !view.isComplete
          ? html`<${Table} key=${query.q ?? ""} log=${log} rows=${shown} query=${query} />`
          : html`<${Empty} title=${view.isCleared ? "Cleared" : "No exchange matches this filter"}>
              <p>${view.isCleared ? "New exchanges appear here." : html`${count(log.rows.length)} exchanges do not match. New ones that match appear here.`}</p>
              ${query.q ? html`<button type="button" onClick=${() => filterBy({ q: "" })}>Remove the filter</button>` : null}<//>`}
    ${dialog === "recording" && settings.data
      ? html`<${Dialog} title="Record agents" onClose=${() => setDialog("")}><${Recordings} settings=${settings.data} onChange=${settings.again} /><//>`
      : null}
    ${dialog === "faults" ? html`<${Dialog} title="Faults on a route" onClose=${() => setDialog("")}><${Faults} agents=${settings.data?.agents ?? []} /><//>` : null}
    ${dialog === "export" ? html`<${Dialog} title="Export" onClose=${() => setDialog("")}><${Export} rows=${view.shown} terms=${terms} onDone=${() => setDialog("")} /><//>` : null}`;
}

function FilterField({ q, problem, isSearching }) {
  const [text, setText] = useState(q);
  const typed = useRef(q);
  const [isHelp, setHelp] = useState(false);
  const fault = useValue(problem);
  const searching = useValue(isSearching);
  useEffect(() => {
    // The address changed by a link or a chip.
    if (q !== typed.current) {
      typed.current = q;
      setText(q);
    }
  }, [q]);
  useEffect(() => {
    if (text === typed.current) return undefined;
    const timer = setTimeout(() => {
      typed.current = text;
      filterBy({ q: text });
    }, 150);
    return () => clearTimeout(timer);
  }, [text]);
  const terms = parse(q).map(({ isNot, field, value }) => `${isNot ? "-" : ""}${field}:${value}`);
  return html`<div class="filter">
    <div class="row"><input type="search" data-filter class="grow mono" aria-label="Filter exchanges" aria-describedby=${fault ? "filter-problem" : undefined} aria-invalid=${String(Boolean(fault))}
        placeholder="agent:demo/echo status:>=400 words…  /" spellcheck=${false} autocomplete="off" value=${text} onInput=${(event) => setText(event.target.value)} />
      <button type="button" class="small" aria-expanded=${String(isHelp)} onClick=${() => setHelp(!isHelp)}>Filter language</button></div>
    <div class="row chips" role="group" aria-label="Filters">${CHIPS.map(
      ([term, title]) => html`<button key=${term} type="button" class="small" aria-pressed=${String(terms.includes(term))} onClick=${() => filterBy({ q: toggled(q, term) })}>${title}</button>`,
    )}${searching ? html`<span class="hint" role="status">searching bodies…</span>` : null}</div>
    ${fault ? html`<p id="filter-problem" class="error" role="alert">${safe(fault, 200)}</p>` : null}
    ${isHelp ? html`<div class="card filter-help"><dl class="facts">${HELP.map(([term, meaning]) => html`<dt><code>${term}</code></dt><dd>${meaning}</dd>`)}</dl></div>` : null}
  </div>`;
}

const COLUMNS = [
  { title: "Time" }, { title: "" }, { title: "Agent" }, { title: "Operation" }, { title: "Protocol", className: "wide-only" }, { title: "Task", className: "wide-only" },
  { title: "Status" }, { title: "Size", className: "right wide-only" }, { title: "Events", className: "right wide-only" }, { title: "Duration", className: "right" }, { title: "Checks", className: "wide-only" }, { title: "" },
];

const BINDINGS = { jsonrpc: "RPC", rest: "HTTP", websocket: "WS", http: "HTTP" };

function Table({ log, rows, query }) {
  const pinned = useValue(pins);
  const verdicts = useVerdicts(log, rows);
  const isNarrow = useNarrow();
  // Cells that did not change are the same objects, which are not compared again while scrolling.
  const cells = useRef(new WeakMap());
  const row = (item) => {
    const isPinned = pinned.has(item.id);
    const key = `${item.round} ${isPinned} ${isNarrow} ${query.q} ${query.view}`;
    const known = cells.current.get(item);
    const verdict = verdicts.get(item);
    if (known?.key === key && known.verdict === verdict) return known.drawn;
    const drawn = draw(item, isPinned, verdict);
    cells.current.set(item, { key, verdict, drawn });
    return drawn;
  };
  const draw = (item, isPinned, verdict) => {
    const problem = item.error || item.fault;
    return html`<span role="gridcell" class="mono" title=${exact(item.at)}>${clock(item.at)}</span>
      <span role="gridcell"><${Side} side=${item.side} /></span>
      <span role="gridcell">${line(item.agent, 80)}</span>
      <span role="gridcell"><a href=${log.href(item.id, query)} title=${problem ? safe(problem, 300) : undefined}>${nameOf(item)}</a>${item.fault ? html` <${Badge} tone="ask">fault<//>` : null}
        ${isNarrow ? html`<span class="under">${clock(item.at).slice(0, 8)} ${line(item.agent, 60)}</span>` : null}</span>
      <span role="gridcell" class="wide-only quiet">${BINDINGS[item.binding] ?? ""} ${safe(item.version, 10)}</span>
      <span role="gridcell" class="wide-only mono" title=${safe(item.taskId, 300)}>${item.taskId ? html`<a href=${log.back({ q: `task:${item.taskId}` })}>…${safe(item.taskId.slice(-8), 20)}</a>` : ""}</span>
      <span role="gridcell"><${Status} row=${item} /></span>
      <span role="gridcell" class="right wide-only mono" title=${`${bytes(item.requestBytes)} in the request, ${bytes(item.responseBytes)} in the answer`}>${bytes(item.requestBytes + item.responseBytes)}</span>
      <span role="gridcell" class="right wide-only mono">${item.events || ""}</span>
      <span role="gridcell" class="right mono">${item.ms === null ? html`<${Badge} tone="accent">open<//>` : duration(item.ms)}</span>
      <span role="gridcell" class="wide-only">${verdict ? html`<${Verdict} findings=${verdict} />` : ""}</span>
      <span role="gridcell"><button type="button" class="plain small pin" aria-label=${isPinned ? "Unpin" : "Pin"} aria-pressed=${String(isPinned)} onClick=${() => pin(item.id, !isPinned)}>${isPinned ? "★" : "☆"}</button></span>`;
  };
  return html`<${VirtualList} label="Exchanges" className="exchanges" key=${String(isNarrow)} rows=${rows} rowHeight=${isNarrow ? NARROW_ROW_HEIGHT : ROW_HEIGHT} row=${row} rowKey=${(item) => item.id}
    columns=${COLUMNS} sticksToEnd=${log.isLive} onSelect=${(item) => { location.hash = log.href(item.id, query); }} onNear=${verdicts.near} />`;
}

function useNarrow() {
  const [isNarrow, setNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const change = () => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", change);
    return () => NARROW.removeEventListener("change", change);
  }, []);
  return isNarrow;
}

// The verdict of the rows in sight, one after the other, when the reader stays with them.
const verdictsKnown = new WeakMap();

function useVerdicts(log, rows) {
  const [, redraw] = useState(0);
  const near = useRef([0, 0]);
  const timer = useRef(0);
  const working = useRef(null);
  const current = useRef(rows);
  current.current = rows;
  const work = async () => {
    working.current?.abort();
    const { signal } = (working.current = new AbortController());
    const [first, last] = near.current;
    for (let i = first; i < last && !signal.aborted; i++) {
      const row = current.current.at(i);
      if (!row || row.ms === null || verdictsKnown.has(row) || !isJudged(row)) continue;
      if (row.requestBytes + row.responseBytes > MOST_CHECKED_BYTES) continue;
      try {
        const record = await log.record(row.id, { signal });
        // A file may have none.
        if (!record.findings) return;
        verdictsKnown.set(row, record.findings);
        redraw((n) => n + 1);
      } catch {
        // The record made room for others meanwhile, or the list was left.
      }
    }
  };
  useEffect(() => () => {
    clearTimeout(timer.current);
    working.current?.abort();
  }, []);
  return {
    get: (row) => verdictsKnown.get(row),
    near: (first, last) => {
      near.current = [first, last];
      clearTimeout(timer.current);
      timer.current = setTimeout(work, CHECK_AFTER_MS);
    },
  };
}

function NothingYet({ log, settings, recorded }) {
  if (!log.isLive) return html`<${Empty} title="The file has no exchanges"><p>Open another one.</p><//>`;
  if (recorded.length) {
    const [owner, slug] = recorded[0].handle.split("/");
    return html`<${Empty} title="No requests yet">
      <p>${recorded.map(({ handle }) => handle).slice(0, 5).join(", ")} ${recorded.length === 1 ? "is" : "are"} recorded. The next request appears here.</p>
      <a class="button primary" href=${link("chat", owner, slug)}>Send one</a> <code>${`trunkline send ${location.origin} hello`}</code><//>`;
  }
  return html`<div class="card nothing"><h2>Nothing is recorded</h2>
    <p>The gateway records what passes the wire of an agent, with headers, bodies and events, while you want it to. Choose one, then send it something.</p>
    <${Problem} error=${settings.error} again=${settings.again} />
    ${settings.data ? html`<${Recordings} settings=${settings.data} onChange=${settings.again} />` : html`<${Loading} />`}</div>`;
}

function Faults({ agents }) {
  const [id, setId] = useState(agents[0]?.id ?? "");
  const agent = agents.find((each) => each.id === id) ?? agents[0];
  if (!agent) return html`<p class="quiet">There is no agent.</p>`;
  return html`<${FaultBanner} />
    <${Field} label="Agent"><select value=${agent.id} onChange=${(event) => setId(event.target.value)}>
      ${agents.map((each) => html`<option value=${each.id}>${safe(each.handle, 150)}</option>`)}</select><//>
    <${FaultForm} key=${agent.id} agent=${agent} />`;
}

function Export({ rows, terms, onDone }) {
  const [progress, setProgress] = useState("");
  const stopped = useRef(false);
  useEffect(() => () => { stopped.current = true; }, []);
  // What the gateway can select by itself needs no copy in this page.
  const bySelf = terms.every(({ field, isNot, value }) => !isNot && value && (field === "task" || (field === "agent" && value.includes("/")))) && new Set(terms.map(({ field }) => field)).size === terms.length;
  const save = async () => {
    try {
      let content;
      if (bySelf) {
        const value = await api("/wire/export", { query: { taskId: only(terms, "task"), agent: only(terms, "agent") } });
        content = JSON.stringify(value);
      } else {
        const records = [];
        for (const { id } of rows.slice(-MOST_EXPORTED)) {
          if (stopped.current) return;
          records.push(await wireLog.record(id));
          if (records.length % 20 === 0) setProgress(`${count(records.length)} of ${count(Math.min(rows.length, MOST_EXPORTED))}`);
        }
        content = writeSession(records, gateway.get()?.publicUrl ?? location.origin);
      }
      download(fileName(`trunkline-session-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.json`), content, "application/json");
      notify("The session file is saved", { tone: "good" });
      onDone();
    } catch (error) {
      setProgress("");
      notifyError(error);
    }
  };
  return html`<p>A session file holds the exchanges that match the filter, with headers, bodies and events. It opens in the inspector of any gateway, without a network.</p>
    <p><strong>Secrets that the gateway knows or recognises are masked; the texts of messages are not.</strong> Look through the file before you give it away.</p>
    ${rows.length > MOST_EXPORTED && !bySelf ? html`<p class="notice ask">Only the last ${count(MOST_EXPORTED)} of ${count(rows.length)} are saved. Filter by a task or an agent for all of one.</p>` : null}
    <div class="row end"><span class="hint" role="status">${progress}</span><button type="button" class="primary" disabled=${Boolean(progress)} onClick=${save}>Save ${bySelf && terms.length === 0 ? "all" : plural(Math.min(rows.length, bySelf ? Infinity : MOST_EXPORTED), "exchange")}</button></div>`;
}

function OpenFile() {
  const input = useRef(null);
  const open = async () => {
    const [file] = input.current.files;
    if (!file) return;
    try {
      opened.set(new FileLog(await readSession(file)));
      announce("The session file is open");
      go("inspector", "file");
    } catch (error) {
      notifyError(error);
    }
    if (input.current) input.current.value = "";
  };
  return html`<button type="button" class="small" onClick=${() => input.current.click()}>Open a file</button>
    <input ref=${input} type="file" accept=".json,application/json" class="offscreen" tabindex="-1" aria-label="Session file" onChange=${open} />`;
}

function FileBanner({ log }) {
  const { name, exportedAt, gateway: from, records, leftOut } = log.session;
  return html`<div class="notice file row between" role="note">
    <span class="grow"><strong>A file, not this gateway:</strong> ${safe(name, 100)}, ${plural(records.length, "exchange")}${exportedAt ? `, saved ${exact(exportedAt)}` : ""}${from ? ` at ${safe(from, 100)}` : ""}.
      ${leftOut ? html` ${plural(leftOut, "record")} could not be read or ${leftOut === 1 ? "was" : "were"} too many.` : null} Read only; nothing is asked or sent.</span>
    <button type="button" class="small" onClick=${() => { opened.set(null); go("inspector"); }}>Close the file</button></div>`;
}
