// The palette (Ctrl-K) and the list of keys (?).
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { api } from "../lib/api.js";
import { link } from "../lib/router.js";
import { line } from "../lib/format.js";
import { Dialog } from "./basics.js";

export const KEYS = [
  ["Ctrl K", "Find an agent, a task or a view"],
  ["/", "Filter the list"],
  ["j  k", "Next and previous row"],
  ["Enter", "Open the row"],
  ["g then a, c, i, t, w", "Agents, chat, inspector, tasks, waiting"],
  ["?", "These keys"],
  ["Esc", "Close"],
];

export function Keys({ onClose }) {
  return html`<${Dialog} title="Keys" onClose=${onClose}>
    <table class="keys"><tbody>${KEYS.map(
      ([key, what]) => html`<tr><th scope="row"><kbd>${key}</kbd></th><td>${what}</td></tr>`,
    )}</tbody></table>
  <//>`;
}

export function Palette({ views, onClose }) {
  const [text, setText] = useState("");
  const [agents, setAgents] = useState([]);
  const [active, setActive] = useState(0);
  const input = useRef(null);
  useEffect(() => {
    input.current.focus();
  }, []);
  useEffect(() => {
    const controller = new AbortController();
    const timer = setTimeout(() => {
      api("/agents", { query: { q: text, pageSize: 8 }, signal: controller.signal }).then(
        (page) => setAgents(page.items),
        () => {},
      );
    }, 120);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [text]);
  const found = useMemo(() => {
    const wanted = text.trim().toLowerCase();
    const rows = views
      .filter(({ title }) => title.toLowerCase().includes(wanted))
      .map(({ title, href }) => ({ key: href, title, kind: "view", href }));
    for (const agent of agents) {
      const [owner, slug] = agent.handle.split("/");
      rows.push({ key: `c${agent.id}`, title: `Chat with ${line(agent.name, 60)}`, kind: agent.handle, href: link("chat", owner, slug) });
      rows.push({ key: `a${agent.id}`, title: line(agent.name, 60), kind: agent.handle, href: link("agents", owner, slug) });
    }
    // An id finds its task on any page of the list, whatever its age.
    if (/^[\w.:-]{8,128}$/.test(text.trim()))
      rows.push({ key: "task", title: `Task ${line(text, 60)}`, kind: "task", href: link("tasks", text.trim()) });
    return rows;
  }, [text, agents, views]);
  const choose = (row) => {
    if (!row) return;
    onClose();
    location.hash = row.href;
  };
  const onKeyDown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setActive((active + step + found.length) % Math.max(1, found.length));
    else if (event.key === "Enter") choose(found[active]);
    else return;
    event.preventDefault();
  };
  return html`<${Dialog} title="Go to" onClose=${onClose}>
    <input ref=${input} type="search" role="combobox" aria-expanded="true" aria-controls="palette-rows"
      aria-activedescendant=${found[active] ? `palette-${active}` : undefined}
      aria-label="Find" placeholder="An agent, a view, or the id of a task" value=${text}
      onInput=${(event) => {
        setText(event.target.value);
        setActive(0);
      }} onKeyDown=${onKeyDown} />
    <ul id="palette-rows" class="palette" role="listbox" aria-label="Found">${found.map(
      (row, i) => html`<li key=${row.key} id=${`palette-${i}`} role="option" aria-selected=${String(i === active)}
        class=${i === active ? "active" : ""} onClick=${() => choose(row)}>${row.title} <span class="quiet">${row.kind}</span></li>`,
    )}</ul>
    ${found.length ? null : html`<p class="quiet">Nothing has this name.</p>`}
  <//>`;
}
