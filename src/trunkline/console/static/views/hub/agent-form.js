// The form of an agent. `#/hub/agents/new` and `#/hub/agents/ID`
import { html, useEffect, useRef, useState } from "../../lib/html.js";
import { api, isOperator, me } from "../../lib/api.js";
import { safe } from "../../lib/format.js";
import { go, link } from "../../lib/router.js";
import { useLoaded } from "../../lib/state.js";
import { Badge, Field, Loading, Problem, Switch, announce, notify } from "../../parts/basics.js";
import { Presence } from "../agents.js";
import { Actions } from "./agents.js";
import { Grants } from "./grants.js";

// The main keys of each kind of backend; the others are given as JSON. A list has one word a line.
const KINDS = {
  echo: { title: "Echo: answers with what it hears", keys: [] },
  a2a: { title: "An A2A agent elsewhere", keys: [{ name: "url", label: "URL", hint: "Its base URL, or the URL of its card.", isNeeded: true }] },
  openai: {
    title: "A model behind an OpenAI-compatible server",
    keys: [
      { name: "base_url", label: "URL", hint: "With /v1, for example http://127.0.0.1:11434/v1", isNeeded: true },
      { name: "model", label: "Model", isNeeded: true },
      { name: "api_key", label: "API key", isSecret: true },
      { name: "system_prompt", label: "System prompt", isLong: true },
    ],
  },
  python: { title: "A Python function", keys: [{ name: "target", label: "Target", hint: "file.py:attribute or module:attribute", isNeeded: true }] },
  command: {
    title: "A program for each turn",
    keys: [{ name: "command", label: "Command", hint: "The program and its arguments, one on each line.", isList: true, isNeeded: true }],
  },
  acp: {
    title: "A program that speaks ACP",
    keys: [{ name: "command", label: "Command", hint: "The program and its arguments, one on each line.", isList: true, isNeeded: true }],
  },
  openclaw: {
    title: "OpenClaw",
    keys: [
      { name: "url", label: "URL", hint: "For example ws://127.0.0.1:18789" },
      { name: "token", label: "Token", isSecret: true },
      { name: "agent_id", label: "Agent" },
    ],
  },
  scripted: { title: "Scripted: does what the message says, for tests", keys: [] },
};

const LIMITS = [
  ["dailyBudgetQueries", "Queries per day", "Of all callers together."],
  ["dailyBudgetPerCaller", "Queries per day and caller", "Empty: no limit."],
  ["dailyBudgetPerToken", "Queries per day and token", "Empty: no limit."],
  ["dailyBudgetCost", "Cost per day", "In units that the backend reports. Empty: no limit."],
  ["ratePerCaller", "Queries per caller and window", "Empty: as the gateway has it."],
  ["rateWindowS", "Window in seconds", ""],
  ["concurrencyCap", "Turns at once", "Over all nodes."],
];
const NEVER_EMPTY = ["dailyBudgetQueries", "rateWindowS", "concurrencyCap"];
const NEW_LIMITS = { dailyBudgetQueries: 1000, rateWindowS: 60, concurrencyCap: 5 };
const VISIBILITIES = [
  ["public", "Public: in lists, with a card for everyone"],
  ["unlisted", "Unlisted: in no list"],
  ["private", "Private: known to those with a grant alone"],
];
const PROFILES = ["standard", "openclaw-inbound", "openclaw-design", "hub"];
const MASK = "***";

export default function AgentPage({ id }) {
  const isNew = id === "new";
  const { data, error, again } = useLoaded(
    async (signal) => (isNew ? {} : api(`/agents/${encodeURIComponent(id)}`, { signal })),
    [id],
  );
  if (error && !data) return html`<${Problem} error=${error} again=${again} />`;
  if (!data) return html`<${Loading} />`;
  if (isNew) return html`<div><div class="view-head"><h1>Publish an agent</h1></div><${AgentForm} agent=${null} onSaved=${(made) => go("hub", "agents", made.id)} /></div>`;
  const isOurs = data.source === "registry" && data.limits;
  return html`<div>
    <div class="view-head"><h1 dir="auto">${safe(data.name, 80)}</h1>
      <${Presence} agent=${data} /><${Badge} tone=${data.status === "published" ? "good" : "ask"}>${data.status}<//>
      <a class="button" href=${link("agents", data.owner, data.slug)}>Card</a>
      ${isOurs ? html`<${Actions} agent=${data} again=${again} />` : null}</div>
    <p><code>${safe(data.handle)}</code></p>
    ${data.problem ? html`<p class="problem">${safe(data.problem, 600)}</p>` : null}
    ${isOurs
      ? html`<${AgentForm} key=${data.version} agent=${data} onSaved=${again} /><${Grants} agent=${data} />`
      : html`<p class="card">${data.source === "configuration"
          ? "This agent is in the configuration file of the gateway. Change it there, then run: trunkline reload"
          : "Your credential does not manage this agent."}</p>`}
  </div>`;
}

