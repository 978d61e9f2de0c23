// `diff`: two JSON values by path: what is the same, changed, added or removed. `Diff` shows it.
import { html, useMemo, useState } from "../../lib/html.js";
import { plural, safe } from "../../lib/format.js";
import { Switch } from "../../parts/basics.js";

const DEEPEST = 60;
const MOST = 20_000;
const PAGE = 300;

const isBranch = (value) => value !== null && typeof value === "object";
const token = (name) => String(name).replaceAll("~", "~0").replaceAll("/", "~1");
const text = (value) => (value === undefined ? "" : JSON.stringify(value));

// `[{ path, kind: "same" | "changed" | "added" | "removed", before, after }]`
export function diff(before, after) {
  const found = [];
  const visit = (path, a, b, depth) => {
    if (found.length >= MOST) return;
    const isLeaf = !isBranch(a) || !isBranch(b) || Array.isArray(a) !== Array.isArray(b) || depth > DEEPEST;
    if (!isLeaf) {
      const names = new Set([...Object.keys(a), ...Object.keys(b)]);
      if (!names.size) found.push({ path, kind: "same", before: a, after: b });
      for (const name of names) {
        visit(`${path}/${token(name)}`, Object.hasOwn(a, name) ? a[name] : undefined, Object.hasOwn(b, name) ? b[name] : undefined, depth + 1);
      }
    } else if (a === undefined && isBranch(b) && Object.keys(b).length && depth <= DEEPEST) {
      for (const name of Object.keys(b)) visit(`${path}/${token(name)}`, undefined, b[name], depth + 1);
    } else if (b === undefined && isBranch(a) && Object.keys(a).length && depth <= DEEPEST) {
      for (const name of Object.keys(a)) visit(`${path}/${token(name)}`, a[name], undefined, depth + 1);
    } else {
      const kind = a === undefined ? "added" : b === undefined ? "removed" : text(a) === text(b) ? "same" : "changed";
      found.push({ path, kind, before: a, after: b });
    }
  };
  visit("", before, after, 0);
  return found;
}

export const countOf = (rows) => {
  const counts = { same: 0, changed: 0, added: 0, removed: 0 };
  for (const { kind } of rows) counts[kind]++;
  return counts;
};

const MARKS = { same: "=", changed: "≠", added: "+", removed: "−" };

export function Diff({ before, after, titles = ["Before", "After"] }) {
  const rows = useMemo(() => diff(before, after), [before, after]);
  const counts = countOf(rows);
  const differs = rows.length - counts.same;
  const [isWhole, setWhole] = useState(false);
  const [most, setMost] = useState(PAGE);
  const shown = isWhole ? rows : rows.filter(({ kind }) => kind !== "same");
  return html`<div class="diff">
    <div class="row between"><p class="quiet">${differs
        ? `${counts.changed} changed, ${counts.added} added, ${counts.removed} removed, ${counts.same} the same`
        : `The same: ${plural(counts.same, "value")}`}</p>
      <${Switch} isOn=${isWhole} onChange=${setWhole} label="Show what is the same" /></div>
    ${shown.length
      ? html`<div class="table-box" tabindex="0" role="region" aria-label="Differences"><table class="plain diff-table">
          <thead><tr><th scope="col">Path</th><th scope="col">${titles[0]}</th><th scope="col">${titles[1]}</th></tr></thead>
          <tbody>${shown.slice(0, most).map(
            ({ path, kind, before: a, after: b }) => html`<tr key=${path} class=${kind}>
              <th scope="row"><span class="mark" title=${kind} aria-label=${kind}>${MARKS[kind]}</span> <code>${safe(path || "(whole)", 300)}</code></th>
              <td dir="auto">${safe(text(a), 1000)}</td><td dir="auto">${safe(text(b), 1000)}</td></tr>`,
          )}</tbody></table></div>
          ${shown.length > most ? html`<button type="button" onClick=${() => setMost(most + 2000)}>Show more (${shown.length - most} left)</button>` : null}`
      : null}
  </div>`;
}
