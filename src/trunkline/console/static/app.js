// The frame of the page: who is signed in, the menu, and the view of the address.
import { html, render, useEffect, useState } from "./lib/html.js";
import { ApiError, api, gateway, me, reachable } from "./lib/api.js";
import { liveness, startLive, stopLive } from "./lib/live.js";
import { link, place } from "./lib/router.js";
import { remember, remembered, useLoaded, useValue } from "./lib/state.js";
import { showInTitle, waiting, watchWaiting } from "./lib/waiting.js";
import { Announcements, Dialog, Loading, Notices, Problem, Questions, notifyError } from "./parts/basics.js";
import { Icon } from "./parts/icons.js";
import { Keys, Palette } from "./parts/palette.js";
import { Agents } from "./views/agents.js";

// By the first part of the address. Each view gets `{ path, query }` and draws itself; all but the
// first one are loaded when they are opened.
const VIEWS = [
  { name: "agents", title: "Agents", key: "a", view: () => Agents, load: () => import("./views/agent.js") },
  { name: "chat", title: "Chat", key: "c", load: () => import("./views/chat.js") },
  { name: "tasks", title: "Tasks", key: "t", load: () => import("./views/tasks.js") },
  { name: "inbox", title: "Waiting", key: "w", load: () => import("./views/inbox.js") },
  { name: "inspector", title: "Inspector", key: "i", load: () => import("./views/inspector.js") },
  { name: "calls", title: "Calls", load: () => import("./views/calls.js") },
  { name: "hub", title: "Hub", load: () => import("./views/hub.js") },
];

const THEMES = ["system", "light", "dark"];

function applyTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

applyTheme(remembered("theme", "system"));

// Who uses the page, and what this gateway is.
async function begin() {
  const about = await api("/gateway");
  gateway.set(about);
  try {
    me.set({ signedIn: true, ...(await api("/auth/me")) });
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    const wasSignedIn = Boolean(me.get()?.signedIn || me.get()?.wasSignedIn);
    me.set({ signedIn: false, wasSignedIn });
  }
}

export async function signOut() {
  stopLive();
  await api("/auth/sign-out", { method: "POST", body: {} });
  location.hash = "";
  location.reload();
}

function Page() {
  const who = useValue(me);
  const [error, setError] = useState(null);
  const start = () => {
    setError(null);
    begin().catch(setError);
  };
  useEffect(start, []);
  useEffect(() => {
    if (who?.signedIn) {
      startLive();
      watchWaiting();
    } else stopLive();
  }, [who?.signedIn]);
  useReconnect();
  useReturn(who && !who.signedIn);
  if (error && !who) return html`<main class="alone"><h1>Trunkline</h1><${Problem} error=${error} again=${start} /></main>`;
  if (!who) return html`<main class="alone"><${Loading} what="Connecting" /></main>`;
  if (!who.signedIn && !who.wasSignedIn) return html`<${SignIn} onDone=${start} />`;
  return html`<${Frame} />
    ${who.signedIn
      ? null
      : html`<${Dialog} title="You are signed out" onClose=${() => {}}>
          <p>The session has ended, or the gateway no longer knows it. What you have written is kept.</p>
          <${SignInSteps} onDone=${start} />
        <//>`}`;
}

// While the gateway does not answer, ask again; after a restart it may know the session no more.
function useReconnect() {
  const answers = useValue(reachable);
  useEffect(() => {
    if (answers !== "no") return undefined;
    const timer = setInterval(() => {
      if (reachable.get() === "no") begin().catch(() => {});
    }, 2000);
    return () => clearInterval(timer);
  }, [answers]);
}

// Somebody who signs in in another tab is signed in here too: the cookie is that of the browser.
function useReturn(isWaiting) {
  useEffect(() => {
    if (!isWaiting) return undefined;
    const look = () => document.visibilityState === "visible" && begin().catch(() => {});
    addEventListener("focus", look);
    document.addEventListener("visibilitychange", look);
    return () => {
      removeEventListener("focus", look);
      document.removeEventListener("visibilitychange", look);
    };
  }, [isWaiting]);
}

function SignIn({ onDone }) {
  return html`<main class="alone"><h1><img src="/console/icon.svg" alt="" width="28" height="28" /> Trunkline</h1>
    <${SignInSteps} onDone=${onDone} /></main>`;
}

const Later = ({ load, pick, ...props }) => {
  const { data, error, again } = useLoaded(load, [load]);
  if (error) return html`<${Problem} error=${error} again=${again} />`;
  if (!data) return html`<${Loading} />`;
  const View = pick(data);
  return html`<${View} ...${props} />`;
};

const loadSignIn = () => import("./views/sign-in.js");

