// What operators switch: which agents are recorded, and faults in the answers of an agent.
import { html, useEffect, useState } from "../../lib/html.js";
import { api, gateway } from "../../lib/api.js";
import { bytes, count, duration, line, plural, safe } from "../../lib/format.js";
import { Value, useLoaded, useValue } from "../../lib/state.js";
import { confirm, Field, notify, notifyError, Problem, Switch, Time } from "../../parts/basics.js";
import { wireLog } from "./log.js";

const AGAIN_MS = 10_000;
const MINUTES = [[10, "10 minutes"], [60, "1 hour"], [480, "8 hours"], [0, "until switched off"]];
const MOST_AGENTS_ASKED = 40;

export function useSecond(isOn) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!isOn) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [isOn]);
  return now;
}

// The agents that can be recorded, and how full the log is.
export function useWireSettings(isWanted = true) {
  const loaded = useLoaded((signal) => (isWanted ? api("/wire/settings", { signal }) : Promise.resolve(null)), [isWanted]);
  useEffect(() => {
    if (!isWanted) return undefined;
    const timer = setInterval(loaded.again, AGAIN_MS);
    return () => clearInterval(timer);
  }, [isWanted]);
  return loaded;
}

export async function record(agent, on, minutes) {
  const body = { on, ...(on && minutes ? { minutes } : {}) };
  return api(`/wire/agents/${encodeURIComponent(agent.id)}`, { method: "PUT", body });
}

export function RecordingSwitch({ agent, minutes, onChange }) {
  const [isBusy, setBusy] = useState(false);
  const change = async (on) => {
    setBusy(true);
    try {
      await record(agent, on, minutes);
      notify(`${agent.handle} is ${on ? "recorded" : "no longer recorded"}`);
    } catch (error) {
      notifyError(error);
    }
    setBusy(false);
    onChange();
  };
  return html`<span class="row recording"><${Switch} isOn=${agent.on} isDisabled=${isBusy} onChange=${change} label=${safe(agent.handle, 150)} />
    ${agent.on ? html`<span class="hint">${agent.until ? html`ends <${Time} at=${agent.until} />` : "until switched off"}</span>` : null}</span>`;
}

export function MinutesSelect({ minutes, onChange }) {
  return html`<label class="row"><span class="hint">Record for</span><select value=${String(minutes)} onChange=${(event) => onChange(Number(event.target.value))}>
    ${MINUTES.map(([value, text]) => html`<option value=${String(value)}>${text}</option>`)}</select></label>`;
}

export function Recordings({ settings, onChange }) {
  const [minutes, setMinutes] = useState(60);
  const [q, setQ] = useState("");
  const shown = settings.agents.filter(({ handle }) => handle.toLowerCase().includes(q.toLowerCase()));
  return html`<div class="stack recordings">
    <div class="row"><${MinutesSelect} minutes=${minutes} onChange=${setMinutes} />
      ${settings.agents.length > 12 ? html`<input type="search" aria-label="Filter the agents" placeholder="Filter" value=${q} onInput=${(event) => setQ(event.target.value)} />` : null}</div>
    <ul class="switches">${shown.slice(0, 100).map((agent) => html`<li key=${agent.id}><${RecordingSwitch} agent=${agent} minutes=${minutes} onChange=${onChange} /></li>`)}</ul>
    ${shown.length > 100 ? html`<p class="hint">${shown.length - 100} more: filter them.</p>` : null}
    <${Fill} settings=${settings} onChange=${onChange} />
    <p class="hint">Requests, answers and events are kept in the memory of the gateway, secrets masked. The oldest make room for new ones.</p>
  </div>`;
}

function Fill({ settings, onChange }) {
  const share = settings.maxBytes ? settings.bytes / settings.maxBytes : 0;
  const forget = async () => {
    const isSure = await confirm({ title: "Delete all records", text: `${plural(settings.records, "exchange")} will be gone for everybody who uses this gateway.`, action: "Delete all records" });
    if (!isSure) return;
    try {
      await api("/wire", { method: "DELETE" });
      wireLog.empty();
      onChange();
    } catch (error) {
      notifyError(error);
    }
  };
  return html`<div><div class="meter" role="img" aria-label="How full the log is"><i style=${{ width: `${Math.min(100, share * 100)}%` }}></i></div>
    <p class="row between"><span class="hint">${plural(settings.records, "exchange")}, ${bytes(settings.bytes)} of ${bytes(settings.maxBytes)}${settings.dropped ? `, ${count(settings.dropped)} dropped to make room` : ""}</span>
      ${settings.records ? html`<button type="button" class="small" onClick=${forget}>Delete all records</button>` : null}</p></div>`;
}

// Faults that are on, by the id of the agent: `{ id, handle, delayMs, cutAfterEvents, duplicateEvery, until }`.
export const faults = new Value(new Map());

export async function readFault(agent, { signal } = {}) {
  const fault = await api(`/agents/${encodeURIComponent(agent.id)}/fault`, { signal });
  noteFault(agent, fault);
  return fault;
}

