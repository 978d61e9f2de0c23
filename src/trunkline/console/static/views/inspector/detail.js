// `Detail`: one exchange with all that was kept of it. `#/inspector/ID`
import { html, useEffect, useMemo, useRef, useState } from "../../lib/html.js";
import { api, isOperator, request } from "../../lib/api.js";
import { bytes, clock, duration, exact, fileName, line, plural, safe } from "../../lib/format.js";
import { filterBy, link } from "../../lib/router.js";
import { asCurl, asPython } from "../../lib/snippets.js";
import { useValue } from "../../lib/state.js";
import { Badge, CopyButton, Id, Loading, notify, notifyError, Problem, Tabs, download } from "../../parts/basics.js";
import { VirtualList } from "../../parts/vlist.js";
import { Wires } from "./wires.js";
import { allFindings, check, cliOf, composed, isStream, json, payload, search, sorted, spoken } from "./exchange.js";
import { Findings } from "./findings.js";
import { pin, pins } from "./log.js";
import { Body, Command, Headers, nameOf, Side, Spoken, Status } from "./parts.js";
import { Resend } from "./resend.js";

const AGAIN_MS = 400;

// The record of an id; one that goes on is read again when the gateway tells of it.
export function useRecord(log, id) {
  const [state, setState] = useState({ record: null, error: null });
  const row = log.find(id);
  const changes = useValue(log.changes);
  const round = row?.round ?? 0;
  const timer = useRef(0);
  const shown = useRef("");
  const read = () => {
    timer.current = 0;
    log.record(id).then(
      (record) => shown.current === id && setState({ record, error: null }),
      (error) => shown.current === id && setState((before) => ({ ...before, error })),
    );
  };
  useEffect(() => {
    shown.current = id;
    setState({ record: null, error: null });
    read();
    return () => {
      shown.current = "";
      clearTimeout(timer.current);
      timer.current = 0;
    };
  }, [log, id]);
  const isOpen = state.record?.ms === null;
  useEffect(() => {
    if (isOpen && !timer.current) timer.current = setTimeout(read, AGAIN_MS);
  }, [round, isOpen]);
  // A stream that is open tells of no frames, so look at it again now and then.
  useEffect(() => {
    if (!isOpen || !log.isLive) return undefined;
    const again = setInterval(read, 1000);
    return () => clearInterval(again);
  }, [isOpen, id]);
  return { ...state, again: read, changes };
}

// The gateway judges what it records, as often as it is read; a file may have no findings.
export function useFindings(record) {
  const [state, setState] = useState({ found: null, error: null, isAsked: false });
  const own = useMemo(() => (record?.findings ? sorted(record) : null), [record]);
  const ask = () => {
    setState({ found: null, error: null, isAsked: true });
    check(record).then(
      (found) => setState({ found, error: null, isAsked: true }),
      (error) => setState({ found: null, error, isAsked: true }),
    );
  };
  return { ...state, found: own ?? state.found, ask };
}

