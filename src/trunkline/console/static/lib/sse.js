// `events`: the server-sent events of a response (WHATWG HTML, 9.2.6), one after the other.
// Comments are given as `{ comment }`, because the gateway says in them why a stream ends.

// A line that never ends must not fill the memory of the browser.
const MAX_LINE = 32 * 1024 * 1024;

export async function* events(response) {
  // Read without a pipe: what stands in a pipe is lost when the connection breaks.
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let parser = new Parser();
  try {
    while (true) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop();
      if (rest.length > MAX_LINE) throw new Error("An event of the stream is too large to show.");
      for (const line of lines) {
        const event = parser.take(line);
        if (event) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

export class Parser {
  #data = [];
  #event = "";
  #id = null;

  take(line) {
    if (line === "") {
      const isEvent = this.#data.length > 0;
      const event = { event: this.#event || "message", data: this.#data.join("\n"), id: this.#id };
      this.#data = [];
      this.#event = "";
      return isEvent ? event : null;
    }
    if (line.startsWith(":")) return { comment: line.slice(1).trimStart() };
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#event = value;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    return null;
  }
}