function noteFault(agent, fault) {
  faults.update((before) => {
    const isOn = Boolean(fault?.until);
    if (!isOn && !before.has(agent.id)) return before;
    const next = new Map(before);
    if (isOn) next.set(agent.id, { ...fault, id: agent.id, handle: agent.handle });
    else next.delete(agent.id);
    return next;
  });
}

export async function endFault(agent) {
  try {
    await api(`/agents/${encodeURIComponent(agent.id)}/fault`, { method: "DELETE" });
    noteFault(agent, null);
  } catch (error) {
    notifyError(error);
  }
}

export const canFault = () => Boolean(gateway.get()?.faults);

// Looks for faults that somebody else has switched on.
export function useFaultsOf(agents) {
  const key = agents.map(({ id }) => id).join(" ");
  useEffect(() => {
    if (!canFault() || !agents.length) return undefined;
    const controller = new AbortController();
    (async () => {
      for (const agent of agents.slice(0, MOST_AGENTS_ASKED)) {
        if (controller.signal.aborted) return;
        await readFault(agent, { signal: controller.signal }).catch(() => {});
      }
    })();
    return () => controller.abort();
  }, [key]);
}

export function describeFault({ delayMs, cutAfterEvents, duplicateEvery }) {
  return [
    delayMs ? `${duration(delayMs)} before each write` : "",
    cutAfterEvents !== null && cutAfterEvents !== undefined ? `streams cut after ${plural(cutAfterEvents, "event")}` : "",
    duplicateEvery ? `every ${duplicateEvery === 1 ? "" : `${duplicateEvery}. `}event twice` : "",
  ].filter(Boolean).join(", ");
}

// A banner for each fault that is on; `only` is the id of an agent.
export function FaultBanner({ only = "" }) {
  const all = useValue(faults);
  const shown = [...all.values()].filter(({ id }) => !only || id === only);
  const now = useSecond(shown.length > 0);
  useEffect(() => {
    for (const fault of shown) if (Date.parse(fault.until) <= now) noteFault(fault, null);
  }, [now]);
  return html`${shown.map((fault) => {
    const left = Math.max(0, Math.ceil((Date.parse(fault.until) - now) / 1000));
    return html`<div key=${fault.id} class="notice ask fault row between" role="alert">
      <span><strong>Fault on ${line(fault.handle, 100)}:</strong> ${describeFault(fault)}. <span class="mono">${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}</span> left</span>
      <button type="button" class="small" onClick=${() => endFault(fault)}>End now</button></div>`;
  })}`;
}

export function FaultForm({ agent }) {
  const about = useValue(gateway);
  const [form, setForm] = useState({ delayMs: "", cutAfterEvents: "", duplicateEvery: "", seconds: "60" });
  const [error, setError] = useState(null);
  const now = useValue(faults).get(agent.id);
  const set = (name) => (event) => setForm({ ...form, [name]: event.target.value });
  if (!about?.faults) {
    return html`<p class="quiet">Faults are for a gateway that listens on loopback alone, so that nobody else meets them. This one is reachable from elsewhere.</p>`;
  }
  const submit = async (event) => {
    event.preventDefault();
    setError(null);
    const number = (name) => (form[name] === "" ? undefined : Number(form[name]));
    try {
      const body = { delayMs: number("delayMs"), cutAfterEvents: number("cutAfterEvents"), duplicateEvery: number("duplicateEvery"), seconds: number("seconds") };
      noteFault(agent, await api(`/agents/${encodeURIComponent(agent.id)}/fault`, { method: "PUT", body }));
    } catch (refused) {
      setError(refused);
    }
  };
  const input = (name, label, hint, most, placeholder) => html`<${Field} label=${label} hint=${hint}>
    <input type="number" inputmode="numeric" min=${name === "cutAfterEvents" ? 0 : 1} max=${most} value=${form[name]} placeholder=${placeholder} onInput=${set(name)} required=${name === "seconds"} /><//>`;
  return html`<form class="fault-form" onSubmit=${submit}>
    <p class="quiet">See how a client copes. The fault is in the answers of this agent to everybody, and ends by itself.</p>
    <div class="fields">
      ${input("delayMs", "Delay (ms)", "before an answer and before each write of a stream", 60_000, "none")}
      ${input("cutAfterEvents", "Cut after", "events of a stream; 0 cuts at once", 1_000_000, "never")}
      ${input("duplicateEvery", "Duplicate every", "Nth event of a stream", 1_000_000, "never")}
      ${input("seconds", "For (seconds)", "at most 600", 600)}
    </div>
    <${Problem} error=${error} />
    <div class="row"><button class="primary" disabled=${!form.delayMs && form.cutAfterEvents === "" && !form.duplicateEvery}>${now ? "Replace the fault" : "Start the fault"}</button>
      ${now ? html`<button type="button" onClick=${() => endFault(agent)}>End now</button>` : null}</div>
  </form>`;
}
