package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// modelServer answers as language models do: in the forms of the documentation of
// their APIs. It counts the tokens that it tells, by the endpoint of the gate.
type modelServer struct {
	t *testing.T

	mu    sync.Mutex
	told  map[string]int64
	calls int64
}

// modelRequest is what the server reads of a request of any API.
type modelRequest struct {
	Model         string
	Stream        *bool
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	EncodingFormat string `json:"encoding_format"`
	Input          any
}

// answer returns an answer of tokens in, tokens out and their sum, which replace
// IN, OUT and SUM in a text. FIRST replaces what is out at the first word.
func (m *modelServer) answer(endpoint string, out bool) *strings.Replacer {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	prompt, made := 11+m.calls%5, int64(0)
	if out {
		made = 3 + m.calls%7
	}
	m.told[endpoint] += prompt + made
	return strings.NewReplacer("IN", strconv.FormatInt(prompt, 10), "OUT", strconv.FormatInt(made, 10), "SUM", strconv.FormatInt(prompt+made, 10), "REST", strconv.FormatInt(prompt-3, 10),
		"FIRST", strconv.FormatInt(prompt+1, 10), "MODEL", "test-model")
}

// tells returns what the server has told.
func (m *modelServer) tells() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.told)
}

// ServeHTTP implements http.Handler.
func (m *modelServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/models" {
		m.mu.Lock()
		m.told["models"]++
		m.mu.Unlock()
		sendPieces(w, "application/json", `{"object":"list","data":[{"id":"test-model","object":"model","created":1686935002,"owned_by":"organization-owner"}]}`)
		return
	}
	var request modelRequest
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &request)
	}
	if err != nil {
		m.t.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
	streams := request.Stream != nil && *request.Stream
	switch {
	case r.URL.Path == "/v1/chat/completions":
		m.chat(w, request, streams)
	case r.URL.Path == "/v1/embeddings":
		m.embeddings(w, request)
	case r.URL.Path == "/v1/responses":
		m.reply(w, "responses", streams, responseJSON, responseStream)
	case r.URL.Path == "/v1/messages":
		m.reply(w, "messages", streams, messageJSON, messageStream)
	case r.URL.Path == "/api/chat":
		lines := strings.SplitAfter(m.answer("ollama", true).Replace(ollamaLines), "\n")
		if request.Stream == nil || *request.Stream { // the default
			sendPieces(w, "application/x-ndjson", lines...)
		} else {
			sendPieces(w, "application/json; charset=utf-8", lines[len(lines)-2])
		}
	case strings.HasSuffix(r.URL.Path, ":generateContent"):
		m.reply(w, "gemini", false, geminiJSON, "")
	case strings.HasSuffix(r.URL.Path, ":streamGenerateContent") && r.URL.Query().Get("alt") == "sse":
		m.reply(w, "gemini", true, "", geminiStream)
	default:
		m.t.Errorf("unexpected request %s %s", r.Method, r.URL)
		http.NotFound(w, r)
	}
}

// chat answers in the form of a server with OpenAI's API, by the model.
func (m *modelServer) chat(w http.ResponseWriter, request modelRequest, streams bool) {
	form, found := chats[request.Model]
	if !found || streams && !request.StreamOptions.IncludeUsage {
		m.t.Errorf("unexpected request %+v", request)
	}
	m.reply(w, "chat", streams, form[0], form[1])
}

func (m *modelServer) reply(w http.ResponseWriter, endpoint string, streams bool, whole, stream string) {
	text := m.answer(endpoint, true)
	if !streams {
		sendPieces(w, "application/json", text.Replace(whole))
		return
	}
	sendPieces(w, "text/event-stream; charset=utf-8", strings.SplitAfter(text.Replace(stream), "\n\n")...)
}

func (m *modelServer) embeddings(w http.ResponseWriter, request modelRequest) {
	vector := `[0.0023064255,-0.009327292]`
	if request.EncodingFormat == "base64" {
		vector = strconv.Quote(base64.StdEncoding.EncodeToString(make([]byte, 8)))
	}
	texts, many := request.Input.([]any)
	if !many {
		texts = make([]any, 1)
	}
	var data []string
	for i := range texts {
		data = append(data, fmt.Sprintf(`{"object":"embedding","embedding":%s,"index":%d}`, vector, i))
	}
	sendPieces(w, "application/json", m.answer("embeddings", false).Replace(`{"object":"list","data":[`+strings.Join(data, ",")+`],"model":"MODEL","usage":{"prompt_tokens":IN,"total_tokens":SUM}}`))
}

// sendPieces sends the pieces of an answer one by one.
func sendPieces(w http.ResponseWriter, contentType string, pieces ...string) {
	w.Header().Set("Content-Type", contentType)
	for _, piece := range pieces {
		// The client is gone if these fail; ignore the errors.
		_, _ = io.WriteString(w, piece)
		_ = http.NewResponseController(w).Flush()
	}
}

