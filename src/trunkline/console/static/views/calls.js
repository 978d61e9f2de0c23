// The calls between agents as a tree: who asked whom, and which call came of which. `#/calls`,
// one of them `#/calls/ID`.
import { html, useEffect, useMemo, useState } from "../lib/html.js";
import { handleOf, useAgents } from "../lib/agents.js";
import { api, everyItem, isOperator } from "../lib/api.js";
import { count, duration, line, plural, safe } from "../lib/format.js";
import { hear } from "../lib/live.js";
import { useCalmly, useReread } from "../lib/reread.js";
import { filterBy, link, place } from "../lib/router.js";
import { useLoaded } from "../lib/state.js";
import { ensureStyle } from "../lib/style.js";
import { Badge, Empty, Id, Loading, Problem, Time } from "../parts/basics.js";
import { JsonView } from "../parts/json.js";
import { callTone, calleeOf, planOf } from "../parts/timeline.js";
import { VirtualList, useNarrow } from "../parts/vlist.js";
import { Typed, callerOf } from "./tasks.js";

const MOST = 5000;
const STATUSES = [["", "Any status"], ["pending", "Pending"], ["completed", "Completed"], ["input_required", "Input required"], ["error", "Error"], ["timeout", "Timed out"], ["discarded", "Discarded"]];

export default function Calls({ path, query }) {
  const [isReady, setReady] = useState(false);
  useEffect(() => {
    ensureStyle("tasks").then(() => setReady(true));
  }, []);
  return isReady ? html`<${Tree} chosen=${path[1] ?? ""} query=${query} />` : html`<${Loading} />`;
}

// Calls by their parents. A call whose parent is not there (not kept any longer, or of a caller whose
// calls are not shown) begins a tree of its own.
export function treeOf(calls) {
  const nodes = new Map(calls.map((call) => [call.id, { call, children: [], level: 1 }]));
  const roots = [];
  for (const node of nodes.values()) {
    const parent = nodes.get(node.call.parent);
    // A ring of parents would never be drawn.
    if (parent && parent !== node && !isBelow(parent, node, nodes)) parent.children.push(node);
    else roots.push(node);
  }
  const byTime = (a, b) => Date.parse(a.call.createdAt) - Date.parse(b.call.createdAt);
  for (const node of nodes.values()) node.children.sort(byTime);
  return roots.sort((a, b) => byTime(b, a));
}

function isBelow(node, above, nodes) {
  for (let steps = 0, at = node; at && steps < 100; steps++) {
    if (at === above) return true;
    at = nodes.get(at.call.parent);
  }
  return false;
}

// The rows that are open, from top to bottom. Calls that fit the filter keep those above them.
function rowsOf(roots, closed, fits) {
  const rows = [];
  const add = (node, level, parent) => {
    const isFit = fits(node.call);
    const at = rows.length;
    const row = { ...node, level, isFit, parent, isOpen: !closed.has(node.call.id) };
    rows.push(row);
    let hasFit = isFit;
    const before = rows.length;
    for (const child of node.children) hasFit = add(child, level + 1, at) || hasFit;
    if (!row.isOpen) rows.length = before;
    if (!hasFit) rows.length = at;
    return hasFit;
  };
  for (const root of roots) add(root, 1, -1);
  return rows;
}

