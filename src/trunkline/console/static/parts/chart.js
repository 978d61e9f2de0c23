// Small charts in SVG: `Columns`, `Curve` and `Bars`. Each has its figures as a table beside it, and
// tells kinds of values apart by pattern as well as by colour.
import { html, useState } from "../lib/html.js";
import { count, safe } from "../lib/format.js";

const WIDTH = 300;
const HEIGHT = 90;

// Stacked columns. `columns` are `{ label, values }`, with a value for each of `kinds`, which are
// `{ name, tone }`; the tone "bad" is hatched.
export function Columns({ title, columns, kinds }) {
  const totals = columns.map(({ values }) => values.reduce((sum, each) => sum + each, 0));
  const most = Math.max(1, ...totals);
  const step = WIDTH / Math.max(1, columns.length);
  const wide = Math.min(step * 0.72, 22);
  return html`<${Figure} title=${title} most=${count(Math.max(0, ...totals))} labels=${columns.map(({ label }) => label)}
    names=${kinds.map(({ name }) => name)} rows=${columns.map(({ label, values }) => [label, ...values.map(count)])}
    legend=${kinds.length > 1 ? kinds : []}>
    ${columns.map(({ label, values }, at) => {
      let top = HEIGHT;
      return html`<g key=${label}><title>${label}: ${kinds.map(({ name }, i) => `${count(values[i])} ${name}`).join(", ")}</title>
        <rect class="chart-hit" x=${at * step} y="0" width=${step} height=${HEIGHT} />
        ${values.map((value, i) => {
          const high = (value / most) * (HEIGHT - 2);
          top -= high;
          return value
            ? html`<rect class=${`chart-column ${kinds[i].tone}`} x=${at * step + (step - wide) / 2} y=${top} width=${wide} height=${high} />
              ${kinds[i].tone === "bad" ? html`<${Hatch} x=${at * step + (step - wide) / 2} y=${top} width=${wide} height=${high} />` : null}`
            : null;
        })}</g>`;
    })}
  <//>`;
}

function Hatch({ x, y, width, height }) {
  const lines = [];
  for (let at = y + 3; at < y + height; at += 5) lines.push(`M${x} ${at}h${width}`);
  return html`<path class="chart-hatch" d=${lines.join("")} />`;
}

// A line through `points`, which are `{ label, value }`; a value of null is a gap.
export function Curve({ title, points, format = count }) {
  const values = points.map(({ value }) => value).filter((value) => value !== null);
  const most = Math.max(1, ...values);
  const step = WIDTH / Math.max(1, points.length);
  const place = ({ value }, at) => [at * step + step / 2, HEIGHT - 4 - (value / most) * (HEIGHT - 10)];
  let path = "";
  let isGap = true;
  points.forEach((point, at) => {
    if (point.value === null) isGap = true;
    else {
      path += `${isGap ? "M" : "L"}${place(point, at).join(" ")}`;
      isGap = false;
    }
  });
  return html`<${Figure} title=${title} most=${values.length ? format(Math.max(...values)) : "–"} labels=${points.map(({ label }) => label)}
    names=${["Value"]} rows=${points.map(({ label, value }) => [label, value === null ? "–" : format(value)])} legend=${[]}>
    <path class="chart-line" d=${path} />
    ${points.map((point, at) => {
      if (point.value === null) return null;
      const [x, y] = place(point, at);
      return html`<g key=${point.label}><title>${point.label}: ${format(point.value)}</title>
        <rect class="chart-hit" x=${at * step} y="0" width=${step} height=${HEIGHT} />
        <path class="chart-dot" d=${`M${x} ${y}h.01`} /></g>`;
    })}
  <//>`;
}

function Figure({ title, most, labels, names, rows, legend, children }) {
  const [isTable, setTable] = useState(false);
  return html`<figure class="chart">
    <figcaption class="row between"><span class="chart-title">${title}</span>
      <button type="button" class="small" aria-pressed=${String(isTable)} aria-label=${`${title} as a table`}
        onClick=${() => setTable(!isTable)}>Table</button></figcaption>
    ${isTable
      ? html`<div class="chart-table" tabindex="0" role="region" aria-label=${title}><table class="plain"><thead><tr><th scope="col">Day</th>
          ${names.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
          <tbody>${rows.map(([label, ...cells]) => html`<tr key=${label}><th scope="row">${label}</th>${cells.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table></div>`
      : html`<div class="chart-plot"><span class="chart-most" aria-hidden="true">${most}</span>
          <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${`${title}, highest ${most}`}>${children}</svg>
          <p class="chart-axis" aria-hidden="true"><span>${labels[0]}</span><span>${labels.length > 1 ? labels.at(-1) : ""}</span></p></div>`}
    ${legend.length && !isTable
      ? html`<p class="chart-legend">${legend.map(({ name, tone }) => html`<span key=${name}><i class=${`chart-key ${tone}`} aria-hidden="true"></i>${name}</span>`)}</p>`
      : null}
  </figure>`;
}

// Horizontal bars with their values: `rows` are `{ name, value, text, href, limit }`. With a limit a
// bar is a share of it, and "used up" when it is met; without, a share of the highest value.
export function Bars({ rows, label }) {
  const most = Math.max(1, ...rows.map(({ value }) => value));
  return html`<ul class="bars" aria-label=${label}>${rows.map(({ name, value, text, href, limit }) => {
    const share = limit === undefined ? value / most : limit ? value / limit : 1;
    const isFull = limit !== undefined && share >= 1;
    return html`<li key=${name}>
      <span class="row between"><span class="bar-name" dir="auto">${href ? html`<a href=${href}>${safe(name, 120)}</a>` : safe(name, 120)}</span>
        <span class="quiet bar-text">${text ?? count(value)}${isFull ? ", used up" : ""}</span></span>
      <span class=${`meter ${isFull ? "full" : ""}`} aria-hidden="true"><i style=${{ width: `${Math.min(100, share * 100)}%` }}></i></span>
    </li>`;
  })}</ul>`;
}
