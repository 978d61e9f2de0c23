// Small parts that many views use.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { ago, exact, safe, shortId, stateTone, stateWord } from "../lib/format.js";
import { Value, useValue } from "../lib/state.js";

// The state of a task: a word and a shape, never a colour alone.
export function State({ state }) {
  const tone = stateTone(state);
  return html`<span class=${`state ${tone}`}><i aria-hidden="true"></i>${stateWord(state)}</span>`;
}

export function Badge({ tone = "", title, children }) {
  return html`<span class=${`badge ${tone}`} title=${title}>${children}</span>`;
}

export function Time({ at }) {
  const now = useValue(minute);
  if (!at) return html`<span class="quiet">–</span>`;
  return html`<time datetime=${at} title=${exact(at)}>${ago(at, now)}</time>`;
}

// The time of "3 minutes ago" everywhere on the page.
const minute = new Value(Date.now());
setInterval(() => minute.set(Date.now()), 15_000);

export function CopyButton({ text, label = "Copy", title }) {
  const [isDone, setDone] = useState(false);
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async (event) => {
    event.stopPropagation();
    event.preventDefault();
    const value = typeof text === "function" ? await text() : text;
    try {
      await navigator.clipboard.writeText(value);
    } catch {
      copyBySelection(value);
    }
    setDone(true);
    announce("Copied");
    timer.current = setTimeout(() => setDone(false), 1500);
  };
  return html`<button type="button" class="small" onClick=${copy} title=${title}>
    ${isDone ? "Copied" : label}
  </button>`;
}

// Without a secure context there is no clipboard, but the page may select text and copy it.
function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "offscreen";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

// An id that can be copied, and leads to what it names.
export function Id({ id, href, whole = false }) {
  if (!id) return html`<span class="quiet">–</span>`;
  const shown = safe(whole ? id : shortId(id), 200);
  return html`<span class="id">
    ${href ? html`<a href=${href} title=${safe(id, 300)}>${shown}</a>` : html`<span title=${safe(id, 300)}>${shown}</span>`}
    <button type="button" class="copy-id" aria-label=${`Copy ${safe(id, 100)}`} title="Copy"
      onClick=${(event) => {
        event.stopPropagation();
        event.preventDefault();
        navigator.clipboard?.writeText(id).then(() => notify("Copied"), () => copyBySelection(id));
      }}><i aria-hidden="true"></i></button>
  </span>`;
}

export function Empty({ title, children }) {
  return html`<div class="empty"><h2>${title}</h2>${children}</div>`;
}

export function Loading({ what = "Loading" }) {
  return html`<p class="loading" role="status">${what}…</p>`;
}

// What went wrong, and what to do.
export function Problem({ error, again }) {
  if (!error) return null;
  return html`<div class="problem" role="alert">
    <p>${safe(error.message || String(error), 1000)}</p>
    ${error.retryAfterS ? html`<p class="quiet">Try again in ${error.retryAfterS} seconds.</p>` : null}
    ${again ? html`<button type="button" onClick=${again}>Try again</button>` : null}
  </div>`;
}

export function Tabs({ tabs, current, onChange, label }) {
  const onKeyDown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = tabs.findIndex(([name]) => name === current);
    const next = tabs[(at + step + tabs.length) % tabs.length][0];
    onChange(next);
    event.currentTarget.querySelector(`[data-tab="${next}"]`)?.focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${onKeyDown}>
    ${tabs.map(
      ([name, title]) => html`<button key=${name} type="button" role="tab" data-tab=${name}
        aria-selected=${String(name === current)} tabindex=${name === current ? 0 : -1}
        onClick=${() => onChange(name)}>${title}</button>`,
    )}
  </div>`;
}

export function Switch({ isOn, onChange, label, isDisabled = false }) {
  return html`<label class="switch"><input type="checkbox" role="switch" checked=${isOn}
    disabled=${isDisabled} onChange=${(event) => onChange(event.target.checked)} /><i aria-hidden="true"></i>
    <span>${label}</span></label>`;
}

export function Field({ label, hint, error, children }) {
  return html`<label class="field"><span class="label">${label}</span>${children}
    ${hint ? html`<span class="hint">${hint}</span>` : null}
    ${error ? html`<span class="error" role="alert">${safe(error, 500)}</span>` : null}</label>`;
}

// A dialog of the browser itself: it keeps the focus inside, and Escape closes it.
export function Dialog({ title, onClose, children, wide = false }) {
  const box = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    if (!box.current.open) box.current.showModal();
    return () => before?.focus?.();
  }, []);
  return html`<dialog ref=${box} class=${wide ? "wide" : ""} aria-label=${title} onClose=${onClose}
    onClick=${(event) => event.target === box.current && box.current.close()}>
    <div class="dialog-inside">
      <header><h2>${title}</h2>
        <button type="button" class="plain" aria-label="Close" onClick=${() => box.current.close()}>✕</button>
      </header>
      ${children}
    </div>
  </dialog>`;
}

// Ask before something is lost; the button names the thing: confirm({ title, text, action }).
const question = new Value(null);

export function confirm(asked) {
  return new Promise((answer) => question.set({ ...asked, answer }));
}

export function Questions() {
  const asked = useValue(question);
  if (!asked) return null;
  const answer = (isYes) => {
    question.set(null);
    asked.answer(isYes);
  };
  return html`<${Dialog} title=${asked.title} onClose=${() => answer(false)}>
    <p>${asked.text}</p>
    <footer class="row end">
      <button type="button" onClick=${() => answer(false)}>Cancel</button>
      <button type="button" class="danger" onClick=${() => answer(true)}>${asked.action}</button>
    </footer>
  <//>`;
}

// Short messages in a corner, which go by themselves.
const notices = new Value([]);
let nextNotice = 1;

export function notify(text, { tone = "", forMs = 5000 } = {}) {
  const id = nextNotice++;
  notices.update((all) => [...all.slice(-3), { id, text: safe(text, 300), tone }]);
  setTimeout(() => notices.update((all) => all.filter((each) => each.id !== id)), forMs);
}

export const notifyError = (error) => notify(error.message || String(error), { tone: "bad", forMs: 9000 });

export function Notices() {
  return html`<div class="notices" role="status">${useValue(notices).map(
    (each) => html`<p key=${each.id} class=${each.tone}>${each.text}</p>`,
  )}</div>`;
}

// One polite region tells screen readers what begins and ends; lists themselves are not live.
const spoken = new Value("");

export function announce(text) {
  spoken.set("");
  setTimeout(() => spoken.set(text), 50);
}

export function Announcements() {
  return html`<div class="offscreen" aria-live="polite">${useValue(spoken)}</div>`;
}

// Save bytes or text as a file. `name` is made safe by the caller (`fileName`).
export function download(name, content, type = "application/octet-stream") {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
