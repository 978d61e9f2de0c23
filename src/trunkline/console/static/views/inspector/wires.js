// `Wires`: what came to the gateway beside what it sent to the backend, and the two answers, with the
// translation between them as differences.
import { html, useMemo, useState } from "../../lib/html.js";
import { bytes, duration, plural, safe } from "../../lib/format.js";
import { Loading, Problem } from "../../parts/basics.js";
import { Diff } from "./diff.js";
import { bodyText, isStream, json, payload, spoken } from "./exchange.js";
import { useRecord, summaryOf } from "./detail.js";
import { Headers, nameOf, Spoken, Status } from "./parts.js";

export function Wires({ log, family }) {
  const [child, setChild] = useState(family.children[0]);
  const chosen = family.children.includes(child) ? child : family.children[0];
  const ours = useRecord(log, family.server);
  const theirs = useRecord(log, chosen);
  const error = ours.error ?? theirs.error;
  if (error) return html`<${Problem} error=${error} />`;
  if (!ours.record || !theirs.record) return html`<${Loading} />`;
  return html`<div class="stack wires">
    ${family.children.length > 1
      ? html`<div class="row" role="group" aria-label="Requests to the backend">${family.children.map((id) => {
          const row = log.find(id);
          return html`<button key=${id} type="button" class="small" aria-pressed=${String(id === chosen)} onClick=${() => setChild(id)}>${nameOf(row)}</button>`;
        })}</div>`
      : null}
    <div class="split">
      <${Wire} log=${log} title="The caller and the gateway" record=${ours.record} />
      <${Wire} log=${log} title="The gateway and the backend" record=${theirs.record} />
    </div>
    <${Hop} key=${chosen} ours=${ours.record} theirs=${theirs.record} />
  </div>`;
}

function Wire({ log, title, record }) {
  return html`<section class="card"><h2>${title}</h2>
    <p class="row"><${Spoken} record=${record} /> <${Status} row=${record} />
      <span class="hint">${bytes(record.requestBytes)} → ${bytes(record.responseBytes)}, ${record.events ? `${plural(record.events, "event")}, ` : ""}${duration(record.ms) || "open"}</span></p>
    <p class="mono first-line"><a href=${log.href(record.id, {})}>${safe(spoken(record).operation, 60) || "open"}</a> ${safe(record.httpMethod, 20)} ${safe(record.url, 500)}</p>
    <details><summary>Request headers</summary><${Headers} headers=${record.requestHeaders} label=${`${title}: request headers`} /></details>
    <details><summary>Response headers</summary><${Headers} headers=${record.responseHeaders} label=${`${title}: response headers`} /></details>
  </section>`;
}

// Names are compared in one case, because HTTP does.
const headerObject = (headers) => Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value]));
const valueOf = (text) => json(text) ?? (text || undefined);

function Hop({ ours, theirs }) {
  const [withHeaders, setHeaders] = useState(false);
  const received = useMemo(() => valueOf(bodyText(ours.requestBody)), [ours]);
  const forwarded = useMemo(() => valueOf(bodyText(theirs.requestBody)), [theirs]);
  const versions = [spoken(ours).version, spoken(theirs).version];
  const areStreams = isStream(ours) && isStream(theirs);
  return html`
    <section class="card"><h2>Request: received and forwarded</h2>
      ${versions[0] && versions[1] && versions[0] !== versions[1]
        ? html`<p>The gateway translated the request from A2A ${safe(versions[0], 10)} to A2A ${safe(versions[1], 10)}.</p>`
        : null}
      <${Diff} before=${received} after=${forwarded} titles=${["Received", "Forwarded"]} />
      <details onToggle=${(event) => setHeaders(event.target.open)}><summary>Headers</summary>
        ${withHeaders ? html`<${Diff} before=${headerObject(ours.requestHeaders)} after=${headerObject(theirs.requestHeaders)} titles=${["Received", "Forwarded"]} />` : null}</details>
    </section>
    <section class="card"><h2>Answer: from the backend and to the caller</h2>
      ${areStreams
        ? html`<${Streams} ours=${ours} theirs=${theirs} />`
        : isStream(ours) || isStream(theirs)
          ? html`<p class="quiet">One of the two is a stream and the other is not, so they are not compared.</p>`
          : html`<${Diff} before=${valueOf(bodyText(theirs.responseBody))} after=${valueOf(bodyText(ours.responseBody))} titles=${["Backend", "Caller"]} />`}
    </section>`;
}

// The events of both streams in the order of their kinds: the gateway has an event of its own for most
// of those that it got.
function Streams({ ours, theirs }) {
  const [place, setPlace] = useState(0);
  const most = Math.max(ours.frames.length, theirs.frames.length);
  const at = Math.min(place, most - 1);
  const [from, to] = [theirs.frames[at], ours.frames[at]];
  return html`<div>
    <p class="quiet">${plural(theirs.frames.length, "event")} of the backend, ${plural(ours.frames.length, "event")} to the caller. The pairs are those with the same number.</p>
    <div class="row"><button type="button" class="small" disabled=${at <= 0} onClick=${() => setPlace(at - 1)}>Previous event</button>
      <span role="status">Event ${at + 1} of ${most}</span>
      <button type="button" class="small" disabled=${at >= most - 1} onClick=${() => setPlace(at + 1)}>Next event</button></div>
    <p class="hint" dir="auto">${from ? safe(summaryOf(from), 150) : "none"} → ${to ? safe(summaryOf(to), 150) : "none"}
      ${from && to ? html` (+${duration(from.ms)} and +${duration(to.ms)})` : null}</p>
    <${Diff} before=${from ? valueOf(payload(from)) : undefined} after=${to ? valueOf(payload(to)) : undefined} titles=${["Backend", "Caller"]} />
  </div>`;
}
