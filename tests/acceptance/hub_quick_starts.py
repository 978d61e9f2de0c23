"""The quick starts of seed 003, sections 7 and 8, as they stand there."""

HOST = "https://next.clawborrator.com"
HANDLE = "MRIIOT/rust-expert"
TOKEN = "cw_sess_..."

DISCOVER = """
curl https://next.clawborrator.com/api/a2a/v1/agents/MRIIOT/rust-expert/agent-card.json
"""

SEND = """
curl -X POST https://next.clawborrator.com/api/a2a/v1/agents/MRIIOT/rust-expert \\
-H "Authorization: Bearer cw_sess_..." \\
-H "Content-Type: application/json" \\
-d '{
"jsonrpc": "2.0",
"method": "SendMessage",
"params": {
"message": {
"messageId": "m1",
"role": "ROLE_USER",
"parts": [{ "text": "what is a lifetime in rust?" }]
}
},
"id": "client-1"
}'
"""

STREAM = """
curl -X POST https://next.clawborrator.com/api/a2a/v1/agents/MRIIOT/rust-expert \\
-H "Authorization: Bearer cw_sess_..." \\
-H "Content-Type: application/json" \\
-d '{
"jsonrpc": "2.0",
"method": "SendStreamingMessage",
"params": { "message": { "messageId": "m1", "role": "ROLE_USER", "parts": [{ "text": "..." }] } },
"id": "client-1"
}'
"""

TYPESCRIPT = """
// minimal A2A client — sync only
async function ask(handle: string, token: string, question: string) {
const url = `https://next.clawborrator.com/api/a2a/v1/agents/${handle}`;
const res = await fetch(url, {
method: 'POST',
headers: {
'Authorization': `Bearer ${token}`,
'Content-Type': 'application/json',
},
body: JSON.stringify({
jsonrpc: '2.0',
method: 'SendMessage',
params: {
message: {
messageId: crypto.randomUUID(),
role: 'ROLE_USER',
parts: [{ text: question }],
},
},
id: 'client-1',
}),
});
const j = await res.json();
if (j.error) throw new Error(j.error.message);
const task = j.result;
if (task.status.state !== 'COMPLETED') {
throw new Error(`task ${task.status.state}: ${task.status.message?.parts?.[0]?.text ?? ''}`);
}
// last message in history is the agent's reply
const last = task.history[task.history.length - 1];
return last.parts.map((p: any) => p.text).join('');
}
const answer = await ask('MRIIOT/rust-expert', 'cw_sess_...', "what's a lifetime?");
console.log(answer);
"""
