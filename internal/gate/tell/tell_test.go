package tell

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/cockroachdb/apd/v3"

	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// tells is what an answer tells when it is whole, and when it is cut off behind it.
type tells struct {
	whole, cut int64 // -1 for nothing
}

const (
	jsonType  = "application/json; charset=utf-8"
	eventType = "text/event-stream; charset=utf-8"
	linesType = "application/x-ndjson"
)

const cachedMembers = "message.usage.input_tokens|usage.input_tokens+message.usage.cache_creation_input_tokens|usage.cache_creation_input_tokens+message.usage.cache_read_input_tokens|usage.cache_read_input_tokens+usage.output_tokens"

// The answers are examples of the documentation of the services, shortened.
var answers = map[string]struct {
	members, contentType, body string
	want                       tells
}{
	"OpenAI chat":            {"usage.total_tokens", jsonType, `{"id":"chatcmpl-B9","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"say \"usage\": {\"total_tokens\": 9}","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"total_tokens":77}},"service_tier":"default"}`, tells{29, 29}},
	"OpenAI stream":          {"usage.total_tokens", eventType, "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}],\"usage\":null}\n\ndata: {\"id\":\"c\",\"choices\":[{\"delta\":{\"content\":\"Hello\"}}],\"usage\":null}\n\ndata: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":12,\"total_tokens\":21}}\n\ndata: [DONE]\n\n", tells{21, 21}},
	"OpenAI stream without":  {"usage.total_tokens", eventType, "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\n\ndata: [DONE]\n\n", tells{-1, -1}},
	"OpenAI responses":       {"response.usage.total_tokens", eventType, "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"usage\":null}}\n\nevent: response.output_text.delta\ndata: {\"delta\":\"Hi\"}\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"output\":[{\"content\":[{\"text\":\"Hi\"}]}],\"usage\":{\"input_tokens\":37,\"output_tokens\":11,\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":48}}}\n\n", tells{48, 48}},
	"Anthropic messages":     {"usage.input_tokens+usage.output_tokens", jsonType, `{"content":[{"text":"Hi!","type":"text"}],"id":"msg_013","model":"m","role":"assistant","stop_reason":"end_turn","stop_sequence":null,"type":"message","usage":{"input_tokens":2095,"output_tokens":503}}`, tells{2598, 2598}},
	"Anthropic stream":       {"message.usage.input_tokens+usage.output_tokens", eventType, "event: message_start\ndata: {\"type\": \"message_start\", \"message\": {\"id\": \"msg_1\", \"content\": [], \"usage\": {\"input_tokens\": 25, \"output_tokens\": 1}}}\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\nevent: content_block_delta\ndata: {\"type\": \"content_block_delta\", \"index\": 0, \"delta\": {\"type\": \"text_delta\", \"text\": \"Hello\"}}\n\nevent: message_delta\ndata: {\"type\": \"message_delta\", \"delta\": {\"stop_reason\": \"end_turn\"}, \"usage\": {\"output_tokens\": 15}}\n\nevent: message_stop\ndata: {\"type\": \"message_stop\"}\n\n", tells{40, -1}},
	"Anthropic with search":  {"message.usage.input_tokens|usage.input_tokens+usage.output_tokens", eventType, "data: {\"type\": \"message_start\", \"message\": {\"usage\": {\"input_tokens\": 2679, \"output_tokens\": 3}}}\n\ndata: {\"type\": \"message_delta\", \"usage\": {\"input_tokens\": 10682, \"output_tokens\": 510}}\n\n", tells{11192, -1}},
	"vLLM continuous":        {"usage.total_tokens", eventType, "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}],\"usage\":{\"prompt_tokens\":7,\"total_tokens\":7,\"completion_tokens\":0}}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":7,\"total_tokens\":8,\"completion_tokens\":1}}\n\n", tells{8, -1}},
	"Ollama chat":            {"prompt_eval_count+eval_count", linesType, "{\"model\":\"llama3.2\",\"message\":{\"role\":\"assistant\",\"content\":\"The\"},\"done\":false}\n{\"model\":\"llama3.2\",\"message\":{\"content\":\"\"},\"done\":true,\"total_duration\":4883583458,\"prompt_eval_count\":26,\"eval_count\":282}\n", tells{308, 308}},
	"other JSON lines":       {"n", "application/jsonl", "{\"n\":8}\n", tells{8, -1}},
	"stream of JSON":         {"n", "application/stream+json", "{\"n\":8}\n", tells{8, -1}},
	"JSON of a kind":         {"n", "application/hal+json", `{"n":8}`, tells{8, 8}},
	"Anthropic cached":       {cachedMembers, eventType, "data: {\"message\":{\"usage\":{\"input_tokens\":3,\"cache_creation_input_tokens\":100000,\"cache_read_input_tokens\":2048,\"cache_creation\":{\"ephemeral_5m_input_tokens\":100000},\"output_tokens\":1}}}\n\ndata: {\"usage\":{\"output_tokens\":200}}\n\n", tells{102251, -1}},
	"JSON lines":             {"n", linesType, "\n\n{\"a\":\"\\n\"}\r\n{\"n\":1}\r{\"n\":2}\r\n{\r\"a\":[],\r\"n\":\r3\r}\n{\"a\":{}}\n", tells{3, -1}},
	"Ollama cached prompt":   {"prompt_eval_count+eval_count", jsonType, `{"message":{"content":"The"},"done":true,"eval_count":282}`, tells{282, -1}},
	"llama.cpp completion":   {"tokens_evaluated+tokens_predicted", eventType, "data: {\"content\":\"a\",\"stop\":false,\"tokens_predicted\":1,\"tokens_evaluated\":5}\n\ndata: {\"content\":\"\",\"stop\":true,\"tokens_predicted\":16,\"tokens_evaluated\":5,\"timings\":{\"predicted_n\":16}}\n\n", tells{21, -1}},
	"Gemini":                 {"usageMetadata.totalTokenCount", jsonType, "[{\n  \"candidates\": [{\"content\": {\"parts\": [{\"text\": \"Hi\"}]}}],\n  \"usageMetadata\": {\"promptTokenCount\": 4,\"totalTokenCount\": 6}\n}\n,\r\n{\n  \"candidates\": [{\"finishReason\": \"STOP\"}],\n  \"usageMetadata\": {\"promptTokenCount\": 4,\"candidatesTokenCount\": 5,\"totalTokenCount\": 9}\n}\n]", tells{9, -1}},
	"Gemini events":          {"usageMetadata.totalTokenCount", eventType, "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"Hi\"}]}}],\"usageMetadata\": {\"totalTokenCount\": 6}}\r\n\r\ndata: {\"usageMetadata\": {\"totalTokenCount\": 9}}\r\n\r\n", tells{9, -1}},
	"LiteLLM price":          {"usage.cost", jsonType, `{"usage":{"cost":0.00014235}}`, tells{143, 143}},
	"embeddings":             {"usage.total_tokens", jsonType, `{"object":"list","data":[{"object":"embedding","embedding":[` + strings.Repeat("-0.0023064255,", 200) + `1],"index":0},{"embedding":[[1],[2]]}],"usage":{"prompt_tokens":8,"total_tokens":8}}`, tells{8, 8}},
	"data of many lines":     {"usage.total_tokens", eventType, "data: {}\r\rdata: {\rdata: \"usage\": {\rdata: \"total_tokens\": 5\rdata: }}\r\r", tells{5, 5}},
	"data of many lines, LF": {"usage.total_tokens", eventType, ": hello\n\ndata: {}\n\ndata: {\ndata:\"usage\":\ndata: {\ndata\ndatum: {\"total_tokens\":7}\nid: 3\ndata: \"total_tokens\": 5\ndata: }}\n\n", tells{5, 5}},
	"comments first":         {"usage.total_tokens", eventType, ": processing\n\n: processing\n\ndata: {\"usage\":{\"total_tokens\":5}}\n\n", tells{5, -1}},
	"comments with data":     {"usage.total_tokens", eventType, ": no data: x\n\ndata: {\"usage\":{\"total_tokens\":5}}\n\n", tells{5, -1}},
	"number at the end":      {"n", jsonType, "{\"n\":12", tells{12, -1}},
	"exponent":               {"n", jsonType, `{"n":1.25e1}`, tells{13, 13}},
	"zero":                   {"n", jsonType, `{"n":-0.0}`, tells{0, 0}},
	"last number":            {"n", jsonType, `{"n":1,"n":3,"n":null,"n":"9","n":[7],"n":{"n":8},"n":-5,"n":true}`, tells{3, 3}},
	"negative":               {"n", jsonType, `{"n":-5}`, tells{-1, -1}},
	"no number":              {"n", jsonType, `{"n":NaN,"m":{"n":4},"o":[{"n":4}]}`, tells{-1, -1}},
	"huge exponent":          {"n", jsonType, `{"n":1e999999999}`, tells{-1, -1}},
	"many digits":            {"n", jsonType, `{"n":` + strings.Repeat("1", 1000) + `}`, tells{-1, -1}},
	"too much":               {"n", jsonType, `{"n":1000000000001}`, tells{-1, -1}},
	"long names":             {"n", jsonType, `{"` + strings.Repeat("n", 1000) + `":4,"\"n":5,"n\\":6,"n\\\"":7,"n":1}`, tells{1, 1}},
	"deep":                   {"a.b.c.d.e.f.g.h", jsonType, `{"a":{"b":{"c":{"d":{"e":{"f":{"g":{"h":3,"i":{"h":4}}}}}}}}}`, tells{3, 3}},
	"unbalanced":             {"n", jsonType, `]]}}}{"n":3}}}}`, tells{3, 3}},
	"nothing":                {"n", jsonType, ``, tells{-1, -1}},
}

