// `waiting`: how many tasks of this caller wait for an answer, for the menu and the title of the tab.
import { api, me } from "./api.js";
import { hear, liveness } from "./live.js";
import { calmly } from "./reread.js";
import { Value } from "./state.js";

export const WAITING_STATES = "TASK_STATE_INPUT_REQUIRED,TASK_STATE_AUTH_REQUIRED";
const EVERY_MS = 15_000;

export const waiting = new Value(0);

async function count() {
  const who = me.get();
  if (!who?.signedIn) return;
  try {
    const query = { state: WAITING_STATES, principal: who.principal, pageSize: 1 };
    waiting.set((await api("/tasks", { query })).total);
  } catch {
    // The number stays; the view of the tasks says what is wrong.
  }
}

let isStarted = false;

// One watch for the life of the page. A change of any task may change the number, so it is read
// again, at most every two seconds.
export function watchWaiting() {
  if (isStarted) return;
  isStarted = true;
  const again = calmly(count, 2000);
  hear("task", again);
  hear("resync", again);
  waiting.follow(showInTitle);
  setInterval(() => liveness.get() !== "on" && !document.hidden && again(), EVERY_MS);
  again();
}

export function showInTitle() {
  const n = waiting.get();
  document.title = (n ? `(${n}) ` : "") + document.title.replace(/^\(\d+\) /, "");
}
