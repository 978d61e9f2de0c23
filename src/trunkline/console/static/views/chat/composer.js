// `Composer`: where a message is written: text, files, examples. Drafts stay until they are sent.
import { Icon } from "../../parts/icons.js";
import { html, useEffect, useRef, useState } from "../../lib/html.js";
import { bytes, line, safe } from "../../lib/format.js";
import { useValue } from "../../lib/state.js";
import { notify, notifyError } from "../../parts/basics.js";
import { acceptedTypes, isAccepted, pictureType, readFile, typeOf, whyRefused } from "../../parts/files.js";

const BIG = 5_000_000;

// `targets` are the conversations that get the message: one, or two side by side.
export function Composer({ talk, agent, onSend }) {
  useValue(talk.version);
  const [text, setText] = useState(talk.draft);
  const [isOver, setOver] = useState(false);
  const [isApart, setApart] = useState(false);
  const field = useRef(null);
  const chooser = useRef(null);
  const modes = acceptedTypes(agent?.card);
  useEffect(() => setText(talk.draft), [talk, talk.draftVersion]);
  useEffect(() => {
    // As high as its text, up to a third of the window.
    const area = field.current;
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight + 2, innerHeight / 3)}px`;
  }, [text]);
  const waiting = talk.waiting;
  const write = (value) => {
    setText(value);
    talk.draft = value;
  };
  const add = async (list) => {
    for (const file of list) {
      const refused = whyRefused(file, modes);
      if (refused) {
        notify(refused, { tone: "bad", forMs: 9000 });
        continue;
      }
      const item = { id: crypto.randomUUID(), file, name: file.name, type: typeOf(file), size: file.size, share: 0, raw: null };
      talk.files = [...talk.files, item];
      talk.changed();
      readFile(file, (share) => {
        item.share = share;
        talk.changed();
      }).then(
        (raw) => {
          item.raw = raw;
          talk.changed();
        },
        (error) => {
          notifyError(error);
          talk.files = talk.files.filter((each) => each !== item);
          talk.changed();
        },
      );
    }
  };
  const isReading = talk.files.some((each) => each.raw === null);
  const canSend = (text.trim() || talk.files.length) && !isReading && talk.phase !== "sending";
  const send = () => {
    if (!canSend) return;
    const parts = [
      ...(text.trim() ? [{ text }] : []),
      ...talk.files.map((each) => ({ raw: each.raw, filename: each.name, mediaType: each.type })),
    ];
    talk.files = [];
    write("");
    onSend(parts, waiting && !isApart ? waiting.id : "");
    setApart(false);
    field.current.focus();
  };
  const onKeyDown = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  };
  const onPaste = (event) => {
    if (!event.clipboardData?.files.length) return;
    event.preventDefault();
    add(event.clipboardData.files);
  };
  const examples = talk.transcript.entries.length || text ? [] : examplesOf(agent?.card);
  return html`<form class=${`composer ${isOver ? "over" : ""}`} aria-label="Message" onSubmit=${(event) => {
      event.preventDefault();
      send();
    }} onDragOver=${(event) => {
      event.preventDefault();
      setOver(true);
    }} onDragLeave=${() => setOver(false)} onDrop=${(event) => {
      event.preventDefault();
      setOver(false);
      add(event.dataTransfer.files);
    }}>
    ${examples.length ? html`<div class="examples" role="group" aria-label="Examples">${examples.map(
      (each, i) => html`<button key=${i} type="button" class="small" onClick=${() => {
        write(each);
        field.current.focus();
      }}><bdi>${line(each, 120)}</bdi></button>`,
    )}</div>` : null}
    ${waiting ? html`<p class="answering">${isApart ? "Begins another task." : "Answers the question above, in the same task."}
      <button type="button" class="small" onClick=${() => setApart(!isApart)}>${isApart ? "Answer the question" : "Begin another task"}</button></p>` : null}
    ${talk.files.length ? html`<ul class="attached" aria-label="Files of the message">${talk.files.map((item) => html`<${Attached} key=${item.id} item=${item} share=${item.share} isRead=${item.raw !== null} onRemove=${() => {
      talk.files = talk.files.filter((each) => each !== item);
      talk.changed();
      field.current.focus();
    }} />`)}</ul>` : null}
    <div class="write">
      <input ref=${chooser} type="file" multiple class="offscreen" tabindex="-1" aria-hidden="true" onChange=${(event) => {
        add([...event.target.files]);
        event.target.value = "";
      }} />
      <button type="button" aria-label="Add files" title=${modes.length ? `Accepts ${modes.map((mode) => line(mode, 60)).join(", ")}` : "Add files"} onClick=${() => chooser.current.click()}><${Icon} name="attach" /></button>
      <textarea ref=${field} rows="1" dir="auto" aria-label="Message" placeholder=${waiting && !isApart ? "Your answer" : "Message"} value=${text}
        onInput=${(event) => write(event.target.value)} onKeyDown=${onKeyDown} onPaste=${onPaste}></textarea>
      <button class="primary" disabled=${!canSend}>${isReading ? "Reading…" : "Send"}</button>
    </div>
    <p class="hint keys-hint">Enter sends, Shift+Enter makes a line.</p>
  </form>`;
}

function examplesOf(card) {
  const found = [];
  for (const skill of card?.skills ?? []) for (const each of skill.examples ?? []) if (found.length < 6) found.push(String(each));
  return found;
}

function Attached({ item, share, isRead, onRemove }) {
  const [url, setUrl] = useState("");
  useEffect(() => {
    let made = "";
    let isGone = false;
    item.file.slice(0, 16).arrayBuffer().then((head) => {
      const type = pictureType(new Uint8Array(head));
      if (!type || isGone) return;
      made = URL.createObjectURL(new Blob([item.file], { type }));
      setUrl(made);
    });
    return () => {
      isGone = true;
      if (made) URL.revokeObjectURL(made);
    };
  }, [item]);
  return html`<li>${url ? html`<img src=${url} alt="" class="thumb" />` : html`<i aria-hidden="true">▤</i>`}
    <span class="file-name" dir="auto">${line(item.name, 80)}</span> <span class="quiet">${line(item.type, 60)}, ${bytes(item.size)}${item.size > BIG ? ": a large file, it takes a while" : ""}</span>
    ${isRead ? null : html`<progress max="1" value=${share} aria-label=${`Reading ${line(item.name, 60)}`}></progress>`}
    <button type="button" class="small" aria-label=${`Remove ${line(item.name, 60)}`} onClick=${onRemove}>✕</button></li>`;
}