// The fields as texts, which is what inputs hold.
function draftOf(agent) {
  const owned = (me.get()?.roles ?? []).filter((role) => role.startsWith("owner:")).map((role) => role.slice(6));
  const backend = agent?.backend ?? { kind: "echo" };
  const limits = { ...NEW_LIMITS, ...agent?.limits };
  const known = KINDS[backend.kind]?.keys ?? [];
  const rest = Object.fromEntries(Object.entries(backend).filter(([key]) => key !== "kind" && !known.some(({ name }) => name === key)));
  return {
    owner: agent?.owner ?? owned[0] ?? me.get()?.user?.login ?? "",
    slug: agent?.slug ?? "",
    name: agent?.name ?? "",
    tagline: agent?.tagline ?? "",
    description: agent?.description ?? "",
    visibility: agent?.visibility ?? "public",
    profile: agent?.profile ?? "standard",
    isolated: agent?.isolated ?? true,
    isPublished: agent ? agent.status === "published" : true,
    kind: backend.kind,
    keys: Object.fromEntries(known.map(({ name, isList }) => [name, shownKey(backend[name], isList)])),
    rest: json(rest),
    limits: Object.fromEntries(LIMITS.map(([name]) => [name, limits[name] === undefined || limits[name] === null ? "" : String(limits[name])])),
    settings: json(agent?.settings ?? {}),
    skills: agent?.skills?.length ? json(agent.skills) : "",
  };
}

const json = (value) => (Object.keys(value).length ? JSON.stringify(value, null, 2) : "");

function shownKey(value, isList) {
  if (value === undefined || value === null || value === MASK) return "";
  return isList && Array.isArray(value) ? value.join("\n") : String(value);
}

const hasMask = (value) => JSON.stringify(value ?? {}).includes(`"${MASK}"`);

// Throws `{ fields }` for JSON that is none.
function parsed(text, field, empty) {
  if (!text.trim()) return empty;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw Object.assign(new Error(`${field} is not JSON: ${error.message}`), { fields: [{ field, description: `is not JSON: ${error.message}` }] });
  }
}

function backendOf(draft) {
  const backend = { kind: draft.kind };
  for (const { name, isList } of KINDS[draft.kind]?.keys ?? []) {
    const text = draft.keys[name] ?? "";
    if (text) backend[name] = isList ? text.split("\n").filter(Boolean) : text;
  }
  return { ...backend, ...parsed(draft.rest, "backend", {}) };
}

function limitsOf(draft) {
  const limits = {};
  for (const [name] of LIMITS) {
    const text = draft.limits[name];
    if (text !== "") limits[name] = Number(text);
    else if (!NEVER_EMPTY.includes(name)) limits[name] = null;
  }
  return limits;
}

function bodyOf(draft, agent, doesKeepBackend) {
  const body = {
    name: draft.name || draft.slug,
    tagline: draft.tagline,
    description: draft.description,
    visibility: draft.visibility,
    profile: draft.profile,
    isolated: draft.isolated,
    limits: limitsOf(draft),
    skills: parsed(draft.skills, "skills", []),
    status: draft.isPublished ? "published" : "draft",
  };
  if (!doesKeepBackend) body.backend = backendOf(draft);
  // A table that has a mask cannot be sent back; without it the stored one stays.
  if (!(agent && draft.settings === json(agent.settings ?? {}))) body.settings = parsed(draft.settings, "settings", {});
  if (agent) body.version = agent.version;
  else Object.assign(body, { slug: draft.slug, ...(draft.owner ? { owner: draft.owner } : {}) });
  return body;
}

