// Small parts of the inspector and of the agent page.
import { html, useState } from "../../lib/html.js";
import { bytes, line, safe } from "../../lib/format.js";
import { Badge, CopyButton, Tabs } from "../../parts/basics.js";
import { JsonTree } from "../../parts/json.js";
import { bodyText, json, spoken } from "./exchange.js";

// JSON of this size is open as a whole.
const SMALL = 4000;

export function Status({ row }) {
  if (row.status === null) return html`<span class="quiet">${row.ms === null ? "open" : row.error ? "broken" : "–"}</span>`;
  const isBad = row.status >= 400 || row.error;
  return html`<span class=${`http ${isBad ? "bad" : "good"}`}>${isBad ? "✕" : "✓"} ${row.status}</span>`;
}

export const SIDES = {
  server: ["→", "in", "A request to the gateway"],
  client: ["⇢", "out", "A request of the gateway to a backend"],
};

export function Side({ side }) {
  const [mark, word, title] = SIDES[side] ?? SIDES.server;
  return html`<span class=${`side ${side}`} title=${title}><span aria-hidden="true">${mark}</span> ${word}</span>`;
}

// What a row is called where there is room for one line.
export const nameOf = (row) => line(row.operation || `${row.httpMethod} ${row.url.replace(/^https?:\/\/[^/]*/, "")}`, 80);

export function Headers({ headers, label }) {
  if (!headers.length) return html`<p class="quiet">No headers</p>`;
  return html`<table class="plain headers" aria-label=${label}><tbody>${headers.map(
    ([name, value], i) => html`<tr key=${i}><th scope="row">${safe(name, 200)}</th><td>${safe(value, 8000)}</td></tr>`,
  )}</tbody></table>`;
}

// A body with its true size, as a tree where it is JSON.
export function Body({ body, value, find = "", label, truncated = false }) {
  const [isRaw, setRaw] = useState(false);
  const text = body ? bodyText(body) : value;
  const parsed = body?.base64 === undefined ? json(text) : undefined;
  const isTree = parsed !== null && typeof parsed === "object";
  const kept = body?.base64 !== undefined ? Math.floor((text.length * 3) / 4) : new Blob([text]).size;
  const size = body?.size ?? kept;
  if (!size && !text) return html`<p class="quiet">No body</p>`;
  return html`<div class="body-view">
    <div class="row between">
      <span class="hint">${bytes(size)}${body?.base64 !== undefined ? ", not text: shown as base64" : ""}
        ${truncated && kept < size ? html` <${Badge} tone="ask">${bytes(kept)} of ${bytes(size)} kept<//>` : null}</span>
      <span class="row">
        ${isTree ? html`<button type="button" class="small" aria-pressed=${String(isRaw)} onClick=${() => setRaw(!isRaw)}>Raw</button>` : null}
        <${CopyButton} text=${text} />
      </span>
    </div>
    ${isTree && !isRaw
      ? html`<${JsonTree} key=${find} value=${parsed} label=${label} openTo=${find ? 12 : text.length < SMALL ? 10 : 3} find=${find} />`
      : html`<pre class="raw" tabindex="0" aria-label=${label}>${safe(text, 200_000)}</pre>`}
  </div>`;
}

export function Command({ title, text, note }) {
  return html`<section class="snippet"><div class="row between"><h2>${title}</h2>${text ? html`<${CopyButton} text=${text} label=${`Copy ${title}`} />` : null}</div>
    ${text ? html`<pre class="raw" tabindex="0" aria-label=${title}>${safe(text, 100_000)}</pre>` : html`<p class="quiet">${note}</p>`}
  </section>`;
}

// The binding and the version of an exchange.
export function Spoken({ record }) {
  const { version, binding } = record.requestBody ? spoken(record) : record;
  return html`<${Badge}>${binding === "rest" ? "HTTP+JSON" : binding === "jsonrpc" ? "JSON-RPC" : safe(binding)}<//>
    ${version ? html` <${Badge} tone="accent">A2A ${safe(version, 10)}<//>` : null}`;
}

export { Tabs };
