// `Waterfall`: when what happened to a task, as lanes over one axis of time: its states, its turns
// with the time in the queue, and the calls that belong to it. Long times without any event are cut
// short on the axis, so that a task that waited for three days is still legible.
import { handleOf } from "../lib/agents.js";
import { html, useEffect, useMemo, useState } from "../lib/html.js";
import { clock, duration, exact, line, stateTone, stateWord } from "../lib/format.js";
import { link } from "../lib/router.js";

// A gap longer than this share of the time without gaps is cut short to it.
const GAP_SHARE = 0.08;
const MIN_CUT_MS = 10_000;
// Bars that begin in the same thousandth of the width cannot be told apart: only the first is drawn.
const PLACES = 1000;

const ms = (time) => (time ? Date.parse(time) : NaN);

// The axis: `at(ms)` gives a share of the width from 0 to 1, and `cuts` are the gaps cut short.
export function axisOf(from, to, gaps) {
  const whole = Math.max(1, to - from);
  const inside = gaps
    .map((gap) => ({ from: Math.max(from, ms(gap.from)), to: Math.min(to, ms(gap.to)) }))
    .filter((gap) => gap.to - gap.from >= MIN_CUT_MS)
    .sort((a, b) => a.from - b.from);
  const idle = inside.reduce((sum, gap) => sum + gap.to - gap.from, 0);
  const most = Math.max(MIN_CUT_MS, (whole - idle) * GAP_SHARE);
  const cuts = inside.filter((gap) => gap.to - gap.from > most);
  const width = whole - cuts.reduce((sum, gap) => sum + gap.to - gap.from - most, 0);
  const at = (time) => {
    let place = Math.min(Math.max(time, from), to) - from;
    for (const cut of cuts) {
      if (time >= cut.to) place -= cut.to - cut.from - most;
      else if (time > cut.from) place -= (time - cut.from) * (1 - most / (cut.to - cut.from));
    }
    return place / width;
  };
  return { at, cuts, from, to };
}

// `lastAt` is the time of the last event, if it is known.
export function Waterfall({ timeline, task, lastAt, isOver, seqHref, selectedAt }) {
  const now = useNow(!isOver);
  const { states, turns, gaps, calls } = timeline;
  const axis = useMemo(() => {
    const times = [ms(task.createdAt), ms(task.statusAt)];
    for (const each of states) times.push(ms(each.from), ms(each.to));
    for (const each of turns) times.push(ms(each.queuedAt), ms(each.startedAt), ms(each.endedAt));
    for (const each of calls) times.push(ms(each.createdAt), ms(each.endedAt));
    if (!isOver) times.push(now);
    let [from, to] = [Infinity, -Infinity];
    for (const time of times) {
      if (time < from) from = time;
      if (time > to) to = time;
    }
    return axisOf(from, to, isOver || !lastAt ? gaps : [...gaps, { from: lastAt, to: new Date(now).toISOString() }]);
  }, [timeline, isOver ? 0 : now]);
  const end = (time) => ms(time) || axis.to;
  const [stateBars, turnBars, callBars] = useMemo(
    () => [
      states.map((band) => ({
        from: ms(band.from), to: end(band.to), tone: stateTone(band.state), text: stateWord(band.state), href: seqHref(band.seq),
        title: `${stateWord(band.state)}, ${span(ms(band.from), end(band.to))}, from event ${band.seq}`,
      })),
      turns.flatMap((turn) => {
        const waited = { from: ms(turn.queuedAt), to: end(turn.startedAt ?? turn.endedAt), tone: "wait queued", text: "queued", href: seqHref(turn.firstSeq), title: `Turn ${turn.number} in the queue, ${span(ms(turn.queuedAt), end(turn.startedAt ?? turn.endedAt))}` };
        const ran = turn.startedAt ? { from: ms(turn.startedAt), to: end(turn.endedAt), tone: turn.outcome ? stateTone(turn.outcome) : "run", text: `turn ${turn.number}`, href: seqHref(turn.firstSeq), title: `Turn ${turn.number}, ${turn.outcome ? stateWord(turn.outcome) : "running"}, ${span(ms(turn.startedAt), end(turn.endedAt))}, events ${turn.firstSeq} to ${turn.lastSeq}` } : null;
        return [Number.isNaN(waited.from) ? null : waited, ran].filter(Boolean);
      }),
      calls.map((call) => ({
        from: ms(call.createdAt), to: end(call.endedAt), tone: callTone(call.status), text: calleeOf(call), href: link("calls", call.id),
        title: `Call of ${calleeOf(call)}, ${call.status}, ${span(ms(call.createdAt), end(call.endedAt))}`,
      })),
    ],
    [timeline, axis],
  );
  if (!Number.isFinite(axis.from)) return null;
  return html`<section class="waterfall" aria-label="Timeline">
    <${Lane} name="States" bars=${stateBars} axis=${axis} selectedAt=${selectedAt} />
    <${Lane} name="Turns" mostRows=${4} bars=${turnBars} axis=${axis} selectedAt=${selectedAt} />
    ${calls.length ? html`<${Lane} name="Calls" bars=${callBars} axis=${axis} selectedAt=${selectedAt} mostRows=${6} />` : null}
    <div class="axis" aria-hidden="true"><span></span><div class="axis-times"><time title=${exact(axis.from)}>${clock(axis.from)}</time>
      <span>${duration(axis.to - axis.from)}${axis.cuts.length ? ", idle times cut short" : ""}</span>
      <time title=${exact(axis.to)}>${isOver ? clock(axis.to) : "now"}</time></div></div>
  </section>`;
}

