// `Markdown`: the text of an agent as elements. marked finds the structure; every element is made
// here, of a fixed list. HTML in the text is shown as text, links are parsed, and images are links:
// a picture that loads by itself would tell its server that the text was read.
import { Lexer } from "../vendor/marked.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { bytes, count, safe, safeUrl } from "../lib/format.js";
import { CopyButton, download } from "./basics.js";
import { Icon } from "./icons.js";

// A text that grows is read again at most ten times a second, and only its last section.
const PAUSE_MS = 100;
// What is drawn as Markdown at first; the rest is drawn as plain text when it is asked for.
const LONGEST = 100_000;
const MORE = 200_000;
const DEEPEST = 24;
// marked needs time with the square of some texts, such as many `*` in one paragraph. So a text is
// read in sections, a paragraph with more than this is plain text, and so is what is left when the
// time is over.
const SECTION = 8_000;
const LONGEST_SECTION = 30_000;
const LONGEST_PARAGRAPH = 12_000;
const MOST_MARKS = 1_500;
const BUDGET_MS = 150;
const MOST_COLUMNS = 40;
const MOST_ROWS = 400;

export function Markdown({ text, isGrowing = false }) {
  const shown = useSlowly(text, isGrowing ? PAUSE_MS : 0);
  const [more, setMore] = useState(0);
  const cache = useRef(null);
  const tokens = useMemo(() => {
    // At its end a text is read as a whole once more, because references may stand at its end.
    if (!isGrowing) cache.current = null;
    cache.current = sections(lines(shown.slice(0, LONGEST)), cache.current);
    return cache.current.flatMap((section) => section.tokens);
  }, [shown, isGrowing]);
  const end = LONGEST + more;
  return html`<div class="markdown" dir="auto">
    ${tokens.map((token, index) => html`<${Block} key=${index} token=${token} />`)}
    ${more ? html`<p class="said">${plain(shown.slice(LONGEST, end))}</p>` : null}
    ${shown.length > LONGEST
      ? html`<p class="quiet row">${shown.length > end ? html`The text goes on for ${count(shown.length - end)} more characters.
          <button type="button" class="small" onClick=${() => setMore(more + MORE)}>Show more</button>` : null}
          <${CopyButton} text=${text} label="Copy all" />
          <button type="button" class="small" onClick=${() => download("answer.md", text, "text/markdown")}>Save all (${bytes(text.length)})</button></p>`
      : null}
  </div>`;
}

// Line breaks as marked wants them.
const lines = (text) => text.replace(/\r\n?/g, "\n");

// A finished block keeps its token, so its elements are not drawn again.
function Block({ token }) {
  return useMemo(() => block(token, 0), [token]);
}

// The text in sections of about SECTION characters, which end at an empty line outside of code. The
// sections of a text that grows stay the same but for the last one.
export function cut(text) {
  const found = [];
  let begin = 0;
  let at = 0;
  let fence = "";
  while (at < text.length) {
    let next = text.indexOf("\n", at);
    next = next < 0 ? text.length : next + 1;
    if (next - at > LONGEST_SECTION) next = at + LONGEST_SECTION;
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(text.slice(at, at + 80))?.[1];
    if (mark && !fence) fence = mark;
    else if (mark && mark[0] === fence[0] && mark.length >= fence.length) fence = "";
    const isEmpty = text.slice(at, next).trim() === "";
    at = next;
    const size = at - begin;
    if ((size >= SECTION && isEmpty && !fence) || (size >= LONGEST_SECTION && !fence)) {
      found.push(text.slice(begin, at));
      begin = at;
    }
  }
  if (begin < text.length) found.push(text.slice(begin));
  return found;
}

function sections(text, before) {
  const end = performance.now() + BUDGET_MS;
  const links = Object.create(null);
  const read = cut(text).map((raw, i) => {
    const known = before?.[i];
    return known?.raw === raw ? known : { raw, ...blocksOf(raw, links, end), known };
  });
  for (const section of read) {
    if (!section.queue) continue;
    for (const { src, tokens } of section.queue) readInline(section.lexer, src, tokens, end);
    // Blocks of a growing section that are as they were keep their tokens.
    const { known } = section;
    section.tokens = section.tokens.map((token, i) => (known?.tokens[i]?.raw === token.raw ? known.tokens[i] : token));
    section.queue = section.lexer = section.known = null;
  }
  return read;
}

function blocksOf(raw, links, end) {
  if (performance.now() > end) return { tokens: [{ type: "plain", raw }] };
  const lexer = new Lexer();
  lexer.tokens.links = links;
  try {
    lexer.blockTokens(raw, lexer.tokens);
    return { tokens: [...lexer.tokens], queue: lexer.inlineQueue, lexer };
  } catch {
    // Too deep: thousands of `>`.
    return { tokens: [{ type: "plain", raw }] };
  }
}

function readInline(lexer, src, tokens, end) {
  if (src.length <= LONGEST_PARAGRAPH && performance.now() <= end && marks(src) <= MOST_MARKS) {
    try {
      lexer.inlineTokens(src, tokens);
      return;
    } catch {
      tokens.length = 0;
    }
  }
  tokens.push({ type: "text", raw: src, text: src });
}

function marks(text) {
  let found = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    // * _ ~ [ ` < !
    if (code === 42 || code === 95 || code === 126 || code === 91 || code === 96 || code === 60 || code === 33) found += 1;
  }
  return found;
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
        <thead><tr>${token.header.slice(0, MOST_COLUMNS).map((cell, i) => html`<th class=${aligned(token, i)}>${inline(cell.tokens, depth + 1)}</th>`)}</tr></thead>
        <tbody>${token.rows.slice(0, MOST_ROWS).map((row) => html`<tr>${row.slice(0, MOST_COLUMNS).map((cell, i) => html`<td class=${aligned(token, i)}>${inline(cell.tokens, depth + 1)}</td>`)}</tr>`)}</tbody>
      </table>${token.rows.length > MOST_ROWS || token.header.length > MOST_COLUMNS ? html`<p class="quiet">The table has ${count(token.rows.length)} rows and ${count(token.header.length)} columns; copy the text to see all.</p>` : null}</div>`;
    case "hr":
      return html`<hr />`;
    case "plain":
      return html`<p class="said">${plain(token.raw)}</p>`;
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
