// The agents by their ids, for lists of tasks and calls: those carry the id, and people read names.
import { api, everyItem } from "./api.js";
import { useEffect } from "./html.js";
import { Value, useValue } from "./state.js";

const MOST = 2000;
const known = new Value(new Map());
let reading = null;
const asked = new Set();

export function readAgents() {
  reading ??= everyItem("/agents", { pageSize: 100 }, { limit: MOST }).then(add, () => {
    reading = null;
  });
  return reading;
}

function add(agents) {
  const next = new Map(known.get());
  for (const agent of agents) next.set(agent.id, agent);
  known.set(next);
}

// The AgentView of an id or a handle; undefined for one that is gone, or not yet read.
export function agentOf(id) {
  return known.get().get(id) ?? [...known.get().values()].find(({ handle }) => handle === id);
}

// Loads the agents once, and again for the ids of those that were published since.
export function useAgents(ids = []) {
  const agents = useValue(known);
  useEffect(() => {
    readAgents().then(() => {
      const unknown = ids.filter((id) => id && !asked.has(id) && !agentOf(id));
      if (!unknown.length) return;
      for (const id of unknown) asked.add(id);
      reading = null;
      readAgents();
    });
  }, [ids.join()]);
  return agents;
}

export const handleOf = (id) => agentOf(id)?.handle ?? id;

export async function freshAgent(id) {
  const found = agentOf(id);
  return api(`/agents/${encodeURIComponent(found?.id ?? id)}`);
}
