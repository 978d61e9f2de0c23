// The same message to two agents, or to one in two versions, beside each other.
// `#/chat/compare?a=OWNER/SLUG&b=OWNER/SLUG&aWay=1.0+JSON-RPC`
import { html, useEffect, useMemo, useState } from "../../lib/html.js";
import { api } from "../../lib/api.js";
import { bytes, duration, line, plural } from "../../lib/format.js";
import { filterBy, link } from "../../lib/router.js";
import { useLoaded, useValue } from "../../lib/state.js";
import { Loading, Problem, notifyError } from "../../parts/basics.js";
import { wayName, waysOf } from "../chat.js";
import { Composer } from "./composer.js";
import { Log } from "./log.js";
import * as store from "./store.js";

export default function Compare({ query }) {
  const { data, error, again } = useLoaded((signal) => api("/agents", { query: { pageSize: 100 }, signal }), []);
  const [round, setRound] = useState(0);
  // Both sides live here, so that the draft of a comparison is of neither conversation.
  const [a, b] = useMemo(() => ["a", "b"].map((side) => (query[side] ? store.besideConversation(query[side]) : null)), [query.a, query.b, round]);
  if (error) return html`<div class="view"><${Problem} error=${error} again=${again} /></div>`;
  if (!data) return html`<${Loading} />`;
  const send = (parts) => {
    for (const talk of [a, b]) talk.send(parts).catch(notifyError);
  };
  const isReady = a && b;
  return html`<div class="view compare"><div class="view-head"><h1>Compare</h1>
      <a class="button small" href=${link("chat")}>‹ Chat</a>
      ${isReady ? html`<button type="button" class="small" onClick=${() => setRound(round + 1)}>New comparison</button>` : null}</div>
    ${isReady ? html`<${Both} a=${a} b=${b} onSend=${send} />` : html`<p class="quiet">Choose two agents, or one agent twice with two versions of A2A. Both get the same message.</p>`}
    <div class="sides">${["a", "b"].map((side) => html`<${Side} key=${side} side=${side} talk=${side === "a" ? a : b} query=${query} agents=${data.items} />`)}</div>
  </div>`;
}

function Both({ a, b, onSend }) {
  const { data: agent } = useLoaded(() => store.agentOf(a.handle), [a.handle]);
  return html`<${Composer} key=${a.key} talk=${a} agent=${agent} onSend=${onSend} />`;
}

function Side({ side, talk, query, agents }) {
  const name = side === "a" ? "First agent" : "Second agent";
  return html`<section class="side" aria-label=${name}>
    <label class="field"><span class="label">${name}</span>
      <select value=${query[side] ?? ""} onChange=${(event) => filterBy({ [side]: event.target.value, [`${side}Way`]: "" })}>
        <option value="">Choose</option>${agents.map((agent) => html`<option value=${agent.handle}>${line(agent.name, 50)} (${line(agent.handle, 50)})</option>`)}</select></label>
    ${talk ? html`<${Answer} talk=${talk} side=${side} way=${query[`${side}Way`]} />` : null}
  </section>`;
}

function Answer({ talk, side, way }) {
  useValue(talk.version);
  const { data: agent, error } = useLoaded(() => store.agentOf(talk.handle), [talk.handle]);
  const ways = agent ? waysOf(agent) : [];
  const names = ways.map(wayName);
  const current = names.includes(way) ? way : names[0];
  useEffect(() => {
    if (current) talk.way = ways[names.indexOf(current)];
  }, [talk, current]);
  if (error) return html`<${Problem} error=${error} />`;
  if (!agent) return html`<${Loading} />`;
  talk.agentName = agent.name;
  const { first, last, begin, chars } = talk.measured;
  return html`<label class="field"><span class="label">Version and binding</span>
      <select value=${current} onChange=${(event) => filterBy({ [`${side}Way`]: event.target.value })}>${names.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>
    ${begin ? html`<p class="sums"><span>First output: ${first ? duration(first - begin) : "–"}</span><span>Whole: ${talk.isBusy ? "running" : last ? duration(last - begin) : "–"}</span>
      <span>${plural(chars, "character")} of text</span><span>${bytes(talk.measured.bytes)} in ${plural(talk.measured.events, "event")}</span></p>` : null}
    <${Log} talk=${talk} agent=${agent} onEdit=${{ resend: (entry) => talk.send(entry.parts).catch(notifyError), branch: null }} />`;
}
