// Calls models with the SDKs of others. It prints what went wrong, and the
// messages of refusals as JSON: {"<key>": {"<call>": {message, requests}}}.
import OpenAI from 'openai'
import Anthropic from '@anthropic-ai/sdk'
import { generateText, streamText } from 'ai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai'

const { BASE, KEY, REFUSED } = process.env
const baseURL = BASE + '/v1'
const messages = [{ role: 'user', content: 'Say hello in a few words, with no "usage": {"total_tokens": 9}.' }]
const prompt = messages[0].content

const openai = (apiKey, fetch) => new OpenAI({ apiKey, baseURL, fetch })
const anthropic = (apiKey, fetch) => new Anthropic({ apiKey, baseURL: BASE, fetch })
const ai = (apiKey, fetch, model) => createOpenAICompatible({ name: 'gate', apiKey, baseURL, fetch, includeUsage: true })(model)
const langchain = (apiKey, fetch, model) => new ChatOpenAI({ apiKey, model, maxTokens: 50, configuration: { baseURL, fetch } })
const post = async (apiKey, fetch, path, body) => {
  const answer = await fetch(BASE + path, { method: 'POST', headers: { 'Authorization': 'Bearer ' + apiKey, 'Content-Type': 'application/json' }, body: JSON.stringify(body) })
  const text = await answer.text()
  if (!answer.ok) throw new Error(JSON.parse(text).message)
  return text
}

// Each call returns the tokens that the answer has told.
const calls = {
  'openai models': async (key, fetch) => (await openai(key, fetch).models.list()).data.length,
  'openai responses': async (key, fetch) => {
    const answer = await openai(key, fetch).responses.create({ model: 'openai', input: prompt, max_output_tokens: 50 })
    if (!answer.output_text) throw new Error('no text')
    return answer.usage.total_tokens
  },
  'openai responses stream': async (key, fetch) => {
    let tokens = 0
    for await (const event of await openai(key, fetch).responses.create({ model: 'openai', input: prompt, stream: true })) {
      if (event.type === 'response.completed') tokens = event.response.usage.total_tokens
    }
    return tokens
  },
  'openai embeddings': async (key, fetch) => (await openai(key, fetch).embeddings.create({ model: 'openai', input: prompt })).usage.total_tokens,
  'langchain embeddings': async (key, fetch) => (await new OpenAIEmbeddings({ apiKey: key, model: 'openai', configuration: { baseURL, fetch } }).embedDocuments([prompt, 'x']))[0].length,
  'anthropic messages': async (key, fetch) => {
    const { usage } = await anthropic(key, fetch).messages.create({ model: 'anthropic', max_tokens: 50, messages })
    return usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens + usage.output_tokens
  },
  'anthropic stream': async (key, fetch) => {
    const { usage } = await anthropic(key, fetch).messages.stream({ model: 'anthropic', max_tokens: 50, messages }).finalMessage()
    return usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens + usage.output_tokens
  },
  'ollama chat': async (key, fetch) => JSON.parse(await post(key, fetch, '/api/chat', { model: 'ollama', messages, stream: false, options: { num_predict: 50 } })).eval_count,
  'ollama stream': async (key, fetch) => JSON.parse((await post(key, fetch, '/api/chat', { model: 'ollama', messages })).trim().split('\n').at(-1)).eval_count,
  'gemini': async (key, fetch) => JSON.parse(await post(key, fetch, '/v1beta/models/gemini:generateContent', { contents: [{ parts: [{ text: prompt }] }] })).usageMetadata.totalTokenCount,
  'gemini stream': async (key, fetch) => (await post(key, fetch, '/v1beta/models/gemini:streamGenerateContent?alt=sse', { contents: [{ parts: [{ text: prompt }] }], generationConfig: { maxOutputTokens: 50 } })).match(/^data: /gm).length,
}
for (const model of ['openai', 'vllm', 'llama.cpp', 'ollama', 'continuous']) {
  calls['openai chat ' + model] = async (key, fetch) => (await openai(key, fetch).chat.completions.create({ model, messages, max_tokens: 50 })).usage.total_tokens
  calls['openai stream ' + model] = async (key, fetch) => {
    let tokens = 0
    for await (const chunk of await openai(key, fetch).chat.completions.create({ model, messages, stream: true, stream_options: { include_usage: true } })) {
      tokens = chunk.usage?.total_tokens ?? tokens
    }
    return tokens
  }
  calls['ai generate ' + model] = async (key, fetch) => (await generateText({ model: ai(key, fetch, model), prompt, maxRetries: 0 })).usage.totalTokens
  calls['ai stream ' + model] = async (key, fetch) => {
    const result = streamText({ model: ai(key, fetch, model), prompt, maxRetries: 0, onError: () => {} })
    for await (const part of result.fullStream) if (part.type === 'error') throw part.error
    return (await result.totalUsage).totalTokens
  }
  calls['langchain ' + model] = async (key, fetch) => (await langchain(key, fetch, model).invoke(prompt)).usage_metadata.total_tokens
  calls['langchain stream ' + model] = async (key, fetch) => {
    let tokens = 0
    for await (const chunk of await langchain(key, fetch, model).stream(prompt)) tokens = chunk.usage_metadata?.total_tokens ?? tokens
    return tokens
  }
}

for (const [name, call] of Object.entries(calls)) {
  const tokens = await call(KEY, fetch)
  if (!(tokens > 0)) throw new Error(`${name}: got ${tokens} tokens`)
}
const refused = {}
for (const key of REFUSED.split(' ')) {
  refused[key] = {}
  for (const [name, call] of Object.entries(calls)) {
    let requests = 0
    try {
      await call(key, (...args) => { requests++; return fetch(...args) })
      throw new Error('not refused')
    } catch (error) {
      refused[key][name] = { message: error.message, requests }
    }
  }
}
console.log(JSON.stringify(refused))