func scanner(t testing.TB, members, contentType string, scale *apd.Decimal) *Scanner {
	t.Helper()
	s := NewMembers(&policy.CostAnswer{Members: strings.Split(members, "+"), Scale: scale}).Scanner(http.Header{"Content-Type": {contentType}})
	if s == nil {
		t.Fatal("no scanner")
	}
	return s
}

// What an answer tells does not depend on the pieces in which it comes.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, test := range answers {
		var scale *apd.Decimal
		if name == "LiteLLM price" {
			scale = apd.New(1_000_000, 0)
		}
		for size := 1; size <= len(test.body)+1; size++ {
			s := scanner(t, test.members, test.contentType, scale)
			for rest := []byte(test.body); len(rest) > 0; {
				n := min(size, len(rest))
				s.Read(rest[:n])
				rest = rest[n:]
			}
			cost := func(whole bool) int64 {
				if cost, told := s.Cost(whole); told {
					return cost
				}
				return -1
			}
			got := tells{cut: cost(false)}
			got.whole = cost(true)
			if got != test.want {
				t.Fatalf("%s in pieces of %d: got %+v, want %+v", name, size, got, test.want)
			}
			if cap(s.name) > 4*maxName || cap(s.number) > 4*maxNumber {
				t.Fatalf("%s: keeps %d and %d bytes", name, cap(s.name), cap(s.number))
			}
		}
	}
}

