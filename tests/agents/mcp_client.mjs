// One official client, driven by a script on stdin: node mcp_client.mjs LINE ERA TRANSPORT, with LINE v1 or v2, ERA
// legacy or modern, TRANSPORT a URL (its key in $KEY) or a program with arguments as JSON. Stdin: a JSON list of
// [tool, arguments].
// Stdout: {"tools": [...], "results": [...]}.
const [line, era, transport] = process.argv.slice(2);
let text = '';
for await (const chunk of process.stdin) text += chunk;
const calls = JSON.parse(text);
const isUrl = transport.startsWith('http');

const v1 = async () => ({
  Client: (await import('@modelcontextprotocol/sdk/client/index.js')).Client,
  Http: (await import('@modelcontextprotocol/sdk/client/streamableHttp.js')).StreamableHTTPClientTransport,
  Stdio: (await import('@modelcontextprotocol/sdk/client/stdio.js')).StdioClientTransport,
});
const v2 = async () => {
  const client = await import('@modelcontextprotocol/client');
  return {Client: client.Client, Http: client.StreamableHTTPClientTransport,
          Stdio: client.StdioClientTransport ??
              (await import('@modelcontextprotocol/client/stdio')).StdioClientTransport};
};

const {Client, Http, Stdio} = await (line === 'v1' ? v1() : v2());
const options = line === 'v2' && era === 'modern' ? {versionNegotiation: {mode: {pin: '2026-07-28'}}} : {};
const client = new Client({name: 'pawl-test', version: '1'}, options);
await client.connect(isUrl
    ? new Http(new URL(transport), {requestInit: {headers: {Authorization: 'Bearer ' + process.env.KEY}}})
    : new Stdio({command: JSON.parse(transport)[0], args: JSON.parse(transport).slice(1), env: {...process.env},
                 stderr: 'inherit'}));
const out = {tools: (await client.listTools()).tools, results: [], server: client.getServerVersion?.()};
for (const [name, args] of calls) {
  try {
    out.results.push(await client.callTool({name, arguments: args}));
  } catch (error) {
    out.results.push({error: {code: error.code, message: error.message}});
  }
}
await client.close();
console.log(JSON.stringify(out));
