// The address of a view is behind the `#`, so that every view has a URL and the gateway serves one
// page. `#/tasks/abc?state=x` gives the path ["tasks", "abc"] and the query { state: "x" }.
import { Value } from "./state.js";

export const place = new Value(read());

addEventListener("hashchange", () => place.set(read()));

function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return {
    path: path.split("/").filter(Boolean).map(decoded),
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// The address of a view, for `href`: link("tasks", id, { state: "x" }).
export function link(...parts) {
  const query = typeof parts.at(-1) === "object" ? parts.pop() : {};
  const kept = Object.entries(query).filter(([, value]) => value);
  const search = kept.length ? `?${new URLSearchParams(kept)}` : "";
  return `#/${parts.map((part) => encodeURIComponent(part)).join("/")}${search}`;
}

export function go(...parts) {
  location.hash = link(...parts);
}

// Change the query of this view without a step in the history, as a filter that is typed does.
export function filterBy(changes) {
  const { path, query } = place.get();
  history.replaceState(null, "", link(...path, { ...query, ...changes }));
  place.set(read());
}

// Another address for what is shown, without a step in the history.
export function replace(...parts) {
  history.replaceState(null, "", link(...parts));
  place.set(read());
}
