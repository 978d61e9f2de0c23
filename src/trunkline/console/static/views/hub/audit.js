// The rows of the audit, the newest first, and their verification. `#/hub/audit`
import { html, useEffect, useRef, useState } from "../../lib/html.js";
import { api } from "../../lib/api.js";
import { clock, count, duration, exact, line, plural, safe } from "../../lib/format.js";
import { filterBy, link } from "../../lib/router.js";
import { Badge, CopyButton, Empty, Id, Loading, Problem, Switch, announce } from "../../parts/basics.js";
import { VirtualList } from "../../parts/vlist.js";

const PAGE = 100;
const LIVE_MS = 3000;
// Rows are written a moment after what they are about.
const LATE_MS = 60_000;
const ROW_HEIGHT = 40;
const KINDS = ["attempt", "outcome", "refusal", "change", "lost"];
const SPANS = [
  ["", "All times"],
  ["3600", "Last hour"],
  ["86400", "Last day"],
  ["604800", "Last 7 days"],
];

const keyOf = (row) => `${row.chain}:${row.number}`;

// `{ rows, token, … }` of a filter. Older pages are read as the reader comes near the end, newer
// rows every few seconds while it is live.
function useRows(filter) {
  const [state, setState] = useState({ rows: [], token: "", readTo: null, error: null, isLoading: true });
  const [fresh, setFresh] = useState([]);
  const id = JSON.stringify(filter);
  const current = useRef(id);
  const isReading = useRef(false);
  const begun = useRef(new Date().toISOString());
  current.current = id;
  const queryOf = (more) => {
    const { span, ...query } = filter;
    const since = span ? new Date(Date.now() - Number(span) * 1000).toISOString() : undefined;
    return { ...query, since, pageSize: PAGE, ...more };
  };
  const read = async (pageToken) => {
    if (isReading.current === id + pageToken) return;
    isReading.current = id + pageToken;
    setState((now) => ({ ...now, isLoading: true, error: null }));
    try {
      const page = await api("/audit", { query: queryOf({ pageToken }) });
      if (current.current !== id) return;
      setState((now) => ({
        rows: pageToken ? now.rows.concat(page.items) : page.items,
        token: page.nextPageToken,
        readTo: page.readTo,
        error: null,
        isLoading: false,
      }));
    } catch (error) {
      if (current.current === id) setState((now) => ({ ...now, error, isLoading: false }));
    } finally {
      isReading.current = false;
    }
  };
  useEffect(() => {
    setState({ rows: [], token: "", readTo: null, error: null, isLoading: true });
    setFresh([]);
    read("");
  }, [id]);
  const look = async () => {
    // From shortly before the newest row that is known, so that a filter that fits little reads little.
    const from = new Date(Date.parse(state.rows[0]?.at ?? begun.current) - LATE_MS).toISOString();
    const query = queryOf({});
    const page = await api("/audit", { query: { ...query, since: query.since > from ? query.since : from } }).catch(() => null);
    if (!page || current.current !== id) return;
    const known = new Set(state.rows.slice(0, 3 * PAGE).map(keyOf));
    setFresh(page.items.filter((row) => !known.has(keyOf(row))));
  };
  const takeFresh = () => {
    // More than a page has come: begin anew, so that no row is left out.
    if (fresh.length >= PAGE) read("");
    else setState((now) => ({ ...now, rows: fresh.concat(now.rows) }));
    setFresh([]);
  };
  return { ...state, fresh, takeFresh, look, older: () => state.token && !state.isLoading && read(state.token), again: () => read("") };
}

