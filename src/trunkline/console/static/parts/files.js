// Files: those that a person adds to a message, and those that an agent sends. Nothing of a file
// runs here, and nothing is loaded from elsewhere.
import { html, useEffect, useMemo, useState } from "../lib/html.js";
import { bytes, fileName, line, safe } from "../lib/format.js";
import { Link } from "./markdown.js";
import { download } from "./basics.js";

const SHOWN_CHARS = 20_000;
// What the gateway takes in one request, about: base64 makes a file a third larger.
export const LARGEST = 20_000_000;

// The media type of a file: what the browser says, else by its ending.
const BY_ENDING = {
  md: "text/markdown", txt: "text/plain", csv: "text/csv", json: "application/json", log: "text/plain", py: "text/x-python",
  js: "text/javascript", html: "text/html", xml: "application/xml", yaml: "application/yaml", yml: "application/yaml", toml: "application/toml",
};

export function typeOf(file) {
  return file.type.split(";")[0].toLowerCase() || BY_ENDING[file.name.split(".").pop().toLowerCase()] || "application/octet-stream";
}

// The media types that an agent accepts, of the card and all of its skills.
export function acceptedTypes(card) {
  const modes = new Set(card?.defaultInputModes ?? []);
  for (const skill of card?.skills ?? []) for (const mode of skill.inputModes ?? []) modes.add(mode);
  return [...modes].map((mode) => String(mode).split(";")[0].trim().toLowerCase());
}

export function isAccepted(type, modes) {
  if (!modes.length) return true;
  return modes.some((mode) => mode === "*/*" || mode === "*" || mode === type || (mode.endsWith("/*") && type.startsWith(mode.slice(0, -1))));
}

// Why a file cannot be sent, or "".
export function whyRefused(file, modes) {
  const type = typeOf(file);
  if (!isAccepted(type, modes)) {
    return `${line(file.name, 60)} is ${line(type, 60)}, and this agent accepts ${modes.map((mode) => line(mode, 60)).join(", ")}.`;
  }
  if (file.size > LARGEST) return `${line(file.name, 60)} has ${bytes(file.size)}; at most ${bytes(LARGEST)} can be sent in a message. Send a link to it.`;
  return "";
}

// The content of a file in base64. `onProgress` gets the share that was read.
export function readFile(file, onProgress = () => {}) {
  return new Promise((done, stop) => {
    const reader = new FileReader();
    reader.onprogress = (event) => onProgress(event.total ? event.loaded / event.total : 0);
    reader.onerror = () => stop(new Error(`${line(file.name, 60)} cannot be read. Was it moved or deleted?`));
    reader.onload = () => done(String(reader.result).replace(/^[^,]*,/, ""));
    reader.readAsDataURL(file);
  });
}

export function bytesOf(base64) {
  const text = atob(String(base64).replaceAll("-", "+").replaceAll("_", "/"));
  const content = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) content[i] = text.charCodeAt(i);
  return content;
}

// The first bytes of the pictures that are drawn. The name and the type that an agent gives decide
// nothing: SVG can hold scripts.
const PICTURES = [
  ["image/png", [0x89, 0x50, 0x4e, 0x47]],
  ["image/jpeg", [0xff, 0xd8, 0xff]],
  ["image/gif", [0x47, 0x49, 0x46, 0x38]],
  ["image/webp", [0x52, 0x49, 0x46, 0x46, -1, -1, -1, -1, 0x57, 0x45, 0x42, 0x50]],
];

export function pictureType(content) {
  return PICTURES.find(([, begin]) => begin.every((byte, i) => byte === -1 || content[i] === byte))?.[0] ?? "";
}

function textOf(content, type) {
  if (!/^text\/|json|xml|yaml|toml|javascript|svg/.test(type) && content.subarray(0, 1000).includes(0)) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(content.subarray(0, SHOWN_CHARS));
  } catch {
    return /^text\//.test(type) ? new TextDecoder().decode(content.subarray(0, SHOWN_CHARS)) : null;
  }
}

// A part of a message or an artifact that is a file or a link to one.
export function FilePart({ part, name = "" }) {
  const shownName = line(fileName(part.filename || name, "file"), 100);
  const type = line(String(part.mediaType ?? "").split(";")[0].toLowerCase() || "unknown type", 80);
  if (part.url !== undefined) {
    return html`<div class="file"><div class="file-head"><i aria-hidden="true">↗</i>
      <span class="file-name" dir="auto">${shownName}</span><span class="quiet">${type}, elsewhere</span></div>
      <p><${Link} href=${part.url}>${safe(part.url, 300)}<//></p>
      <p class="hint">The page does not load it. The link opens it in another tab.</p></div>`;
  }
  return html`<${Content} part=${part} name=${shownName} type=${type} />`;
}

function Content({ part, name, type }) {
  const pieces = part.pieces?.length ?? 0;
  const content = useMemo(() => {
    try {
      return part.pieces ? joined(part.pieces.map(bytesOf)) : bytesOf(part.raw);
    } catch {
      return null;
    }
  }, [part.raw, pieces]);
  if (!content) return html`<div class="file"><p>${name}: its content is not base64, so it cannot be shown or saved.</p></div>`;
  const save = () => download(fileName(part.filename, name), content);
  return html`<div class="file">
    <div class="file-head"><i aria-hidden="true">▤</i><span class="file-name" dir="auto">${name}</span>
      <span class="quiet">${type}, ${bytes(content.length)}</span>
      <button type="button" class="small" onClick=${save} aria-label=${`Save ${name}`}>Save</button></div>
    <${Preview} content=${content} type=${type} name=${name} />
  </div>`;
}

function joined(all) {
  const whole = new Uint8Array(all.reduce((sum, each) => sum + each.length, 0));
  let at = 0;
  for (const each of all) {
    whole.set(each, at);
    at += each.length;
  }
  return whole;
}

function Preview({ content, type, name }) {
  const picture = pictureType(content);
  const [isOpen, setOpen] = useState(false);
  if (picture) return html`<${Picture} content=${content} type=${picture} name=${name} />`;
  const text = isOpen ? textOf(content, type) : "";
  return html`<details class="file-text" onToggle=${(event) => setOpen(event.target.open)}><summary>Show as text</summary>
    ${isOpen ? (text === null
      ? html`<p class="quiet">This is not text. Save it to open it.</p>`
      : html`<pre class="raw" tabindex="0" dir="auto">${safe(text, Infinity)}</pre>
        ${content.length > SHOWN_CHARS ? html`<p class="quiet">The first ${bytes(SHOWN_CHARS)} of ${bytes(content.length)}. Save it to read the rest.</p>` : null}`) : null}
  </details>`;
}

function Picture({ content, type, name }) {
  const [url, setUrl] = useState("");
  const [isBroken, setBroken] = useState(false);
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([content], { type }));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [content]);
  if (isBroken) return html`<p class="quiet">This picture cannot be drawn. Save it to open it.</p>`;
  return url ? html`<img class="picture" src=${url} alt=${name} onError=${() => setBroken(true)} />` : null;
}
