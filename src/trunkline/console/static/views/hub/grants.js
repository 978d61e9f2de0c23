// `Grants`: who may call an agent by a grant.
import { html, useState } from "../../lib/html.js";
import { api } from "../../lib/api.js";
import { safe } from "../../lib/format.js";
import { useLoaded } from "../../lib/state.js";
import { Field, Loading, Problem, Time, announce, confirm, notifyError } from "../../parts/basics.js";
import { Table, usePages } from "./table.js";

export function Grants({ agent }) {
  const pages = usePages();
  const { data, error, again } = useLoaded(
    (signal) => api(`/agents/${agent.id}/grants`, { query: { pageSize: 50, pageToken: pages.token }, signal }),
    [agent.id, pages.token],
  );
  const take = async (grant) => {
    const isSure = await confirm({
      title: `Take the grant of ${grant.principal}?`,
      text: `From the next request on, ${grant.principal} calls ${agent.handle} by this grant no more.`,
      action: `Take the grant of ${grant.principal}`,
    });
    if (!isSure) return;
    try {
      await api(`/agents/${agent.id}/grants/${encodeURIComponent(grant.principal)}`, { method: "DELETE" });
      announce("The grant is taken");
    } catch (refused) {
      notifyError(refused);
    }
    again();
  };
  const columns = [
    { title: "Principal", cell: (grant) => html`<code>${safe(grant.principal, 200)}</code>` },
    { title: "Operations", cell: (grant) => (grant.methods ? grant.methods.join(", ") : "all") },
    { title: "Given", cell: (grant) => html`<${Time} at=${grant.grantedAt} /> by <code>${safe(grant.grantedBy, 100)}</code>` },
    { title: "Actions", cell: (grant) => html`<button type="button" class="small" aria-label=${`Take away the grant of ${grant.principal}`} onClick=${() => take(grant)}>Take away</button>` },
  ];
  return html`<section class="card" aria-labelledby="grants"><h2 id="grants">Grants</h2>
    <p class="quiet">${agent.visibility === "private" ? "Only those with a grant, the owner and operators may call this agent." : "Everyone who is signed in may call this agent; a grant matters for tokens, and once it is private."}</p>
    <${Problem} error=${error} again=${again} />
    ${data ? (data.items.length ? html`<${Table} label="Grants" columns=${columns} rows=${data.items} rowKey=${(grant) => grant.principal} />` : html`<p>Nobody has a grant.</p>`) : error ? null : html`<${Loading} />`}
    ${pages.buttons(data)}
    <${GiveGrant} agent=${agent} onGiven=${again} />
  </section>`;
}

function GiveGrant({ agent, onGiven }) {
  const [principal, setPrincipal] = useState("");
  const [error, setError] = useState(null);
  const give = async (event) => {
    event.preventDefault();
    setError(null);
    try {
      await api(`/agents/${agent.id}/grants/${encodeURIComponent(principal.trim())}`, { method: "PUT", body: {} });
      setPrincipal("");
      announce("The grant is given");
      onGiven();
    } catch (refused) {
      setError(refused);
    }
  };
  return html`<form class="inline-form" onSubmit=${give}>
    <${Field} label="Give a grant to" hint="user:LOGIN for a person, token:NAME for a program" error=${error?.message}>
      <input required value=${principal} autocapitalize="none" placeholder="user:ana" onInput=${(event) => setPrincipal(event.target.value)} /><//>
    <button>Give</button></form>`;
}
