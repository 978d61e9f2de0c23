// The hub: agents, tokens, the audit, the relay and the nodes. `#/hub`, with a tab for each.
import { html, useMemo } from "../lib/html.js";
import { gateway, isOperator, me } from "../lib/api.js";
import { link } from "../lib/router.js";
import { ensureStyle } from "../lib/style.js";
import { useLoaded, useValue } from "../lib/state.js";
import { Empty, Loading, Problem } from "../parts/basics.js";

// Each tab is shown where the gateway has what it is about and the caller may see it, and is loaded
// when it is opened. `paths` are further first parts of its addresses. A new tab is one more row.
const TABS = [
  { name: "", title: "Overview", load: () => import("./hub/overview.js") },
  {
    name: "agents",
    title: "Agents",
    paths: ["inbound"],
    isShown: ({ hub, manages }) => hub && manages,
    load: () => import("./hub/agents.js"),
  },
  { name: "tokens", title: "Tokens", isShown: ({ hub }) => hub, load: () => import("./hub/tokens.js") },
  { name: "people", title: "People", isShown: ({ hub, operates }) => hub && operates, load: () => import("./hub/people.js") },
  { name: "audit", title: "Audit", isShown: ({ has, operates }) => has("audit") && operates, load: () => import("./hub/audit.js") },
  { name: "sessions", title: "Sessions", load: () => import("./hub/sessions.js") },
  { name: "relay", title: "Relay", isShown: ({ has, operates }) => has("relay") && operates, load: () => import("./hub/relay.js") },
  { name: "nodes", title: "Nodes", isShown: ({ operates }) => operates, load: () => import("./hub/nodes.js") },
];

// What the caller may do here, for `isShown`.
function rights(about, who) {
  const roles = who?.roles ?? [];
  return {
    hub: Boolean(about?.hub),
    has: (name) => Boolean(about?.features?.[name]),
    operates: isOperator(),
    manages: roles.length > 0,
  };
}

export default function Hub({ path, query }) {
  const about = useValue(gateway);
  const who = useValue(me);
  const may = rights(about, who);
  const shown = TABS.filter(({ isShown }) => !isShown || isShown(may));
  const part = path[1] ?? "";
  const isOf = (tab) => tab.name === part || tab.paths?.includes(part);
  const tab = shown.find(isOf);
  return html`<div class="view hub">
    <nav class="hub-tabs" aria-label="Hub">
      ${shown.map(
        (each) => html`<a key=${each.name} href=${each.name ? link("hub", each.name) : link("hub")}
          aria-current=${each === tab ? "page" : undefined}>${each.title}</a>`,
      )}
    </nav>
    ${tab
      ? html`<${Tab} key=${tab.name} tab=${tab} path=${path.slice(1)} query=${query} />`
      : html`<${Absent} isKnown=${TABS.some(isOf)} />`}
  </div>`;
}

function Absent({ isKnown }) {
  return html`<${Empty} title="There is no such page here">
    <p>${isKnown ? "Your credential does not show it, or the gateway has no such part." : "The address names no part of the hub."}</p>
    <p><a href=${link("hub")}>To the overview</a></p>
  <//>`;
}

function Tab({ tab, path, query }) {
  const load = useMemo(() => () => Promise.all([tab.load(), ensureStyle("hub")]), [tab]);
  const { data, error, again } = useLoaded(load, [load]);
  if (error) return html`<${Problem} error=${error} again=${again} />`;
  if (!data) return html`<${Loading} />`;
  const View = data[0].default;
  return html`<${View} path=${path} query=${query} />`;
}