export function Detail({ log, id, query, around }) {
  const { record, error, again } = useRecord(log, id);
  const findings = useFindings(record);
  const isPinned = useValue(pins).has(id);
  if (!record) {
    return html`<div class="view"><p><a href=${log.back(query)}>← All exchanges</a></p>
      ${error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`}</div>`;
  }
  const tab = query.tab || "exchange";
  const family = familyOf(log, record);
  const count = findings.found ? allFindings(findings.found).filter(({ severity }) => severity !== "note").length : 0;
  const tabs = [
    ["exchange", "Request and response"],
    ...(family ? [["wires", "Both wires"]] : []),
    ["checks", findings.found?.isChecked ? (count ? `Checks: ${count} ✕` : "Checks: ok ✓") : "Checks"],
    ["commands", "As a command"],
    ...(log.isLive && record.side === "server" && record.binding !== "websocket" ? [["resend", "Resend"]] : []),
  ];
  const { operation } = spoken(record);
  return html`<div class="view detail">
    <div class="row between"><a href=${log.back(query)}>← All exchanges</a>
      <span class="row">${around.before ? html`<a class="button small" href=${log.href(around.before, query)}>Previous</a>` : null}
        ${around.after ? html`<a class="button small" href=${log.href(around.after, query)}>Next</a>` : null}</span></div>
    <div class="view-head"><h1><${Side} side=${record.side} /> ${line(operation, 80) || nameOf(record)}</h1>
      <${CopyButton} label="Copy as curl" text=${() => asCurl(composed(record).request)} />
      <button type="button" class="small" aria-pressed=${String(isPinned)} onClick=${() => pin(id, !isPinned)}>${isPinned ? "Pinned" : "Pin"}</button>
      <${CopyButton} label="Copy link" text=${() => new URL(log.href(id, {}), location.href).href} /></div>
    <${Facts} log=${log} record=${record} />
    ${record.error ? html`<p class="problem">${safe(record.error, 1000)}</p>` : null}
    ${record.fault ? html`<p class="notice ask"><strong>Fault:</strong> ${safe(record.fault, 500)}</p>` : null}
    ${record.truncated
      ? html`<p class="notice ask">Not everything was kept: the log keeps the first 256 KB of a body and of an event. The sizes are those of the whole.</p>`
      : null}
    <${Tabs} label="Parts of the exchange" tabs=${tabs} current=${tabs.some(([name]) => name === tab) ? tab : "exchange"} onChange=${(name) => filterBy({ tab: name === "exchange" ? "" : name })} />
    ${tab === "wires" && family
      ? html`<${Wires} log=${log} family=${family} />`
      : tab === "checks"
        ? html`<${Checks} record=${record} findings=${findings} />`
        : tab === "commands"
          ? html`<${Commands} record=${record} />`
          : tab === "resend" && log.isLive && record.side === "server"
            ? html`<${Resend} key=${record.id} record=${record} />`
            : html`<${Exchange} record=${record} />`}
  </div>`;
}

// The exchange with the gateway and those with backends that belong to it.
function familyOf(log, record) {
  const server = record.side === "server" ? record : log.find(record.parent);
  if (!server) return null;
  const children = log.childrenOf(server.id);
  return children.length ? { server: server.id, children: children.map(({ id }) => id) } : null;
}

function Facts({ log, record }) {
  const filter = (term) => log.back({ q: term });
  return html`<dl class="facts strip">
    <div><dt>Status</dt><dd><${Status} row=${record} /></dd></div>
    <div><dt>Agent</dt><dd>${record.agent ? html`<a href=${log.isLive ? link("agents", ...record.agent.split("/")) : filter(`agent:${record.agent}`)}>${line(record.agent, 100)}</a>` : "–"}</dd></div>
    <div><dt>Protocol</dt><dd><${Spoken} record=${record} /></dd></div>
    <div><dt>At</dt><dd><time datetime=${record.at} title=${exact(record.at)}>${clock(record.at)}</time></dd></div>
    <div><dt>Duration</dt><dd>${record.ms === null ? html`<${Badge} tone="accent">open<//>` : duration(record.ms)}</dd></div>
    <div><dt>Sent, received</dt><dd>${bytes(record.requestBytes)}, ${bytes(record.responseBytes)}</dd></div>
    ${record.events ? html`<div><dt>Events</dt><dd>${record.events}</dd></div>` : null}
    <div><dt>Exchange</dt><dd><${Id} id=${record.id} /></dd></div>
    ${record.taskId ? html`<div><dt>Task</dt><dd><${Id} id=${record.taskId} href=${log.isLive ? link("tasks", record.taskId) : filter(`task:${record.taskId}`)} />
      <a href=${log.back({ q: `task:${record.taskId}`, view: "waterfall" })}>waterfall</a></dd></div>` : null}
    ${record.contextId ? html`<div><dt>Context</dt><dd><${Id} id=${record.contextId} href=${filter(`context:${record.contextId}`)} /></dd></div>` : null}
    ${record.principal ? html`<div><dt>Caller</dt><dd>${line(record.principal, 100)}</dd></div>` : null}
    <div><dt>Peer</dt><dd>${line(record.peer, 100) || "–"}</dd></div>
    ${record.parent ? html`<div><dt>Parent</dt><dd><${Id} id=${record.parent} href=${log.href(record.parent, {})} /></dd></div>` : null}
    ${log.isLive && isOperator() && record.taskId && record.side === "server" ? html`<div><dt>Keep</dt><dd><${Keep} taskId=${record.taskId} /></dd></div>` : null}
  </dl>`;
}

// A recorded task as an agent that replays it, or as a test.
export function Keep({ taskId }) {
  const [isBusy, setBusy] = useState(false);
  const [made, setMade] = useState(null);
  const busy = (work) => async () => {
    setBusy(true);
    try {
      await work();
    } catch (error) {
      notifyError(error);
    }
    setBusy(false);
  };
  const asAgent = busy(async () => {
    const recording = await api("/recordings", { method: "POST", body: { taskId } });
    setMade(recording);
    notify(`Published as ${recording.handle}`, { tone: "good" });
  });
  const asTest = busy(async () => {
    const response = await request(`/api/v1/tasks/${encodeURIComponent(taskId)}/test`);
    if (!response.ok) throw new Error((await response.json().catch(() => null))?.error?.message ?? `The gateway answered with status ${response.status}.`);
    const name = /filename="([^"]+)"/.exec(response.headers.get("content-disposition") ?? "")?.[1];
    download(fileName(name, "test_task.py"), await response.blob(), "text/x-python");
  });
  return html`<span class="row">
    ${made
      ? html`<a href=${link("agents", ...made.handle.split("/"))}>${safe(made.handle, 100)}</a>`
      : html`<button type="button" class="small" disabled=${isBusy} onClick=${asAgent} title="Publish an agent that answers as this task did">As a mock agent</button>`}
    <button type="button" class="small" disabled=${isBusy} onClick=${asTest} title="Download a pytest file that sends the same and compares the answer">As a pytest</button>
  </span>`;
}

function Exchange({ record }) {
  const [find, setFind] = useState("");
  const [frame, setFrame] = useState(null);
  const hits = useMemo(() => (find.length > 1 ? search(record, find) : []), [record, find]);
  return html`<div class="exchange">
    <div class="row finder"><input type="search" data-filter aria-label="Search this exchange" placeholder="Search this exchange  /" value=${find}
        onInput=${(event) => setFind(event.target.value)} />
      ${find.length > 1 ? html`<span class="quiet" role="status">${hits.length >= 200 ? "more than 200 places" : plural(hits.length, "place")}</span>` : null}</div>
    ${hits.length
      ? html`<ul class="hits" aria-label="Places">${hits.slice(0, 50).map(
          (hit, i) => html`<li key=${i}><button type="button" class="plain small" onClick=${() => hit.frame !== undefined && setFrame(hit.frame)}>
            <${Badge}>${hit.part}<//> <code>${safe(hit.path, 200)}</code> <${Marked} text=${hit.text} find=${find} /></button></li>`,
        )}</ul>`
      : null}
    <div class="split">
      <section class="card" aria-label="Request"><h2>Request</h2>
        <p class="mono first-line">${safe(record.httpMethod, 20)} ${safe(record.url, 2000)}</p>
        <details open><summary>Headers (${record.requestHeaders.length})</summary><${Headers} headers=${record.requestHeaders} label="Request headers" /></details>
        <${Body} body=${record.requestBody} find=${find} label="Request body" truncated=${record.truncated} />
      </section>
      <section class="card" aria-label="Response"><h2>Response</h2>
        <p class="mono first-line"><${Status} row=${record} /></p>
        <details open=${!isStream(record)}><summary>Headers (${record.responseHeaders.length})</summary><${Headers} headers=${record.responseHeaders} label="Response headers" /></details>
        ${record.frames.length
          ? html`<${Frames} record=${record} find=${find} chosen=${frame} onChoose=${setFrame} />`
          : html`<${Body} body=${record.responseBody} find=${find} label="Response body" truncated=${record.truncated} />`}
      </section>
    </div>
  </div>`;
}