// chats are the answers of chat completions, whole and as a stream, by server.
var chats = map[string][2]string{
	"openai": {
		`{"id":"chatcmpl-B9MB","object":"chat.completion","created":1741569952,"model":"MODEL","choices":[{"index":0,"message":{"role":"assistant","content":"Hello! \"usage\": {\"total_tokens\": 9}","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":IN,"completion_tokens":OUT,"total_tokens":SUM,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}},"service_tier":"default"}`,
		chunks(`"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"MODEL","service_tier":"default","system_fingerprint":"fp_44709d6fcb","obfuscation":"Fx"`, `,"usage":null`, `,"usage":null`,
			`,"usage":{"prompt_tokens":IN,"completion_tokens":OUT,"total_tokens":SUM,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0}}`),
	},
	"vllm": {
		`{"id":"chatcmpl-9f","object":"chat.completion","created":1741569952,"model":"MODEL","choices":[{"index":0,"message":{"role":"assistant","content":"Hello!","refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[],"reasoning_content":null},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}],"service_tier":null,"system_fingerprint":null,"usage":{"prompt_tokens":IN,"total_tokens":SUM,"completion_tokens":OUT,"prompt_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":null,"kv_transfer_params":null}`,
		chunks(`"id":"chatcmpl-9f","object":"chat.completion.chunk","created":1741569952,"model":"MODEL"`, "", "", `,"usage":{"prompt_tokens":IN,"total_tokens":SUM,"completion_tokens":OUT}`),
	},
	// vLLM with continuous_usage_stats.
	"continuous": {
		`{"id":"chatcmpl-9f","object":"chat.completion","created":1741569952,"model":"MODEL","choices":[{"index":0,"message":{"role":"assistant","content":"Hello!"},"finish_reason":"stop"}],"usage":{"prompt_tokens":IN,"total_tokens":SUM,"completion_tokens":OUT}}`,
		chunks(`"id":"chatcmpl-9f","object":"chat.completion.chunk","created":1741569952,"model":"MODEL"`, `,"usage":{"prompt_tokens":IN,"total_tokens":IN,"completion_tokens":0}`, `,"usage":{"prompt_tokens":IN,"total_tokens":FIRST,"completion_tokens":1}`,
			`,"usage":{"prompt_tokens":IN,"total_tokens":SUM,"completion_tokens":OUT}`),
	},
	"llama.cpp": {
		`{"choices":[{"finish_reason":"stop","index":0,"message":{"role":"assistant","content":"Hello!"}}],"created":1741569952,"model":"MODEL","system_fingerprint":"b5478-f5cd27b7","object":"chat.completion","usage":{"completion_tokens":OUT,"prompt_tokens":IN,"total_tokens":SUM},"id":"chatcmpl-dy","timings":{"prompt_n":IN,"prompt_ms":42.5,"prompt_per_token_ms":3.86,"prompt_per_second":258.5,"predicted_n":OUT,"predicted_ms":120.1,"predicted_per_token_ms":10.9,"predicted_per_second":91.6}}`,
		chunks(`"created":1741569952,"id":"chatcmpl-dy","model":"MODEL","system_fingerprint":"b5478-f5cd27b7","object":"chat.completion.chunk"`, "", "", `,"usage":{"completion_tokens":OUT,"prompt_tokens":IN,"total_tokens":SUM},"timings":{"prompt_n":IN,"predicted_n":OUT}`),
	},
	"ollama": {
		`{"id":"chatcmpl-543","object":"chat.completion","created":1741569952,"model":"MODEL","system_fingerprint":"fp_ollama","choices":[{"index":0,"message":{"role":"assistant","content":"Hello!"},"finish_reason":"stop"}],"usage":{"prompt_tokens":IN,"completion_tokens":OUT,"total_tokens":SUM}}` + "\n",
		chunks(`"id":"chatcmpl-543","object":"chat.completion.chunk","created":1741569952,"model":"MODEL","system_fingerprint":"fp_ollama"`, "", "", `,"usage":{"prompt_tokens":IN,"completion_tokens":OUT,"total_tokens":SUM}`),
	},
}

// chunks returns the events of a chat completion. Each has the members of all, and
// those for the first chunk, for the others, and for the one of the usage.
func chunks(all, first, others, usage string) string {
	event := func(choices, members string) string {
		return "data: {" + all + `,"choices":[` + choices + "]" + members + "}\n\n"
	}
	return event(`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}`, first) +
		event(`{"index":0,"delta":{"content":"Hello"},"logprobs":null,"finish_reason":null}`, others) +
		event(`{"index":0,"delta":{"content":" \"total_tokens\": 9"},"logprobs":null,"finish_reason":null}`, others) +
		event(`{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}`, others) +
		event("", usage) + "data: [DONE]\n\n"
}

