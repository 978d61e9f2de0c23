// One agent: its card, readable and raw, what the rules say about it, and how to call it.
// `#/agents/OWNER/SLUG/TAB`, and `#/agents/visit` for an agent elsewhere.
import { html, useEffect, useMemo, useState } from "../lib/html.js";
import { api, gateway, isOperator, request } from "../lib/api.js";
import { peerOf } from "../lib/a2a.js";
import { count, exact, line, plural, safe } from "../lib/format.js";
import { hear } from "../lib/live.js";
import { go, link } from "../lib/router.js";
import { asCli, asCurl, asJavaScript, asPython } from "../lib/snippets.js";
import { ensureStyle } from "../lib/style.js";
import { remember, remembered, useLoaded, useValue } from "../lib/state.js";
import { Badge, CopyButton, Empty, Field, Id, Loading, notify, notifyError, Problem, Tabs } from "../parts/basics.js";
import { JsonTree } from "../parts/json.js";
import { Link } from "../parts/markdown.js";
import { Budget, Presence } from "./agents.js";
import { FaultBanner, FaultForm, MinutesSelect, readFault, canFault, RecordingSwitch, useWireSettings } from "./inspector/control.js";
import { Diff, diff } from "./inspector/diff.js";
import { Findings, Verdict } from "./inspector/findings.js";
import { Body, Command, Headers } from "./inspector/parts.js";

await ensureStyle("inspector");

const AGAIN_MS = 10_000;
// Cards that this browser remembers, to tell what changed.
const MOST_CARDS = 40;
const MOST_CARD = 64 * 1024;
const MOST_SHOWN = 100;

export default function Agent({ path }) {
  const [, owner, slug, tab] = path;
  if (owner === "visit" && !slug) return html`<${Visit} />`;
  if (!slug) return html`<div class="view"><${Empty} title="Not an agent"><p>An agent has an owner and a name: <code>OWNER/NAME</code>.</p><a class="button" href=${link("agents")}>All agents</a><//></div>`;
  return html`<${Page} key=${`${owner}/${slug}`} owner=${owner} slug=${slug} tab=${tab ?? "card"} />`;
}