func TestHeader(t *testing.T) {
	t.Parallel()
	cents := apd.New(100, 0)
	for _, test := range []struct {
		values []string
		scale  *apd.Decimal
		want   int64
	}{
		{[]string{"3"}, nil, 3},
		{[]string{"0"}, nil, 0},
		{[]string{"3.5"}, nil, -1},
		{[]string{"+3"}, nil, -1},
		{[]string{"3", "3"}, nil, -1},
		{nil, nil, -1},
		{[]string{"1000000000001"}, nil, -1},
		{[]string{"0.0101"}, cents, 2},
		{[]string{"0.02"}, cents, 2},
		{[]string{"1.2e-05"}, cents, 1},
		{[]string{"0"}, cents, 0},
		{[]string{"-0.5"}, cents, -1},
		{[]string{"NaN"}, cents, -1},
		{[]string{""}, cents, -1},
	} {
		got, told := Header(test.values, test.scale)
		if !told {
			got = -1
		}
		if got != test.want {
			t.Errorf("%q: got %d, want %d", test.values, got, test.want)
		}
	}
}

// An encoded answer tells nothing, and neither does one that is no JSON.
func TestNoScanner(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		contentType, encoding string
		none                  bool
	}{
		{jsonType, "gzip", true},
		{jsonType, "br", true},
		{jsonType, "identity", false},
		{"Application/vnd.api+JSON", "", false},
		{"application/x-ndjson", "", false},
		{"text/plain", "", true},
		{"text/html", "", true},
		{"", "", true},
	} {
		s := NewMembers(&policy.CostAnswer{Members: []string{"n"}}).Scanner(http.Header{"Content-Type": {test.contentType}, "Content-Encoding": {test.encoding}})
		if (s == nil) != test.none {
			t.Errorf("%+v: got %v", test, s)
		}
		if _, told := s.Cost(true); told {
			t.Errorf("%+v tells a cost", test)
		}
	}
}

