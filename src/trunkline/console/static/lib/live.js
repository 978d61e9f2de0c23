// What changes at the gateway, as one stream for all tabs of a browser: HTTP/1.1 allows six
// connections to a host, and a stream for each tab would use them up. The tab that holds the lock
// reads the stream and tells the others.
import { request, me } from "./api.js";
import { events } from "./sse.js";
import { Value } from "./state.js";

const TOPICS = "tasks,agents,wire,calls";
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;

// "on", "off" while there is no stream, for the dot in the corner.
export const liveness = new Value("off");

const listeners = new Map();
const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("trunkline-live") : null;
let reading = null;

// Calls `heard(data)` for each change of the topic: "task", "agents", "wire", "call" or "resync".
// After "resync" something was missed, so read again what you show.
export function hear(topic, heard) {
  const all = listeners.get(topic) ?? new Set();
  listeners.set(topic, all.add(heard));
  return () => all.delete(heard);
}

function tell(topic, data) {
  for (const heard of [...(listeners.get(topic) ?? [])]) heard(data);
}

export function startLive() {
  if (reading) return;
  reading = new AbortController();
  channel?.addEventListener("message", ({ data }) => {
    if (data.liveness) liveness.set(data.liveness);
    else tell(data.topic, data.data);
  });
  const { signal } = reading;
  if (navigator.locks) {
    navigator.locks.request("trunkline-live", { signal }, () => follow(signal)).catch(() => {});
  } else {
    follow(signal);
  }
}

export function stopLive() {
  reading?.abort();
  reading = null;
}

async function follow(signal) {
  let pause = FIRST_PAUSE_MS;
  let lastId = null;
  while (!signal.aborted && me.get()?.signedIn) {
    try {
      const headers = lastId === null ? {} : { "Last-Event-ID": lastId };
      const response = await request(`/api/v1/live?topics=${TOPICS}`, { signal, headers });
      if (response.status === 401) return;
      if (!response.ok) throw new Error(`status ${response.status}`);
      say({ liveness: "on" });
      // What happened while there was no stream is not known without an id to resume from.
      if (lastId === null) spread("resync", {});
      for await (const event of events(response)) {
        pause = FIRST_PAUSE_MS;
        if (event.comment !== undefined) continue;
        lastId = event.id ?? lastId;
        spread(event.event, parsed(event.data));
      }
    } catch {
      // The connection was lost, or the gateway is restarting: try again below.
    }
    if (signal.aborted) return;
    say({ liveness: "off" });
    await new Promise((done) => setTimeout(done, pause * (0.5 + Math.random())));
    pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
  }
}

function spread(topic, data) {
  channel?.postMessage({ topic, data });
  tell(topic, data);
}

function say(message) {
  channel?.postMessage(message);
  liveness.set(message.liveness);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
