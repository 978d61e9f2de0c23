// The overview of the hub; without a hub, what there is instead. `#/hub`
import { html, useEffect } from "../../lib/html.js";
import { api, everyItem, gateway, isOperator, me } from "../../lib/api.js";
import { count, line, plural, safe } from "../../lib/format.js";
import { hear } from "../../lib/live.js";
import { link } from "../../lib/router.js";
import { useLoaded, useValue } from "../../lib/state.js";
import { CopyButton, Loading, Problem } from "../../parts/basics.js";
import { Bars } from "../../parts/chart.js";

const MOST_AGENTS = 1000;
const MOST_BARS = 8;
const AGAIN_MS = 15_000;

export default function Overview() {
  const about = useValue(gateway);
  const who = useValue(me);
  const mayManage = (who?.roles ?? []).length > 0;
  const { data, error, again } = useLoaded((signal) => read(about, mayManage, signal), [about?.hub, mayManage]);
  useEffect(() => {
    const timer = setInterval(again, AGAIN_MS);
    const stops = [hear("agents", again), hear("resync", again)];
    return () => {
      clearInterval(timer);
      for (const stop of stops) stop();
    };
  }, []);
  return html`<div>
    <div class="view-head"><h1>Hub</h1>
      ${about?.hub && mayManage ? html`<a class="button primary" href=${link("hub", "agents", "new")}>Publish an agent</a>` : null}
    </div>
    ${about && !about.hub ? html`<${Without} />` : null}
    <${Problem} error=${error} again=${again} />
    ${data ? html`<${Figures} about=${about} data=${data} mayManage=${mayManage} />` : error ? null : html`<${Loading} />`}
  </div>`;
}

async function read(about, mayManage, signal) {
  const operates = isOperator();
  const [now, agents, sessions, attached, boxes] = await Promise.all([
    api("/gateway", { signal }),
    // Without a hub nobody manages agents here, so all are listed.
    everyItem("/agents", { mine: about?.hub && mayManage, pageSize: 200 }, { limit: MOST_AGENTS, signal }),
    api("/sessions", { query: { pageSize: 50 }, signal }),
    operates && about?.features?.relay ? everyItem("/relay/agents", { pageSize: 200 }, { signal }) : null,
    operates && about?.features?.relay ? everyItem("/relay/mailboxes", { pageSize: 200 }, { signal }) : null,
  ]);
  return { now, agents, sessions, attached, boxes };
}

function Without() {
  return html`<section class="card hub-note" aria-labelledby="without-hub">
    <h2 id="without-hub">This gateway has no hub</h2>
    <p>With the hub, agents are published and withdrawn while the gateway runs, people sign in, and programs get tokens. Every call has a
      budget and a row in an audit.</p>
    <p class="command"><code>trunkline serve --hub</code> <${CopyButton} text="trunkline serve --hub" /></p>
  </section>`;
}

function Figures({ about, data, mayManage }) {
  const { now, agents, sessions, attached, boxes } = data;
  const published = agents.filter(({ status }) => status === "published");
  const online = published.filter((agent) => agent.online);
  const drafts = agents.length - published.length;
  const counted = agents
    .filter((agent) => agent.dailyBudgetQueries !== undefined && agent.queriesToday !== undefined)
    .sort((a, b) => shareOf(b) - shareOf(a));
  const problems = problemsOf(now, published);
  return html`<div class="grid hub-grid">
    <section class="card" aria-labelledby="h-agents"><h2 id="h-agents">Agents</h2>
      <p class="figure">${count(published.length)} <span class="quiet">published</span></p>
      <p class="quiet">${count(online.length)} online${drafts ? `, ${plural(drafts, "draft")}` : ""}</p>
      <p><a href=${about.hub && mayManage ? link("hub", "agents") : link("agents")}>${about.hub && mayManage ? "Manage agents" : "Show agents"}</a></p>
    </section>
    <section class="card" aria-labelledby="h-problems"><h2 id="h-problems">Problems</h2>
      ${problems.length
        ? html`<ul class="problems">${problems.slice(0, 12).map(
            ({ text, href }) => html`<li key=${text}>${href ? html`<a href=${href}>${line(text, 240)}</a>` : line(text, 240)}</li>`,
          )}</ul>${problems.length > 12 ? html`<p class="quiet">and ${problems.length - 12} more</p>` : null}`
        : html`<p class="good-line"><i aria-hidden="true">✓</i> None</p>`}
    </section>
    ${about.hub
      ? html`<section class="card" aria-labelledby="h-budgets"><h2 id="h-budgets">Budgets today</h2>
          ${counted.length
            ? html`<${Bars} label="Budgets today" rows=${counted.slice(0, MOST_BARS).map((agent) => ({
                name: agent.handle,
                value: agent.queriesToday,
                limit: agent.dailyBudgetQueries,
                text: `${count(agent.queriesToday)} of ${count(agent.dailyBudgetQueries)}`,
                href: mayManage ? link("hub", "inbound", agent.id) : undefined,
              }))} />`
            : html`<p class="quiet">No agent has a budget yet. Budgets begin anew at midnight UTC.</p>`}
        </section>`
      : null}
    ${isOperator()
      ? html`<section class="card" aria-labelledby="h-nodes"><h2 id="h-nodes">Nodes</h2>
          <p class="figure">${count(now.nodes ?? 1)} <span class="quiet">${now.nodes === 1 ? "gateway" : "gateways"}</span></p>
          <p class="quiet">Release ${safe(now.version, 40)}</p><p><a href=${link("hub", "nodes")}>Details</a></p></section>`
      : null}
    <section class="card" aria-labelledby="h-sessions"><h2 id="h-sessions">Sessions</h2>
      <p class="figure">${count(sessions.items.length)}${sessions.nextPageToken ? "+" : ""} <span class="quiet">open</span></p>
      <p><a href=${link("hub", "sessions")}>Show sessions</a></p></section>
    ${attached
      ? html`<section class="card" aria-labelledby="h-relay"><h2 id="h-relay">Relay</h2>
          <p class="figure">${count(attached.length)} <span class="quiet">attached</span></p>
          <p class="quiet">${plural(sum(boxes, "waiting"), "message")} waiting, ${plural(sum(boxes, "dead"), "dead letter")}</p>
          <p><a href=${link("hub", "relay")}>Show the relay</a></p></section>`
      : null}
  </div>`;
}

const sum = (items, member) => items.reduce((total, each) => total + each[member], 0);

const shareOf = (agent) => (agent.dailyBudgetQueries ? agent.queriesToday / agent.dailyBudgetQueries : 1);

function problemsOf(now, published) {
  const found = (now.problems ?? []).map((text) => ({ text }));
  for (const agent of published) {
    const href = agent.backend ? link("hub", "agents", agent.id) : link("agents", agent.owner, agent.slug);
    if (agent.problem) found.push({ text: `${agent.handle}: ${agent.problem}`, href });
    else if (!agent.online) found.push({ text: `${agent.handle} is offline`, href });
    if (agent.queriesToday !== undefined && agent.dailyBudgetQueries !== undefined && shareOf(agent) >= 1)
      found.push({ text: `${agent.handle} has used up its budget of today`, href });
  }
  return found;
}
