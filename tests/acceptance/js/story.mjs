// Runs the story of the acceptance tests with the official JavaScript client and prints, as
// JSON, what came of it: `node story.mjs GATEWAY_URL BINDING VERSION [GREETER_URL [KEY]]`.
import {
  ListTasksRequest,
  ListTasksResponse,
  Message,
  SendMessageRequest,
  StreamResponse,
  Task,
} from "@a2a-js/sdk";
import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from "@a2a-js/sdk/client";

const [gateway, binding, version, greeterUrl, key] = process.argv.slice(2);

const keyedFetch = (url, options = {}) => {
  const headers = new Headers(options.headers);
  if (key) headers.set("Authorization", `Bearer ${key}`);
  return fetch(url, { ...options, headers });
};
const requests = [];
const recordingFetch = async (url, options = {}) => {
  const body = options.body ? JSON.parse(options.body) : {};
  requests.push({
    path: new URL(url).pathname,
    rpc: body.method,
    version: new Headers(options.headers).get("A2A-Version"),
  });
  return keyedFetch(url, options);
};

const options = { fetchImpl: recordingFetch, legacyCompat: { enabled: true } };
const transports = {
  jsonrpc: new JsonRpcTransportFactory(options),
  rest: new RestTransportFactory(options),
};
const factory = new ClientFactory({
  transports: [transports[binding]],
  cardResolver: new DefaultAgentCardResolver({
    fetchImpl: keyedFetch,
    legacyCompat: { enabled: true },
  }),
});
const card = `.well-known/agent-card.json?format=${version}`;
const client = await factory.createFromUrl(gateway, card);
const greeter = await factory.createFromUrl(
  greeterUrl ?? `${gateway}/api/a2a/v1/agents/test/greeter/`,
  card,
);

let messages = 0;
const message = (text, { configuration, ...fields } = {}) =>
  SendMessageRequest.fromJSON({
    message: {
      messageId: `js-${binding}-${version}-${process.pid}-${++messages}`,
      role: "ROLE_USER",
      parts: [{ text }],
      ...fields,
    },
    configuration,
  });
const send = async (text, fields) =>
  Task.toJSON(await client.sendMessage(message(text, fields)));
const get = async (id) => Task.toJSON(await client.getTask({ id }));
const all = async (stream) => {
  const events = [];
  for await (const event of stream) events.push(StreamResponse.toJSON(event));
  return events;
};
const refusal = async (call) => {
  try {
    await call();
  } catch (error) {
    return { name: error.name, message: error.message };
  }
};

const told = { card: (await client.getAgentCard()).name };

told.sent = await send("say all is well");
told.got = await get(told.sent.id);
told.streamed = await all(client.sendMessageStream(message("stream 3")));
told.parts = await send(
  "artifact text note words\n" +
    "artifact file dot.png image/png pixels\n" +
    "artifact url page text/html https://example.com/page\n" +
    'artifact data {"n": 1.5}',
);

const asked = await send("ask Which colour?");
told.asked = asked;
told.answered = await send("say Painted.", { taskId: asked.id });
told.direct = Message.toJSON(await greeter.sendMessage(message("Ada")));
told.directStream = await all(greeter.sendMessageStream(message("Ada")));
told.failed = await send("fail it broke");

if (version === "1.0") {
  const contextId = told.sent.contextId;
  const page = await client.listTasks(ListTasksRequest.fromJSON({ contextId, pageSize: 1 }));
  told.listed = ListTasksResponse.toJSON(page);
}

const running = await send("hang", { configuration: { returnImmediately: true } });
const following = client.resubscribeTask({ id: running.id });
const opening = await following.next();
told.opening = StreamResponse.toJSON(opening.value);
told.canceled = Task.toJSON(await client.cancelTask({ id: running.id }));
told.followed = await all(following);

told.refusals = {
  cancel: await refusal(() => client.cancelTask({ id: running.id })),
  subscribe: await refusal(() => client.resubscribeTask({ id: running.id }).next()),
  get: await refusal(() => client.getTask({ id: "no-such-task" })),
};

console.log(JSON.stringify({ ...told, requests }));
