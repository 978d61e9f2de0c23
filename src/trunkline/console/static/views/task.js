// One task: its timeline, every event of its journal, what was said and made, and a replay.
// `#/tasks/ID`, `?seq=12` leads to an event, `?tab=` to the other tabs.
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { A2AError, peerOf } from "../lib/a2a.js";
import { agentOf, freshAgent, handleOf, useAgents } from "../lib/agents.js";
import { ApiError, api, gateway, isOperator, me, request } from "../lib/api.js";
import { bytes, clock, count, duration, exact, isOver, isWaitingForPerson, line, plural, safe, shortId, stateName, stateWord } from "../lib/format.js";
import { Journal, Recording } from "../lib/journal.js";
import { hear } from "../lib/live.js";
import { useCalmly, useReread } from "../lib/reread.js";
import { filterBy, go, link } from "../lib/router.js";
import { useLoaded, useValue } from "../lib/state.js";
import { Badge, Dialog, Empty, Field, Id, Loading, Problem, State, Tabs, Time, download, notify, notifyError } from "../parts/basics.js";
import { Artifact, Message, Parts } from "../parts/content.js";
import { JsonView } from "../parts/json.js";
import { Waterfall, callTone, calleeOf } from "../parts/timeline.js";
import { VirtualList, useNarrow } from "../parts/vlist.js";
import { callerOf } from "./tasks.js";

const TABS = [["events", "Events"], ["content", "Messages and artifacts"], ["replay", "Replay"], ["json", "JSON"]];
const path = (id, rest = "") => `/tasks/${encodeURIComponent(id)}${rest}`;

export default function Task({ id, query }) {
  const details = useLoaded((signal) => api(path(id), { signal }), [id]);
  const timeline = useLoaded((signal) => api(path(id, "/timeline"), { signal }), [id]);
  const [news, setNews] = useState(null);
  const journal = useMemo(() => new Journal(id), [id]);
  useEffect(() => () => journal.stop(), [journal]);
  const changes = useValue(journal.changes);
  useAgents([details.data?.agent]);

  const detailsAgain = useCalmly(details.again, 1500);
  const timelineAgain = useCalmly(timeline.again, 2000);
  const again = () => {
    detailsAgain();
    timelineAgain();
  };
  const state = newest(details.data, news);
  const isDone = isOver(state);
  useReread(() => (isDone && details.data && !details.error ? undefined : again()));
  useEffect(
    () =>
      hear("task", (heard) => {
        if (heard.id !== id) return;
        setNews(heard);
        journal.grow(heard.lastSeq);
        again();
      }),
    [id],
  );
  const { data } = details;
  useEffect(() => {
    if (data) journal.grow(data.lastSeq, Math.max(0, data.firstSeq - 1));
  }, [data]);
  useEffect(() => {
    if (!state) return;
    document.title = document.title.replace(/^(\(\d+\) )?.*/, `$1${stateWord(state)}: task ${shortId(id)} · Trunkline`);
  }, [state, id]);

  if (!data) {
    return html`<div class="view">${details.error
      ? html`<h1>Task</h1><${Problem} error=${details.error} again=${details.again} /><p><a href=${link("tasks")}>All tasks</a></p>`
      : html`<${Loading} what="Reading the task" />`}</div>`;
  }
  const tab = TABS.some(([name]) => name === query.tab) ? query.tab : "events";
  const shown = { ...data, state };
  const lengthNote = `${plural(journal.length, "event")}${journal.prunedTo ? `, the first ${count(journal.prunedTo)} were pruned` : ""}`;
  return html`<div class="view task">
    <${Head} task=${shown} details=${details} calls=${timeline.data?.calls} onChange=${again} />
    <${Problem} error=${details.error} again=${details.again} />
    <${Problem} error=${timeline.error} again=${timeline.again} />
    ${timeline.data
      ? html`<${Waterfall} timeline=${timeline.data} task=${data} lastAt=${journal.bySeq(journal.lastSeq)?.at ?? news?.at} isOver=${isDone || isWaitingForPerson(state)}
          seqHref=${(seq) => link("tasks", id, { seq })} selectedAt=${journal.bySeq(Number(query.seq))?.at} />`
      : timeline.error ? null : html`<${Loading} what="Reading the timeline" />`}
    <${Calls} calls=${timeline.data?.calls ?? []} />
    <${Tabs} tabs=${TABS} current=${tab} label="Parts of the task" onChange=${(name) => filterBy({ tab: name === "events" ? "" : name })} />
    ${tab === "events" ? html`<${Events} journal=${journal} changes=${changes} query=${query} note=${lengthNote} isOver=${isDone} />` : null}
    ${tab === "content" ? html`<${Content} task=${data.task} largeTexts=${data.largeTexts} id=${id} isOver=${isDone} />` : null}
    ${tab === "replay" ? html`<${Replay} id=${id} journal=${journal} task=${data.task} turns=${timeline.data?.turns} query=${query} isOver=${isDone} />` : null}
    ${tab === "json" ? html`<${JsonView} value=${data.task} label="Task" />` : null}
  </div>`;
}

