// The agents of the gateway: presence, budget, queue. `#/agents`
import { html, useEffect, useState } from "../lib/html.js";
import { api, gateway, isOperator } from "../lib/api.js";
import { count, line, plural, safe } from "../lib/format.js";
import { hear } from "../lib/live.js";
import { filterBy, link } from "../lib/router.js";
import { useLoaded, useValue } from "../lib/state.js";
import { Badge, Empty, Loading, Problem } from "../parts/basics.js";

const PAGE = 60;
const AGAIN_MS = 10_000;

export function Agents({ query }) {
  const [text, setText] = useState(query.q ?? "");
  const [tokens, setTokens] = useState([""]);
  useEffect(() => {
    // Else a timer that is late would empty the filter of the next view.
    if (text === (query.q ?? "")) return undefined;
    const timer = setTimeout(() => {
      filterBy({ q: text });
      setTokens([""]);
    }, 150);
    return () => clearTimeout(timer);
  }, [text]);
  const token = tokens.at(-1);
  const { data, error, again } = useLoaded(
    (signal) => api("/agents", { query: { q: query.q, pageSize: PAGE, pageToken: token }, signal }),
    [query.q, token],
  );
  useEffect(() => {
    const timer = setInterval(again, AGAIN_MS);
    const stops = [hear("agents", again), hear("resync", again)];
    return () => {
      clearInterval(timer);
      for (const stop of stops) stop();
    };
  }, []);
  const about = useValue(gateway);
  return html`<div class="view">
    <div class="view-head"><h1>Agents</h1>
      <input type="search" data-filter aria-label="Filter agents" placeholder="Filter  /" value=${text} onInput=${(event) => setText(event.target.value)} />
      ${about?.hub && isOperator() ? html`<a class="button" href=${link("hub", "agents", "new")}>Publish</a>` : null}
      ${isOperator() && about?.visits && about.visits !== "never" ? html`<a class="button" href=${link("agents", "visit")}>Open a URL</a>` : null}
    </div>
    <${Problem} error=${error} again=${again} />
    ${data ? html`<${Cards} agents=${data.items} isFiltered=${Boolean(query.q)} />` : error ? null : html`<${Loading} />`}
    ${data?.nextPageToken || tokens.length > 1
      ? html`<nav class="row end" aria-label="Pages">
          <button type="button" disabled=${tokens.length < 2} onClick=${() => setTokens(tokens.slice(0, -1))}>Previous</button>
          <button type="button" disabled=${!data?.nextPageToken} onClick=${() => setTokens([...tokens, data.nextPageToken])}>Next</button>
        </nav>`
      : null}
  </div>`;
}

function Cards({ agents, isFiltered }) {
  if (!agents.length) {
    return isFiltered
      ? html`<${Empty} title="No agent fits this filter"><p>Try other words, or part of a handle.</p><//>`
      : html`<${Empty} title="No agent is published"><p>Start one: <code>trunkline serve my_agents.py</code>, or publish one in the hub.</p><//>`;
  }
  return html`<div class="grid">${agents.map((agent) => html`<${AgentCard} key=${agent.id} agent=${agent} />`)}</div>`;
}

export function Presence({ agent }) {
  return html`<span class=${`presence ${agent.online ? "on" : ""}`}><i aria-hidden="true"></i>${agent.online ? "online" : "offline"}</span>`;
}

function AgentCard({ agent }) {
  const [owner, slug] = agent.handle.split("/");
  const queue = agent.queue ?? { running: 0, waiting: 0 };
  return html`<article class="card agent-card">
    <div class="row between"><${Presence} agent=${agent} />
      <span class="row">${agent.status && agent.status !== "published" ? html`<${Badge} tone="ask">${agent.status}<//>` : null}
      ${(agent.versions ?? []).map((version) => html`<${Badge}>${version}<//>`)}</span></div>
    <h2><a href=${link("agents", owner, slug)} dir="auto">${line(agent.name, 80)}</a></h2>
    <code class="quiet">${safe(agent.handle)}</code>
    <p class="tagline" dir="auto">${line(agent.tagline || agent.description, 240)}</p>
    <p class="quiet">${queue.running ? `${plural(queue.running, "turn")} running` : "idle"}${queue.waiting ? `, ${count(queue.waiting)} in the queue` : ""}</p>
    <${Budget} agent=${agent} />
    <footer class="row"><a class="button primary" href=${link("chat", owner, slug)}>Chat</a>
      <a class="button" href=${link("agents", owner, slug)}>Card</a></footer>
  </article>`;
}

export function Budget({ agent }) {
  if (agent.queriesToday === undefined || agent.dailyBudgetQueries === undefined) return null;
  const share = agent.dailyBudgetQueries ? agent.queriesToday / agent.dailyBudgetQueries : 1;
  return html`<div><div class=${`meter ${share >= 1 ? "full" : ""}`}><i style=${{ width: `${Math.min(100, share * 100)}%` }}></i></div>
    <span class="hint">${count(agent.queriesToday)} of ${count(agent.dailyBudgetQueries)} queries today</span></div>`;
}
