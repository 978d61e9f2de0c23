// The tasks that wait for a person, the longest waiting first, answered in place. `#/inbox`
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { peerOf } from "../lib/a2a.js";
import { agentOf, freshAgent, handleOf, useAgents } from "../lib/agents.js";
import { api, everyItem, isOperator, me } from "../lib/api.js";
import { count, line, plural, safe, stateName } from "../lib/format.js";
import { hear } from "../lib/live.js";
import { useCalmly, useReread } from "../lib/reread.js";
import { filterBy, link } from "../lib/router.js";
import { remember, remembered, useLoaded } from "../lib/state.js";
import { ensureStyle } from "../lib/style.js";
import { WAITING_STATES } from "../lib/waiting.js";
import { Empty, Id, Loading, Problem, State, Time, announce, notify } from "../parts/basics.js";
import { Parts } from "../parts/content.js";
import { callerOf } from "./tasks.js";

const MOST = 2000;
const SHOWN = 20;

export default function Inbox({ query }) {
  const [isReady, setReady] = useState(false);
  useEffect(() => {
    ensureStyle("tasks").then(() => setReady(true));
  }, []);
  return isReady ? html`<${Waiting} query=${query} />` : html`<${Loading} />`;
}

function Waiting({ query }) {
  const operator = isOperator();
  const isAll = operator && query.who === "all";
  const principal = isAll ? "" : me.get()?.principal;
  const { data, error, again } = useLoaded(
    (signal) => everyItem("/tasks", { state: WAITING_STATES, principal, pageSize: 200 }, { limit: MOST, signal }),
    [principal],
  );
  const soon = useCalmly(again, 1000);
  useReread(soon);
  // Those that were answered here stay until they are seen to go on.
  const [answered, setAnswered] = useState(() => new Map());
  useEffect(() => hear("task", soon), []);
  useAgents((data ?? []).map(({ agent }) => agent));
  const [most, setMost] = useState(SHOWN);
  const [text, setText] = useState("");
  const wanted = text.trim().toLowerCase();
  const waits = (data ?? [])
    .filter((task) => answered.get(task.id) !== task.statusAt)
    .filter((task) => !wanted || `${task.text}\n${task.id}\n${handleOf(task.agent)}\n${task.principal}`.toLowerCase().includes(wanted))
    .sort((a, b) => (b.id === query.task) - (a.id === query.task) || Date.parse(a.statusAt) - Date.parse(b.statusAt));
  return html`<div class="view">
    <div class="view-head"><h1>Waiting for you</h1>
      ${operator ? html`<label class="switch"><input type="checkbox" role="switch" checked=${isAll} onChange=${(event) => filterBy({ who: event.target.checked ? "all" : "" })} /><i aria-hidden="true"></i><span>Of all callers</span></label>` : null}
      <input type="search" data-filter aria-label="Filter the waiting tasks" placeholder="Filter  /" value=${text} onInput=${(event) => setText(event.target.value)} /></div>
    <${Problem} error=${error} again=${again} />
    ${data ? html`<p class="quiet" role="status">${waits.length ? `${plural(waits.length, "task waits", "tasks wait")}, the longest waiting first` : ""}</p>` : null}
    ${waits.length
      ? html`<div class="waiting-list">${waits.slice(0, most).map(
          (task) => html`<${Card} key=${task.id} task=${task} isFirst=${task.id === query.task} onAnswered=${() => {
            setAnswered((before) => new Map(before).set(task.id, task.statusAt));
            soon();
          }} />`,
        )}</div>`
      : !data
        ? error ? null : html`<${Loading} what="Reading tasks" />`
        : wanted
          ? html`<${Empty} title="No waiting task fits"><p>Try other words.</p><//>`
          : html`<${Empty} title="No task waits for an answer"><p>A task comes here when its agent asks a question or for a sign-in. <a href=${link("tasks")}>All tasks</a></p><//>`}
    ${waits.length > most ? html`<p class="row end"><button type="button" onClick=${() => setMost(most + 50)}>Show more (${count(waits.length - most)} left)</button></p>` : null}
  </div>`;
}

function Card({ task, isFirst, onAnswered }) {
  const details = useLoaded((signal) => api(`/tasks/${encodeURIComponent(task.id)}`, { signal }), [task.id, task.statusAt]);
  const draftName = `answer.${task.id}`;
  const [text, setText] = useState(remembered(draftName, ""));
  const [error, setError] = useState(null);
  const [isSending, setSending] = useState(false);
  // The key of the answer: sending it again after a lost connection does not answer twice.
  const attempt = useRef({ text: "", key: "" });
  const field = useRef(null);
  useEffect(() => {
    if (isFirst) field.current?.focus();
  }, []);
  const handle = handleOf(task.agent);
  const [owner, slug] = handle.split("/");
  const isMine = task.principal === me.get()?.principal;
  const isAuth = stateName(task.state) === "AUTH_REQUIRED";
  const parts = details.data?.task?.status?.message?.parts;
  const change = (value) => {
    setText(value);
    remember(draftName, value || undefined);
  };
  const send = async (event) => {
    event.preventDefault();
    if (!text.trim() || isSending) return;
    setSending(true);
    setError(null);
    if (attempt.current.text !== text) attempt.current = { text, key: crypto.randomUUID() };
    const { key } = attempt.current;
    try {
      const message = { messageId: key, role: "ROLE_USER", taskId: task.id, contextId: task.contextId, parts: [{ text }] };
      await peerOf(await freshAgent(task.agent)).send({ message, configuration: { returnImmediately: true } }, { key });
      change("");
      announce("Answer sent");
      notify(`Sent to ${line(handle, 80)}`, { tone: "good" });
      onAnswered();
    } catch (refused) {
      setError(refused);
    }
    setSending(false);
  };
  const keys = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send(event);
  };
  return html`<article class="card waiting-card" data-task=${task.id}>
    <div class="row between"><h2><a href=${link("tasks", task.id)}>${safe(agentOf(task.agent)?.name ?? handle, 100)}</a></h2>
      <span class="row"><${State} state=${task.state} /><span class="quiet">since <${Time} at=${task.statusAt} /></span></span></div>
    <div class="question" dir="auto">${parts?.length ? html`<${Parts} parts=${parts} />` : line(task.text) || html`<span class="quiet">The agent asks without a text.</span>`}</div>
    <${Problem} error=${details.error} again=${details.again} />
    ${isMine
      ? html`<form onSubmit=${send} class="stack">
          ${isAuth ? html`<p class="quiet">Sign in where the agent says, then answer here, so that it goes on.</p>` : null}
          <textarea ref=${field} aria-label=${`Answer to ${safe(handle, 100)}`} placeholder="Your answer" rows="2" value=${text} onInput=${(event) => change(event.target.value)} onKeyDown=${keys}></textarea>
          <${Problem} error=${error} />
          <div class="row between"><span class="row quiet"><${Id} id=${task.id} href=${link("tasks", task.id)} /></span>
            <span class="row">${agentOf(task.agent) ? html`<a class="button" href=${link("chat", owner, slug, task.contextId)}>Open the chat</a>` : null}
              <button class="primary" disabled=${isSending || !text.trim()}>${isSending ? "Sending…" : "Answer"}</button></span></div>
        </form>`
      : html`<p class="quiet">Only its caller, <span class="mono">${safe(callerOf(task), 200)}</span>, can answer. <${Id} id=${task.id} href=${link("tasks", task.id)} /></p>`}
  </article>`;
}
