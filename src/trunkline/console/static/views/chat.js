// Conversations with agents. `#/chat`, `#/chat/OWNER/SLUG`, `#/chat/OWNER/SLUG/CONTEXT`
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { api, me } from "../lib/api.js";
import { isOver, isWaitingForPerson, line, stateWord } from "../lib/format.js";
import { go, link, replace } from "../lib/router.js";
import { useLoaded, useValue } from "../lib/state.js";
import { ensureStyle } from "../lib/style.js";
import { showInTitle } from "../lib/waiting.js";
import { Empty, Loading, Problem, State, Time, confirm, notifyError } from "../parts/basics.js";
import { Composer } from "./chat/composer.js";
import { Log } from "./chat/log.js";
import * as store from "./chat/store.js";

await ensureStyle("chat");

export default function Chat({ path, query }) {
  const [, owner, slug, contextId] = path;
  if (owner === "compare") return html`<${Compare} query=${query} />`;
  const handle = owner && slug ? `${owner}/${slug}` : "";
  return html`<div class=${`chat ${handle ? "has-talk" : ""}`}>
    <${List} handle=${handle} contextId=${contextId} />
    ${handle ? html`<${Open} key=${handle} handle=${handle} contextId=${contextId} />` : html`<${Pick} />`}
  </div>`;
}

const loadCompare = () => import("./chat/compare.js");

function Compare(props) {
  const { data, error, again } = useLoaded(loadCompare, []);
  if (error) return html`<${Problem} error=${error} again=${again} />`;
  return data ? html`<${data.default} ...${props} />` : html`<${Loading} />`;
}

// What this browser remembers, and the caller's tasks at the gateway by their conversations.
function List({ handle, contextId }) {
  useValue(store.listVersion);
  const [text, setText] = useState("");
  const { data } = useLoaded((signal) => api("/tasks", { query: { pageSize: 200, principal: me.get().principal }, signal }).catch(() => ({ items: [] })), []);
  const rows = useMemo(() => {
    const found = new Map(store.remembering().map((each) => [`${each.handle} ${each.contextId || each.key}`, { ...each }]));
    for (const task of data?.items ?? []) {
      const key = `${task.agent} ${task.contextId}`;
      const known = found.get(key);
      if (!known) found.set(key, { key, handle: task.agent, contextId: task.contextId, title: task.text, updatedAt: task.statusAt, state: task.state });
    }
    const wanted = text.toLowerCase();
    return [...found.values()].filter((each) => !wanted || `${each.title} ${each.handle} ${each.agentName}`.toLowerCase().includes(wanted)).slice(0, 200);
  }, [data, store.listVersion.get(), text]);
  return html`<aside class="talks" aria-label="Conversations">
    <div class="row"><${handle ? "h2" : "h1"}>Chat<//><a class="button small" href=${link("chat")}>New</a><a class="button small" href=${link("chat", "compare")}>Compare</a></div>
    <input type="search" data-filter aria-label="Filter conversations" placeholder="Filter  /" value=${text} onInput=${(event) => setText(event.target.value)} />
    ${rows.length ? null : html`<p class="quiet">${text ? "No conversation fits." : "Nothing yet. Pick an agent and write to it."}</p>`}
    <ul>${rows.map((each) => {
      const [owner, slug] = each.handle.split("/");
      const isHere = each.handle === handle && each.contextId === (contextId ?? "");
      return html`<li key=${each.key}><a href=${each.contextId ? link("chat", owner, slug, each.contextId) : link("chat", owner, slug)} aria-current=${isHere ? "true" : undefined}>
          <span class="talk-title" dir="auto">${line(each.title, 80) || "No text"}</span>
          <span class="quiet talk-agent">${line(each.agentName || each.handle, 40)} · <${Time} at=${each.updatedAt} /> ${store.isOpenBusy(each.key) ? html`<span class="state run"><i aria-hidden="true"></i>running</span>` : isWaitingForPerson(each.state) ? html`<${State} state=${each.state} />` : null}</span></a>
        <button type="button" class="plain small forget" aria-label=${`Forget ${line(each.title, 60)}`} title="Forget in this browser" onClick=${() => store.forget(each.key)}>✕</button></li>`;
    })}</ul>
  </aside>`;
}