// events returns the events of a stream whose type is their member type too.
func events(documents ...string) string {
	var b strings.Builder
	for _, document := range documents {
		name, _, _ := strings.Cut(strings.TrimPrefix(document, `{"type":"`), `"`)
		b.WriteString("event: " + name + "\ndata: " + document + "\n\n")
	}
	return b.String()
}

// The answers of OpenAI's responses.
const (
	responseHead = `"id":"resp_67ccd3a9","object":"response","created_at":1741476777,"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"model":"MODEL","parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_p":1.0,"truncation":"disabled","user":null,"metadata":{}`
	responseItem = `{"type":"message","id":"msg_67ccd3ac","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hello!","annotations":[]}]}`
	responseJSON = `{` + responseHead + `,"status":"completed","output":[` + responseItem + `],"usage":{"input_tokens":IN,"input_tokens_details":{"cached_tokens":0},"output_tokens":OUT,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":SUM}}`
)

var responseStream = events(
	`{"type":"response.created","sequence_number":0,"response":{`+responseHead+`,"status":"in_progress","output":[],"usage":null}}`,
	`{"type":"response.in_progress","sequence_number":1,"response":{`+responseHead+`,"status":"in_progress","output":[],"usage":null}}`,
	`{"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"msg_67ccd3ac","type":"message","status":"in_progress","role":"assistant","content":[]}}`,
	`{"type":"response.content_part.added","sequence_number":3,"item_id":"msg_67ccd3ac","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}`,
	`{"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_67ccd3ac","output_index":0,"content_index":0,"delta":"Hello!"}`,
	`{"type":"response.output_text.done","sequence_number":5,"item_id":"msg_67ccd3ac","output_index":0,"content_index":0,"text":"Hello!"}`,
	`{"type":"response.content_part.done","sequence_number":6,"item_id":"msg_67ccd3ac","output_index":0,"content_index":0,"part":{"type":"output_text","text":"Hello!","annotations":[]}}`,
	`{"type":"response.output_item.done","sequence_number":7,"output_index":0,"item":`+responseItem+`}`,
	`{"type":"response.completed","sequence_number":8,"response":`+responseJSON+`}`,
)

// The answers of Anthropic's messages.
const messageJSON = `{"content":[{"text":"Hi! My name is Claude.","type":"text"}],"id":"msg_013Z","model":"MODEL","role":"assistant","stop_reason":"end_turn","stop_sequence":null,"type":"message","usage":{"input_tokens":2,"cache_creation_input_tokens":1,"cache_read_input_tokens":REST,"output_tokens":OUT}}`

var messageStream = events(
	`{"type":"message_start","message":{"id":"msg_1nZd","type":"message","role":"assistant","content":[],"model":"MODEL","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":2,"cache_creation_input_tokens":1,"cache_read_input_tokens":REST,"output_tokens":1}}}`,
	`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
	`{"type":"ping"}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}`,
	`{"type":"content_block_stop","index":0}`,
	`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":OUT}}`,
	`{"type":"message_stop"}`,
)

// ollamaLines is a stream of Ollama's own API. Its last line is the whole answer.
const ollamaLines = `{"model":"MODEL","created_at":"2023-08-04T08:52:19.385406455-07:00","message":{"role":"assistant","content":"The","images":null},"done":false}
{"model":"MODEL","created_at":"2023-08-04T19:22:45.499127Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","total_duration":4883583458,"load_duration":1334875,"prompt_eval_count":IN,"prompt_eval_duration":342546000,"eval_count":OUT,"eval_duration":4535599000}
`

// The answers of Gemini's API.
const (
	geminiJSON = `{
  "candidates": [{"content": {"parts": [{"text": "Hello!"}], "role": "model"}, "finishReason": "STOP", "avgLogprobs": -0.1, "index": 0}],
  "usageMetadata": {"promptTokenCount": IN, "candidatesTokenCount": OUT, "totalTokenCount": SUM, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": IN}]},
  "modelVersion": "MODEL",
  "responseId": "mAitaLmkHPPlz7IPvtfUqQ4"
}
`
	geminiStream = `data: {"candidates": [{"content": {"parts": [{"text": "Hel"}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": IN,"totalTokenCount": IN},"modelVersion": "MODEL"}` + "\r\n\r\n" +
		`data: {"candidates": [{"content": {"parts": [{"text": "lo!"}],"role": "model"},"finishReason": "STOP","index": 0}],"usageMetadata": {"promptTokenCount": IN,"candidatesTokenCount": OUT,"totalTokenCount": SUM},"modelVersion": "MODEL"}` + "\r\n\r\n"
)
