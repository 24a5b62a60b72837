// Calls tools of an MCP server through the gate, and prints the counts of the
// server. With REFUSED, it prints the error of the first call that is refused.
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

const { BASE, SERVER, KEY, REFUSED } = process.env
const client = new Client({ name: 'test', version: '1.0.0' })
const transport = new StreamableHTTPClientTransport(new URL(BASE + '/mcp'), { requestInit: { headers: { Authorization: 'Bearer ' + KEY } } })
const counts = async () => (await fetch(SERVER + '/counts')).json()

async function call(tool, query) {
  const { content } = await client.callTool({ name: tool, arguments: { query } })
  if (content[0].text !== `${tool}: ${query}`) throw new Error(`${tool} answered ${JSON.stringify(content)}`)
}

async function run() {
  await client.connect(transport)
  // The client opens the stream of the server in the background.
  for (const end = Date.now() + 60000; !(await counts()).streams;) {
    if (Date.now() > end) throw new Error('no stream of the server')
    await new Promise(resolve => setTimeout(resolve, 10))
  }
  const { tools } = await client.listTools()
  if (tools.length !== 3) throw new Error(`got ${tools.length} tools`)
  await call('search', 'a "method": "tools/list"')
  await Promise.all([call('search', 'b'), call('search', 'c'), call('report', 'd'), call('report', 'e')])
  await call('time', 'search')
  await transport.terminateSession()
  await client.close()
}

if (REFUSED) {
  await run().then(() => { throw new Error('not refused') }, error => console.log(error.message))
  process.exit()
}
await run()
const { streams, ...endpoints } = await counts()
console.log(JSON.stringify(endpoints))