// FuzzScanner compares the scanner with encoding/json, for documents, events and lines.
func FuzzScanner(f *testing.F) {
	for _, test := range answers {
		f.Add([]byte(test.body), 7)
	}
	f.Add([]byte(`{"a":{"n":12,"b":[{"n":4}],"n":5},"n":3e2}`), 3)
	f.Add([]byte(`[{"n":3},[{"n":4}],{"a":{"n":5}},6]`), 3)
	f.Fuzz(func(t *testing.T, body []byte, size int) {
		size = 1 + max(size, -size-1)%(len(body)+1)
		compact := new(bytes.Buffer)
		valid := json.Compact(compact, body) == nil && !bytes.Contains(body, []byte(`\`))
		for contentType, text := range map[string][]byte{
			jsonType:  body,
			eventType: fmt.Appendf(nil, "data: {}\n\ndata: %s\n\n", compact.Bytes()),
			linesType: fmt.Appendf(nil, "{}\n%s\n{}", compact.Bytes()),
		} {
			s := scanner(t, "n+a.n", contentType, nil)
			for rest := text; len(rest) > 0; rest = rest[min(size, len(rest)):] {
				s.Read(rest[:min(size, len(rest))])
			}
			got, told := s.Cost(true)
			if !valid {
				continue
			}
			want, isTold := reference(body)
			if told != isTold || told && got != want {
				t.Errorf("%q as %s in pieces of %d: got %d, %t, want %d, %t", text, contentType, size, got, told, want, isTold)
			}
		}
	})
}

// reference is the sum of the members n and a.n of a document.
func reference(body []byte) (int64, bool) {
	last := map[string]apd.Decimal{}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	numbers(d, "", false, func(path, number string) {
		if n, err := decimal(number); err == nil && (path == ".n" || path == ".a.n") {
			last[path] = n
		}
	})
	var sum apd.Decimal
	for _, n := range last {
		_, _ = exact.Add(&sum, &sum, &n)
	}
	cost, told := scaled(&sum, nil)
	return cost, told && len(last) > 0
}

// numbers reads a value, and calls found with each number in it. Of a list at the
// top, each element is a value of its own.
func numbers(d *json.Decoder, path string, list bool, found func(path, number string)) {
	switch token, _ := d.Token(); token := token.(type) {
	case json.Number:
		found(path, token.String())
	case json.Delim:
		for d.More() {
			switch {
			case token == '{':
				name, _ := d.Token()
				numbers(d, path+"."+name.(string), list, found)
			case path == "" && !list:
				numbers(d, path, true, found)
			default:
				numbers(d, path+"[]", list, found)
			}
		}
		_, _ = d.Token()
	}
}

// BenchmarkScanner searches answers of several shapes, in the pieces of a proxy.
func BenchmarkScanner(b *testing.B) {
	prose := strings.Repeat("The quick brown fox jumps over the lazy dog, and \\\"quotes\\\" it.\\n", 500)
	var stream strings.Builder
	for i := range 400 {
		fmt.Fprintf(&stream, "data: {\"id\":\"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT\",\"object\":\"chat.completion.chunk\",\"created\":1741570283,\"model\":\"gpt-5\",\"system_fingerprint\":\"fp_44709d6fcb\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word%d\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n", i)
	}
	for name, body := range map[string]string{
		// Looking ahead again and again would take quadratic time.
		"hostile stream": strings.Repeat("data:tokens\"\n\n", 80_000),
		"hostile":        `{"x":[[` + strings.Repeat(strings.Repeat(" ", 33)+"]]]{{{", 30_000),

		"chat":       `{"choices":[{"message":{"content":"` + prose + `"}}],"usage":{"total_tokens":9}}`,
		"stream":     stream.String(),
		"embeddings": `{"data":[{"embedding":[` + strings.Repeat("-0.0023064255,", 3000) + `1]}],"usage":{"total_tokens":9}}`,
		"small":      `{"data":[` + strings.Repeat(`{"id":"a1","n":3,"ok":true,"tags":["x","y"]},`, 800) + `{}],"usage":{"total_tokens":9}}`,
		"events":     stream.String(),
		"lines":      strings.NewReplacer("data: ", "", "\n\n", "\n").Replace(stream.String()),
	} {
		contentType, pieces := jsonType, [][]byte{[]byte(body)}
		switch name {
		case "stream", "hostile stream":
			contentType = eventType
		case "lines":
			contentType = linesType
		case "events":
			contentType, pieces = eventType, bytes.SplitAfter([]byte(body), []byte("\n\n"))
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				s := scanner(b, "usage.total_tokens", contentType, nil)
				for _, piece := range pieces {
					s.Read(piece)
				}
			}
		})
	}
}
