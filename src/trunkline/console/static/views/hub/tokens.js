// Keys of programs and sessions of people. `#/hub/tokens`, `#/hub/tokens/new`
import { html, useEffect, useRef, useState } from "../../lib/html.js";
import { api, isOperator, me } from "../../lib/api.js";
import { exact, line, safe } from "../../lib/format.js";
import { filterBy, go, link } from "../../lib/router.js";
import { useLoaded } from "../../lib/state.js";
import { Badge, CopyButton, Empty, Field, Id, Loading, Problem, Switch, Time, announce, confirm, notify, notifyError } from "../../parts/basics.js";
import { Table, usePages } from "./table.js";

const TONES = { active: "good", expired: "ask", revoked: "bad" };
const SCOPES = [
  ["call", "call: send messages"],
  ["read", "read: read tasks"],
  ["admin", "admin: manage agents and tokens"],
];
const DAY_S = 86_400;
const EXPIRIES = [
  ["", "Never"],
  [String(DAY_S), "In a day"],
  [String(7 * DAY_S), "In 7 days"],
  [String(30 * DAY_S), "In 30 days"],
  [String(365 * DAY_S), "In a year"],
];
const OVERLAPS = [
  ["0", "Refuse the old one at once"],
  ["3600", "Let both count for an hour"],
  [String(DAY_S), "Let both count for a day"],
];

export default function Tokens({ path, query }) {
  return path[1] === "new" ? html`<${NewToken} />` : html`<${List} query=${query} />`;
}

const mayCreate = () => (me.get()?.roles ?? []).length > 0;

function List({ query }) {
  const pages = usePages();
  const [issued, setIssued] = useState(null);
  const { data, error, again } = useLoaded(
    (signal) => api("/tokens", { query: { principal: query.principal, pageSize: 50, pageToken: pages.token }, signal }),
    [query.principal, pages.token],
  );
  const doesShowAll = query.all === "1";
  const items = (data?.items ?? []).filter(({ status }) => doesShowAll || status === "active");
  return html`<div>
    <div class="view-head"><h1>Tokens</h1>
      ${isOperator()
        ? html`<input type="search" data-filter aria-label="Only this principal" placeholder="Principal, as token:ci  /" value=${query.principal ?? ""}
            onChange=${(event) => {
              filterBy({ principal: event.target.value.trim() });
              pages.reset();
            }} />`
        : null}
      <${Switch} label="Also expired and revoked" isOn=${doesShowAll} onChange=${(isOn) => filterBy({ all: isOn ? "1" : "" })} />
      ${mayCreate() ? html`<a class="button primary" href=${link("hub", "tokens", "new")}>Create a token</a>` : null}
    </div>
    ${issued ? html`<${Secret} issued=${issued} onDone=${() => setIssued(null)} />` : null}
    <${Problem} error=${error} again=${again} />
    ${data
      ? items.length
        ? html`<${Rows} tokens=${items} again=${again} onIssued=${setIssued} />`
        : html`<${Empty} title="No token counts here"><p>A program needs one to call agents. ${mayCreate() ? html`<a href=${link("hub", "tokens", "new")}>Create a token</a>` : "Ask an operator of the gateway for one."}</p><//>`
      : error
        ? null
        : html`<${Loading} />`}
    ${pages.buttons(data)}
    <p class="hint">Why a call is allowed or refused: <code>trunkline token explain TOKEN-ID --agent OWNER/SLUG --operation SendMessage</code></p>
  </div>`;
}

function Rows({ tokens, again, onIssued }) {
  const columns = [
    {
      title: "Token",
      cell: (token) => html`<span dir="auto">${line(token.name || (token.kind === "session" ? "Session" : token.kind), 64)}</span>
        ${token.current ? html` <${Badge} tone="accent">this session<//>` : null}<br /><code class="quiet">${safe(token.prefix, 40)}…</code>`,
    },
    { title: "Status", cell: (token) => html`<${Badge} tone=${TONES[token.status]}>${token.status}<//>` },
    { title: "Principal", cell: (token) => html`<code>${safe(token.principal, 120)}</code>` },
    {
      title: "Allows",
      cell: (token) => html`${token.scopes.join(", ") || "–"}${token.agents ? html`<br /><code class="quiet">${line(token.agents.join(", "), 160)}</code>` : null}
        ${token.open ? html`<br /><span class="quiet">all public agents</span>` : null}`,
    },
    { title: "Expires", cell: (token) => (token.expiresAt ? html`<${Time} at=${token.expiresAt} />` : "never") },
    { title: "Last used", cell: (token) => html`<${Time} at=${token.lastUsedAt} />` },
    { title: "Id", cell: (token) => html`<${Id} id=${token.id} />` },
    { title: "Actions", cell: (token) => (token.status === "active" ? html`<${TokenActions} token=${token} again=${again} onIssued=${onIssued} />` : null) },
  ];
  return html`<${Table} label="Tokens" columns=${columns} rows=${tokens} rowKey=${(token) => token.id} />`;
}

