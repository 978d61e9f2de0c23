// `Log`: the entries of a conversation as bubbles. It is not live for screen readers: what begins
// and ends is announced once.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../../lib/html.js";
import { bytes, exact, isOver, isWaitingForPerson, line, plural, safe } from "../../lib/format.js";
import { link } from "../../lib/router.js";
import { useValue } from "../../lib/state.js";
import { CopyButton, Id, Loading, Problem, State, Time } from "../../parts/basics.js";
import { FilePart } from "../../parts/files.js";
import { Options, SchemaForm, expectedAnswer } from "../../parts/form.js";
import { JsonTree, JsonView } from "../../parts/json.js";
import { Markdown } from "../../parts/markdown.js";
import { textOf } from "./transcript.js";

const SHOWN = 150;
const NEAR_END = 60;

export function Log({ talk, onEdit, agent }) {
  useValue(talk.version);
  const box = useRef(null);
  const inside = useRef(null);
  const isAtEnd = useRef(true);
  const [isAway, setAway] = useState(false);
  const [shown, setShown] = useState(SHOWN);
  useLayoutEffect(() => {
    isAtEnd.current = true;
    setShown(SHOWN);
  }, [talk]);
  // What grows keeps its end in sight, unless the reader has scrolled away from it.
  useLayoutEffect(() => {
    const toEnd = () => {
      if (isAtEnd.current) box.current.scrollTop = box.current.scrollHeight;
    };
    const observer = new ResizeObserver(toEnd);
    observer.observe(inside.current);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const onScroll = () => {
    const { scrollTop, clientHeight, scrollHeight } = box.current;
    isAtEnd.current = scrollTop + clientHeight >= scrollHeight - NEAR_END;
    setAway(!isAtEnd.current);
  };
  const back = () => {
    isAtEnd.current = true;
    setAway(false);
    box.current.scrollTop = box.current.scrollHeight;
  };
  const { entries, tasks } = talk.transcript;
  const first = Math.max(0, entries.length - shown);
  const ends = lastOfTasks(entries);
  const growing = talk.isBusy ? talk.running?.id : null;
  return html`<div class="log-box">
    <div class="log" ref=${box} onScroll=${onScroll} tabindex="0" role="region" aria-label="Conversation"><div ref=${inside} class="log-inside">
      ${talk.earlier ? html`<button type="button" class="small" onClick=${() => talk.loadEarlier().catch(() => {})}>Show ${plural(talk.earlier, "earlier task")}</button>` : null}
      ${first ? html`<button type="button" class="small" onClick=${() => setShown(shown + SHOWN)}>Show earlier messages (${first} left)</button>` : null}
      <${Problem} error=${talk.problem} again=${() => talk.open()} />
      ${entries.slice(first).map((entry, i) => html`<${Entry} key=${entry.id} entry=${entry} version=${entry.version} talk=${talk} agent=${agent}
        isGrowing=${entry.taskId === growing && first + i >= entries.length - 2} onEdit=${onEdit}
        isOpen=${entry.kind === "question" && isCurrent(talk, entry)} />
        ${ends.get(first + i) ? html`<${TaskEnd} key=${`t${entry.id}`} task=${tasks.get(ends.get(first + i))} talk=${talk} />` : null}`)}
      ${talk.phase === "sending" && talk.outbox ? html`<p class="quiet sending" role="status">Sending ${talk.sent?.bytes > 100_000 ? bytes(talk.sent.bytes) : ""}…</p>` : null}
      <${Connection} talk=${talk} />
    </div></div>
    ${isAway ? html`<button type="button" class="to-end" onClick=${back}>↓ ${talk.isBusy ? "New text below" : "To the end"}</button>` : null}
  </div>`;
}

function Connection({ talk }) {
  const words = {
    lost: "The connection is lost. The agent works on; the page tries to connect again and will show what was missed.",
    "signed-out": "You are signed out. The answer goes on after you have signed in.",
  }[talk.connection];
  return words ? html`<p class="problem" role="alert">${words}</p>` : null;
}

// The place of the last entry of each task, where its state stands.
function lastOfTasks(entries) {
  const last = new Map();
  entries.forEach((entry, i) => {
    if (entry.taskId) last.set(entry.taskId, i);
  });
  return new Map([...last].map(([id, i]) => [i, id]));
}

const isCurrent = (talk, entry) => {
  const task = talk.transcript.tasks.get(entry.taskId);
  return Boolean(task && isWaitingForPerson(task.state) && task.question?.messageId === entry.message.messageId);
};

function TaskEnd({ task, talk }) {
  if (!task) return null;
  const isRunning = !isOver(task.state);
  const words = {
    requested: "stop requested",
    canceled: "",
    refused: `stop refused: ${safe(task.stop?.reason, 300)}`,
    unsupported: "the agent does not support stopping",
  }[task.stop?.word];
  return html`<div class="task-end">
    <${State} state=${task.state} />
    ${isRunning && task.stop?.word !== "requested" && task.stop?.word !== "unsupported"
      ? html`<button type="button" class="small" onClick=${() => talk.stop(task.id)}>Stop</button>` : null}
    ${words ? html`<span class="stop-word" role="status">${words}</span>` : null}
    <${Time} at=${task.statusAt} />
    <span class="quiet">Task</span> <${Id} id=${task.id} href=${link("tasks", task.id)} />
    <a href=${link("inspector", { taskId: task.id })}>Wire</a>
  </div>`;
}

function Entry({ entry, talk, agent, isGrowing, onEdit, isOpen }) {
  if (entry.kind === "error") return html`<${Problem} error=${entry.error} />`;
  if (entry.kind === "steps") return html`<${Steps} entry=${entry} />`;
  if (entry.kind === "question") return html`<${Question} entry=${entry} talk=${talk} agent=${agent} isOpen=${isOpen} />`;
  const isUser = entry.kind === "message" && entry.role === "ROLE_USER";
  return html`<${Bubble} entry=${entry} talk=${talk} isUser=${isUser} isGrowing=${isGrowing} onEdit=${onEdit} />`;
}

function Bubble({ entry, talk, isUser, isGrowing, onEdit }) {
  const who = isUser ? "You" : line(talk.agentName || talk.handle, 60);
  const title = entry.kind === "artifact" && entry.name && entry.name !== "answer" ? line(entry.name, 120) : "";
  return html`<article class=${`bubble ${isUser ? "mine" : "theirs"} ${entry.outcome ? "outcome" : ""}`} aria-label=${`${who}${title ? `: ${title}` : ""}`}>
    ${title ? html`<h3 class="artifact-name" dir="auto">${title}</h3>` : null}
    ${entry.description ? html`<p class="quiet" dir="auto">${safe(entry.description, 1000)}</p>` : null}
    <${Parts} parts=${entry.parts} isUser=${isUser} isGrowing=${isGrowing} name=${entry.name} version=${entry.version} />
    <${Actions} entry=${entry} talk=${talk} isUser=${isUser} onEdit=${onEdit} />
  </article>`;
}

export function Parts({ parts, isUser = false, isGrowing = false, name = "" }) {
  return parts.map((part, i) => {
    if (part.text !== undefined) {
      return isUser
        ? html`<div key=${i} class="said" dir="auto">${safe(part.text, 50_000)}</div>`
        : html`<${Markdown} key=${i} text=${String(part.text)} isGrowing=${isGrowing} />`;
    }
    if (part.data !== undefined) return html`<${JsonTree} key=${i} value=${part.data} label="Data" />`;
    return html`<${FilePart} key=${i} part=${part} name=${name} />`;
  });
}

function Actions({ entry, talk, isUser, onEdit }) {
  const [isOpen, setOpen] = useState(false);
  const text = textOf(entry.parts);
  return html`<div class="actions">
    ${entry.at ? html`<${Time} at=${entry.at} />` : null}
    ${text ? html`<${CopyButton} text=${text} />` : null}
    ${isUser ? html`<button type="button" class="small" onClick=${() => onEdit.resend(entry)}>Send again</button>
      <button type="button" class="small" onClick=${() => onEdit.branch(entry)}>Edit in a new conversation</button>` : null}
    ${entry.taskId ? html`<a class="button small" href=${link("tasks", entry.taskId)}>Task</a>
      <a class="button small" href=${link("inspector", { taskId: entry.taskId })}>Wire</a>` : null}
    <button type="button" class="small" aria-expanded=${String(isOpen)} onClick=${() => setOpen(!isOpen)}>Details</button>
    ${isOpen ? html`<div class="details"><${JsonView} value=${detailsOf(entry, talk)} label="Details" /></div>` : null}
  </div>`;
}

function detailsOf(entry, talk) {
  const { kind, messageId, artifactId, name, description, taskId, metadata, chunks, at } = entry;
  const sizes = entry.parts.map((part) => ({
    kind: part.text !== undefined ? "text" : part.data !== undefined ? "data" : part.url !== undefined ? "link" : "file",
    characters: part.text?.length,
    mediaType: part.mediaType,
    filename: part.filename,
    metadata: part.metadata,
  }));
  return clean({ kind, messageId, artifactId, name, description, taskId, contextId: talk.contextId, sentAt: at && exact(at), chunks, metadata, parts: sizes });
}

const clean = (value) => JSON.parse(JSON.stringify(value));

function Steps({ entry }) {
  return html`<ul class="steps" aria-label="Steps">${entry.steps.map((step) =>
    step.kind === "note"
      ? html`<li key=${step.id} class="note"><i aria-hidden="true">›</i><div><${Parts} parts=${step.parts} /></div></li>`
      : html`<${Tool} key=${step.id} step=${step} count=${step.phases.length} />`,
  )}</ul>`;
}

function Tool({ step }) {
  const [isOpen, setOpen] = useState(false);
  const word = step.isError ? "failed" : step.isDone ? "done" : "running";
  return html`<li class=${`tool ${word}`}><details onToggle=${(event) => setOpen(event.target.open)}>
    <summary><i aria-hidden="true">${step.isError ? "✕" : step.isDone ? "✓" : "…"}</i> <span class="tool-name" dir="auto">${line(step.name, 80)}</span>
      <span class="quiet"> ${word}</span> <span class="quiet tool-gist" dir="auto">${isOpen ? "" : line(gist(step.phases.at(-1)?.data), 100)}</span></summary>
    ${isOpen ? step.phases.slice(-50).map((phase, i) => html`<div key=${i} class="phase"><span class="badge">${line(phase.phase, 20)}</span><${JsonTree} value=${phase.data} label=${line(phase.phase, 20)} /></div>`) : null}
  </details></li>`;
}

function gist(data) {
  if (data === undefined || data === null) return "";
  if (typeof data !== "object") return String(data).slice(0, 200);
  return Object.entries(data).slice(0, 3).map(([name, value]) => `${name}: ${typeof value === "object" ? "…" : String(value).slice(0, 40)}`).join(", ");
}

// The question of a task. The newest one is answered here, in the same task.
function Question({ entry, talk, agent, isOpen }) {
  const isSignIn = String(entry.state).includes("AUTH");
  const expected = isOpen ? (expectedAnswer(entry.parts) ?? approvalOf(entry, talk)) : null;
  const answer = (parts) => talk.send(parts, { taskId: entry.taskId });
  const shown = expected ? entry.parts.filter((part) => part.data === undefined) : entry.parts;
  const modes = agent?.card?.defaultInputModes ?? [];
  return html`<article class=${`bubble theirs question ${isOpen ? "open" : ""}`} aria-label=${isSignIn ? "Sign-in needed" : "Question"}>
    <h3>${isSignIn ? "Sign-in or approval needed" : "Question"}${isOpen ? "" : " (answered)"}</h3>
    <${Parts} parts=${shown} />
    ${isOpen && expected?.options ? html`<${Options} options=${expected.options} onAnswer=${answer} isDisabled=${talk.isBusy} />` : null}
    ${isOpen && expected?.schema ? html`<${SchemaForm} schema=${expected.schema} onAnswer=${answer} isDisabled=${talk.isBusy} acceptsData=${!modes.length || modes.some((mode) => /json|\*\/\*/.test(mode))} />` : null}
    ${isOpen && isSignIn && !expected ? html`<div class="options"><button type="button" class="primary" disabled=${talk.isBusy} onClick=${() => answer([{ text: "Done" }])}>I have done this</button></div>` : null}
    ${isOpen ? html`<p class="hint">${isSignIn ? "Never write a password here." : expected ? "Or answer in your own words below." : "Answer below."}</p>` : null}
    <${Actions} entry=${entry} talk=${talk} isUser=${false} />
  </article>`;
}

// A tool that waits for an approval asks a plain question: yes and no are its answers.
function approvalOf(entry, talk) {
  const steps = talk.transcript.entries.filter((each) => each.kind === "steps" && each.taskId === entry.taskId).at(-1);
  const tool = steps?.steps.filter((each) => each.kind === "tool").at(-1);
  const data = tool?.phases.at(-1)?.data;
  const isApproval = ["approval-pending", "needs_approval"].includes(data?.status) || data?.requiresApproval?.type === "approval_request";
  return isApproval ? { options: [{ label: "Approve", value: "yes" }, { label: "Refuse", value: "no" }] } : null;
}