function Marked({ text, find }) {
  const at = text.toLowerCase().indexOf(find.toLowerCase());
  const from = Math.max(0, at - 30);
  return html`<span dir="auto">${from ? "…" : ""}${safe(text.slice(from, at), 40)}<mark>${safe(text.slice(at, at + find.length), 100)}</mark>${safe(text.slice(at + find.length, at + find.length + 60), 60)}</span>`;
}

// The events of a stream, or the messages of a socket, with their times.
export function Frames({ record, find = "", chosen, onChoose }) {
  const { frames } = record;
  const wanted = find.length > 1 ? find.toLowerCase() : "";
  const shown = useMemo(
    () => frames.map((frame, place) => ({ frame, place })).filter(({ frame }) => !wanted || frame.data.toLowerCase().includes(wanted)),
    [frames, frames.length, wanted],
  );
  const current = chosen !== null && chosen !== undefined ? frames[chosen] : null;
  const row = ({ frame, place }) => {
    const before = frames[place - 1];
    return html`<span role="gridcell" class="right mono">${place < record.framesBeforeGap || !record.framesLeftOut ? place + 1 : place + 1 + record.framesLeftOut}</span>
      <span role="gridcell" class="right mono" title=${before ? `${duration(frame.ms - before.ms)} after the one before` : ""}>+${duration(frame.ms)}</span>
      <span role="gridcell">${frame.direction === "in" ? "↓ in" : "↑ out"}</span>
      <span role="gridcell" class="what">${frame.isInjected ? html`<${Badge} tone="ask">fault<//> ` : null}${line(summaryOf(frame), 120)}</span>
      <span role="gridcell" class="right mono">${bytes(frame.size)}</span>`;
  };
  return html`<div class="frames">
    <div class="row between"><h3>${record.binding === "websocket" ? "Messages" : "Events"} (${record.events})</h3>
      <${CopyButton} label="Copy raw" text=${() => frames.map(({ data }) => data).join("")} /></div>
    ${record.framesLeftOut
      ? html`<p class="notice ask">${plural(record.framesLeftOut, "event")} behind number ${record.framesBeforeGap} ${record.framesLeftOut === 1 ? "was" : "were"} not kept: the log keeps the first and the last 200.</p>`
      : null}
    <${VirtualList} label="Events" className="frame-list" rows=${shown} rowHeight=${30} row=${row} rowKey=${({ place }) => place} selected=${chosen}
      onSelect=${({ place }) => onChoose(place === chosen ? null : place)}
      columns=${[{ title: "#", className: "right" }, { title: "Time", className: "right" }, { title: "" }, { title: "Event" }, { title: "Size", className: "right" }]} />
    ${current
      ? html`<div class="frame-detail"><p class="row">${current.eventId ? html`<${Badge}>id ${safe(current.eventId, 60)}<//>` : null}
            ${current.event ? html`<${Badge}>event ${safe(current.event, 60)}<//>` : null}
            <span class="hint">at +${duration(current.ms)}, ${bytes(current.size)}</span></p>
          <${Body} key=${chosen} value=${payload(current) || current.data} find=${find} label=${`Event ${chosen + 1}`} /></div>`
      : shown.length
        ? html`<p class="hint">Choose an event to see it.</p>`
        : html`<p class="hint">No event contains this text.</p>`}
  </div>`;
}

// A line about an event: its kind and state, or its text.
export function summaryOf(frame) {
  const value = json(payload(frame));
  if (value === undefined || value === null || typeof value !== "object") return payload(frame) || frame.data;
  const result = value.result ?? value;
  if (value.error) return `error ${value.error.code ?? ""} ${value.error.message ?? ""}`;
  const update = result.statusUpdate ?? result.artifactUpdate ?? result.task ?? result.message ?? result;
  const kind = result.kind ?? Object.keys(result).find((name) => ["statusUpdate", "artifactUpdate", "task", "message"].includes(name)) ?? "";
  const parts = update?.artifact?.parts ?? update?.status?.message?.parts ?? update?.parts ?? [];
  const text = Array.isArray(parts) ? parts.map((part) => part?.text ?? "").join("") : "";
  return [kind, update?.status?.state, text && JSON.stringify(text)].filter(Boolean).join(" ") || payload(frame);
}

function Checks({ record, findings }) {
  const [frame, setFrame] = useState(null);
  const { found, error, ask, isAsked } = findings;
  if (error) return html`<${Problem} error=${error} again=${ask} />`;
  if (!found) {
    return isAsked
      ? html`<${Loading} what="Checking" />`
      : html`<p>The file has no findings. This gateway can check its messages; that sends them to it.</p><button type="button" onClick=${ask}>Check with this gateway</button>`;
  }
  if (!found.isChecked) {
    return html`<p class="quiet">This is not an A2A request, so there are no rules to check.</p>`;
  }
  const pointed = (pointer) => {
    const number = /^\/?(\d+)/.exec(pointer)?.[1];
    if (number !== undefined && record.frames[number]) setFrame(Number(number));
  };
  return html`<div class="stack">
    <section class="card"><h2>Request</h2><${Findings} findings=${found.request} /></section>
    ${isStream(record)
      ? html`<section class="card"><h2>Events and their order ${record.ms === null ? html`<${Badge} tone="accent">checked as they come<//>` : null}</h2>
          <${Findings} findings=${found.order} onPoint=${pointed} none=${record.frames.length ? "Each event and their order follow the rules." : "No event has come."} />
          ${record.framesLeftOut ? html`<p class="quiet">Only the events before the gap are checked.</p>` : null}
          <${Frames} record=${record} chosen=${frame} onChoose=${setFrame} /></section>`
      : html`<section class="card"><h2>Response</h2><${Findings} findings=${found.response} /></section>`}
  </div>`;
}

function Commands({ record }) {
  const { request: sent, masked } = composed(record);
  const isBinary = record.requestBody.base64 !== undefined;
  if (isBinary || record.binding === "websocket") {
    return html`<p class="quiet">${isBinary ? "The body is not text, so there is no command for it." : "A WebSocket carries many messages, so there is no command for it."}</p>`;
  }
  return html`<div class="stack">
    ${record.truncated ? html`<p class="notice ask">The body was not kept whole, so these send less than was sent.</p>` : null}
    ${masked.length ? html`<p class="notice ask">Secrets were not recorded. Put yours in place of: ${masked.map((each) => safe(each, 100)).join(", ")}.</p>` : null}
    <${Command} title="curl" text=${asCurl(sent)} />
    <${Command} title="CLI" text=${cliOf(record)} note="The command line has no command for this request." />
    <${Command} title="Python" text=${asPython(sent)} />
  </div>`;
}