function TokenActions({ token, again, onIssued }) {
  const [isRotating, setRotating] = useState(false);
  const name = token.name || token.prefix;
  const revoke = async () => {
    const isSure = await confirm({
      title: `Revoke ${name}?`,
      text: token.kind === "key" ? `Every gateway refuses it at once, and ${token.principal} loses what it allows.` : "The person is signed out there.",
      action: `Revoke ${name}`,
    });
    if (!isSure) return;
    try {
      await api(`/tokens/${encodeURIComponent(token.id)}`, { method: "DELETE" });
      notify(`${name} is revoked.`, { tone: "good" });
      announce("Revoked");
    } catch (refused) {
      notifyError(refused);
    }
    again();
  };
  const rotate = async (overlapSeconds) => {
    setRotating(false);
    try {
      onIssued({ ...(await api(`/tokens/${encodeURIComponent(token.id)}/rotate`, { method: "POST", body: { overlapSeconds } })), name });
    } catch (refused) {
      notifyError(refused);
    }
    again();
  };
  return html`<span class="row actions">
    ${token.kind === "key" && !token.replacedBy
      ? isRotating
        ? html`<select aria-label=${`Rotate ${name}: the old token`} onChange=${(event) => event.target.value && rotate(Number(event.target.value))}>
            <option value="">The old token…</option>${OVERLAPS.map(([value, title]) => html`<option key=${value} value=${value}>${title}</option>`)}</select>`
        : html`<button type="button" class="small" aria-label=${`Rotate ${name}`} onClick=${() => setRotating(true)}>Rotate</button>`
      : null}
    ${token.current ? null : html`<button type="button" class="small" aria-label=${`Revoke ${name}`} onClick=${revoke}>Revoke</button>`}
  </span>`;
}

// The secret of a new token: it is held by this view alone, and gone with it.
function Secret({ issued, onDone }) {
  const box = useRef(null);
  useEffect(() => {
    box.current.focus();
  }, [issued.id]);
  return html`<section class="card secret" ref=${box} tabindex="-1" aria-labelledby="secret-title">
    <h2 id="secret-title">The token of ${safe(issued.name, 64)}</h2>
    <p><strong>It is shown this once.</strong> The gateway keeps only its digest. Copy it now to where the program reads it.</p>
    <p class="command"><code class="token">${issued.token}</code> <${CopyButton} text=${issued.token} label="Copy the token" /></p>
    <p class="quiet">${issued.expiresAt ? `It expires on ${exact(issued.expiresAt)}.` : "It does not expire."} Send it as <code>Authorization: Bearer …</code></p>
    <button type="button" onClick=${onDone}>I have copied it</button>
  </section>`;
}