function Page({ owner, slug, tab }) {
  const { data: agent, error, again } = useLoaded((signal) => api(`/agents/by-handle/${encodeURIComponent(owner)}/${encodeURIComponent(slug)}`, { signal }), [owner, slug]);
  useEffect(() => {
    const timer = setInterval(again, AGAIN_MS);
    const stops = [hear("agents", again), hear("resync", again)];
    return () => {
      clearInterval(timer);
      for (const stop of stops) stop();
    };
  }, []);
  const judged = useLoaded((signal) => (agent ? api(`/agents/${encodeURIComponent(agent.id)}/card`, { signal }) : Promise.resolve(null)), [agent?.id, agent?.version]);
  useEffect(() => {
    if (agent && isOperator() && canFault()) readFault(agent).catch(() => {});
  }, [agent?.id]);
  const changes = useRememberedCard(`${owner}/${slug}`, judged.data?.card);
  if (!agent) {
    return html`<div class="view"><p><a href=${link("agents")}>← All agents</a></p>
      ${error?.status === 404
        ? html`<${Empty} title="There is no such agent"><p>It may have been unpublished, or it is not yours to see.</p><//>`
        : error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`}</div>`;
  }
  const findings = judged.data?.findings ?? [];
  const problems = findings.filter(({ severity }) => severity !== "note").length;
  const tabs = [
    ["card", "Card"],
    ["raw", "Raw"],
    ["checks", judged.data ? (problems ? `Checks: ${problems} ✕` : "Checks: ok ✓") : "Checks"],
    ["call", "Call it"],
    ...(isOperator() ? [["operate", "Record and faults"]] : []),
  ];
  const current = tabs.some(([name]) => name === tab) ? tab : "card";
  const queue = agent.queue ?? { running: 0, waiting: 0 };
  return html`<div class="view agent-page"><p><a href=${link("agents")}>← All agents</a></p>
    <div class="view-head"><h1 dir="auto">${line(agent.name, 120)}</h1>
      <a class="button primary" href=${link("chat", owner, slug)}>Chat</a>
      ${isOperator() ? html`<a class="button" href=${link("inspector", { q: `agent:${agent.handle}` })}>Inspector</a>` : null}
      <a class="button" href=${link("tasks", { agent: agent.handle })}>Tasks</a>
      ${agent.source === "temporary" && owner === "visit" ? html`<${EndVisit} slug=${slug} />` : null}</div>
    <p class="row"><${Presence} agent=${agent} /> <${Id} id=${agent.handle} whole=${true} />
      ${agent.status !== "published" ? html`<${Badge} tone="ask">${line(agent.status, 30)}<//>` : null}
      <${Badge}>${line(agent.visibility, 30)}<//>
      ${agent.backendKind ? html`<${Badge}>backend: ${line(agent.backendKind, 40)}<//>` : null}
      <span class="quiet">${queue.running ? `${plural(queue.running, "turn")} running` : "idle"}${queue.waiting ? `, ${count(queue.waiting)} in the queue` : ""}</span></p>
    ${agent.problem ? html`<p class="problem">It cannot be called: ${safe(agent.problem, 500)}</p>` : null}
    <${FaultBanner} only=${agent.id} />
    ${changes.before && current !== "checks" ? html`<p class="notice ask">The card has changed since ${exact(changes.before.at)}. <a href=${link("agents", owner, slug, "checks")}>See what</a></p>` : null}
    <${Budget} agent=${agent} />
    <${Tabs} label="About the agent" tabs=${tabs} current=${current} onChange=${(name) => go("agents", owner, slug, ...(name === "card" ? [] : [name]))} />
    ${current === "raw"
      ? html`<${Raw} agent=${agent} />`
      : current === "call"
        ? html`<${Call} agent=${agent} card=${judged.data?.card} />`
        : current === "operate"
          ? html`<${Operate} agent=${agent} />`
          : judged.error && !judged.data
            ? html`<${Problem} error=${judged.error} again=${judged.again} />`
            : !judged.data
              ? html`<${Loading} what="Reading the card" />`
              : current === "checks"
                ? html`<${Checks} judged=${judged.data} changes=${changes} />`
                : html`<${Card} agent=${agent} judged=${judged.data} />`}
  </div>`;
}

// A card is of somebody else, so a member may be of any type.
const list = (value) => (Array.isArray(value) ? value.slice(0, MOST_SHOWN) : []);
const object = (value) => (value !== null && typeof value === "object" && !Array.isArray(value) ? value : {});
const text = (value, most = 2000) => (value === null || value === undefined ? "" : safe(typeof value === "string" ? value : JSON.stringify(value), most));
const texts = (value) => list(value).map((each) => text(each, 200));

function Card({ agent, judged }) {
  const card = object(judged.card);
  const provider = object(card.provider);
  const capabilities = object(card.capabilities);
  const interfaces = list(card.supportedInterfaces ?? card.additionalInterfaces).map(object);
  return html`<div class="columns">
    <div class="stack">
      <section class="card"><h2>About</h2>
        <p dir="auto">${text(card.description, 5000)}</p>
        <dl class="facts">
          <dt>Version of the agent</dt><dd>${text(card.version, 60) || "–"}</dd>
          ${provider.organization || provider.url ? html`<dt>Provider</dt><dd dir="auto">${provider.url ? html`<${Link} href=${String(provider.url)}>${text(provider.organization, 200) || text(provider.url, 200)}<//>` : text(provider.organization, 200)}</dd>` : null}
          ${card.documentationUrl ? html`<dt>Documentation</dt><dd><${Link} href=${String(card.documentationUrl)}>${text(card.documentationUrl, 200)}<//></dd>` : null}
          ${card.iconUrl ? html`<dt>Icon</dt><dd><${Link} href=${String(card.iconUrl)}>${text(card.iconUrl, 200)}<//> <span class="hint">not loaded</span></dd>` : null}
          <dt>Takes</dt><dd>${texts(card.defaultInputModes).join(", ") || "–"}</dd>
          <dt>Gives</dt><dd>${texts(card.defaultOutputModes).join(", ") || "–"}</dd>
        </dl></section>
      <section class="card"><h2>Skills (${list(card.skills).length}${card.skills?.length > MOST_SHOWN ? ` of ${card.skills.length}` : ""})</h2>
        ${list(card.skills).length
          ? html`<ul class="skills">${list(card.skills).map((skill, i) => html`<${Skill} key=${i} agent=${agent} skill=${object(skill)} />`)}</ul>`
          : html`<p class="quiet">The card lists no skills.</p>`}</section>
    </div>
    <div class="stack">
      <section class="card"><h2>Signature</h2><${Signatures} signatures=${judged.signatures} /></section>
      <section class="card"><h2>Rules</h2><p><${Verdict} findings=${judged.findings} /> <a href=${link("agents", agent.owner, agent.slug, "checks")}>${judged.findings.length ? plural(judged.findings.length, "finding") : "no findings"}</a></p></section>
      <section class="card"><h2>Interfaces</h2>
        <div class="table-box" tabindex="0" role="region" aria-label="Interfaces"><table class="plain"><thead><tr><th scope="col">A2A</th><th scope="col">Binding</th><th scope="col">URL</th></tr></thead>
          <tbody>${interfaces.map((each, i) => html`<tr key=${i}><td class="whole">${text(each.protocolVersion, 20)}</td><td class="whole">${text(each.protocolBinding ?? each.transport, 40)}</td><td><${Id} id=${text(each.url, 500)} whole=${true} /></td></tr>`)}</tbody></table></div></section>
      <section class="card"><h2>Capabilities</h2>
        <ul>${Object.entries(capabilities).slice(0, 30).map(([name, value]) => (name === "extensions"
          ? list(value).map((extension) => html`<li>extension <code>${text(object(extension).uri, 300)}</code>${object(extension).required ? " (required)" : ""}</li>`)
          : html`<li>${value === true ? "✓" : value === false ? "–" : ""} ${text(name, 60)}${typeof value === "boolean" ? (value ? "" : " (no)") : `: ${text(value, 200)}`}</li>`))}</ul></section>
      <section class="card"><h2>Sign-in</h2><${Security} card=${card} /></section>
    </div>
  </div>`;
}

function Skill({ agent, skill }) {
  const [owner, slug] = agent.handle.split("/");
  return html`<li><h3 dir="auto">${text(skill.name, 200) || text(skill.id, 200)} ${skill.name && skill.id !== skill.name ? html`<code class="quiet">${text(skill.id, 100)}</code>` : null}</h3>
    <p dir="auto">${text(skill.description, 3000)}</p>
    ${texts(skill.tags).length ? html`<p class="row">${texts(skill.tags).map((tag) => html`<${Badge}>${tag}<//>`)}</p>` : null}
    ${list(skill.inputModes).length || list(skill.outputModes).length ? html`<p class="hint">takes ${texts(skill.inputModes).join(", ") || "the default"}, gives ${texts(skill.outputModes).join(", ") || "the default"}</p>` : null}
    ${list(skill.examples).length
      ? html`<div class="examples">${list(skill.examples).filter((each) => typeof each === "string").map((example, i) => html`<a key=${i} class="button small" dir="auto" href=${link("chat", owner, slug)} onClick=${() => prepare(agent.handle, example)} title="Try it in the chat">${line(example, 140)} <span class="quiet">try</span></a>`)}</div>`
      : null}</li>`;
}

// The chat begins with the draft of the agent. One that is there already is kept above the example.
function prepare(handle, example) {
  const draft = remembered(`draft.${handle}`, "");
  if (!draft.endsWith(example)) remember(`draft.${handle}`, draft ? `${draft}\n${example}` : example);
}

const VERDICTS = { valid: ["good", "✓ valid"], invalid: ["bad", "✕ invalid"], unknown_key: ["ask", "? unknown key"] };

function Signatures({ signatures }) {
  if (!signatures?.length) return html`<p class="quiet">The card is not signed. Whoever serves it can change it.</p>`;
  return html`<ul class="findings">${signatures.map(({ keyId, algorithm, verdict, text: why }, i) => {
    const [tone, word] = VERDICTS[verdict] ?? ["", verdict];
    return html`<li key=${i}><${Badge} tone=${tone}>${word}<//> <code>${text(keyId, 200)}</code> <span class="quiet">${text(algorithm, 40)}</span><p>${text(why, 500)}</p></li>`;
  })}</ul>`;
}

function Security({ card }) {
  const schemes = Object.entries(object(card.securitySchemes)).slice(0, 30);
  if (!schemes.length) return html`<p class="quiet">The card declares no security scheme.</p>`;
  // 1.0 has one member that names the kind; 0.3 has "type".
  return html`<ul class="findings">${schemes.map(([name, scheme]) => {
    const [kind, inside] = scheme?.type ? [scheme.type, scheme] : Object.entries(object(scheme))[0] ?? ["", {}];
    return html`<li key=${name}><strong>${text(name, 100)}</strong> <${Badge}>${text(kind, 60)}<//>
      <p dir="auto">${text(object(inside).description, 1000)}</p><${JsonTree} value=${inside} label=${`Scheme ${text(name, 60)}`} openTo=${1} /></li>`;
  })}</ul>`;
}

function Checks({ judged, changes }) {
  const [pointer, setPointer] = useState("");
  const at = useMemo(() => valueAt(judged.card, pointer), [judged, pointer]);
  return html`<div class="stack">
    <section class="card"><h2>Findings</h2><${Findings} findings=${judged.findings} onPoint=${setPointer} none="The card follows the rules." />
      ${pointer ? html`<div role="region" aria-label="Place"><p class="hint">At <code>${safe(pointer, 300)}</code>:</p>${at === undefined ? html`<p class="quiet">There is nothing at this place.</p>` : html`<${JsonTree} key=${pointer} value=${at} label="Value" />`}</div>` : null}</section>
    <section class="card"><h2>Signature</h2><${Signatures} signatures=${judged.signatures} /></section>
    <section class="card"><h2>Changes</h2>
      ${changes.before
        ? html`<p>The card is not the one that this browser saw on ${exact(changes.before.at)}.</p>
            <${Diff} before=${changes.before.card} after=${judged.card} titles=${["Then", "Now"]} /><button type="button" onClick=${changes.accept}>I have seen this</button>`
        : html`<p class="quiet">${changes.isFirst ? "This browser sees the card for the first time, and will tell when it changes." : `No change since ${exact(changes.since)}.`}</p>`}</section>
  </div>`;
}

function valueAt(value, pointer) {
  let at = value;
  for (const part of pointer.split("/").slice(1)) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    if (at === null || typeof at !== "object" || !Object.hasOwn(at, name)) return undefined;
    at = at[name];
  }
  return at;
}

// The card as this browser saw it the last time.
function useRememberedCard(handle, card) {
  const [state, setState] = useState({ before: null, isFirst: true, since: "" });
  const now = () => new Date().toISOString();
  const keep = (at) => {
    const all = remembered("cards", {});
    const kept = Object.entries(all).filter(([name]) => name !== handle).slice(-MOST_CARDS + 1);
    if (JSON.stringify(card).length <= MOST_CARD) remember("cards", Object.fromEntries([...kept, [handle, { at, card }]]));
  };
  useEffect(() => {
    if (!card) return;
    const all = remembered("cards", {});
    const known = Object.hasOwn(all, handle) ? all[handle] : null;
    const isSame = known && diff(known.card, card).every(({ kind }) => kind === "same");
    if (!known) keep(now());
    setState({ before: known && !isSame ? known : null, isFirst: !known, since: known?.at ?? "" });
  }, [handle, card]);
  return {
    ...state,
    accept: () => {
      keep(now());
      setState({ before: null, isFirst: false, since: now() });
    },
  };
}

function Raw({ agent }) {
  const [version, setVersion] = useState(agent.versions?.[0] ?? "1.0");
  const { data, error, again, isLoading } = useLoaded(async (signal) => {
    const response = await request(agent.cardPath, { signal, headers: { "A2A-Version": version } });
    return { status: response.status, headers: [...response.headers], text: await response.text(), version };
  }, [agent.cardPath, version]);
  return html`<div class="stack"><div class="row" role="group" aria-label="Version of A2A">
      ${["1.0", "0.3"].map((each) => html`<button key=${each} type="button" class="small" aria-pressed=${String(each === version)} onClick=${() => setVersion(each)}>A2A ${each}</button>`)}
      <code>${safe(agent.cardPath, 300)}</code> <${CopyButton} label="Copy URL" text=${() => new URL(agent.cardPath, gateway.get()?.publicUrl || location.origin).href} /></div>
    <${Problem} error=${error} again=${again} />
    ${data
      ? html`<section class="card" aria-busy=${String(isLoading)}><p class="row"><${Badge} tone=${data.status < 400 ? "good" : "bad"}>${data.status}<//> <span class="hint">ETag</span> <code>${safe(data.headers.find(([name]) => name === "etag")?.[1] ?? "none", 200)}</code></p>
          <details><summary>Headers</summary><${Headers} headers=${data.headers} label="Headers of the card" /></details>
          <${Body} key=${data.version} value=${data.text} label=${`Card for A2A ${data.version}`} /></section>`
      : error ? null : html`<${Loading} />`}</div>`;
}

function Call({ agent, card }) {
  const [version, setVersion] = useState(agent.versions?.[0] ?? "1.0");
  const [operation, setOperation] = useState("send");
  const [binding, setBinding] = useState("jsonrpc");
  const example = list(object(list(card?.skills)[0]).examples).find((each) => typeof each === "string") ?? "hello";
  const params = { message: { messageId: "m1", role: "ROLE_USER", parts: [{ text: example.slice(0, 2000) }] } };
  const peer = peerOf(agent, { version, binding });
  const composed = { ...peer.compose(operation, params), isStream: operation === "stream" };
  if (composed.body?.jsonrpc) composed.body = { ...composed.body, id: "1" };
  return html`<div class="stack"><div class="row">
      <label class="row"><span class="hint">Version</span><select value=${version} onChange=${(event) => setVersion(event.target.value)}>${(agent.versions?.length ? agent.versions : ["1.0"]).map((each) => html`<option>${safe(each, 10)}</option>`)}</select></label>
      <label class="row"><span class="hint">Operation</span><select value=${operation} onChange=${(event) => setOperation(event.target.value)}><option value="send">send</option><option value="stream">stream</option></select></label>
      ${agent.restPath ? html`<label class="row"><span class="hint">Binding</span><select value=${binding} onChange=${(event) => setBinding(event.target.value)}><option value="jsonrpc">JSON-RPC</option><option value="rest">HTTP+JSON</option></select></label>` : null}</div>
    ${binding === "rest" && version === "0.3" ? html`<p class="hint">The page speaks HTTP+JSON in 1.0 alone, so these use JSON-RPC.</p>` : null}
    <${Command} title="curl" text=${asCurl(composed)} />
    <${Command} title="CLI" text=${asCli(operation, params, agent.jsonrpcPath)} />
    <${Command} title="Python" text=${asPython(composed)} />
    <${Command} title="JavaScript" text=${asJavaScript(composed)} />
    <p class="hint">Programs need a key of their own where callers must sign in: put it into TRUNKLINE_KEY.</p></div>`;
}

function Operate({ agent }) {
  const settings = useWireSettings();
  const [minutes, setMinutes] = useState(60);
  const own = settings.data?.agents.find(({ id }) => id === agent.id);
  return html`<div class="columns">
    <section class="card"><h2>Record requests and answers</h2>
      <${Problem} error=${settings.error} again=${settings.again} />
      ${own
        ? html`<${RecordingSwitch} agent=${own} minutes=${minutes} onChange=${settings.again} /><${MinutesSelect} minutes=${minutes} onChange=${setMinutes} />
            <p><a href=${link("inspector", { q: `agent:${agent.handle}` })}>Its exchanges in the inspector</a></p>`
        : settings.data ? html`<p class="quiet">This agent cannot be recorded: it is not published.</p>` : html`<${Loading} />`}</section>
    <section class="card"><h2>Faults</h2><${FaultForm} agent=${agent} /></section></div>`;
}

function EndVisit({ slug }) {
  const end = async () => {
    try {
      await api(`/visits/${encodeURIComponent(slug)}`, { method: "DELETE" });
      notify("The visit has ended");
      go("agents", "visit");
    } catch (error) {
      notifyError(error);
    }
  };
  return html`<button type="button" onClick=${end}>End the visit</button>`;
}

const WHERE = { public: "agents at public addresses", any: "agents anywhere, also on this machine and in private networks" };

function Visit() {
  const about = useValue(gateway);
  const allowed = about?.visits ?? "never";
  const [form, setForm] = useState({ url: "", headers: "" });
  const [state, setState] = useState({ error: null, agent: null, judged: null, isBusy: false });
  const visits = useLoaded((signal) => (allowed === "never" ? Promise.resolve({ items: [] }) : api("/visits", { signal })), [allowed]);
  const headers = () => Object.fromEntries(form.headers.split("\n").map((each) => each.trim()).filter(Boolean).map((each) => {
    const colon = each.indexOf(":");
    if (colon < 1) throw new Error(`Not a header: ${each}`);
    return [each.slice(0, colon).trim(), each.slice(colon + 1).trim()];
  }));
  const open = async (event) => {
    event.preventDefault();
    setState({ error: null, agent: null, judged: null, isBusy: true });
    try {
      const { agent } = await api("/visits", { method: "POST", body: { url: form.url.trim(), headers: headers() } });
      const judged = await api(`/agents/${encodeURIComponent(agent.id)}/card`);
      setState({ error: null, agent, judged, isBusy: false });
      setForm({ ...form, headers: "" });
      visits.again();
    } catch (error) {
      setState({ error, agent: null, judged: null, isBusy: false });
    }
  };
  const { agent, judged } = state;
  return html`<div class="view agent-page"><p><a href=${link("agents")}>← All agents</a></p>
    <div class="view-head"><h1>Open an agent elsewhere</h1></div>
    ${!isOperator()
      ? html`<${Empty} title="Only operators open other agents"><p>The gateway sends the requests, so it is the operator who decides where they go.</p><//>`
      : allowed === "never"
        ? html`<${Empty} title="This gateway does not open other agents"><p>It would send requests to any address that is typed here. To allow it, set this in the configuration and start it again:</p>
            <p class="command"><code>[console]<br />visits = "public"</code> <${CopyButton} text=${'[console]\nvisits = "public"\n'} /></p>
            <p class="quiet"><code>"any"</code> also allows private networks and this machine.</p><//>`
        : html`<form class="card" onSubmit=${open}><p class="quiet">This gateway opens ${WHERE[allowed]}. The agent is published here as <code>visit/NAME</code>, for operators alone, until the gateway stops or you end the visit.</p>
            <${Field} label="URL" hint="The base URL of the agent, or the URL of its card."><input type="url" required data-filter placeholder="https://agent.example" value=${form.url} onInput=${(event) => setForm({ ...form, url: event.target.value })} /><//>
            <${Field} label="Headers" hint="For agents that want a credential: NAME: VALUE, one on each line. The gateway keeps them in memory and shows them nowhere."><textarea class="mono" rows="2" spellcheck=${false} autocomplete="off" value=${form.headers} onInput=${(event) => setForm({ ...form, headers: event.target.value })}></textarea><//>
            <${Problem} error=${state.error} />
            <button class="primary" disabled=${state.isBusy}>${state.isBusy ? "Reading the card…" : "Open"}</button></form>`}
    ${agent && judged
      ? html`<section class="preview" aria-label="Preview"><div class="view-head"><h2 dir="auto">${line(agent.name, 120)}</h2><${Verdict} findings=${judged.findings} />
            <a class="button primary" href=${link("chat", agent.owner, agent.slug)}>Chat</a><a class="button" href=${link("agents", agent.owner, agent.slug)}>Card</a></div>
          <${Card} agent=${agent} judged=${judged} /></section>`
      : null}
    ${visits.data?.items.length
      ? html`<section class="card"><h2>Open now</h2><ul class="findings">${visits.data.items.map((visit) => html`<li key=${visit.agent.id}><a href=${link("agents", visit.agent.owner, visit.agent.slug)} dir="auto">${line(visit.agent.name, 100)}</a> <span class="quiet">${safe(visit.url, 300)}</span></li>`)}</ul></section>`
      : null}</div>`;
}