export default function Audit({ query }) {
  const { q, kind, agent, who, span } = query;
  const audit = useRows({ q, kind, agent, who, span });
  const [isLive, setLive] = useState(true);
  const [text, setText] = useState(q ?? "");
  const box = useRef(null);
  useEffect(() => {
    const timer = setTimeout(() => (q ?? "") !== text && filterBy({ q: text }), 250);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => {
    if (!isLive) return undefined;
    const timer = setInterval(() => document.visibilityState === "visible" && audit.look(), LIVE_MS);
    return () => clearInterval(timer);
  });
  // Rows that come are put in at once while the reader is at the top; else a button says so.
  useEffect(() => {
    if (audit.fresh.length && (box.current?.querySelector(".vbox")?.scrollTop ?? 0) === 0) audit.takeFresh();
  }, [audit.fresh]);
  const opened = query.row ? audit.rows.find((row) => keyOf(row) === query.row) : null;
  const isFiltered = Boolean(q || kind || agent || who || span);
  return html`<div class="audit">
    <div class="view-head"><h1>Audit</h1><${Switch} label="Live" isOn=${isLive} onChange=${setLive} /></div>
    <${Verify} />
    <div class="row filters">
      <input type="search" data-filter aria-label="Filter rows" placeholder="Filter  /" value=${text} onInput=${(event) => setText(event.target.value)} />
      <select aria-label="Kind" value=${kind ?? ""} onChange=${(event) => filterBy({ kind: event.target.value })}><option value="">All kinds</option>${KINDS.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select>
      <select aria-label="Time" value=${span ?? ""} onChange=${(event) => filterBy({ span: event.target.value })}>${SPANS.map(([value, title]) => html`<option key=${value} value=${value}>${title}</option>`)}</select>
      <input type="search" aria-label="Only this agent" placeholder="Agent" value=${agent ?? ""} onChange=${(event) => filterBy({ agent: event.target.value.trim() })} />
      <input type="search" aria-label="Only this caller" placeholder="Caller" value=${who ?? ""} onChange=${(event) => filterBy({ who: event.target.value.trim() })} />
    </div>
    <${Problem} error=${audit.error} again=${audit.again} />
    ${audit.rows.length
      ? html`<div ref=${box} class=${`audit-box ${opened ? "has-detail" : ""}`}>
          <div class="audit-list">
            ${audit.fresh.length ? html`<button type="button" class="small primary" onClick=${() => {
              audit.takeFresh();
              box.current.querySelector(".vbox").scrollTop = 0;
            }}>${count(audit.fresh.length)}${audit.fresh.length >= PAGE ? "+" : ""} new</button>` : null}
            <${VirtualList} rows=${audit.rows} rowHeight=${ROW_HEIGHT} row=${cells} rowKey=${keyOf} label="Rows of the audit"
              columns=${COLUMNS} selected=${query.row} className="audit-rows"
              onSelect=${(row) => filterBy({ row: keyOf(row) })}
              onNear=${(_, last) => last > audit.rows.length - 20 && audit.older()} /></div>
          ${opened ? html`<${Detail} row=${opened} />` : null}</div>`
      : audit.isLoading
        ? html`<${Loading} />`
        : audit.error || audit.token
          ? null
          : html`<${Empty} title=${isFiltered ? "No row fits this filter" : "The audit has no rows yet"}><p>${isFiltered ? "Try fewer words, or a longer time." : "Each call of an agent and each change of the hub writes one."}</p><//>`}
    ${audit.token && !audit.isLoading
      ? html`<p class="row"><button type="button" onClick=${audit.older}>${audit.rows.length ? "Read older rows" : "Search further"}</button>
          ${audit.readTo ? html`<span class="quiet">Read back to ${exact(audit.readTo)}</span>` : null}</p>`
      : null}
  </div>`;
}

const COLUMNS = [{ title: "Time" }, { title: "Kind" }, { title: "Who", className: "col-who" }, { title: "What" }, { title: "Result", className: "col-result" }];

const TONES = { refusal: "bad", lost: "bad", change: "accent" };

function resultOf(row) {
  if (row.kind !== "outcome") return row.reason ?? "";
  return [row.outcome, row.reason, row.tookMs === undefined || row.tookMs === null ? "" : duration(row.tookMs)].filter(Boolean).join(", ");
}

const DAY = new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short" });

function whatOf(row) {
  if (row.kind === "change") return `${row.action} ${row.subject ?? ""}`;
  if (row.kind === "outcome") return `answer of ${row.agent ?? ""}`;
  return `${row.operation ?? ""} ${row.agent ?? ""}${row.count > 1 ? ` ×${row.count}` : ""}`;
}

function cells(row) {
  const who = row.who ?? row.source ?? "(nobody)";
  return html`<span role="gridcell" title=${exact(row.at)}><span class="col-date">${DAY.format(new Date(row.at))} </span>${clock(row.at).slice(0, 8)}</span>
    <span role="gridcell"><${Badge} tone=${TONES[row.kind]}>${row.kind}<//></span>
    <span role="gridcell" class="col-who">${line(who, 80)}</span>
    <span role="gridcell">${line(whatOf(row), 160)}</span>
    <span role="gridcell" class="col-result">${line(resultOf(row), 80)}</span>`;
}

const DETAILS = [
  ["who", "Caller"], ["source", "Address"], ["token", "Token"], ["actingFor", "Acting for"], ["askedBy", "Asked by agent"], ["tenant", "Tenant"],
  ["agent", "Agent"], ["operation", "Operation"], ["binding", "Binding"], ["contextId", "Context"], ["outcome", "Outcome"], ["reason", "Reason"],
  ["tookMs", "Took, ms"], ["ranMs", "Ran, ms"], ["question", "Question"], ["count", "Stands for"], ["action", "Action"], ["subject", "Subject"],
  ["detail", "Detail"], ["recoveredFrom", "Recovered from chain"], ["id", "Attempt"],
];

function Detail({ row }) {
  return html`<section class="card audit-detail" aria-label="Row of the audit">
    <header class="row between"><h2>Row ${count(row.number)}</h2>
      <button type="button" class="plain" aria-label="Close" onClick=${() => filterBy({ row: "" })}>✕</button></header>
    <dl class="facts"><dt>Time</dt><dd>${exact(row.at)}</dd><dt>Kind</dt><dd>${row.kind}</dd>
      ${row.taskId ? html`<dt>Task</dt><dd><${Id} id=${row.taskId} href=${link("tasks", row.taskId)} /></dd>` : null}
      ${DETAILS.filter(([name]) => row[name] !== undefined && row[name] !== null).map(
        ([name, title]) => html`<dt key=${`${name}t`}>${title}</dt><dd key=${name} dir="auto">${safe(Array.isArray(row[name]) ? row[name].join(", ") : row[name], 2000)}</dd>`,
      )}
      <dt>Chain</dt><dd><${Id} id=${row.chain} /></dd><dt>Hash</dt><dd><${Id} id=${row.hash} /></dd></dl>
    <${CopyButton} text=${JSON.stringify(row, null, 2)} label="Copy as JSON" />
  </section>`;
}

// Whether the chains of the audit are as they were written.
function Verify() {
  const [state, setState] = useState({ found: null, error: null, isBusy: false });
  const verify = async () => {
    setState({ found: null, error: null, isBusy: true });
    try {
      const found = await api("/audit/verify", { method: "POST" });
      setState({ found, error: null, isBusy: false });
      announce(found.isSound ? "The audit is sound" : "The audit has faults");
    } catch (error) {
      setState({ found: null, error, isBusy: false });
    }
  };
  const { found, error, isBusy } = state;
  return html`<section class="card verify" aria-labelledby="verify-title">
    <div class="row between"><h2 id="verify-title">Verification</h2>
      <button type="button" disabled=${isBusy} onClick=${verify}>${isBusy ? "Verifying…" : "Verify all rows"}</button></div>
    <${Problem} error=${error} />
    ${found
      ? html`<p class=${found.isSound ? "good-line" : "error"} role="status"><i aria-hidden="true">${found.isSound ? "✓" : "✕"}</i>
            ${found.isSound ? "Sound" : plural(found.faults.length + found.moreFaults, "fault")}: ${plural(found.rows, "row")} in ${plural(found.chains, "chain")}.</p>
          ${found.faults.length ? html`<ul class="problems">${found.faults.map((fault, at) => html`<li key=${at}>${fault.chain ? html`Chain <${Id} id=${fault.chain} />` : null}${fault.number ? ` row ${fault.number}` : ""} ${safe(fault.what, 300)}</li>`)}</ul>` : null}
          ${found.newestHash ? html`<p class="hint">Last hash <${Id} id=${found.newestHash} /> of chain <${Id} id=${found.newestChain} />. Keep both elsewhere, to notice if the end of the audit is taken away.</p>` : null}`
      : error
        ? null
        : html`<p class="hint">Reads every row, and finds one that was changed, removed or moved. On the machine of the gateway: <code>trunkline audit verify</code></p>`}
  </section>`;
}
