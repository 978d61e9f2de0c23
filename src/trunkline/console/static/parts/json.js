// `JsonTree`: JSON as a tree that opens by hand. It draws what is open, so a large value costs what
// is looked at.
import { html, useState } from "../lib/html.js";
import { bytes, plural, safe } from "../lib/format.js";
import { CopyButton } from "./basics.js";

const MOST_MEMBERS = 200;
const MOST_CHARS = 2000;

export function JsonTree({ value, label = "JSON", openTo = 2, find = "" }) {
  return html`<div class="json" role="tree" aria-label=${label}>
    <${Node} name=${null} value=${value} depth=${0} openTo=${openTo} find=${find.toLowerCase()} />
  </div>`;
}

function Node({ name, value, depth, openTo, find }) {
  const isBranch = value !== null && typeof value === "object";
  const [isOpen, setOpen] = useState(depth < openTo);
  const [shown, setShown] = useState(MOST_MEMBERS);
  const label = name === null ? null : html`<span class="json-name">${safe(name, 200)}</span>`;
  if (!isBranch) {
    return html`<div class="json-leaf" role="treeitem">${label}<${Leaf} value=${value} find=${find} /></div>`;
  }
  const entries = Array.isArray(value) ? value.map((each, i) => [i, each]) : Object.entries(value);
  const size = Array.isArray(value) ? plural(entries.length, "item") : plural(entries.length, "member");
  return html`<div class="json-branch" role="treeitem" aria-expanded=${String(isOpen)}>
    <button type="button" class="json-toggle" aria-expanded=${String(isOpen)}
      onClick=${() => setOpen(!isOpen)}><i aria-hidden="true">${isOpen ? "▾" : "▸"}</i>${label}
      <span class="quiet">${Array.isArray(value) ? "[ ]" : "{ }"} ${size}</span></button>
    ${isOpen
      ? html`<div class="json-members" role="group">
          ${entries.slice(0, shown).map(
            ([key, each]) => html`<${Node} key=${key} name=${key} value=${each} depth=${depth + 1} openTo=${openTo} find=${find} />`,
          )}
          ${entries.length > shown
            ? html`<button type="button" class="small" onClick=${() => setShown(shown + 1000)}>Show more (${entries.length - shown} left)</button>`
            : null}
        </div>`
      : null}
  </div>`;
}

function Leaf({ value, find }) {
  const [isWhole, setWhole] = useState(false);
  if (typeof value !== "string") return html`<span class=${`json-${value === null ? "null" : typeof value}`}>${String(value)}</span>`;
  const isFound = find && value.toLowerCase().includes(find);
  const text = isWhole || value.length <= MOST_CHARS ? value : value.slice(0, MOST_CHARS);
  return html`<span class=${`json-string ${isFound ? "found" : ""}`} dir="auto">"${safe(text, Infinity)}"</span>
    ${value.length > MOST_CHARS && !isWhole
      ? html` <button type="button" class="small" onClick=${() => setWhole(true)}>Show all (${bytes(value.length)})</button>`
      : null}`;
}

// JSON as text, or the text itself where it is none, with a button to copy it.
export function JsonView({ text, value, label }) {
  const [isRaw, setRaw] = useState(false);
  const parsed = value !== undefined ? { value } : parse(text);
  const raw = text ?? JSON.stringify(value, null, 2);
  return html`<div class="json-view">
    <div class="row end">
      ${parsed ? html`<button type="button" class="small" aria-pressed=${String(isRaw)} onClick=${() => setRaw(!isRaw)}>${isRaw ? "Tree" : "Raw"}</button>` : null}
      <${CopyButton} text=${raw} />
    </div>
    ${parsed && !isRaw ? html`<${JsonTree} value=${parsed.value} label=${label} />` : html`<pre class="raw" tabindex="0">${safe(raw, 500_000)}</pre>`}
  </div>`;
}

function parse(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" ? { value } : null;
  } catch {
    return null;
  }
}
