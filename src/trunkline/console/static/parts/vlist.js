// `VirtualList`: rows of one height, of which only those in sight are in the document. It takes
// 100,000 rows as smoothly as ten. Keys: j/k or arrows move, Enter opens, Home and End.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";

const SPARE = 8;
// Browsers limit the height of an element (Firefox at about 17 million pixels, Chromium at 33).
const TALLEST = 8_000_000;

// `rows` is an array, or anything with `length` and `at(index)`; `row(item, index)` gives the cells.
// `rowKey(item, index)` names a row. A new object `goTo` ({ index }) shows that row. `rowProps(item)`
// gives more attributes of a row, and `onKey(event, item, index)` takes keys first, for trees (with
// `gridRole` "treegrid"). With `sticksToEnd` the list follows new rows at its end while
// the reader is there; else a button says how many are new.
export function VirtualList({
  rows,
  rowHeight,
  row,
  rowKey,
  label,
  columns,
  selected,
  onSelect,
  onNear,
  sticksToEnd = false,
  className = "",
  goTo = null,
  gridRole = "grid",
  rowProps,
  onKey,
}) {
  const box = useRef(null);
  const name = label.replace(/\W+/g, "-");
  const [view, setView] = useState({ top: 0, height: 600 });
  const [active, setActive] = useState(-1);
  const isAtEnd = useRef(true);
  const [seen, setSeen] = useState(rows.length);
  const whole = rows.length * rowHeight;
  const shownHeight = Math.min(whole, TALLEST);
  const scale = shownHeight ? whole / shownHeight : 1;

  useLayoutEffect(() => {
    const element = box.current;
    const measure = () => setView((now) => ({ ...now, height: element.clientHeight }));
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);

  useLayoutEffect(() => {
    if (sticksToEnd && isAtEnd.current) {
      box.current.scrollTop = box.current.scrollHeight;
      setSeen(rows.length);
    }
  }, [rows.length, sticksToEnd]);

  const frame = useRef(0);
  const onScroll = () => {
    if (frame.current) return;
    frame.current = requestAnimationFrame(() => {
      frame.current = 0;
      const element = box.current;
      if (!element) return;
      isAtEnd.current = element.scrollTop + element.clientHeight >= element.scrollHeight - rowHeight;
      if (isAtEnd.current) setSeen(rows.length);
      setView({ top: element.scrollTop * scale, height: element.clientHeight });
    });
  };
  useEffect(() => () => cancelAnimationFrame(frame.current), []);

  const first = Math.max(0, Math.floor(view.top / rowHeight) - SPARE);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / rowHeight) + SPARE);
  useEffect(() => {
    onNear?.(first, last);
  }, [first, last, rows.length]);

  const show = (index) => {
    const element = box.current;
    const top = (index * rowHeight) / scale;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight > element.scrollTop + element.clientHeight)
      element.scrollTop = top + rowHeight - element.clientHeight;
  };
  const move = (index) => {
    const next = Math.max(0, Math.min(rows.length - 1, index));
    setActive(next);
    show(next);
  };
  useLayoutEffect(() => {
    if (goTo && goTo.index >= 0) {
      setActive(goTo.index);
      const top = (goTo.index * rowHeight) / scale;
      const { scrollTop, clientHeight } = box.current;
      if (top < scrollTop || top + rowHeight > scrollTop + clientHeight) box.current.scrollTop = Math.max(0, top - clientHeight / 3);
    }
  }, [goTo]);
  // j and k move in the first list of the view, wherever the focus is.
  const keys = useRef(null);
  useEffect(() => {
    const onDocumentKey = (event) => {
      if (event.key !== "j" && event.key !== "k") return;
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target.closest?.("input, textarea, select, [contenteditable], [role=grid], [role=treegrid]")) return;
      if (document.querySelector("dialog[open]") || document.querySelector("#view .vbox") !== box.current) return;
      box.current.focus();
      keys.current(event);
    };
    document.addEventListener("keydown", onDocumentKey);
    return () => document.removeEventListener("keydown", onDocumentKey);
  }, []);
  const onKeyDown = (event) => {
    if (event.target === box.current) keys.current(event);
  };
  keys.current = (event) => {
    if (active >= 0 && active < rows.length && onKey?.(event, rows.at(active), active)) {
      event.preventDefault();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const steps = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, PageDown: 15, PageUp: -15 };
    if (event.key in steps) move((active < 0 ? Math.ceil(view.top / rowHeight) - 1 : active) + steps[event.key]);
    else if (event.key === "Home") move(0);
    else if (event.key === "End") move(rows.length - 1);
    else if (event.key === "Enter" && active >= 0) onSelect?.(rows.at(active), active);
    else return;
    event.preventDefault();
  };

  const shown = [];
  // Behind TALLEST the place of a row is counted from the place of the view.
  const origin = scale === 1 ? 0 : view.top / scale - view.top;
  for (let index = first; index < last; index++) {
    const item = rows.at(index);
    const key = rowKey ? rowKey(item, index) : index;
    shown.push(html`<div key=${key} role="row" aria-rowindex=${index + 1} id=${`${name}-${index}`}
      aria-selected=${String(key === selected)} ...${rowProps?.(item, index)}
      class=${`vrow ${index === active ? "active" : ""} ${key === selected ? "selected" : ""}`}
      style=${{ height: `${rowHeight}px`, transform: `translateY(${index * rowHeight + origin}px)` }}
      onClick=${(event) => {
        setActive(index);
        if (!event.target.closest("a, button, input")) onSelect?.(item, index);
      }}>${row(item, index)}</div>`);
  }
  const news = sticksToEnd ? rows.length - seen : 0;
  return html`<div class=${`vlist ${className}`}>
    ${columns ? html`<div class="vhead" aria-hidden="true">${columns.map((c) => html`<span class=${c.className ?? ""}>${c.title}</span>`)}</div>` : null}
    <div ref=${box} class="vbox" role=${gridRole} tabindex="0" aria-label=${label} aria-rowcount=${rows.length}
      aria-activedescendant=${active >= first && active < last ? `${name}-${active}` : undefined}
      onScroll=${onScroll} onKeyDown=${onKeyDown}>
      <div class="vspace" role="rowgroup" style=${{ height: `${shownHeight}px` }}>${shown}</div>
    </div>
    ${news > 0 && !isAtEnd.current
      ? html`<button type="button" class="news" onClick=${() => {
          box.current.scrollTop = box.current.scrollHeight;
        }}>${news} new</button>`
      : null}
  </div>`;
}

// Whether the page is as narrow as on a telephone, where rows have two lines.
const narrow = matchMedia("(max-width: 44rem)");

export function useNarrow() {
  const [isNarrow, setNarrow] = useState(narrow.matches);
  useEffect(() => {
    const onChange = () => setNarrow(narrow.matches);
    narrow.addEventListener("change", onChange);
    return () => narrow.removeEventListener("change", onChange);
  }, []);
  return isNarrow;
}