// The state that was heard last, unless what was read is newer.
function newest(data, news) {
  if (!data || !news) return data?.state ?? news?.state;
  return news.lastSeq > data.lastSeq ? news.state : data.state;
}

function Head({ task, details, onChange }) {
  const agent = agentOf(task.agent);
  const handle = handleOf(task.agent);
  const [owner, slug] = handle.split("/");
  const [cancel, setCancel] = useState(null);
  const [isRecording, setRecording] = useState(false);
  const isMine = task.principal === me.get()?.principal;
  const over = isOver(task.state);
  const features = useValue(gateway)?.features ?? {};
  // The answer to a cancel is honest: what was asked, and what the agent made of it.
  useEffect(() => {
    if (cancel?.tone !== "wait" || !over) return;
    setCancel(stateName(task.state) === "CANCELED"
      ? { tone: "good", text: "The agent has canceled the task." }
      : { tone: "bad", text: `The task ended before it was canceled: ${stateWord(task.state)}.` });
  }, [over, cancel?.tone]);
  const onCancel = async () => {
    setCancel({ tone: "wait", text: "Requested. The agent has not answered yet." });
    try {
      const after = await peerOf(await freshAgent(task.agent)).cancel(task.id);
      const state = after.status?.state;
      if (stateName(state) === "CANCELED") setCancel({ tone: "good", text: "The agent has canceled the task." });
      else if (isOver(state)) setCancel({ tone: "bad", text: `The task ended before it was canceled: ${stateWord(state)}.` });
      else setCancel({ tone: "wait", text: `Requested, and not confirmed yet: the task is ${stateWord(state)}.` });
    } catch (error) {
      const isRefused = error instanceof A2AError || (error instanceof ApiError && error.status >= 400 && error.status < 500);
      setCancel({ tone: "bad", text: `${isRefused ? "Refused" : "It is not known whether the request arrived"}: ${error.message}` });
    }
    onChange();
  };
  const save = (rest, name) => async () => {
    try {
      await saveAs(path(task.id, rest), name);
    } catch (error) {
      notifyError(error);
    }
  };
  return html`<header class="task-head">
    <nav aria-label="Place"><a href=${link("tasks")}>Tasks</a></nav>
    <div class="row"><h1>Task</h1><${Id} id=${task.id} whole /><${State} state=${task.state} />
      ${task.queuePosition ? html`<${Badge}>place ${task.queuePosition} in the queue<//>` : null}
      ${details.isLoading ? html`<span class="quiet" role="status">reading…</span>` : null}</div>
    <p class="row task-facts"><span>of <a href=${agent ? link("agents", owner, slug) : link("tasks", { agent: handle })}>${safe(handle, 200)}</a></span>
      <span>context <${Id} id=${task.contextId} href=${link("tasks", { context: task.contextId })} /></span>
      ${isOperator() ? html`<span>caller <span class="mono">${safe(callerOf(task), 300)}</span></span>` : null}
      <span>begun <${Time} at=${task.createdAt} /></span><span>changed <${Time} at=${task.statusAt} /></span></p>
    <div class="row">
      ${agent && task.principal === me.get().principal ? html`<a class="button" href=${link("chat", owner, slug, task.contextId)}>Chat on</a>` : null}
      ${isWaitingForPerson(task.state) ? html`<a class="button primary" href=${link("inbox", { task: task.id })}>Answer</a>` : null}
      ${over ? null : html`<button type="button" disabled=${!isMine || cancel?.tone === "wait"} onClick=${onCancel}
          title=${isMine ? "Ask the agent to cancel the task" : "Only its caller can cancel the task"}>Cancel the task</button>`}
      <button type="button" onClick=${save("/export", `task-${task.id}.json`)}>Download JSON</button>
      ${features.checks ? html`<button type="button" onClick=${save("/test", `test_${task.id}.py`)}>Save as pytest</button>` : null}
      ${features.recordings && isOperator() ? html`<button type="button" onClick=${() => setRecording(true)}>Make a mock agent</button>` : null}
      ${features.wire && isOperator() ? html`<a class="button" href=${link("inspector", { taskId: task.id })}>Wire frames</a>` : null}
    </div>
    ${cancel ? html`<p class=${`cancel-answer ${cancel.tone}`} role="status">Cancel: ${safe(cancel.text, 500)}</p>` : null}
    ${isRecording ? html`<${RecordDialog} id=${task.id} onClose=${() => setRecording(false)} />` : null}
  </header>`;
}

// A download of the gateway: by a request with the header of the page, because a plain link has none.
async function saveAs(address, name) {
  const response = await request(`/api/v1${address}`);
  if (!response.ok) throw new ApiError(response.status, (await response.json().catch(() => null))?.error?.message ?? `The gateway answered with status ${response.status}.`);
  download(name.replace(/[^\w.-]+/g, "_"), await response.blob());
}

function RecordDialog({ id, onClose }) {
  const [slug, setSlug] = useState("");
  const [error, setError] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    try {
      const { handle } = await api("/recordings", { method: "POST", body: { taskId: id, ...(slug ? { slug } : {}) } });
      notify(`Published ${handle}`, { tone: "good" });
      onClose();
      go("agents", ...handle.split("/"));
    } catch (refused) {
      setError(refused);
    }
  };
  return html`<${Dialog} title="Make a mock agent" onClose=${onClose}><form onSubmit=${submit}>
    <p>The mock agent answers every message with the recorded events of this task.</p>
    <${Field} label="Name" hint="Small letters, digits and hyphens. Without one, it is made of the id of the task."><input pattern="[a-z0-9][a-z0-9-]*" maxlength="40" value=${slug} onInput=${(event) => setSlug(event.target.value)} /><//>
    <${Problem} error=${error} /><footer class="row end"><button class="primary">Publish</button></footer></form><//>`;
}

