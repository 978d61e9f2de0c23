// `Findings`: what the rules of A2A say about a message, with the rule and the place.
import { html } from "../../lib/html.js";
import { safe } from "../../lib/format.js";
import { Badge } from "../../parts/basics.js";

const TONES = { error: "bad", warning: "ask", note: "" };
const MARKS = { error: "✕", warning: "!", note: "i" };

// `onPoint(pointer)` leads to the place, where there is one to show.
export function Findings({ findings, onPoint, none = "No rule is violated." }) {
  if (!findings.length) return html`<p class="fine"><span aria-hidden="true">✓</span> ${none}</p>`;
  return html`<ul class="findings">${findings.map(
    ({ rule, severity, pointer, text }, i) => html`<li key=${i} class=${severity}>
      <${Badge} tone=${TONES[severity]}><span aria-hidden="true">${MARKS[severity]}</span> ${severity}<//>${" "}<span class="rule">${safe(rule, 100)}</span>
      <p dir="auto">${safe(text, 1000)}</p>
      ${pointer
        ? onPoint
          ? html`<button type="button" class="plain small" onClick=${() => onPoint(pointer)}><code>${safe(pointer, 300)}</code></button>`
          : html`<code class="pointer">${safe(pointer, 300)}</code>`
        : null}
    </li>`,
  )}</ul>`;
}

export function Verdict({ findings }) {
  const problems = findings.filter(({ severity }) => severity !== "note").length;
  if (!problems) return html`<${Badge} tone="good">✓ ok<//>`;
  const isError = findings.some(({ severity }) => severity === "error");
  return html`<${Badge} tone=${isError ? "bad" : "ask"}>${isError ? "✕" : "!"} ${problems}<//>`;
}
