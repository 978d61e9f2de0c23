// The echo agent on @a2a-js/sdk, with its in-memory store or its database store on SQLite.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { A2A_PROTOCOL_VERSION, TaskState } from '@a2a-js/sdk';
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server';
import { jsonRpcHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import express from 'express';

import { play } from './script.js';

const { values: options } = parseArgs({
  options: {
    port: { type: 'string' },
    data: { type: 'string' },
    store: { type: 'string', default: 'memory' },
  },
});
const port = Number(options.port);

const status = (state) => ({ state, timestamp: new Date().toISOString(), message: undefined });

class EchoExecutor {
  async execute({ taskId, contextId, userMessage }, bus) {
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
    let append = false;
    for await (const chunk of play(userMessage.parts[0].content.value)) {
      bus.publish(AgentEvent.artifactUpdate({ taskId, contextId, artifact: piece(chunk), append, lastChunk: false, metadata: undefined }));
      append = true;
    }
    update(TaskState.TASK_STATE_COMPLETED);
  }

  async cancelTask() {
    throw new Error('not used');
  }
}

function piece(text) {
  const part = { content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: '' };
  return { artifactId: 'answer', name: '', description: '', parts: [part], metadata: undefined, extensions: [] };
}

const card = {
  name: 'bench',
  description: 'Echo',
  version: '1.0.0',
  supportedInterfaces: [
    { url: `http://127.0.0.1:${port}/`, protocolBinding: 'JSONRPC', tenant: '', protocolVersion: A2A_PROTOCOL_VERSION },
  ],
  provider: undefined,
  capabilities: { streaming: true, pushNotifications: false, extensions: [], extendedAgentCard: false },
  securitySchemes: {},
  securityRequirements: [],
  defaultInputModes: ['text'],
  defaultOutputModes: ['text'],
  skills: [],
  documentationUrl: '',
  signatures: [],
};

async function sqliteStore(folder) {
  const file = join(folder, 'tasks.db');
  const cli = new URL('node_modules/.bin/a2a-db', import.meta.url).pathname;
  execFileSync(cli, ['upgrade', '--url', `sqlite:${file}`], { stdio: 'ignore' });
  const { default: Database } = await import('better-sqlite3');
  const { Kysely, SqliteDialect } = await import('kysely');
  const { DatabaseTaskStore } = await import('@a2a-js/sdk/server/database');
  const database = new Database(file);
  // The durability that Trunkline is measured with.
  database.pragma('journal_mode = WAL');
  database.pragma('synchronous = FULL');
  return new DatabaseTaskStore(new Kysely({ dialect: new SqliteDialect({ database }) }));
}

const store = options.store === 'sqlite' ? await sqliteStore(options.data) : new InMemoryTaskStore();
const requestHandler = new DefaultRequestHandler(card, store, new EchoExecutor());
const app = express();
app.use(jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
app.listen(port, '127.0.0.1', 2048);