function AgentForm({ agent, onSaved }) {
  const [draft, setDraft] = useState(() => draftOf(agent));
  // The agent that the form was filled from, for its version.
  const [base, setBase] = useState(agent);
  const [doesKeepBackend, setKeepBackend] = useState(Boolean(agent));
  const [error, setError] = useState(null);
  const [conflict, setConflict] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const form = useRef(null);
  const set = (changes) => setDraft((now) => ({ ...now, ...changes }));
  const text = (name) => ({ name, value: draft[name], onInput: (event) => set({ [name]: event.target.value }) });
  // The first error of a field, or of something inside it.
  const errorAt = (...names) =>
    error?.fields?.find(({ field }) => names.some((name) => field === name || field.startsWith(`${name}.`) || field.startsWith(`${name}[`)))?.description;
  const keys = KINDS[draft.kind]?.keys ?? [];
  const errorOfRest = error?.fields?.find(
    ({ field }) => (field === "backend" || field.startsWith("backend.")) && !keys.some(({ name }) => field === `backend.${name}`) && field !== "backend.kind",
  );

  // What went wrong is in sight, and the next key changes it.
  useEffect(() => {
    const wrong = form.current?.querySelector("[aria-invalid='true']") ?? (error ? form.current?.querySelector(".refusal") : null);
    wrong?.focus();
    wrong?.scrollIntoView({ block: "center" });
  }, [error, conflict]);

  const submit = async (event) => {
    event.preventDefault();
    setError(null);
    setConflict(null);
    setBusy(true);
    try {
      const body = bodyOf(draft, base, doesKeepBackend);
      const saved = base
        ? await api(`/agents/${base.id}`, { method: "PATCH", body })
        : await api("/agents", { method: "POST", body });
      notify(`${saved.handle} is saved${saved.status === "published" ? " and published" : " as a draft"}.`, { tone: "good" });
      announce("Saved");
      onSaved(saved);
    } catch (refused) {
      setError(refused);
      if (refused.status === 409 && base) setConflict(await theirs(base).catch(() => null));
    } finally {
      setBusy(false);
    }
  };

  const input = (name, options = {}) => html`<input ...${text(name)} aria-invalid=${errorAt(name) ? "true" : undefined} ...${options} />`;
  return html`<form ref=${form} class="hub-form" onSubmit=${submit} novalidate>
    <div class="refusal" tabindex="-1">${conflict
      ? html`<${Conflict} conflict=${conflict} onMine=${() => {
          setBase(conflict.now);
          setConflict(null);
          setError(null);
        }} onTheirs=${() => {
          setBase(conflict.now);
          setDraft(draftOf(conflict.now));
          setConflict(null);
          setError(null);
        }} />`
      : html`<${Problem} error=${error} />`}</div>
    ${agent?.status === "deleted" ? html`<p class="card">This agent is deleted. Saving restores it.</p>` : null}
    <fieldset class="card"><legend>Agent</legend>
      ${agent
        ? null
        : html`<div class="pair">
            <${Field} label="Owner" error=${errorAt("owner")} hint=${isOperator() ? "A person or a team; the first part of the handle." : "Your login."}>${input("owner", { required: true, autocapitalize: "none", readonly: !isOperator() })}<//>
            <${Field} label="Slug" error=${errorAt("slug")} hint="Lower-case letters, digits and dashes; the second part of the handle.">${input("slug", { required: true, autocapitalize: "none", spellcheck: false })}<//>
          </div>`}
      <${Field} label="Name" error=${errorAt("name")}>${input("name", { maxlength: 80, placeholder: draft.slug })}<//>
      <${Field} label="Tagline" hint="One line, for lists." error=${errorAt("tagline")}>${input("tagline", { maxlength: 160 })}<//>
      <${Field} label="Description" error=${errorAt("description")}><textarea rows="3" ...${text("description")}></textarea><//>
      <${Field} label="Visibility" error=${errorAt("visibility")}>
        <select value=${draft.visibility} onChange=${(event) => set({ visibility: event.target.value })}>${VISIBILITIES.map(([value, title]) => html`<option key=${value} value=${value}>${title}</option>`)}</select><//>
      <${Switch} label="Published" isOn=${draft.isPublished} onChange=${(isPublished) => set({ isPublished })} />
    </fieldset>
    <fieldset class="card"><legend>Backend</legend>
      ${agent
        ? html`<p><${Switch} label="Change the backend" isOn=${!doesKeepBackend} onChange=${(isOn) => setKeepBackend(!isOn)} /></p>`
        : null}
      ${doesKeepBackend
        ? html`<p class="quiet">${KINDS[draft.kind]?.title ?? draft.kind}</p><pre class="raw" tabindex="0" aria-label="Backend">${safe(JSON.stringify(agent.backend, null, 2), 20_000)}</pre>`
        : html`${hasMask(agent?.backend) ? html`<p class="hint">Secrets are not shown. Give them again, because the table is stored as it is sent.</p>` : null}
          <${Field} label="Kind" error=${errorAt("backend.kind")}>
            <select value=${draft.kind} onChange=${(event) => set({ kind: event.target.value, keys: {} })}>${Object.entries(KINDS).map(([kind, { title }]) => html`<option key=${kind} value=${kind}>${title}</option>`)}</select><//>
          ${keys.map(({ name, label, hint, isSecret, isList, isLong, isNeeded }) => {
            const wrong = errorAt(`backend.${name}`);
            const given = {
              name: `backend.${name}`,
              value: draft.keys[name] ?? "",
              required: isNeeded,
              "aria-invalid": wrong ? "true" : undefined,
              onInput: (event) => set({ keys: { ...draft.keys, [name]: event.target.value } }),
            };
            return html`<${Field} key=${name} label=${label} hint=${hint} error=${wrong}>
              ${isList || isLong ? html`<textarea rows="3" ...${given}></textarea>` : html`<input type=${isSecret ? "password" : "text"} autocomplete="off" ...${given} />`}<//>`;
          })}
          <${Field} label="Further keys, as JSON" hint="With the names of the configuration." error=${errorOfRest ? `${errorOfRest.field}: ${errorOfRest.description}` : ""}>
            <textarea rows="3" class="mono" spellcheck=${false} placeholder="{}" ...${text("rest")} aria-invalid=${errorOfRest ? "true" : undefined}></textarea><//>`}
    </fieldset>
    <details class="card" open=${Boolean(errorAt("limits")) || undefined}><summary>Limits</summary>
      <div class="fields">${LIMITS.map(([name, label, hint]) => {
        const wrong = errorAt(`limits.${name}`, name);
        return html`<${Field} key=${name} label=${label} hint=${hint} error=${wrong}>
          <input type="number" min="0" name=${name} value=${draft.limits[name]} aria-invalid=${wrong ? "true" : undefined}
            onInput=${(event) => set({ limits: { ...draft.limits, [name]: event.target.value } })} /><//>`;
      })}</div>
    </details>
    <details class="card" open=${Boolean(errorAt("settings", "skills", "profile")) || undefined}><summary>More</summary>
      <${Field} label="Profile" hint="The preset for clients of a kind; standard fits most." error=${errorAt("profile")}>
        <select value=${draft.profile} onChange=${(event) => set({ profile: event.target.value })}>${PROFILES.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select><//>
      <p><${Switch} label="Isolated: it cannot call other agents" isOn=${draft.isolated} onChange=${(isolated) => set({ isolated })} /></p>
      <${Field} label="Skills, as JSON" hint='For example [{"id": "ask", "name": "Ask"}]' error=${errorAt("skills")}>
        <textarea rows="3" class="mono" spellcheck=${false} ...${text("skills")} aria-invalid=${errorAt("skills") ? "true" : undefined}></textarea><//>
      <${Field} label="Settings, as JSON" hint='Further keys of an agent in the configuration, for example {"input_modes": ["text/plain"]}' error=${errorAt("settings")}>
        <textarea rows="4" class="mono" spellcheck=${false} placeholder="{}" ...${text("settings")} aria-invalid=${errorAt("settings") ? "true" : undefined}></textarea><//>
    </details>
    <div class="row"><button class="primary" disabled=${isBusy}>${agent ? "Save" : draft.isPublished ? "Publish" : "Save as a draft"}</button>
      <a class="button" href=${link("hub", "agents")}>${agent ? "To the list" : "Cancel"}</a></div>
  </form>`;
}

// What another editor has changed since the form was filled.
async function theirs(base) {
  const now = await api(`/agents/${base.id}`);
  const compared = ["name", "tagline", "description", "status", "visibility", "profile", "isolated", "limits", "backend", "settings", "skills"];
  const changes = compared
    .filter((name) => JSON.stringify(base[name]) !== JSON.stringify(now[name]))
    .map((name) => ({ name, before: JSON.stringify(base[name]), after: JSON.stringify(now[name]) }));
  return { now, changes };
}

function Conflict({ conflict, onMine, onTheirs }) {
  const { now, changes } = conflict;
  return html`<div class="problem" role="alert"><p>${safe(now.updatedBy || "Somebody", 100)} has changed this agent since you opened it. Nothing is saved yet.</p>
    ${changes.length
      ? html`<ul>${changes.map(({ name, before, after }) => html`<li key=${name}><strong>${name}</strong>: <code>${safe(before, 300)}</code> → <code>${safe(after, 300)}</code></li>`)}</ul>`
      : html`<p>The members that are shown here are the same.</p>`}
    <p class="row"><button type="button" onClick=${onMine}>Keep my form: saving overwrites theirs</button>
      <button type="button" onClick=${onTheirs}>Load what is stored</button></p></div>`;
}
