// An MCP server with Streamable HTTP, sessions and three tools. GET /counts returns
// its requests by the endpoints of examples/mcp.Caddyfile.
import http from 'node:http'
import { randomUUID } from 'node:crypto'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { z } from 'zod'

const counts = {}, sessions = {}, tools = ['search', 'report', 'time']

async function open() {
  const server = new McpServer({ name: 'test', version: '1.0.0' })
  for (const tool of tools) {
    server.registerTool(tool, { description: tool, inputSchema: { query: z.string() } }, async ({ query }) => ({ content: [{ type: 'text', text: `${tool}: ${query}` }] }))
  }
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: id => { sessions[id] = transport },
    onsessionclosed: id => { delete sessions[id] },
  })
  await server.connect(transport)
  return transport
}

http.createServer(async (request, response) => {
  if (request.url === '/counts') return response.end(JSON.stringify(counts))
  let text = ''
  for await (const piece of request) text += piece
  const body = text && JSON.parse(text)
  const tool = body?.method === 'tools/call' ? body.params.name : ''
  const endpoint = ['search', 'report'].includes(tool) ? tool : 'mcp'
  counts[endpoint] = (counts[endpoint] ?? 0) + 1
  if (request.method === 'GET') counts.streams = (counts.streams ?? 0) + 1
  const transport = sessions[request.headers['mcp-session-id']] ?? await open()
  await transport.handleRequest(request, response, body || undefined)
}).listen(process.argv[2], '127.0.0.1')