function SignInSteps(props) {
  return html`<${Later} load=${loadSignIn} pick=${(module) => module.SignInSteps} ...${props} />`;
}

function Frame() {
  const { path, query } = useValue(place);
  const [isOpen, setOpen] = useState(false);
  const [dialog, setDialog] = useState(null);
  useKeys(setDialog);
  const waits = useValue(waiting);
  const current = VIEWS.find(({ name }) => name === path[0]) ?? VIEWS[0];
  useEffect(() => {
    document.title = `${current.title} · Trunkline`;
    showInTitle();
    setOpen(false);
    // The view takes the focus, but not from a field of its own whose address changed.
    const view = document.getElementById("view");
    if (!view?.contains(document.activeElement)) view?.focus({ preventScroll: true });
  }, [path.join("/")]);
  const Direct = current.view && path.length < 2 ? current.view() : null;
  const places = VIEWS.map(({ name, title }) => ({ title, href: link(name) }));
  return html`<div class=${`frame ${isOpen ? "menu-open" : ""}`}>
    <a class="skip" href="#view" onClick=${(event) => {
      event.preventDefault();
      document.getElementById("view").focus();
    }}>Skip to the content</a>
    <header class="top">
      <button type="button" class="plain menu-button" aria-label="Menu" aria-expanded=${String(isOpen)} onClick=${() => setOpen(!isOpen)}>☰</button>
      <a class="brand" href=${link("agents")}><img src="/console/icon.svg" alt="" width="22" height="22" /> Trunkline</a>
      <button type="button" class="find" onClick=${() => setDialog("palette")}>Find<kbd>Ctrl K</kbd></button>
      <${Connection} />
      <${Account} />
    </header>
    <nav class="menu" aria-label="Views">
      ${VIEWS.map(
        ({ name, title }) => html`<a key=${name} href=${link(name)} aria-current=${name === current.name ? "page" : undefined}>
          <${Icon} name=${name} />${title}
          ${name === "inbox" && waits ? html`<span class="badge ask">${waits}<span class="offscreen"> tasks</span></span>` : null}</a>`,
      )}
      <div class="menu-end">
        <a href="/api/v1/reference" target="_blank" rel="noopener"><${Icon} name="reference" />HTTP reference</a>
        <button type="button" class="plain" onClick=${() => setDialog("keys")}><${Icon} name="keys" />Keys</button>
        <${Theme} />
      </div>
    </nav>
    <div class="veil" onClick=${() => setOpen(false)}></div>
    <main id="view" tabindex="-1">
      ${Direct
        ? html`<${Direct} path=${path} query=${query} />`
        : html`<${Later} key=${current.name} load=${current.load} pick=${(module) => module.default} path=${path} query=${query} />`}
    </main>
    ${dialog === "palette" ? html`<${Palette} views=${places} onClose=${() => setDialog(null)} />` : null}
    ${dialog === "keys" ? html`<${Keys} onClose=${() => setDialog(null)} />` : null}
    <${Questions} /><${Notices} /><${Announcements} />
  </div>`;
}

function Connection() {
  const live = useValue(liveness);
  const answers = useValue(reachable);
  const [tone, text] =
    answers === "no" ? ["bad", "The gateway does not answer"] : live === "on" ? ["good", "Live"] : ["wait", "Not live: lists are read every few seconds"];
  return html`<span class=${`dot ${tone}`} role="img" aria-label=${text} title=${text}></span>`;
}

function Account() {
  const who = useValue(me);
  const name = who.user?.login ?? (who.principal === "@anonymous" ? "this machine" : who.principal);
  return html`<span class="account"><span class="account-name" title=${who.principal}>${name}</span>
    <button type="button" class="small" onClick=${() => signOut().catch(notifyError)}>Sign out</button></span>`;
}

function Theme() {
  const [theme, setTheme] = useState(remembered("theme", "system"));
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  return html`<button type="button" class="plain" title=${`Next: ${next}`} onClick=${() => {
    setTheme(next);
    remember("theme", next);
    applyTheme(next);
  }}><${Icon} name="theme" />Theme: ${theme}</button>`;
}

function useKeys(setDialog) {
  useEffect(() => {
    let isAfterG = false;
    const onKeyDown = (event) => {
      const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        setDialog("palette");
        return;
      }
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (event.key === "?") setDialog("keys");
      else if (event.key === "/") {
        const filter = document.querySelector("#view [data-filter]");
        if (filter) {
          event.preventDefault();
          filter.focus();
        }
      } else if (isAfterG) {
        const found = VIEWS.find(({ key }) => key === event.key);
        if (found) location.hash = link(found.name);
      }
      isAfterG = event.key === "g";
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);
}

const root = document.getElementById("page");
root.replaceChildren();
render(html`<${Page} />`, root);