function Pick() {
  useEffect(() => {
    document.title = "Chat · Trunkline";
    showInTitle();
  }, []);
  const [text, setText] = useState("");
  const { data, error, again } = useLoaded((signal) => api("/agents", { query: { q: text, pageSize: 30 }, signal }), [text]);
  return html`<section class="pick view" aria-label="Pick an agent"><h2>Write to an agent</h2>
    <input type="search" aria-label="Find an agent" placeholder="Find an agent" value=${text} onInput=${(event) => setText(event.target.value)} />
    <${Problem} error=${error} again=${again} />
    ${data ? (data.items.length ? html`<ul class="picks">${data.items.map((agent) => {
      const [owner, slug] = agent.handle.split("/");
      return html`<li key=${agent.id}><a href=${link("chat", owner, slug)}><strong dir="auto">${line(agent.name, 80)}</strong> <code class="quiet">${line(agent.handle, 80)}</code>
        <span class="quiet" dir="auto">${line(agent.tagline || agent.description, 120)}</span></a></li>`;
    })}</ul>` : html`<${Empty} title="No agent fits"><p>Try other words.</p><//>`) : error ? null : html`<${Loading} />`}
  </section>`;
}

function Open({ handle, contextId }) {
  const { data: agent, error, again } = useLoaded(() => store.agentOf(handle), [handle]);
  if (error) return html`<section class="talk view"><${Problem} error=${error} again=${again} /></section>`;
  if (!agent) return html`<section class="talk"><${Loading} /></section>`;
  return html`<${Talk} agent=${agent} handle=${handle} contextId=${contextId} />`;
}

function Talk({ agent, handle, contextId }) {
  const [owner, slug] = handle.split("/");
  const [round, setRound] = useState(0);
  const talk = useMemo(
    () => (contextId ? store.conversation(handle, contextId) : (store.unsentOf(handle) ?? store.newConversation(handle))),
    [handle, contextId, round],
  );
  useValue(talk.version);
  talk.agentName = agent.name;
  useEffect(() => {
    talk.onContext = () => {
      if (isShown.current === talk) replace("chat", owner, slug, talk.contextId);
    };
    talk.open();
  }, [talk]);
  const isShown = useRef(talk);
  isShown.current = talk;
  useEffect(() => () => {
    isShown.current = null;
  }, []);
  useTitle(talk, agent);
  const onEdit = {
    resend: (entry) => talk.send(entry.parts).catch(notifyError),
    branch: (entry) => {
      const made = store.newConversation(handle);
      made.draft = entry.parts.map((part) => part.text).filter((text) => text !== undefined).join("\n");
      if (!contextId) setRound(round + 1);
      else go("chat", owner, slug);
    },
  };
  return html`<section class="talk" aria-label=${`Conversation with ${line(agent.name, 60)}`}>
    <header class="talk-head"><a class="button small back" href=${link("chat")}>‹ All</a>
      <h1><a href=${link("agents", owner, slug)} dir="auto">${line(agent.name, 80)}</a></h1>
      <${Way} talk=${talk} agent=${agent} />
      <a class="button small" href=${link("chat", "compare", { a: handle })}>Compare</a>
      <a class="button small" href=${link("chat", owner, slug)} onClick=${() => setRound(round + 1)}>New</a></header>
    ${agent.online === false ? html`<p class="problem" role="alert">This agent is offline. A message waits until it is back, if its profile says so.</p>` : null}
    <${Log} talk=${talk} agent=${agent} onEdit=${onEdit} />
    <${Composer} key=${talk.key.startsWith("new") ? handle : ""} talk=${talk} agent=${agent} onSend=${(parts, taskId) => talk.send(parts, { taskId }).catch(notifyError)} />
  </section>`;
}

// Which version and binding of A2A the messages use.
export function waysOf(agent) {
  const versions = agent.versions?.length ? agent.versions : [...new Set((agent.card?.supportedInterfaces ?? []).map((each) => each.protocolVersion))];
  const ways = [];
  for (const version of versions.length ? versions : ["1.0"]) {
    ways.push({ version, binding: "jsonrpc" });
    if (agent.restPath && version === "1.0") ways.push({ version, binding: "rest" });
  }
  return ways;
}

export const wayName = ({ version, binding }) => `${version} ${binding === "rest" ? "HTTP+JSON" : "JSON-RPC"}`;

function Way({ talk, agent }) {
  const ways = waysOf(agent);
  const names = ways.map(wayName);
  const current = talk.way.version ? wayName(talk.way) : names[0];
  return html`<select class="way" aria-label="Version and binding" value=${current} onChange=${(event) => talk.setWay(ways[names.indexOf(event.target.value)])}>
    ${names.map((name) => html`<option value=${name}>${name}</option>`)}</select>`;
}

// The title of the tab says what runs and what is done.
function useTitle(talk, agent) {
  const busy = talk.isBusy;
  const was = useRef(false);
  const name = line(agent.name, 40);
  useEffect(() => {
    const isDone = was.current && !busy;
    was.current = busy;
    // The number of tasks that wait for a person stands before it.
    document.title = `${busy ? "… " : isDone ? "✓ " : ""}${name} · Chat · Trunkline`;
    showInTitle();
  }, [busy, name, talk]);
}
