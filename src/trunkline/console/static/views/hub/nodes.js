// The gateways that share the main store, and how this one is. `#/hub/nodes`
import { html } from "../../lib/html.js";
import { api } from "../../lib/api.js";
import { count, safe } from "../../lib/format.js";
import { useLoaded } from "../../lib/state.js";
import { Badge, CopyButton, Loading, Problem } from "../../parts/basics.js";

export default function Nodes() {
  const { data, error, again } = useLoaded((signal) => api("/gateway", { signal }), []);
  return html`<div><div class="view-head"><h1>Nodes</h1><button type="button" onClick=${again}>Read again</button></div>
    <${Problem} error=${error} again=${again} />
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
    </dl></section>
    <p>Each of them, with its host, its process and its last sign of life:</p>
    <p class="command"><code>trunkline nodes</code> <${CopyButton} text="trunkline nodes" /></p>`;
}