function NewToken() {
  const operates = isOperator();
  const isPerson = Boolean(me.get()?.user);
  const [draft, setDraft] = useState({ name: "", scopes: ["call"], agents: "", open: false, owner: "", personal: !operates, expires: String(30 * DAY_S) });
  const [error, setError] = useState(null);
  const [issued, setIssued] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const set = (changes) => setDraft((now) => ({ ...now, ...changes }));
  const errorAt = (name) => error?.fields?.find(({ field }) => field === name || field.startsWith(`${name}[`))?.description;
  const submit = async (event) => {
    event.preventDefault();
    setError(null);
    setBusy(true);
    const isService = operates && !draft.personal;
    try {
      const body = {
        name: draft.name,
        scopes: draft.scopes,
        agents: draft.agents.split(/[\s,]+/).filter(Boolean),
        personal: draft.personal,
        ...(isService ? { open: draft.open, owner: draft.scopes.includes("admin") ? draft.owner : "" } : {}),
        ...(draft.expires ? { expiresInSeconds: Number(draft.expires) } : {}),
      };
      setIssued({ ...(await api("/tokens", { method: "POST", body })), name: draft.name });
      announce("The token is created");
    } catch (refused) {
      setError(refused);
    } finally {
      setBusy(false);
    }
  };
  if (issued) return html`<div><div class="view-head"><h1>Token created</h1></div><${Secret} issued=${issued} onDone=${() => go("hub", "tokens")} /></div>`;
  return html`<div><div class="view-head"><h1>Create a token</h1></div>
    <form class="hub-form" onSubmit=${submit}>
      <${Problem} error=${error} />
      <fieldset class="card"><legend>Token</legend>
        ${operates && isPerson
          ? html`<p><${Switch} label="A key of my own, instead of a program's" isOn=${draft.personal} onChange=${(personal) => set({ personal })} /></p>`
          : null}
        <${Field} label="Name" hint=${draft.personal ? "By which you tell it from your others." : "The program calls agents as token:NAME."} error=${errorAt("name")}>
          <input name="name" required maxlength="64" autocapitalize="none" value=${draft.name} aria-invalid=${errorAt("name") ? "true" : undefined} onInput=${(event) => set({ name: event.target.value })} /><//>
        <fieldset class="choices"><legend>Scopes</legend>${SCOPES.map(
          ([scope, title]) => html`<label key=${scope}><input type="checkbox" checked=${draft.scopes.includes(scope)}
            onChange=${(event) => set({ scopes: event.target.checked ? [...draft.scopes, scope] : draft.scopes.filter((each) => each !== scope) })} /> ${title}</label>`,
        )}${errorAt("scopes") ? html`<span class="error" role="alert">${safe(errorAt("scopes"), 300)}</span>` : null}</fieldset>
        <${Field} label="Agents" hint=${draft.personal ? "Empty: all that you may call. Else handles or owner/*, one on each line." : "Handles, owner/* or *, one on each line."} error=${errorAt("agents")}>
          <textarea name="agents" rows="3" class="mono" spellcheck=${false} placeholder="acme/echo" value=${draft.agents} aria-invalid=${errorAt("agents") ? "true" : undefined} onInput=${(event) => set({ agents: event.target.value })}></textarea><//>
        ${operates && !draft.personal
          ? html`<p><${Switch} label="Also every public agent" isOn=${draft.open} onChange=${(open) => set({ open })} /></p>
              ${draft.scopes.includes("admin")
                ? html`<${Field} label="Owner" hint="Whose agents it manages. Empty: all, and every token." error=${errorAt("owner")}>
                    <input name="owner" value=${draft.owner} onInput=${(event) => set({ owner: event.target.value })} /><//>`
                : null}`
          : null}
        <${Field} label="Expires" error=${errorAt("expiresInSeconds")}>
          <select name="expires" value=${draft.expires} onChange=${(event) => set({ expires: event.target.value })}>${EXPIRIES.map(([value, title]) => html`<option key=${value} value=${value}>${title}</option>`)}</select><//>
      </fieldset>
      <div class="row"><button class="primary" disabled=${isBusy}>Create</button><a class="button" href=${link("hub", "tokens")}>Cancel</a></div>
    </form></div>`;
}
