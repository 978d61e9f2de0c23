// The agents that other gateways have attached here, and the mail for them. `#/hub/relay`
import { html, useEffect } from "../../lib/html.js";
import { api } from "../../lib/api.js";
import { bytes, count, line, safe } from "../../lib/format.js";
import { link } from "../../lib/router.js";
import { useLoaded } from "../../lib/state.js";
import { Badge, CopyButton, Id, Loading, Problem, Time } from "../../parts/basics.js";
import { Table, usePages } from "./table.js";

const AGAIN_MS = 10_000;

export default function Relay({ query }) {
  return html`<div><div class="view-head"><h1>Relay</h1></div>
    <${Section} title="Attached agents" path="/relay/agents" columns=${AGENTS} rowKey=${(row) => row.agent}
      none=${html`No gateway has attached an agent here. One does so with <code>trunkline attach --relay URL --tenant NAME --agent NAME</code>, or with the table <code>[relay]</code> of its configuration.`} />
    <${Section} title="Mailboxes" path="/relay/mailboxes" columns=${MAILBOXES} rowKey=${(row) => row.agent}
      none="Nothing waits: each message was delivered, or there was none for an agent that is away." />
    ${query.dead ? html`<${DeadLetters} key=${query.dead} agent=${query.dead} />` : null}
  </div>`;
}

function Section({ title, path, query = {}, columns, rowKey, none }) {
  const pages = usePages();
  const { data, error, again } = useLoaded((signal) => api(path, { query: { ...query, pageSize: 50, pageToken: pages.token }, signal }), [path, pages.token]);
  useEffect(() => {
    const timer = setInterval(again, AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  return html`<section class="hub-section"><h2 class="section-title">${title}</h2>
    <${Problem} error=${error} again=${again} />
    ${data ? (data.items.length ? html`<${Table} label=${title} columns=${columns} rows=${data.items} rowKey=${rowKey} />` : html`<p class="quiet">${none}</p>`) : error ? null : html`<${Loading} />`}
    ${pages.buttons(data)}</section>`;
}

const AGENTS = [
  { title: "Agent", cell: (row) => html`<code>${safe(row.agent, 130)}</code>` },
  { title: "State", cell: (row) => html`<${Badge} tone=${row.state === "attached" ? "good" : "ask"}>${row.state}<//>` },
  { title: "Host", cell: (row) => (row.host ? html`<code>${safe(row.host, 120)}</code>` : "–") },
  { title: "Session", cell: (row) => (row.session ? html`<code>${safe(row.session, 20)}</code> <span class="quiet">epoch ${row.epoch}</span>` : "–") },
  { title: "Under way", cell: (row) => count(row.requests) },
];

const MAILBOXES = [
  { title: "Agent", cell: (row) => html`<code>${safe(row.agent, 130)}</code>` },
  { title: "Waiting", cell: (row) => (row.waiting ? `${count(row.waiting)} (${bytes(row.bytes)})` : "0") },
  { title: "Oldest", cell: (row) => html`<${Time} at=${row.oldestAt} />` },
  { title: "Dead letters", cell: (row) => (row.dead ? html`<a href=${link("hub", "relay", { dead: row.agent })}>${count(row.dead)}</a>` : "0") },
];

function DeadLetters({ agent }) {
  const retry = (row) => `trunkline relay mail retry ${agent} ${row.task}`;
  const columns = [
    { title: "Task", cell: (row) => html`<${Id} id=${row.task} />` },
    { title: "Sender", cell: (row) => html`<code>${safe(row.sender, 120)}</code>` },
    { title: "Sent", cell: (row) => html`<${Time} at=${row.sentAt} />` },
    { title: "Given up", cell: (row) => html`<${Time} at=${row.deadAt} /> <span class="quiet">after ${count(row.attempts)} attempts</span>` },
    { title: "Why", cell: (row) => line(row.reason, 300) },
    { title: "Actions", cell: (row) => html`<${CopyButton} text=${retry(row)} label="Copy the command to retry" title=${retry(row)} />` },
  ];
  return html`<${Section} title=${`Dead letters of ${safe(agent, 130)}`} path="/relay/dead-letters" query=${{ agent }} columns=${columns} rowKey=${(row) => row.task}
    none="This agent has no dead letters." />`;
}

