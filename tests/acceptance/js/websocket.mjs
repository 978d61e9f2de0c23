// Node's own WebSocket: `node --experimental-websocket websocket.mjs URL`. Prints what it saw.
const socket = new WebSocket(`${process.argv[2]}/ws/echo`);
socket.binaryType = "arraybuffer";
const seen = { messages: [] };
socket.onopen = () => {
  socket.send("ü€😀");
  socket.send(new Uint8Array([0, 255]));
  socket.send("x".repeat(500_000));
};
socket.onmessage = ({ data }) => {
  seen.messages.push(typeof data === "string" ? data.slice(0, 10) + data.length : [...new Uint8Array(data)]);
  if (seen.messages.length === 3) socket.close(4000, "enough");
};
socket.onclose = ({ code, reason, wasClean }) => {
  Object.assign(seen, { code, reason, wasClean });
  const refused = new WebSocket(`${process.argv[2]}/ws/guarded`, ["v1"]);
  refused.onerror = ({ type }) => console.log(JSON.stringify({ ...seen, refused: type }));
};
