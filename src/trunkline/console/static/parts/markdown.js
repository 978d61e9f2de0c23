// `Markdown`: the text of an agent as elements. marked finds the structure; every element is made
// here, of a fixed list. HTML in the text is shown as text, links are parsed, and images are links:
// a picture that loads by itself would tell its server that the text was read.
import { lexer } from "../vendor/marked.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { safe, safeUrl } from "../lib/format.js";
import { CopyButton } from "./basics.js";
import { Icon } from "./icons.js";

// A text that grows is read again at most ten times a second, and only behind its finished blocks.
const PAUSE_MS = 100;
const LONGEST = 400_000;
const DEEPEST = 24;

export function Markdown({ text, isGrowing = false }) {
  const shown = useSlowly(text, isGrowing ? PAUSE_MS : 0);
  const cache = useRef({ text: "", end: 0, tokens: [] });
  const tokens = useMemo(() => blocks(lines(shown.slice(0, LONGEST)), cache.current), [shown]);
  return html`<div class="markdown" dir="auto">
    ${tokens.map((token, index) => html`<${Block} key=${index} token=${token} />`)}
    ${shown.length > LONGEST
      ? html`<p class="quiet">The text goes on for ${shown.length - LONGEST} more characters. <${CopyButton} text=${text} label="Copy all" /></p>`
      : null}
  </div>`;
}

// marked counts a line break as one character, so the places of blocks are counted in such a text.
const lines = (text) => text.replace(/\r\n?/g, "\n");

// A finished block is not read again and keeps its token, so its elements are not drawn again.
function Block({ token }) {
  return useMemo(() => block(token, 0), [token]);
}

// The tokens of a text. Blocks before `end` are kept from the last time, if the text only grew.
function blocks(text, cache) {
  if (!text.startsWith(cache.text.slice(0, cache.end))) {
    cache.end = 0;
    cache.tokens = [];
  }
  let found;
  try {
    found = lexer(text.slice(cache.end));
  } catch {
    found = [{ type: "text", raw: text.slice(cache.end), text: text.slice(cache.end) }];
  }
  const tokens = [...cache.tokens, ...found];
  // The last two blocks may change with what follows; references (`[a]: url`) may come later, but
  // then the text is finished and read as a whole.
  const done = found.slice(0, -2);
  cache.text = text;
  cache.end += done.reduce((sum, token) => sum + token.raw.length, 0);
  cache.tokens = [...cache.tokens, ...done];
  return tokens;
}

function useSlowly(text, pauseMs) {
  const [shown, setShown] = useState(text);
  const timer = useRef(0);
  const latest = useRef(text);
  latest.current = text;
  useEffect(() => {
    if (!pauseMs) {
      clearTimeout(timer.current);
      timer.current = 0;
      setShown(text);
    } else if (!timer.current) {
      timer.current = setTimeout(() => {
        timer.current = 0;
        setShown(latest.current);
      }, pauseMs);
    }
  }, [text, pauseMs]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return shown;
}

function block(token, depth) {
  if (depth > DEEPEST) return plain(token.raw);
  const inside = () => inline(token.tokens ?? [], depth + 1);
  const within = () => (token.tokens ?? []).map((each) => block(each, depth + 1));
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading": {
      // The page has headings of its own above these.
      const Heading = `h${Math.min(6, token.depth + 2)}`;
      return html`<${Heading}>${inside()}<//>`;
    }
    case "paragraph":
      return html`<p>${inside()}</p>`;
    case "text":
      return token.tokens ? html`<p>${inside()}</p>` : html`<p>${plain(token.text)}</p>`;
    case "code":
      return html`<div class="code">
        <div class="code-head"><span>${safe(token.lang ?? "", 40)}</span><${CopyButton} text=${token.text} /></div>
        <pre tabindex="0"><code>${plain(token.text)}</code></pre>
      </div>`;
    case "blockquote":
      return html`<blockquote>${within()}</blockquote>`;
    case "list": {
      const List = token.ordered ? "ol" : "ul";
      const start = token.ordered && Number.isFinite(token.start) ? token.start : undefined;
      return html`<${List} start=${start}>${token.items.map((item) => listItem(item, depth))}<//>`;
    }
    case "table":
      return html`<div class="table-box" tabindex="0"><table>
        <thead><tr>${token.header.map((cell, i) => html`<th class=${aligned(token, i)}>${inline(cell.tokens, depth + 1)}</th>`)}</tr></thead>
        <tbody>${token.rows.map((row) => html`<tr>${row.map((cell, i) => html`<td class=${aligned(token, i)}>${inline(cell.tokens, depth + 1)}</td>`)}</tr>`)}</tbody>
      </table></div>`;
    case "hr":
      return html`<hr />`;
    default:
      // HTML among them.
      return html`<p>${plain(token.raw)}</p>`;
  }
}

function listItem(item, depth) {
  const box = item.task
    ? html`<input type="checkbox" checked=${item.checked} disabled aria-label=${item.checked ? "done" : "open"} /> `
    : null;
  return html`<li>${box}${item.tokens
    .filter((each) => each.type !== "checkbox")
    .map((each) =>
      each.type === "text" && each.tokens ? inline(each.tokens, depth + 2) : block(each, depth + 2),
    )}</li>`;
}

const ALIGNED = new Set(["left", "right", "center"]);
const aligned = (token, i) => (ALIGNED.has(token.align[i]) ? token.align[i] : "");

function inline(tokens, depth) {
  if (depth > DEEPEST) return plain(tokens.map((token) => token.raw).join(""));
  return tokens.map((token) => {
    const inside = () => inline(token.tokens ?? [], depth + 1);
    switch (token.type) {
      case "strong":
        return html`<strong>${inside()}</strong>`;
      case "em":
        return html`<em>${inside()}</em>`;
      case "del":
        return html`<del>${inside()}</del>`;
      case "codespan":
        return html`<code>${plain(token.text)}</code>`;
      case "br":
        return html`<br />`;
      case "link":
        return html`<${Link} href=${token.href}>${inside()}<//>`;
      case "image":
        return html`<${Link} href=${token.href}><${Icon} name="image" size=${15} /> ${plain(token.text || "image")}<//>`;
      case "escape":
        return plain(token.text);
      case "text":
        return token.tokens ? inside() : plain(token.text);
      default:
        return plain(token.raw);
    }
  });
}

// A link that says where it leads when the pointer is on it, and tells that place nothing.
export function Link({ href, children }) {
  const url = safeUrl(href);
  if (url === null) return html`<span class="no-link" title="This link is not followed">${children} <span class="quiet">(${safe(href, 200)})</span></span>`;
  return html`<a href=${url} target="_blank" rel="noopener noreferrer nofollow" title=${safe(url, 500)}>${children}</a>`;
}

// marked escapes nothing with its lexer alone, so the text is as the agent wrote it.
function plain(text) {
  return safe(text, Infinity);
}