function Tree({ chosen, query }) {
  const isNarrow = useNarrow();
  const { data, error, again, isLoading } = useLoaded(
    (signal) => everyItem("/calls", { agent: query.agent, callee: query.callee, principal: query.caller, pageSize: 200 }, { limit: MOST, signal }),
    [query.agent, query.callee, query.caller],
  );
  const soon = useCalmly(again, 1500);
  useEffect(() => hear("call", soon), []);
  useReread(soon);
  useAgents((data ?? []).map(({ agent }) => agent));
  const [closed, setClosed] = useState(() => new Set());
  const roots = useMemo(() => treeOf(data ?? []), [data]);
  const text = (query.q ?? "").toLowerCase();
  const rows = useMemo(
    () => rowsOf(roots, closed, (call) =>
      (!query.status || call.status === query.status) &&
      (!text || [call.id, call.callee, handleOf(call.agent), call.tool, call.skill, call.taskId, call.principal].some((each) => String(each ?? "").toLowerCase().includes(text)))),
    [roots, closed, query.status, text],
  );
  const fold = (row, isOpen) => {
    const next = new Set(closed);
    if (isOpen) next.delete(row.call.id);
    else next.add(row.call.id);
    setClosed(next);
  };
  const [goTo, setGoTo] = useState(null);
  const onKey = (event, row) => {
    if (event.key === "ArrowRight" && row.children.length) {
      if (!row.isOpen) fold(row, true);
      else setGoTo({ index: rows.indexOf(row) + 1 });
    } else if (event.key === "ArrowLeft") {
      if (row.children.length && row.isOpen) fold(row, false);
      else if (row.parent >= 0) setGoTo({ index: row.parent });
    } else return false;
    return true;
  };
  const open = (row) => go(row?.call.id ?? "");
  const go = (id) => {
    location.hash = link(...(id ? ["calls", id] : ["calls"]), place.get().query);
  };
  const fitting = rows.filter(({ isFit }) => isFit).length;
  const isFiltered = ["agent", "callee", "caller", "status", "q"].some((name) => query[name]);
  const columns = [{ title: "Call" }, { title: "By" }, { title: "Status" }, { title: "Begun" }, { title: "Time" }, { title: "Task" }];
  return html`<div class="view fill calls">
    <div class="view-head"><h1>Calls</h1><span class="quiet" role="status">${data ? `${plural(fitting, "call")}${data.length >= MOST ? `, of the last ${count(MOST)}` : ""}${isLoading ? ", reading…" : ""}` : ""}</span></div>
    <div class="filters"><${Typed} name="q" label="Text or id" query=${query} isFilter />
      <select aria-label="Status" value=${query.status ?? ""} onChange=${(event) => filterBy({ status: event.target.value })}>${STATUSES.map(([value, title]) => html`<option key=${value} value=${value}>${title}</option>`)}</select>
      <${Typed} name="agent" label="Calling agent" query=${query} /><${Typed} name="callee" label="Called agent" query=${query} />
      ${isOperator() ? html`<${Typed} name="caller" label="Caller" query=${query} />` : null}</div>
    <${Problem} error=${error} again=${again} />
    ${rows.length || chosen
      ? html`<div class=${`call-panes ${chosen ? "with-detail" : ""}`}>
          ${rows.length
            ? html`<${VirtualList} label="Calls" className="call-rows" gridRole="treegrid" rows=${rows} rowHeight=${isNarrow ? 52 : 38} columns=${columns}
                rowKey=${({ call }) => call.id} selected=${chosen} onSelect=${open} onKey=${onKey} goTo=${goTo}
                rowProps=${({ level, children, isOpen }) => ({ "aria-level": level, "aria-expanded": children.length ? String(isOpen) : undefined })}
                row=${(row) => cells(row, fold)} />`
            : html`<p class="quiet">No other call is shown.</p>`}
          ${chosen ? html`<${Detail} key=${chosen} id=${chosen} onClose=${() => go("")} changed=${data} />` : null}
        </div>`
      : !data
        ? error ? null : html`<${Loading} what="Reading calls" />`
        : isFiltered
          ? html`<${Empty} title="No call fits these filters"><p><button type="button" onClick=${() => filterBy({ agent: "", callee: "", caller: "", status: "", q: "" })}>Clear filters</button></p><//>`
          : html`<${Empty} title="There are no calls"><p>Calls come here when one agent asks another, and go some time after their end.</p><//>`}
  </div>`;
}

function cells(row, fold) {
  const { call, level, children, isOpen, isFit } = row;
  const dim = isFit ? "" : "dim";
  return html`<span role="gridcell" class=${`call-name c-name ${dim}`} style=${{ paddingLeft: `${Math.min(level - 1, 12) * 1.1}rem` }}>
      ${children.length
        ? html`<button type="button" class="fold" tabindex="-1" aria-label=${isOpen ? "Close" : "Open"} onClick=${() => fold(row, !isOpen)}>${isOpen ? "▾" : "▸"}</button>`
        : html`<i class="leaf"></i>`}
      <span dir="auto">${safe(handleOf(call.agent), 80)} → <strong>${calleeOf(call)}</strong>${children.length && !isOpen ? html` <span class="quiet">${plural(children.length, "call")}</span>` : null}</span></span>
    <span role="gridcell" class=${`c-tool quiet ${dim}`}>${line(planOf(call.tool) ?? (call.tool || call.skill), 60)}</span>
    <span role="gridcell" class="c-status"><${Badge} tone=${callTone(call.status)}>${call.status.replace("_", " ")}<//></span>
    <span role="gridcell" class="c-start quiet"><${Time} at=${call.createdAt} /></span>
    <span role="gridcell" class="c-ms quiet">${call.endedAt ? duration(Date.parse(call.endedAt) - Date.parse(call.createdAt)) : "under way"}</span>
    <span role="gridcell" class="c-task">${call.taskId ? html`<${Id} id=${call.taskId} href=${link("tasks", call.taskId)} />` : "–"}</span>`;
}

function Detail({ id, onClose, changed }) {
  const { data, error, again } = useLoaded((signal) => api(`/calls/${encodeURIComponent(id)}`, { signal }), [id, changed]);
  return html`<aside class="card event-detail" aria-label="Call">
    <div class="row between"><h2>Call</h2><button type="button" class="small plain" aria-label="Close the call" onClick=${onClose}>✕</button></div>
    <${Problem} error=${error} again=${again} />
    ${data
      ? html`<dl class="facts">
          <dt>Id</dt><dd><${Id} id=${data.id} whole /></dd>
          <dt>From</dt><dd>${safe(handleOf(data.agent), 200)}</dd><dt>To</dt><dd>${safe(handleOf(data.callee), 200)}${data.skill ? html` <span class="quiet">skill ${line(data.skill, 80)}</span>` : null}</dd>
          <dt>By</dt><dd>${safe(data.tool, 80) || "–"}</dd>
          <dt>Status</dt><dd><${Badge} tone=${callTone(data.status)}>${data.status.replace("_", " ")}<//></dd>
          <dt>Caller</dt><dd class="mono">${safe(callerOf(data), 300)}</dd>
          <dt>Begun</dt><dd><${Time} at=${data.createdAt} /></dd>
          <dt>Ended</dt><dd>${data.endedAt ? html`<${Time} at=${data.endedAt} />, after ${duration(Date.parse(data.endedAt) - Date.parse(data.createdAt))}` : `not yet; at most ${duration(data.timeoutMs)}`}</dd>
          <dt>Depth</dt><dd>${data.depth}</dd>
          ${data.parent ? html`<dt>Parent</dt><dd><${Id} id=${data.parent} href=${link("calls", data.parent)} /></dd>` : null}
          ${data.taskId ? html`<dt>Task</dt><dd><${Id} id=${data.taskId} href=${link("tasks", data.taskId)} whole /></dd>` : null}
        </dl>
        ${data.result === null || data.result === undefined ? html`<p class="quiet">${data.status === "pending" ? "There is no result yet." : "It has no result."}</p>` : html`<h3>Result</h3><${JsonView} value=${data.result} label="Result" />`}`
      : error ? null : html`<${Loading} what="Reading the call" />`}
  </aside>`;
}
