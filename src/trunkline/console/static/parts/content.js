// Messages and artifacts as people read them. A part is a text, a file or data (A2A 1.0, 4.1.6).
import { Icon } from "./icons.js";
import { html, useEffect, useState } from "../lib/html.js";
import { bytes, fileName, line, safe } from "../lib/format.js";
import { Badge, CopyButton, Id, download } from "./basics.js";
import { JsonTree } from "./json.js";
import { Link, Markdown } from "./markdown.js";

// Longer texts are drawn as plain text, until somebody wants them as Markdown.
const MARKDOWN_CHARS = 60_000;
const PLAIN_CHARS = 20_000;
// Only these types are drawn as pictures; SVG and HTML are code.
const RASTER = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

export function Message({ message }) {
  const isAgent = message.role === "ROLE_AGENT";
  return html`<article class=${`said ${isAgent ? "agent" : "user"}`}>
    <header class="row"><${Badge} tone=${isAgent ? "accent" : ""}>${isAgent ? "agent" : "user"}<//><${Id} id=${message.messageId} /></header>
    <${Parts} parts=${message.parts} />
  </article>`;
}

export function Artifact({ artifact, isGrowing = false }) {
  return html`<article class="said artifact">
    <header class="row"><${Badge} tone="good">artifact<//>
      ${artifact.name ? html`<strong dir="auto">${line(artifact.name, 120)}</strong>` : null}<${Id} id=${artifact.artifactId} /></header>
    ${artifact.description ? html`<p class="quiet" dir="auto">${line(artifact.description, 400)}</p>` : null}
    <${Parts} parts=${artifact.parts} isGrowing=${isGrowing} />
  </article>`;
}

export function Parts({ parts = [], isGrowing = false }) {
  return parts.map((part, i) => html`<${Part} key=${i} part=${part} isGrowing=${isGrowing} />`);
}

function Part({ part, isGrowing }) {
  if (typeof part.text === "string") return html`<${Text} text=${part.text} isGrowing=${isGrowing} />`;
  if (part.raw !== undefined || part.url !== undefined) return html`<${File} part=${part} />`;
  return html`<${JsonTree} value=${part.data === undefined ? part : part.data} label="Data" openTo=${2} />`;
}

export function Text({ text, isGrowing = false }) {
  const [isMarkdown, setMarkdown] = useState(false);
  if (text.length <= MARKDOWN_CHARS || isMarkdown) return html`<${Markdown} text=${text} isGrowing=${isGrowing} />`;
  return html`<div><p class="row quiet">The last ${bytes(PLAIN_CHARS)} of ${bytes(text.length)}
      <button type="button" class="small" onClick=${() => setMarkdown(true)}>Show all</button>
      <${CopyButton} text=${text} /></p>
    <pre class="raw" dir="auto" tabindex="0">${safe(text.slice(-PLAIN_CHARS), Infinity)}</pre></div>`;
}

function File({ part }) {
  const [isShown, setShown] = useState(false);
  const type = String(part.mediaType ?? "");
  const name = fileName(part.filename);
  if (part.raw === undefined) {
    return html`<p class="file"><${Icon} name="attach" size=${15} /> <${Link} href=${part.url}>${line(part.filename || part.url, 200)}<//> <span class="quiet">${line(type, 80)}, on another server</span></p>`;
  }
  const blob = () => new Blob([decoded(part.raw)], { type: RASTER.has(type) ? type : "application/octet-stream" });
  return html`<div class="file"><p class="row"><${Icon} name="attach" size=${15} /> <span dir="auto">${safe(name)}</span>
      <span class="quiet">${line(type, 80)} ${bytes(Math.floor((part.raw.length * 3) / 4))}</span>
      <button type="button" class="small" onClick=${() => download(name, blob())}>Save</button>
      ${RASTER.has(type) ? html`<button type="button" class="small" aria-expanded=${String(isShown)} onClick=${() => setShown(!isShown)}>Preview</button>` : null}</p>
    ${isShown ? html`<${Picture} blob=${blob} name=${name} />` : null}</div>`;
}

function Picture({ blob, name }) {
  const [url, setUrl] = useState("");
  useEffect(() => {
    const made = URL.createObjectURL(blob());
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, []);
  return url ? html`<img class="preview" src=${url} alt=${safe(name)} />` : null;
}

// Base64 of either alphabet; what is no base64 gives no bytes.
function decoded(base64) {
  try {
    const text = atob(String(base64).replaceAll("-", "+").replaceAll("_", "/"));
    return Uint8Array.from(text, (c) => c.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}
