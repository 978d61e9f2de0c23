// The client of @a2a-js/sdk 0.3 on streams that are refused: `node refused_streams.mjs URL…`.
// Prints, as JSON, what its user sees for each URL of JSON-RPC and each way to ask for a stream.
import { JsonRpcTransport } from '@a2a-js/sdk-0.3/client';

async function refusalOf(stream) {
  try {
    for await (const _ of stream);
  } catch (error) {
    return { name: error.cause?.constructor.name ?? error.constructor.name, text: error.message };
  }
}

const message = {
  kind: 'message',
  messageId: 'm',
  role: 'user',
  parts: [{ kind: 'text', text: 'hello' }],
  taskId: 'made-up',
};
const told = [];
for (const endpoint of process.argv.slice(2)) {
  const client = new JsonRpcTransport({ endpoint });
  told.push({
    stream: await refusalOf(client.sendMessageStream({ message })),
    resubscribe: await refusalOf(client.resubscribeTask({ id: 'made-up' })),
  });
}
console.log(JSON.stringify(told));