function Calls({ calls }) {
  if (!calls.length) return null;
  return html`<details class="task-calls"><summary>${plural(calls.length, "call")} between agents</summary><ul class="bare">${calls.slice(0, 100).map(
    (call) => html`<li key=${call.id} class="row"><a href=${link("calls", call.id)}>${safe(handleOf(call.agent), 100)} → ${calleeOf(call)}</a>
      <${Badge} tone=${callTone(call.status)}>${call.status.replace("_", " ")}<//><span class="quiet">${duration(Date.parse(call.endedAt) - Date.parse(call.createdAt))}</span>
      ${call.taskId ? html`<${Id} id=${call.taskId} href=${link("tasks", call.taskId)} />` : null}</li>`,
  )}</ul></details>`;
}

// The events.

const KINDS = [["", "All events"], ["statusUpdate", "Status"], ["artifactUpdate", "Artifacts"], ["message", "Messages"], ["task", "Task"]];

function fits(item, kind, text) {
  if (kind === "message" ? !item.kind.startsWith("message.") : kind && item.name !== kind) return false;
  return !text || `${item.text}\n${item.kind}\n${item.artifactId ?? ""}\n${item.state ?? ""}\n${item.seq}`.toLowerCase().includes(text);
}

// The rows that fit, as sequences: they are looked for anew when a page is read, at most four times
// a second, and only behind those that were looked at before.
function useFiltered(journal, changes, kind, text) {
  const [result, setResult] = useState(null);
  const found = useRef(null);
  const look = () => {
    const at = found.current;
    if (!at) return;
    while (at.next <= journal.lastSeq) {
      const item = journal.bySeq(at.next);
      if (!item) break;
      if (fits(item, kind, text)) at.seqs.push(at.next);
      at.next++;
    }
    setResult({ seqs: at.seqs, length: at.seqs.length, looked: at.next - 1 - journal.prunedTo, at: (i) => journal.bySeq(at.seqs[i]) ?? { seq: at.seqs[i], isMissing: true } });
  };
  const lookAgain = useCalmly(look, 250);
  useEffect(() => {
    found.current = kind || text ? { next: journal.prunedTo + 1, seqs: [] } : null;
    setResult(null);
    if (!found.current) return undefined;
    look();
    const controller = new AbortController();
    journal.readAll(controller.signal);
    return () => controller.abort();
  }, [journal, kind, text, journal.lastSeq]);
  useEffect(lookAgain, [changes]);
  return kind || text ? (result ?? { seqs: [], length: 0, looked: 0, at: () => undefined }) : null;
}

