// The gateways that share the main store, and how this one is. `#/hub/nodes`
import { html } from "../../lib/html.js";
import { api } from "../../lib/api.js";
import { count, duration, safe } from "../../lib/format.js";
import { useLoaded } from "../../lib/state.js";
import { Badge, Loading, Problem, Time } from "../../parts/basics.js";
import { Table } from "./table.js";

const COLUMNS = [
  { title: "Gateway", cell: (node) => html`${safe(node.host, 100)} <span class="quiet">process ${node.pid}</span> ${node.isHere ? html`<${Badge} tone="accent">this one<//>` : null}` },
  { title: "Node", cell: (node) => html`<code>${safe(node.node, 60) || "–"}</code>` },
  { title: "State", cell: (node) => (node.isAlive ? html`<${Badge} tone="good">alive<//>` : html`<${Badge} tone="bad">gone<//>`) },
  { title: "Release", cell: (node) => safe(node.release, 40) },
  { title: "Started", cell: (node) => html`<${Time} at=${node.startedAt} />` },
  { title: "Last sign", cell: (node) => (node.beatAgoS === null ? "–" : `${duration(node.beatAgoS * 1000)} ago`) },
  { title: "Lanes", cell: (node) => (node.lanes === null ? "–" : count(node.lanes)) },
];

export default function Nodes() {
  const { data, error, again } = useLoaded((signal) => api("/gateway", { signal }), []);
  const nodes = useLoaded((signal) => api("/nodes", { signal }), []);
  const reread = () => [again, nodes.again].forEach((each) => each());
  return html`<div><div class="view-head"><h1>Nodes</h1><button type="button" onClick=${reread}>Read again</button></div>
    <${Problem} error=${error ?? nodes.error} again=${reread} />
    ${nodes.data ? html`<${Table} label="Gateways" columns=${COLUMNS} rows=${nodes.data.items} rowKey=${(node) => `${node.node} ${node.host} ${node.pid}`} />` : null}
    ${data ? html`<${Facts} about=${data} />` : error ? null : html`<${Loading} />`}</div>`;
}

function Facts({ about }) {
  const parts = Object.keys(about.features ?? {}).filter((name) => about.features[name]).sort();
  return html`<section class="card"><dl class="facts">
      <dt>Gateways on the main store</dt><dd>${count(about.nodes ?? 1)}</dd>
      <dt>Release</dt><dd>${safe(about.version, 60)}</dd>
      <dt>A2A</dt><dd>${about.a2a.join(", ")}</dd>
      <dt>Address</dt><dd><code>${safe(about.publicUrl ?? "", 300)}</code></dd>
      <dt>Store</dt><dd><code>${safe(about.store ?? "", 300)}</code></dd>
      <dt>Hub</dt><dd>${about.hub ? "on" : "off"}</dd>
      <dt>Callers without a credential</dt><dd>${about.anonymous ? "allowed on this machine" : "refused"}</dd>
      <dt>Visits of agents elsewhere</dt><dd>${about.visits ?? "never"}</dd>
      <dt>Injected faults</dt><dd>${about.faults ? "can be set" : "refused, because others reach the gateway"}</dd>
      <dt>Parts</dt><dd class="row">${parts.map((name) => html`<${Badge} key=${name}>${name}<//>`)}</dd>
      <dt>Problems</dt><dd>${about.problems?.length ? html`<ul class="problems">${about.problems.map((text) => html`<li key=${text}>${safe(text, 600)}</li>`)}</ul>` : "none"}</dd>
    </dl></section>`;
}
