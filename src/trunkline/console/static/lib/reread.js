// Reading again: when the live stream has missed something, and every few seconds without a stream.
import { useEffect, useMemo, useRef } from "./html.js";
import { hear, liveness } from "./live.js";

const EVERY_MS = 4000;

// A function that calls `run` soon, but not more often than every `ms`. Calls in between are one
// more call at the end.
export function calmly(run, ms) {
  let timer = 0;
  let last = -Infinity;
  const call = () => {
    if (timer) return;
    timer = setTimeout(() => {
      timer = 0;
      last = Date.now();
      run();
    }, Math.max(50, last + ms - Date.now()));
  };
  call.stop = () => {
    clearTimeout(timer);
    timer = 0;
  };
  return call;
}

// The same as a hook: it calls the newest `run`, and stops with its view.
export function useCalmly(run, ms) {
  const newest = useRef(run);
  newest.current = run;
  const call = useMemo(() => calmly(() => newest.current(), ms), []);
  useEffect(() => call.stop, []);
  return call;
}

export function useReread(read, everyMs = EVERY_MS) {
  const newest = useRef(read);
  newest.current = read;
  useEffect(() => {
    const stop = hear("resync", () => newest.current());
    const timer = setInterval(() => {
      if (liveness.get() !== "on" && !document.hidden) newest.current();
    }, everyMs);
    return () => {
      stop();
      clearInterval(timer);
    };
  }, []);
}
