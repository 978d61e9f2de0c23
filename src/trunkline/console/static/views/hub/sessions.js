// Conversations of callers with agents. `#/hub/sessions`, and the transcript of one.
import { html, useState } from "../../lib/html.js";
import { api, isOperator } from "../../lib/api.js";
import { count, plural, safe } from "../../lib/format.js";
import { filterBy, go, link } from "../../lib/router.js";
import { useLoaded } from "../../lib/state.js";
import { CopyButton, Empty, Id, Loading, Problem, Time, announce, confirm, notify, notifyError } from "../../parts/basics.js";
import { JsonTree } from "../../parts/json.js";
import { Markdown } from "../../parts/markdown.js";
import { Table, usePages } from "./table.js";

const MESSAGES = 100;

export default function Sessions({ path, query }) {
  return path[1] ? html`<${Transcript} key=${path[1]} id=${path[1]} query=${query} />` : html`<${List} query=${query} />`;
}

// The answer to a session is found by its key, and by these where several have it.
const named = ({ agent, principal, tenant }) => ({ agent, principal, tenant });

function List({ query }) {
  const pages = usePages();
  const { data, error, again } = useLoaded(
    (signal) => api("/sessions", { query: { agent: query.agent, principal: query.principal, tenant: query.tenant, pageSize: 50, pageToken: pages.token }, signal }),
    [query.agent, query.principal, query.tenant, pages.token],
  );
  const filter = (name, label, placeholder) => html`<input type="search" aria-label=${label} placeholder=${placeholder} value=${query[name] ?? ""}
    data-filter=${name === "agent" ? "" : undefined} onChange=${(event) => {
      filterBy({ [name]: event.target.value.trim() });
      pages.reset();
    }} />`;
  return html`<div>
    <div class="view-head"><h1>Sessions</h1>
      ${filter("agent", "Only this agent", "Agent  /")}${isOperator() ? filter("principal", "Only this principal", "Principal") : null}</div>
    <${Problem} error=${error} again=${again} />
    ${data ? (data.items.length ? html`<${Rows} sessions=${data.items} again=${again} />` : html`<${Empty} title="No session is open">
      <p>A session begins when a caller sends an agent a message. <a href=${link("agents")}>Pick an agent</a> and write to it.</p><//>`) : error ? null : html`<${Loading} />`}
    ${pages.buttons(data)}</div>`;
}

function Rows({ sessions, again }) {
  const columns = [
    { title: "Session", cell: (session) => html`<${Id} id=${session.key} href=${link("hub", "sessions", session.key, named(session))} />` },
    { title: "Agent", cell: (session) => html`<code>${safe(session.agent, 130)}</code>` },
    { title: "Caller", cell: (session) => html`<code>${safe(session.principal, 120)}</code>${session.tenant ? html` <span class="quiet">of ${safe(session.tenant, 80)}</span>` : null}` },
    { title: "Context", cell: (session) => html`<${Id} id=${session.contextId} href=${link("tasks", { contextId: session.contextId })} />` },
    { title: "Holds", cell: (session) => `${plural(session.tasks, "task")}${session.entries ? `, ${count(session.entries)} answers` : ""}` },
    { title: "Changed", cell: (session) => html`<${Time} at=${session.changedAt} />` },
    { title: "Actions", cell: (session) => html`<button type="button" class="small" aria-label=${`End session ${safe(session.key, 200)}`} onClick=${() => endSession(session).then((isDone) => isDone && again())}>End</button>` },
  ];
  return html`<${Table} label="Sessions" columns=${columns} rows=${sessions} rowKey=${(session) => `${session.key} ${session.agent} ${session.principal} ${session.tenant}`} />`;
}

async function endSession(session) {
  const isSure = await confirm({
    title: "End this session?",
    text: `The agent ${session.agent ?? ""} forgets the conversation ${safe(session.key, 200)}: its messages belong to no later turn, and answers to pending calls are discarded. Its tasks stay.`,
    action: `End the session with ${session.agent ?? "the agent"}`,
  });
  if (!isSure) return false;
  try {
    const { discardedCalls } = await api(`/sessions/${encodeURIComponent(session.key)}`, { method: "DELETE", query: named(session) });
    notify(`The session is ended${discardedCalls ? `, and ${plural(discardedCalls, "pending call")} discarded` : ""}.`, { tone: "good" });
    announce("The session is ended");
    return true;
  } catch (refused) {
    notifyError(refused);
    return false;
  }
}

function Transcript({ id, query }) {
  const [limit, setLimit] = useState(MESSAGES);
  const { data, error, again } = useLoaded((signal) => api(`/sessions/${encodeURIComponent(id)}/transcript`, { query: { ...named(query), limit }, signal }), [id, limit, query.agent, query.principal, query.tenant]);
  const session = { key: id, ...named(query) };
  return html`<div>
    <div class="view-head"><h1>Session</h1><button type="button" onClick=${again}>Read again</button>
      <button type="button" onClick=${() => endSession(session).then((isDone) => isDone && go("hub", "sessions"))}>End the session</button></div>
    <p><${Id} id=${id} whole=${true} /> ${query.agent ? html`with <code>${safe(query.agent, 130)}</code>` : null} ${query.principal ? html`of <code>${safe(query.principal, 120)}</code>` : null}</p>
    <${Problem} error=${error} again=${again} />
    ${data
      ? html`${data.messages.length >= limit && limit < 1000 ? html`<button type="button" onClick=${() => setLimit(1000)}>Show earlier messages</button>` : null}
          ${data.messages.length ? html`<ol class="transcript">${data.messages.map((message, at) => html`<${Message} key=${message.messageId ?? at} message=${message} />`)}</ol>` : html`<p class="quiet">It has no messages.</p>`}`
      : error
        ? null
        : html`<${Loading} />`}
  </div>`;
}

function Message({ message }) {
  const isAgent = message.role === "ROLE_AGENT";
  return html`<li class=${`card ${isAgent ? "of-agent" : ""}`}><p class="row between"><strong>${isAgent ? "Agent" : "Caller"}</strong>
      <span class="row">${message.taskId ? html`<${Id} id=${message.taskId} href=${link("tasks", message.taskId)} />` : null}<${CopyButton} text=${JSON.stringify(message, null, 2)} label="Copy JSON" /></span></p>
    ${(message.parts ?? []).map((part, at) => html`<${Part} key=${at} part=${part} isAgent=${isAgent} />`)}</li>`;
}

function Part({ part, isAgent }) {
  if (part.text !== undefined) return isAgent ? html`<${Markdown} text=${part.text} />` : html`<pre class="said" dir="auto">${safe(part.text)}</pre>`;
  if (part.data !== undefined) return html`<${JsonTree} value=${part.data} label="Data" />`;
  return html`<p class="quiet">File ${safe(part.filename ?? part.mediaType ?? "", 120)}</p>`;
}
