// The agents that the caller manages, and the addresses below them. `#/hub/agents`
import { html, useEffect, useState } from "../../lib/html.js";
import { api } from "../../lib/api.js";
import { line, safe } from "../../lib/format.js";
import { hear } from "../../lib/live.js";
import { filterBy, link } from "../../lib/router.js";
import { useLoaded } from "../../lib/state.js";
import { Badge, Empty, Loading, Problem, Time, announce, confirm, notify, notifyError } from "../../parts/basics.js";
import { Budget, Presence } from "../agents.js";
import { Table, usePages } from "./table.js";

const loadForm = () => import("./agent-form.js");
const loadInbound = () => import("./inbound.js");

export default function HubAgents({ path, query }) {
  if (path[0] === "inbound") return html`<${Later} load=${loadInbound} id=${path[1] ?? ""} query=${query} />`;
  if (path[1]) return html`<${Later} key=${path[1]} load=${loadForm} id=${path[1]} />`;
  return html`<${List} query=${query} />`;
}

function Later({ load, ...props }) {
  const { data, error, again } = useLoaded(load, [load]);
  if (error) return html`<${Problem} error=${error} again=${again} />`;
  if (!data) return html`<${Loading} />`;
  return html`<${data.default} ...${props} />`;
}

const STATUSES = [
  ["", "All but deleted"],
  ["published", "Published"],
  ["draft", "Drafts"],
  ["deleted", "Deleted"],
];

function List({ query }) {
  const [text, setText] = useState(query.q ?? "");
  const pages = usePages();
  const { data, error, again } = useLoaded(
    (signal) =>
      api("/agents", { query: { mine: true, q: query.q, status: query.status, pageSize: 50, pageToken: pages.token }, signal }),
    [query.q, query.status, pages.token],
  );
  useEffect(() => {
    const timer = setTimeout(() => {
      if ((query.q ?? "") === text) return;
      filterBy({ q: text });
      pages.reset();
    }, 150);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => {
    const stops = [hear("agents", again), hear("resync", again)];
    return () => stops.forEach((stop) => stop());
  }, []);
  return html`<div>
    <div class="view-head"><h1>Agents of the hub</h1>
      <input type="search" data-filter aria-label="Filter agents" placeholder="Filter  /" value=${text} onInput=${(event) => setText(event.target.value)} />
      <select aria-label="Status" value=${query.status ?? ""} onChange=${(event) => {
        filterBy({ status: event.target.value });
        pages.reset();
      }}>${STATUSES.map(([value, title]) => html`<option key=${value} value=${value}>${title}</option>`)}</select>
      <a class="button primary" href=${link("hub", "agents", "new")}>Publish an agent</a>
    </div>
    <${Problem} error=${error} again=${again} />
    ${data ? (data.items.length ? html`<${Rows} agents=${data.items} again=${again} />` : html`<${None} isFiltered=${Boolean(query.q || query.status)} />`) : error ? null : html`<${Loading} />`}
    ${pages.buttons(data)}
  </div>`;
}

function None({ isFiltered }) {
  return isFiltered
    ? html`<${Empty} title="No agent fits this filter"><p>Try other words, or another status.</p><//>`
    : html`<${Empty} title="No agent is published through the hub yet">
        <p>Publish one here, or with <code>trunkline agent add OWNER/SLUG --backend echo --publish</code>.</p>
        <p><a class="button primary" href=${link("hub", "agents", "new")}>Publish an agent</a></p><//>`;
}

const STATUS_TONES = { published: "good", draft: "ask", deleted: "bad" };

function Rows({ agents, again }) {
  const columns = [
    {
      title: "Agent",
      cell: (agent) => html`<a href=${link("hub", "agents", agent.id)} dir="auto">${line(agent.name, 80)}</a><br /><code class="quiet">${safe(agent.handle)}</code>`,
    },
    {
      title: "Status",
      cell: (agent) => html`<${Badge} tone=${STATUS_TONES[agent.status]}>${agent.status}<//> <${Presence} agent=${agent} />
        ${agent.problem ? html`<p class="error">${line(agent.problem, 240)}</p>` : null}`,
    },
    { title: "Visibility", cell: (agent) => agent.visibility },
    { title: "Budget", cell: (agent) => html`<${Budget} agent=${agent} />` },
    { title: "Last query", cell: (agent) => html`<${Time} at=${agent.lastQueryAt} />` },
    { title: "Actions", cell: (agent) => html`<${Actions} agent=${agent} again=${again} />` },
  ];
  return html`<${Table} label="Agents of the hub" columns=${columns} rows=${agents} rowKey=${(agent) => agent.id} />`;
}

// Publish, unpublish and delete. Only those who manage an agent get its `limits`.
export function Actions({ agent, again }) {
  const [isBusy, setBusy] = useState(false);
  if (agent.source !== "registry" || !agent.limits) return html`<a href=${link("hub", "inbound", agent.id)}>Inbound</a>`;
  const run = async (done, request) => {
    setBusy(true);
    try {
      await request();
      notify(`${agent.handle} ${done}.`, { tone: "good" });
      announce(`${agent.handle} ${done}`);
    } catch (error) {
      notifyError(error);
    } finally {
      setBusy(false);
      again();
    }
  };
  const change = (status, done) => run(done, () => api(`/agents/${agent.id}`, { method: "PATCH", body: { status, version: agent.version } }));
  const unpublish = async () => {
    const isSure = await confirm({
      title: `Unpublish ${agent.handle}?`,
      text: "From the next request on, its card and its address answer 404. Its tasks stay, and it can be published again.",
      action: `Unpublish ${agent.handle}`,
    });
    if (isSure) change("draft", "is unpublished");
  };
  const remove = async () => {
    const isSure = await confirm({
      title: `Delete ${agent.handle}?`,
      text: "It can be called no more, and its grants count no more. Its handle can be published again, with the tasks it had.",
      action: `Delete ${agent.handle}`,
    });
    if (isSure) run("is deleted", () => api(`/agents/${agent.id}`, { method: "DELETE", query: { version: agent.version } }));
  };
  const named = (action) => `${action} ${agent.handle}`;
  return html`<span class="row actions">
    ${agent.status === "published"
      ? html`<button type="button" class="small" disabled=${isBusy} aria-label=${named("Unpublish")} onClick=${unpublish}>Unpublish</button>`
      : html`<button type="button" class="small" disabled=${isBusy} aria-label=${named("Publish")} onClick=${() => change("published", "is published")}>Publish</button>`}
    <a class="button small" href=${link("hub", "inbound", agent.id)} aria-label=${named("Inbound report of")}>Inbound</a>
    ${agent.status === "deleted"
      ? null
      : html`<button type="button" class="small" disabled=${isBusy} aria-label=${named("Delete")} onClick=${remove}>Delete</button>`}
  </span>`;
}