function Events({ journal, changes, query, note, isOver: isDone }) {
  const isNarrow = useNarrow();
  const [text, setText] = useState(query.find ?? "");
  useEffect(() => {
    const timer = setTimeout(() => (query.find ?? "") !== text && filterBy({ find: text }), 250);
    return () => clearTimeout(timer);
  }, [text]);
  const filtered = useFiltered(journal, changes, query.kind ?? "", (query.find ?? "").trim().toLowerCase());
  const rows = filtered ?? journal;
  const seq = Number(query.seq) || 0;
  const select = (next) => filterBy({ seq: next ? String(next) : "" });

  // The address and the bars lead to an event: show its row once, when the list reaches to it.
  const [goTo, setGoTo] = useState(null);
  const wentTo = useRef(0);
  useEffect(() => {
    if (!seq || wentTo.current === seq || journal.lastSeq < seq) return;
    wentTo.current = seq;
    const index = filtered ? filtered.seqs.indexOf(seq) : seq - journal.prunedTo - 1;
    if (index >= 0) setGoTo({ index });
  }, [seq, journal.lastSeq, filtered]);
  const onNear = (first, last) => {
    if (!filtered) journal.want(journal.prunedTo + 1 + first, journal.prunedTo + last);
  };
  useEffect(() => {
    if (!filtered && journal.length) journal.want(Math.max(1, journal.lastSeq - 1), 0);
  }, []);
  const near = useRef([0, 0]);
  // The last page grows with the task.
  useEffect(() => {
    if (near.current[1]) onNear(...near.current);
  }, [journal.lastSeq, changes]);
  const jump = (event) => {
    event.preventDefault();
    const wanted = Math.round(Number(new FormData(event.target).get("seq")));
    if (wanted > journal.prunedTo && wanted <= journal.lastSeq) {
      wentTo.current = 0;
      select(wanted);
    } else notify(`There are the events ${journal.prunedTo + 1} to ${journal.lastSeq}.`);
  };
  return html`<section class="events" aria-label="Events">
    <div class="filters">
      <input type="search" data-filter aria-label="Search the previews of the events" placeholder="Search  /" value=${text} onInput=${(event) => setText(event.target.value)} />
      <select aria-label="Kind" value=${query.kind ?? ""} onChange=${(event) => filterBy({ kind: event.target.value })}>${KINDS.map(([value, title]) => html`<option key=${value} value=${value}>${title}</option>`)}</select>
      <form class="row" onSubmit=${jump}><input name="seq" class="jump" inputmode="numeric" aria-label="Sequence" placeholder="Sequence" /><button>Go to</button></form>
      <span class="quiet" role="status">${filtered ? `${plural(filtered.length, "event fits", "events fit")}; searched ${count(filtered.looked)} of ${count(journal.length)}${filtered.looked < journal.length && !journal.error ? "…" : ""}` : note}</span>
    </div>
    <${Problem} error=${journal.error} again=${() => journal.again()} />
    <div class=${`event-panes ${seq ? "with-detail" : ""}`}>
      ${rows.length
        ? html`<${VirtualList} label="Events" className="event-rows" rows=${rows} rowHeight=${isNarrow ? 52 : 34} goTo=${goTo} sticksToEnd=${!isDone && !seq}
            columns=${[{ title: "Seq" }, { title: "Time" }, { title: "Event" }, { title: "Preview" }, { title: "Size", className: "right" }]}
            rowKey=${(item) => item?.seq} selected=${seq} onSelect=${(item) => select(item.seq)}
            onNear=${(first, last) => {
              near.current = [first, last];
              onNear(first, last);
            }} row=${eventCells} />`
        : html`<${Empty} title=${filtered ? "No event fits" : "There are no events"}><p>${filtered ? (filtered.looked < journal.length ? "Still searching." : "Try other words; only the first 120 characters of each event are searched.") : "They come when the task goes on."}</p><//>`}
      ${seq ? html`<${EventDetail} key=${seq} id=${journal.id} seq=${seq} first=${journal.prunedTo + 1} last=${journal.lastSeq} onSelect=${(next) => {
          wentTo.current = 0;
          select(next);
        }} />` : null}
    </div>
  </section>`;
}

const NAMES = { statusUpdate: "status", artifactUpdate: "artifact", task: "task" };

function eventCells(item) {
  if (!item || item.isMissing) return html`<span role="gridcell" class="mono">${item?.seq}</span><span role="gridcell" class="quiet">…</span>`;
  const name = item.kind.startsWith("message.") ? "message" : item.kind.startsWith("retried.") ? "retried" : (NAMES[item.name] ?? item.name);
  return html`<span role="gridcell" class="mono c-seq">${item.seq}</span>
    <span role="gridcell" class="mono quiet c-at" title=${item.at ? exact(item.at) : "The time was not recorded"}>${item.at ? clock(item.at) : "–"}</span>
    <span role="gridcell" class="c-name">${item.state && name !== "artifact" ? html`<${State} state=${item.state} />` : html`<${Badge} tone=${name === "artifact" ? "good" : ""}>${name}<//>`}
      ${item.state && name !== "status" ? html` <${Badge}>${name}<//>` : null}</span>
    <span role="gridcell" class="c-preview" dir="auto">${line(item.text)}${item.artifactId ? html` <span class="quiet mono">${line(item.artifactId, 40)}</span>` : null}</span>
    <span role="gridcell" class="quiet right c-size">${bytes(item.size)}</span>`;
}

function EventDetail({ id, seq, first, last, onSelect }) {
  const { data, error, again } = useLoaded((signal) => api(path(id, `/events/${seq}`), { signal }), [id, seq]);
  const event = data?.event?.[data.name] ?? data?.event;
  const parts = event?.status?.message?.parts ?? event?.artifact?.parts;
  return html`<aside class="card event-detail" aria-label=${`Event ${seq}`}>
    <div class="row between"><h2>Event ${seq}</h2><span class="row">
      <button type="button" class="small" disabled=${seq <= first} aria-label="Previous event" onClick=${() => onSelect(seq - 1)}>↑</button>
      <button type="button" class="small" disabled=${seq >= last} aria-label="Next event" onClick=${() => onSelect(seq + 1)}>↓</button>
      <a class="button small" href=${link("tasks", id, { tab: "replay", seq })}>Replay from here</a>
      <button type="button" class="small plain" aria-label="Close the event" onClick=${() => onSelect(0)}>✕</button></span></div>
    <${Problem} error=${error} again=${again} />
    ${data
      ? html`<dl class="facts"><dt>Time</dt><dd>${data.at ? html`<span title=${exact(data.at)}>${clock(data.at)}</span> <span class="quiet">${exact(data.at)}</span>` : "not recorded"}</dd>
          <dt>Kind</dt><dd><code>${safe(data.kind, 60)}</code> ${data.state ? html`<${State} state=${data.state} />` : null}</dd>
          <dt>Size</dt><dd>${bytes(data.size)}</dd>${data.artifactId ? html`<dt>Artifact</dt><dd><${Id} id=${data.artifactId} /></dd>` : null}</dl>
          ${parts?.length ? html`<div class="said"><${Parts} parts=${parts} /></div>` : null}
          <${JsonView} value=${event} label="Event" />`
      : error ? null : html`<${Loading} what="Reading the event" />`}
  </aside>`;
}

// What was said and made.

const SHOWN_MESSAGES = 50;

function Content({ task, largeTexts = [], id, isOver: isDone }) {
  const [most, setMost] = useState(SHOWN_MESSAGES);
  const history = task.history ?? [];
  const artifacts = task.artifacts ?? [];
  if (!history.length && !artifacts.length && !task.status?.message) return html`<${Empty} title="Nothing was said yet" />`;
  const asked = task.status?.message;
  const isKept = asked && history.some((each) => each.messageId === asked.messageId);
  const left = Math.max(0, history.length - most);
  return html`<div class="stack content">
    ${largeTexts.length ? html`<p class="quiet">${plural(largeTexts.length, "text is", "texts are")} too long for this view: the first characters are shown. Download the JSON for all of them (${bytes(largeTexts.reduce((sum, each) => sum + each.size, 0))}).</p>` : null}
    ${left ? html`<button type="button" onClick=${() => setMost(most + 200)}>Show earlier messages (${count(left)} left)</button>` : null}
    ${history.slice(left).map((message) => html`<${Message} key=${message.messageId} message=${message} />`)}
    ${asked && !isKept ? html`<${Message} message=${asked} />` : null}
    ${artifacts.slice(0, 200).map((artifact) => html`<${Artifact} key=${artifact.artifactId} artifact=${artifact} isGrowing=${!isDone} />`)}
    ${artifacts.length > 200 ? html`<p class="quiet">${count(artifacts.length - 200)} more artifacts: see <a href=${link("tasks", id, { tab: "json" })}>the JSON</a>.</p>` : null}
  </div>`;
}

// The replay.

const PACES = [[1, "×1"], [10, "×10"], [100, "×100"]];
// A longer wait between two events is shortened to this time on the screen.
const LONGEST_WAIT_MS = 2000;
// Events that are read ahead of those shown.
const AHEAD = 400;

function Replay({ id, journal, task, turns, query, isOver: isDone }) {
  const asked = useRef({});
  asked.current = { turns, task };
  const recording = useMemo(() => new Recording(id, (seq) => {
    const { turns: known, task: whole } = asked.current;
    const turn = known?.find((each) => each.firstSeq === seq);
    return (whole.history ?? []).filter((each) => turn && each.messageId === turn.messageId && each.role === "ROLE_USER");
  }), [id, Boolean(turns)]);
  const first = journal.prunedTo + 1;
  const [seq, setSeq] = useState(Math.max(first, Number(query.seq) || first));
  const [isPlaying, setPlaying] = useState(false);
  const [pace, setPace] = useState(1);
  const [wait, setWait] = useState("");
  const [read, setRead] = useState(0);
  const [error, setError] = useState(null);
  const last = journal.lastSeq;

  // Read as far as is needed, slice by slice; a slider that is moved on stops what is not needed.
  const wanted = Math.min(last, seq + (isPlaying ? AHEAD : 1));
  const reading = useRef(null);
  useEffect(() => () => reading.current?.abort(), [recording]);
  const readTo = useRef(0);
  readTo.current = wanted;
  useEffect(() => {
    if (error || reading.current || recording.seq >= wanted || !turns) return;
    const controller = new AbortController();
    reading.current = controller;
    (async () => {
      try {
        while (recording.seq < readTo.current && !controller.signal.aborted) {
          if (!(await recording.read(controller.signal))) break;
          setRead(recording.seq);
        }
      } catch (refused) {
        if (!controller.signal.aborted) setError(refused);
      } finally {
        if (reading.current === controller) reading.current = null;
      }
    })();
  }, [recording, wanted, error, turns, read]);

  // Playing: the recorded time goes on by the pace, and shows the events up to it.
  const at = useRef({});
  at.current = { seq, last, isDone };
  useEffect(() => {
    if (!isPlaying) return undefined;
    let frame = 0;
    let before = performance.now();
    let waited = 0;
    const tick = (now) => {
      frame = requestAnimationFrame(tick);
      waited += Math.min(now - before, 250);
      before = now;
      let next = at.current.seq;
      while (next < recording.seq) {
        const pause = Math.min(LONGEST_WAIT_MS, (recording.timeOf(next + 1) - recording.timeOf(next)) / pace || 0);
        if (pause > waited) break;
        waited -= pause;
        next += 1;
      }
      const gap = next < recording.seq ? recording.timeOf(next + 1) - recording.timeOf(next) : 0;
      setWait(gap / pace > LONGEST_WAIT_MS ? `${duration(gap)} without an event, shortened` : next >= at.current.last && !at.current.isDone ? "Waiting for the task to go on" : "");
      if (next >= recording.seq) waited = 0;
      if (next !== at.current.seq) {
        at.current.seq = next;
        setSeq(next);
      } else if (next >= at.current.last && at.current.isDone) setPlaying(false);
    };
    frame = requestAnimationFrame(tick);
    return () => cancelAnimationFrame(frame);
  }, [isPlaying, pace, recording]);
  useEffect(() => {
    if (!isPlaying) setWait("");
    const timer = setTimeout(() => !isPlaying && filterBy({ seq: String(seq) }), 300);
    return () => clearTimeout(timer);
  }, [seq, isPlaying]);

  const step = (to) => {
    setPlaying(false);
    setSeq(Math.max(first, Math.min(last, to)));
  };
  const play = () => {
    if (!isPlaying && seq >= last && isDone) setSeq(first);
    setPlaying(!isPlaying);
  };
  const isRead = recording.seq >= seq;
  const shown = isRead && recording.seq ? seq : recording.seq;
  const state = useMemo(() => (shown ? recording.taskAt(shown) : null), [shown, recording]);
  const event = recording.lineOf(shown);
  return html`<section class="replay" aria-label="Replay">
    <div class="row controls">
      <button type="button" class="primary" data-play onClick=${play}>${isPlaying ? "❚❚ Pause" : "▶ Play"}</button>
      <button type="button" aria-label="Step back" disabled=${seq <= first} onClick=${() => step(seq - 1)}>◂</button>
      <button type="button" aria-label="Step forward" disabled=${seq >= last} onClick=${() => step(seq + 1)}>▸</button>
      <div class="row" role="group" aria-label="Pace">${PACES.map(([value, title]) => html`<button key=${value} type="button" class="small" aria-pressed=${String(value === pace)} onClick=${() => setPace(value)}>${title}</button>`)}</div>
      <input type="range" class="grow" aria-label="Sequence" aria-valuetext=${`event ${seq} of ${last}`} min=${first} max=${last} value=${seq} onInput=${(e) => step(Number(e.target.value))} />
      <output>${count(seq)} of ${count(last)}</output>
    </div>
    <${Problem} error=${error} again=${() => setError(null)} />
    <p class="row replay-now"><span class="quiet" role="status">${isRead ? wait : `Reading events: ${count(recording.seq)} of ${count(seq)}…`}</span></p>
    ${event
      ? html`<p class="row replay-event"><span class="mono">#${event.seq}</span><span class="mono quiet">${event.at ? clock(event.at) : ""}</span><${Badge}>${NAMES[event.name] ?? event.name}<//><span class="grow" dir="auto">${line(event.text, 120)}</span>
          <a href=${link("tasks", id, { seq: event.seq })}>Event</a></p>`
      : null}
    ${recording.first > 1 ? html`<p class="quiet">The first ${count(recording.first - 1)} events were pruned, so the task begins in the middle here.</p>` : null}
    ${state ? html`<${Folded} task=${state} isGrowing=${isPlaying} />` : error ? null : html`<${Loading} what="Reading events" />`}
  </section>`;
}

function Folded({ task, isGrowing }) {
  const [isRaw, setRaw] = useState(false);
  return html`<div class="stack folded card" data-state=${stateName(task.status?.state)}>
    <div class="row between"><span class="row"><${State} state=${task.status?.state} />${task.status?.timestamp ? html`<span class="quiet mono">${clock(task.status.timestamp)}</span>` : null}
      <span class="quiet">${plural(task.history.length, "message")}, ${plural(task.artifacts.length, "artifact")}</span></span>
      <button type="button" class="small" aria-pressed=${String(isRaw)} onClick=${() => setRaw(!isRaw)}>JSON</button></div>
    ${isRaw
      ? html`<${JsonView} value=${task} label="Task at this event" />`
      : html`${task.history.slice(-SHOWN_MESSAGES).map((message) => html`<${Message} key=${message.messageId} message=${message} />`)}
          ${task.status?.message && !task.history.some((each) => each.messageId === task.status.message.messageId) ? html`<${Message} message=${task.status.message} />` : null}
          ${task.artifacts.slice(-100).map((artifact) => html`<${Artifact} key=${artifact.artifactId} artifact=${artifact} isGrowing=${isGrowing} />`)}`}
  </div>`;
}
