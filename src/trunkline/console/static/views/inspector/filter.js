// The filter of the inspector: `agent:demo/echo status:>=400 -side:client "some words"`. All terms must
// match. A term is FIELD:VALUE or a text; a minus before it turns it round; quotes keep spaces together.
// A text, and the id of a task, are also searched by the gateway, in the bodies that this page has not
// loaded.

const UNITS = { "": 1, ms: 1, s: 1000, m: 60_000, min: 60_000, h: 3_600_000, b: 1, kb: 1e3, mb: 1e6 };

const has = (name) => (value) => {
  const wanted = value.toLowerCase();
  return (row) => String(row[name] ?? "").toLowerCase().includes(wanted);
};
const is = (name) => (value) => {
  const wanted = value.toLowerCase();
  return (row) => String(row[name] ?? "").toLowerCase() === wanted;
};

function number(name) {
  return (value, field) => {
    const family = /^([1-5])xx$/i.exec(value);
    if (family && name === "status") return (row) => Math.floor(row.status / 100) === Number(family[1]);
    const found = /^(>=|<=|>|<|=)?(\d+(?:\.\d+)?)([a-z]*)$/i.exec(value);
    const unit = UNITS[found?.[3].toLowerCase()];
    if (!found || unit === undefined) throw new Error(`${field}: takes a number, such as ${field}:>=400`);
    const wanted = Number(found[2]) * unit;
    const compare = {
      ">=": (n) => n >= wanted, "<=": (n) => n <= wanted, ">": (n) => n > wanted, "<": (n) => n < wanted,
    }[found[1]] ?? ((n) => n === wanted);
    return (row) => {
      const n = name === "size" ? row.requestBytes + row.responseBytes : row[name];
      return n !== null && n !== undefined && compare(n);
    };
  };
}

const KINDS = {
  problem: (row) => Boolean(row.error) || row.status >= 400,
  error: (row) => Boolean(row.error),
  open: (row) => row.ms === null,
  stream: (row) => row.events > 0,
  fault: (row) => Boolean(row.fault),
  child: (row) => Boolean(row.parent),
};

function kind(value, _, tools) {
  if (value === "pinned") return (row) => tools.isPinned(row.id);
  if (!Object.hasOwn(KINDS, value)) throw new Error(`is: takes ${Object.keys(KINDS).join(", ")} or pinned`);
  return KINDS[value];
}

function since(value) {
  const found = /^(\d+(?:\.\d+)?)(s|m|min|h)$/.exec(value);
  const from = found ? Date.now() - Number(found[1]) * UNITS[found[2]] : Date.parse(value);
  if (Number.isNaN(from)) throw new Error("since: takes a time, or how long ago: since:10m");
  return (row) => Date.parse(row.at) >= from;
}

const FIELDS = {
  agent: has("agent"), op: has("operation"), side: is("side"), status: number("status"),
  task: is("taskId"), context: is("contextId"), id: is("id"), parent: is("parent"),
  binding: has("binding"), version: is("version"), method: is("httpMethod"), url: has("url"),
  peer: has("peer"), principal: has("principal"), error: has("error"), size: number("size"),
  ms: number("ms"), events: number("events"), is: kind, since,
};

export const HELP = [
  ["agent:demo/echo", "part of the agent's handle"],
  ["op:SendMessage", "part of the operation"],
  ["side:client", "server: what came here; client: what the gateway sent to a backend"],
  ["status:>=400  status:4xx", "the HTTP status; also size:>10kB, ms:>2s, events:>100"],
  ["task:ID  context:ID  id:ID  parent:ID", "one task, context, exchange, or what belongs to one"],
  ["version:0.3  binding:rest  method:GET", "the version, the binding and the HTTP method"],
  ["principal:…  peer:…  url:…  error:…", "part of these"],
  ["is:problem", "also error, open, stream, fault, child, pinned"],
  ["since:10m", "not older than this"],
  ["some words", "anywhere, in headers and bodies too"],
  ["-side:client", "a minus excludes what matches"],
];

// Where a text is looked for without asking the gateway.
const TEXTS = ["agent", "operation", "url", "peer", "taskId", "contextId", "id", "principal", "error", "fault"];

export function parse(text) {
  const terms = [];
  for (const found of String(text ?? "").matchAll(/(-?)(?:([a-zA-Z]+):)?(?:"([^"]*)"?|(\S+))/g)) {
    const [, minus, field = "", inQuotes, word = ""] = found;
    const value = inQuotes ?? word;
    // `http://x` is a text.
    if (field && Object.hasOwn(FIELDS, field.toLowerCase())) {
      terms.push({ isNot: minus === "-", field: field.toLowerCase(), value });
    } else {
      const whole = field ? `${field}:${value}` : value;
      if (whole) terms.push({ isNot: minus === "-", field: "", value: whole });
    }
  }
  return terms;
}

export function write(terms) {
  return terms
    .map(({ isNot, field, value }) => {
      const shown = /[\s"]/.test(value) || !value ? `"${value.replaceAll('"', "")}"` : value;
      return `${isNot ? "-" : ""}${field ? `${field}:` : ""}${shown}`;
    })
    .join(" ");
}

// The value of a term that occurs once and is not negated, such as the task.
export const only = (terms, field) => {
  const found = terms.filter((term) => term.field === field && !term.isNot);
  return found.length === 1 ? found[0].value : "";
};

// With a term, or without it where it is there.
export function toggled(text, added) {
  const terms = parse(text);
  const [{ field, value }] = parse(added);
  const left = terms.filter((term) => term.field !== field || term.value !== value);
  return write(left.length < terms.length ? left : [...terms, ...parse(added)]);
}

// What the gateway has to look for, in bodies and in frames of sockets that several tasks share.
export function remoteQueries(terms) {
  const queries = new Map();
  for (const { field, value } of terms) {
    if (field === "" && value.length > 1) queries.set(value, { q: value });
    else if (field === "task" && value) queries.set(`task ${value}`, { taskId: value });
  }
  return queries;
}

// `{ fits(row), problem }`. `hits` has the ids that the gateway found, by the key of the query.
export function compile(terms, { isPinned, hits }) {
  const tests = [];
  let problem = "";
  for (const { isNot, field, value } of terms) {
    let test;
    if (field === "") {
      const wanted = value.toLowerCase();
      const found = hits.get(value);
      test = (row) => found?.has(row.id) || TEXTS.some((name) => row[name] && String(row[name]).toLowerCase().includes(wanted));
    } else {
      // What is still being typed limits nothing yet.
      if (!value) continue;
      try {
        test = FIELDS[field](value, field, { isPinned });
      } catch (error) {
        problem = error.message;
        continue;
      }
      if (field === "task") {
        const [byTask, found] = [test, hits.get(`task ${value}`)];
        test = (row) => byTask(row) || found?.has(row.id);
      }
    }
    tests.push(isNot ? (row) => !test(row) : test);
  }
  return { fits: (row) => tests.every((test) => test(row)), problem };
}
