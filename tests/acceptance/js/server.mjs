// An agent on @a2a-js/sdk, behind the HTTP server of Node.js: `node server.mjs --port N`.
import { createServer } from 'node:http';
import { parseArgs } from 'node:util';

import { TaskState } from '@a2a-js/sdk';
import {
  AgentEvent,
  DefaultRequestHandler,
  InMemoryTaskStore,
  JsonRpcTransportHandler,
  ServerCallContext,
  UnauthenticatedUser,
} from '@a2a-js/sdk/server';

const { values: options } = parseArgs({ options: { port: { type: 'string' } } });
const port = Number(options.port);

const textPart = (value) => ({ content: { $case: 'text', value }, metadata: undefined, filename: '', mediaType: '' });

class Executor {
  // `stream N`, or an echo.
  async execute({ taskId, contextId, userMessage }, bus) {
    const status = (state) => ({ state, timestamp: new Date().toISOString(), message: undefined });
    const update = (state) =>
      bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: status(state), metadata: undefined }));
    bus.publish(
      AgentEvent.task({
        id: taskId,
        contextId,
        status: status(TaskState.TASK_STATE_SUBMITTED),
        artifacts: [],
        history: [userMessage],
        metadata: undefined,
      }),
    );
    update(TaskState.TASK_STATE_WORKING);
    const text = userMessage.parts[0].content.value;
    const count = /^stream (\d+)$/.exec(text);
    const pieces = count ? [...Array(Number(count[1])).keys()].map((n) => `${n} `) : [text];
    pieces.forEach((piece, index) => {
      const artifact = {
        artifactId: 'answer',
        name: '',
        description: '',
        parts: [textPart(piece)],
        metadata: undefined,
        extensions: [],
      };
      bus.publish(
        AgentEvent.artifactUpdate({ taskId, contextId, artifact, append: index > 0, lastChunk: false, metadata: undefined }),
      );
    });
    update(TaskState.TASK_STATE_COMPLETED);
    bus.finished();
  }

  async cancelTask() {
    throw new Error('not used');
  }
}

const card = {
  name: 'JavaScript',
  description: 'An agent on @a2a-js/sdk',
  version: '1.0.0',
  supportedInterfaces: [
    { url: `http://127.0.0.1:${port}/`, protocolBinding: 'JSONRPC', tenant: '', protocolVersion: '1.0' },
  ],
  provider: undefined,
  capabilities: { streaming: true, pushNotifications: false, extensions: [], extendedAgentCard: false },
  securitySchemes: {},
  securityRequirements: [],
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [],
  documentationUrl: '',
  signatures: [],
};

const handler = new JsonRpcTransportHandler(new DefaultRequestHandler(card, new InMemoryTaskStore(), new Executor()));

async function answer(request, response) {
  if (request.method === 'GET') {
    response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(card));
    return;
  }
  let body = '';
  for await (const chunk of request) body += chunk;
  const context = new ServerCallContext({
    user: new UnauthenticatedUser(),
    requestedVersion: request.headers['a2a-version'],
  });
  const result = await handler.handle(body, context);
  if (typeof result?.[Symbol.asyncIterator] !== 'function') {
    response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(result));
    return;
  }
  response.writeHead(200, { 'Content-Type': 'text/event-stream' });
  for await (const event of result) response.write(`data: ${JSON.stringify(event)}\n\n`);
  response.end();
}

createServer((request, response) => {
  answer(request, response).catch((error) => {
    console.error(error);
    response.destroy();
  });
}).listen(port, '127.0.0.1');
