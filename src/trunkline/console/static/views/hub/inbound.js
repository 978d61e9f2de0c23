// Who has called an agent, and how that ended. `#/hub/inbound/ID`
import { html } from "../../lib/html.js";
import { api } from "../../lib/api.js";
import { count, duration, line, safe } from "../../lib/format.js";
import { filterBy, link } from "../../lib/router.js";
import { useLoaded } from "../../lib/state.js";
import { Badge, Id, Loading, Problem, Time } from "../../parts/basics.js";
import { Bars, Columns, Curve } from "../../parts/chart.js";
import { Budget } from "../agents.js";
import { Table } from "./table.js";

const SPANS = [1, 7, 14, 30];
const KINDS = [
  { name: "ok", tone: "good" },
  { name: "denied", tone: "bad" },
  { name: "failed or open", tone: "ask" },
];

export default function Inbound({ id, query }) {
  const days = SPANS.find((each) => String(each) === query.days) ?? 7;
  const { data, error, again } = useLoaded(
    (signal) => Promise.all([api(`/agents/${encodeURIComponent(id)}`, { signal }), api(`/agents/${encodeURIComponent(id)}/inbound`, { query: { days }, signal })]),
    [id, days],
  );
  if (error && !data) return html`<${Problem} error=${error} again=${again} />`;
  if (!data) return html`<${Loading} />`;
  const [agent, report] = data;
  const { summary, daily, topAskers, recent } = report;
  return html`<div>
    <div class="view-head"><h1>Calls of <span dir="auto">${line(agent.name, 80)}</span></h1>
      <select aria-label="Days" value=${String(days)} onChange=${(event) => filterBy({ days: event.target.value })}>${SPANS.map(
        (each) => html`<option key=${each} value=${each}>${each === 1 ? "Today" : `${each} days`}</option>`,
      )}</select>
      <button type="button" onClick=${again}>Read again</button></div>
    <p><a href=${link("hub", "agents", agent.id)}><code>${safe(agent.handle)}</code></a></p>
    <${Problem} error=${error} again=${again} />
    <dl class="figures">
      <div><dt>Calls</dt><dd>${count(summary.total)}</dd></div><div><dt>Succeeded</dt><dd>${count(summary.ok)}</dd></div>
      <div><dt>Denied</dt><dd>${count(summary.denied)}</dd></div><div><dt>Mean time</dt><dd>${summary.avgLatencyMs === null ? "–" : duration(summary.avgLatencyMs)}</dd></div>
      <div><dt>Callers</dt><dd>${count(summary.distinctAskers)}</dd></div>
    </dl>
    <div class="grid hub-grid">
      <section class="card"><${Columns} title="Calls per day" kinds=${KINDS}
        columns=${daily.map((day) => ({ label: day.date, values: [day.ok, day.denied, Math.max(0, day.total - day.ok - day.denied)] }))} /></section>
      <section class="card"><${Curve} title="Mean time per day" format=${duration} points=${daily.map((day) => ({ label: day.date, value: day.avgLatencyMs }))} /></section>
      <section class="card" aria-labelledby="askers"><h2 id="askers">Top callers</h2>
        ${topAskers.length ? html`<${Bars} label="Top callers" rows=${topAskers.map(({ login, count: value }) => ({ name: login, value }))} />` : html`<p class="quiet">Nobody has called.</p>`}
      </section>
      <section class="card" aria-labelledby="budget"><h2 id="budget">Budget today</h2>${agent.dailyBudgetQueries === undefined ? html`<p class="quiet">This agent has no daily budget.</p>` : html`<${Budget} agent=${agent} />`}</section>
    </div>
    <h2 class="section-title">Latest calls</h2>
    ${recent.length ? html`<${Table} label="Latest calls" columns=${RECENT} rows=${recent.map((call, at) => ({ ...call, at }))} rowKey=${(call) => call.at} />` : html`<p class="quiet">There was no call in this time. Try one: <a href=${link("chat", agent.owner, agent.slug)}>chat with the agent</a>.</p>`}
  </div>`;
}

const RECENT = [
  { title: "Time", cell: (call) => html`<${Time} at=${call.ts} />` },
  { title: "Caller", cell: (call) => html`<code>${safe(call.askerLogin, 120)}</code>` },
  { title: "Result", cell: (call) => html`<${Badge} tone=${call.ok ? "good" : "bad"}>${call.ok ? "ok" : line(call.deniedReason ?? "open", 80)}<//>` },
  { title: "Took", cell: (call) => (call.latencyMs === null ? "–" : duration(call.latencyMs)) },
  { title: "Task", cell: (call) => html`<${Id} id=${call.routeId} href=${call.routeId ? link("tasks", call.routeId) : undefined} />` },
  { title: "Question", cell: (call) => html`<span dir="auto">${call.question ? line(call.question, 200) : "–"}</span>` },
];