const span = (from, to) => duration(to - from) || "time unknown";

// The tools that make a plan of several calls.
const PLANS = { agent_call_batch: "batch", debate_call: "debate" };

export const planOf = (name) => PLANS[String(name).replace(/^tool:/, "")];
export const calleeOf = ({ callee }) => (planOf(callee) ? `a ${planOf(callee)}` : line(handleOf(callee), 80));

export const callTone = (status) =>
  ({ completed: "good", error: "bad", timeout: "bad", input_required: "ask", pending: "run" })[status] ?? "off";

function Lane({ name, bars, axis, selectedAt, mostRows = 1 }) {
  const drawn = useMemo(() => placed(bars, axis, mostRows), [bars, axis]);
  const left = bars.length - drawn.length;
  // One stop of the Tab key for each lane, and arrows inside.
  const onKeyDown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const links = [...event.currentTarget.querySelectorAll("a")];
    const next = links[links.indexOf(document.activeElement) + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
  };
  const rows = Math.max(1, ...drawn.map((bar) => bar.row + 1));
  const mark = selectedAt ? axis.at(ms(selectedAt)) : NaN;
  return html`<div class="lane" role="group" aria-label=${name} onKeyDown=${onKeyDown}>
    <span class="lane-name">${name}${left > 0 ? html`<span class="quiet" title=${`${left} more are too short to be drawn`}> +${left}</span>` : null}</span>
    <div class="bars" style=${{ height: `${rows * 1.5}rem` }}>
      ${axis.cuts.map((cut) => html`<i class="cut" title=${`Nothing happened for ${duration(cut.to - cut.from)}`} style=${placeOf(axis.at(cut.from), axis.at(cut.to))}></i>`)}
      ${drawn.map(
        (bar, i) => html`<a key=${i} class=${`bar ${bar.tone}`} href=${bar.href} title=${bar.title} aria-label=${bar.title} tabindex=${i ? -1 : 0}
          style=${{ ...placeOf(bar.left, bar.right), top: `${bar.row * 1.5}rem` }}>${bar.right - bar.left > 0.06 ? bar.text : ""}</a>`,
      )}
      ${Number.isNaN(mark) ? null : html`<i class="mark" style=${{ left: `${mark * 100}%` }}></i>`}
    </div>
  </div>`;
}

const placeOf = (left, right) => ({ left: `min(100% - 3px, ${left * 100}%)`, width: `max(3px, ${(right - left) * 100}%)` });

// The bars with their place; overlapping ones go into further rows, as far as there are some.
function placed(bars, axis, mostRows) {
  const shown = [];
  const ends = [];
  let place = -1;
  for (const bar of bars) {
    const left = axis.at(bar.from);
    const right = Math.max(left, axis.at(bar.to));
    if (Number.isNaN(left)) continue;
    const at = Math.floor(left * PLACES);
    if (at === place && right - left < 1 / PLACES) continue;
    place = at;
    let row = ends.findIndex((end) => end <= left + 1e-6);
    if (row < 0) row = Math.min(ends.length, mostRows - 1);
    ends[row] = right;
    shown.push({ ...bar, left, right, row });
  }
  return shown;
}

// The time, which moves on by itself while something is under way.
function useNow(isMoving) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!isMoving) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [isMoving]);
  return now;
}
