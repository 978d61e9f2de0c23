// `Resend`: a recorded request with changes, sent to the same agent as any client sends it. The answer
// is shown beside the recorded one.
import { html, useEffect, useRef, useState } from "../../lib/html.js";
import { request } from "../../lib/api.js";
import { bytes, duration, line, plural, safe } from "../../lib/format.js";
import { events } from "../../lib/sse.js";
import { announce, Field, Problem } from "../../parts/basics.js";
import { Diff } from "./diff.js";
import { bodyText, isStream, json, MASK, ownHeaders, payload, spoken } from "./exchange.js";
import { Body, Headers, Status } from "./parts.js";
import { summaryOf } from "./detail.js";

const MOST_EVENTS = 5000;
const MOST_BYTES = 8 * 1024 * 1024;

// Only the addresses of agents of this gateway, never those of its own interface or of other servers.
export function targetOf(record) {
  try {
    const url = new URL(record.url, location.origin);
    const isAgent = url.origin === location.origin && !url.pathname.startsWith("/api/v1/") && record.url.startsWith("/") && !record.url.startsWith("//");
    return isAgent ? url.pathname + url.search : null;
  } catch {
    return null;
  }
}

const headersOf = (text) => {
  const headers = {};
  for (const each of text.split("\n").map((one) => one.trim()).filter(Boolean)) {
    const colon = each.indexOf(":");
    if (colon < 1 || !/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(each.slice(0, colon))) throw new Error(`Not a header: ${each}`);
    headers[each.slice(0, colon)] = each.slice(colon + 1).trim();
  }
  return headers;
};

const pretty = (text) => {
  const value = json(text);
  // A number that JavaScript would round stays as it was sent.
  return value !== null && typeof value === "object" && !/\d{16}/.test(text) ? JSON.stringify(value, null, 2) : text;
};

