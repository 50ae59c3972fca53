// node follow.cjs sse|websocket URL KEY: prints every message of the feed, one a line, and `open` when it is connected.
const [kind, url, key] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${key}` };

if (kind === 'sse') {
  const EventSource = require('eventsource');
  const source = new EventSource(`${url}/events`, { headers });
  source.onopen = () => console.log('open');
  source.onmessage = (message) => console.log(message.data);
} else {
  const WebSocket = require('ws');
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/events`, { headers });
  socket.on('open', () => console.log('open'));
  socket.on('message', (data) => console.log(data.toString()));
}
