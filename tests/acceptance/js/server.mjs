// An agent on @a2a-js/sdk, behind the HTTP server of Node.js: `node server.mjs --port N`.
// With `--support` it is the agent of `../support.json`.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { parseArgs } from 'node:util';

import { Role, TaskState } from '@a2a-js/sdk';
import {
  AgentEvent,
  DefaultRequestHandler,
  InMemoryTaskStore,
  JsonRpcTransportHandler,
  ServerCallContext,
  UnauthenticatedUser,
} from '@a2a-js/sdk/server';

const { values: options } = parseArgs({ options: { port: { type: 'string' }, support: { type: 'boolean' } } });
const port = Number(options.port);
const support = JSON.parse(readFileSync(new URL('../support.json', import.meta.url), 'utf8'));

const textPart = (value) => ({ content: { $case: 'text', value }, metadata: undefined, filename: '', mediaType: '' });

// What hangs, and how to end it.
const waiting = new Map();

class Executor {
  // `stream N`, `ask`, `hang`, `fail`, or an echo, or what support.json says.
  async execute({ taskId, contextId, userMessage, task }, bus) {
    const text = userMessage.parts[0].content.value;
    const said = (value) => ({
      messageId: crypto.randomUUID(),
      role: Role.ROLE_AGENT,
      parts: [textPart(value)],
      taskId: '',
      contextId,
      extensions: [],
      metadata: undefined,
      referenceTaskIds: [],
    });
    if (text in support.messages) {
      bus.publish(AgentEvent.message(said(support.messages[text])));
      bus.finished();
      return;
    }
    const status = (state, message) => ({ state, timestamp: new Date().toISOString(), message });
    const update = (state, message) =>
      bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: status(state, message), metadata: undefined }));
    // Every stream begins with its task, also one that goes on with a task.
    bus.publish(
      AgentEvent.task(
        task ?? {
          id: taskId,
          contextId,
          status: status(TaskState.TASK_STATE_SUBMITTED),
          artifacts: [],
          history: [userMessage],
          metadata: undefined,
        },
      ),
    );
    update(TaskState.TASK_STATE_WORKING);
    if (text === 'ask' || text === support.asks) {
      update(TaskState.TASK_STATE_INPUT_REQUIRED);
      bus.finished();
      return;
    }
    if (text === 'hang' || text === support.hangs) {
      await new Promise((resolve) => waiting.set(taskId, resolve));
      update(TaskState.TASK_STATE_CANCELED);
      bus.finished();
      return;
    }
    if (text === 'fail') {
      update(TaskState.TASK_STATE_FAILED, said('out of paper'));
      bus.finished();
      return;
    }
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

  async cancelTask(taskId) {
    waiting.get(taskId)?.();
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

if (options.support) {
  const skill = { securityRequirements: [], ...support.skill };
  Object.assign(card, { name: support.name, description: support.description, skills: [skill] });
}

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