export function Resend({ record }) {
  const sent = ownHeaders(record).filter(([name]) => !/^a2a-version$/i.test(name));
  const masked = sent.filter(([, value]) => value.includes(MASK));
  const [headers, setHeaders] = useState(sent.filter(([, value]) => !value.includes(MASK)).map(([name, value]) => `${name}: ${value}`).join("\n"));
  const [version, setVersion] = useState(spoken(record).version);
  const [body, setBody] = useState(() => pretty(bodyText(record.requestBody)));
  const [state, setState] = useState({ error: null, answer: null, isSending: false });
  const sending = useRef(null);
  useEffect(() => () => sending.current?.abort(), []);
  const url = targetOf(record);
  if (!url) return html`<p class="quiet">This request did not go to an agent of this gateway, so the page cannot resend it.</p>`;

  const send = async (event) => {
    event.preventDefault();
    const controller = (sending.current = new AbortController());
    const began = performance.now();
    const answer = { status: null, responseHeaders: [], responseBody: { text: "", size: 0 }, frames: [], events: 0, ms: null, error: "" };
    const show = (more = {}) => setState({ error: null, answer: Object.assign(answer, more) && { ...answer }, isSending: answer.ms === null });
    try {
      const all = { ...headersOf(headers), ...(version ? { "A2A-Version": version } : {}) };
      setState({ error: null, answer: null, isSending: true });
      const response = await request(url, {
        method: record.httpMethod,
        headers: all,
        body: ["GET", "HEAD"].includes(record.httpMethod) || !body ? undefined : body,
        signal: controller.signal,
      });
      show({ status: response.status, responseHeaders: [...response.headers] });
      if ((response.headers.get("content-type") ?? "").startsWith("text/event-stream")) {
        for await (const each of events(response)) {
          if (each.comment !== undefined) continue;
          answer.events++;
          if (answer.frames.length < MOST_EVENTS) {
            answer.frames.push({ ms: performance.now() - began, data: each.data, eventId: each.id ?? "", event: each.event === "message" ? "" : each.event, size: each.data.length });
          }
          if (answer.events < 20 || answer.events % 50 === 0) show();
        }
      } else {
        const text = await response.text();
        answer.responseBody = { text: text.slice(0, MOST_BYTES), size: new Blob([text]).size };
      }
      show({ ms: performance.now() - began });
      announce(`Answered with status ${answer.status}`);
    } catch (error) {
      const isStopped = controller.signal.aborted;
      answer.ms = performance.now() - began;
      setState({ error: isStopped ? null : error, answer: answer.status === null ? null : { ...answer, error: isStopped ? "Stopped here." : error.message }, isSending: false });
    }
  };
  const { answer } = state;
  return html`<div class="split resend">
    <form class="card" onSubmit=${send} aria-label="Request to send"><h2>Send again</h2>
      <p class="mono first-line">${safe(record.httpMethod, 20)} ${safe(url, 1000)}</p>
      ${masked.length ? html`<p class="notice ask">Left out, because the secret was not recorded: ${masked.map(([name]) => safe(name, 60)).join(", ")}. The page sends as you.</p>` : null}
      <${Field} label="Version of A2A"><select value=${version} onChange=${(event) => setVersion(event.target.value)}>
        <option value="">none (no header)</option><option value="1.0">1.0</option><option value="0.3">0.3</option>
        ${version && !["1.0", "0.3"].includes(version) ? html`<option value=${version}>${safe(version, 20)}</option>` : null}</select><//>
      <${Field} label="Headers" hint="One on each line. The browser adds its own."><textarea class="mono" rows="4" spellcheck=${false} value=${headers} onInput=${(event) => setHeaders(event.target.value)}></textarea><//>
      ${record.httpMethod === "GET" ? null : html`<${Field} label="Body" error=${body && json(body) === undefined ? "Not valid JSON; it is sent as is." : ""}>
        <textarea class="mono" rows="16" spellcheck=${false} value=${body} onInput=${(event) => setBody(event.target.value)}></textarea><//>`}
      <div class="row"><button class="primary" disabled=${state.isSending}>Send</button>
        ${json(body)?.params?.message || json(body)?.message
          ? html`<button type="button" onClick=${() => setBody(withNewId(body))} title="A message with an id that was sent before is not run again">New message id</button>`
          : null}
        ${state.isSending ? html`<button type="button" onClick=${() => sending.current?.abort()}>Stop</button>` : null}</div>
    </form>
    <section class="card" aria-label="New answer"><h2>New answer</h2>
      <${Problem} error=${state.error} />
      ${answer
        ? html`<p class="row"><${Status} row=${answer} /> <span class="hint">${answer.ms === null ? "open" : duration(answer.ms)}${answer.events ? `, ${plural(answer.events, "event")}` : `, ${bytes(answer.responseBody.size)}`}</span></p>
            ${answer.error ? html`<p class="problem">${safe(answer.error, 500)}</p>` : null}
            <details><summary>Headers</summary><${Headers} headers=${answer.responseHeaders} label="Headers of the new answer" /></details>
            ${answer.events
              ? html`<ol class="events">${answer.frames.slice(-200).map((frame, i) => html`<li key=${i}><details><summary><span class="mono">+${duration(frame.ms)}</span> <span dir="auto">${line(summaryOf(frame), 120)}</span></summary><${Body} value=${frame.data} label="Event" /></details></li>`)}</ol>`
              : html`<${Body} body=${answer.responseBody} label="Body of the new answer" />`}
            ${answer.ms !== null ? html`<details><summary>Compared with the recorded answer</summary><${Compared} record=${record} answer=${answer} /></details>` : null}`
        : html`<p class="quiet">${state.isSending ? "Waiting for the answer…" : "Edit the request and send it."}</p>`}
    </section>
  </div>`;
}

function withNewId(text) {
  const value = json(text);
  const message = value.params?.message ?? value.message;
  message.messageId = crypto.randomUUID();
  return JSON.stringify(value, null, 2);
}

function Compared({ record, answer }) {
  const before = isStream(record) ? record.frames.map((frame) => json(payload(frame)) ?? frame.data) : json(bodyText(record.responseBody));
  const after = answer.events ? answer.frames.map(({ data }) => json(data) ?? data) : json(answer.responseBody.text);
  return html`<${Diff} before=${before} after=${after} titles=${["Recorded", "New"]} />`;
}
