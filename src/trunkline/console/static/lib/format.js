// Values as people read them.

const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "narrow" });
const STEPS = [
  ["second", 60],
  ["minute", 60],
  ["hour", 24],
  ["day", 30],
  ["month", 12],
  ["year", Infinity],
];

export function ago(time, now = Date.now()) {
  let value = (Date.parse(time) - now) / 1000;
  if (Number.isNaN(value)) return "";
  if (Math.abs(value) < 2) return "now";
  for (const [unit, size] of STEPS) {
    if (Math.abs(value) < size) return RELATIVE.format(Math.round(value), unit);
    value /= size;
  }
  return "";
}

export function clock(time) {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return "";
  const two = (n) => String(n).padStart(2, "0");
  const ms = String(date.getMilliseconds()).padStart(3, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${ms}`;
}

// Made once: to make a formatter takes longer than to draw a row.
const EXACT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });

export function exact(time) {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? String(time ?? "") : EXACT.format(date);
}

export function bytes(count) {
  if (!Number.isFinite(count)) return "";
  if (count < 1000) return `${count} B`;
  if (count < 1e6) return `${(count / 1e3).toFixed(count < 1e4 ? 1 : 0)} kB`;
  return `${(count / 1e6).toFixed(count < 1e7 ? 1 : 0)} MB`;
}

export function duration(ms) {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return "";
  if (ms < 1) return "<1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const minutes = Math.floor(ms / 60_000);
  return minutes < 60
    ? `${minutes} min ${Math.round((ms % 60_000) / 1000)} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export const count = (n) => (Number.isFinite(n) ? n.toLocaleString("en-US") : "");

export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

// The states of a task by both generations of names, and how the page shows them: word and colour.
const STATES = {
  SUBMITTED: ["queued", "wait"],
  WORKING: ["working", "run"],
  INPUT_REQUIRED: ["needs input", "ask"],
  AUTH_REQUIRED: ["needs sign-in", "ask"],
  COMPLETED: ["completed", "good"],
  FAILED: ["failed", "bad"],
  CANCELED: ["canceled", "off"],
  REJECTED: ["rejected", "bad"],
};

export function stateName(state) {
  const name = String(state ?? "")
    .toUpperCase()
    .replaceAll("-", "_")
    .replace(/^TASK_STATE_/, "");
  return name;
}

export function stateWord(state) {
  return STATES[stateName(state)]?.[0] ?? safe(String(state || "unknown"), 40);
}

export function stateTone(state) {
  return STATES[stateName(state)]?.[1] ?? "off";
}

export const isOver = (state) =>
  ["COMPLETED", "FAILED", "CANCELED", "REJECTED"].includes(stateName(state));
export const isWaitingForPerson = (state) =>
  ["INPUT_REQUIRED", "AUTH_REQUIRED"].includes(stateName(state));

// Characters that would hide or reorder text: controls (but tab and line breaks), bidirectional
// marks, zero-width and tag characters. They are shown as their number. Joiners stay: emoji and
// several scripts need them.
const HIDDEN =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

// A text of somebody else, safe to read: hidden characters visible, and not longer than `most`.
export function safe(text, most = 100_000) {
  let shown = String(text ?? "");
  if (shown.length > most) {
    const left = shown.length - most;
    shown = `${shown.slice(0, most)}… (${count(left)} more characters)`;
  }
  return shown.replace(HIDDEN, (found) => `⟨U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

// One line of a text, for lists.
export const line = (text, most = 200) => safe(String(text ?? "").replace(/\s+/g, " ").trim(), most);

// A URL that a link may lead to, or null. Only what `URL` itself says decides.
export function safeUrl(text) {
  try {
    const url = new URL(text);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

// A file name of an agent for a download: never a path, never hidden.
export function fileName(name, fallback = "file") {
  const last = String(name ?? "").split(/[/\\]/).pop();
  const kept = last.replace(HIDDEN, "").replace(/[<>:"|?*\u0000-\u001f]/g, "_").replace(/^\.+/, "").trim();
  return kept.slice(0, 150) || fallback;
}

export const shortId = (id) => (String(id).length > 14 ? `${String(id).slice(0, 8)}…${String(id).slice(-4)}` : String(id));
