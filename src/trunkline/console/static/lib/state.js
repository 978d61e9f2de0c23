// `Value`: a value that views follow. There is one for each fact that several views share.
import { useEffect, useRef, useState } from "./html.js";

export class Value {
  #current;
  #followers = new Set();

  constructor(first) {
    this.#current = first;
  }

  get() {
    return this.#current;
  }

  set(next) {
    if (Object.is(next, this.#current)) return;
    this.#current = next;
    for (const follower of [...this.#followers]) follower(next);
  }

  update(change) {
    this.set(change(this.#current));
  }

  follow(follower) {
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }
}

export function useValue(value) {
  const [shown, show] = useState(value.get());
  useEffect(() => {
    show(() => value.get());
    return value.follow((next) => show(() => next));
  }, [value]);
  return shown;
}

// Something that is loaded: `{ data, error, isLoading, again }`. `load` gets an AbortSignal and is
// called again when one of `inputs` changes. Data that was there stays while newer data comes.
// `again` lets a request that is under way end first: else frequent calls would never get an answer
// from a slow gateway.
export function useLoaded(load, inputs) {
  const [state, setState] = useState({ data: null, error: null, isLoading: true });
  const [round, setRound] = useState(0);
  const flags = useRef({ isBusy: false, isAsked: false }).current;
  const again = () => {
    if (flags.isBusy) flags.isAsked = true;
    else setRound((n) => n + 1);
  };
  useEffect(() => {
    const controller = new AbortController();
    flags.isBusy = true;
    flags.isAsked = false;
    const end = (next) => {
      if (controller.signal.aborted) return;
      flags.isBusy = false;
      setState(next);
      if (flags.isAsked) again();
    };
    setState((before) => ({ ...before, isLoading: true }));
    load(controller.signal).then(
      (data) => end({ data, error: null, isLoading: false }),
      (error) => end((before) => ({ data: before.data, error, isLoading: false })),
    );
    return () => controller.abort();
  }, [...inputs, round]);
  return { ...state, again };
}

// A small thing that this browser remembers. Storage may be full or forbidden: then it is
// remembered until the page closes.
const unstored = new Map();

export function remembered(name, fallback) {
  try {
    const text = localStorage.getItem(`trunkline.${name}`);
    if (text !== null) return JSON.parse(text);
  } catch {
    // Not readable: fall through to what this page holds.
  }
  return unstored.get(name) ?? fallback;
}

export function remember(name, value) {
  unstored.set(name, value);
  try {
    if (value === undefined) localStorage.removeItem(`trunkline.${name}`);
    else localStorage.setItem(`trunkline.${name}`, JSON.stringify(value));
  } catch {
    // Kept in `unstored`.
  }
}
