package token_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/token"
)

const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

var shape = regexp.MustCompile(`^[a-z0-9_]{2,30}_[0-9A-Za-z]{49}$`)

// reference encodes a number in base62 with math/big, independently of the
// package.
func reference(number *big.Int, width int) string {
	text := make([]byte, width)
	rest, digit, base := new(big.Int).Set(number), new(big.Int), big.NewInt(62)
	for i := width - 1; i >= 0; i-- {
		rest.DivMod(rest, base, digit)
		text[i] = digits[digit.Int64()]
	}
	return string(text)
}

// withChecksum returns the body with its valid checksum.
func withChecksum(body string) string {
	sum := crc32.ChecksumIEEE([]byte(body))
	return body + reference(big.NewInt(int64(sum)), 6)
}

func mustNew(t testing.TB, kind token.Kind) token.Token {
	t.Helper()
	made, err := token.New(kind, rand.Reader)
	if err != nil {
		t.Fatalf("New(%v): %v", kind, err)
	}
	return made
}

// A change of the format would make all existing keys invalid, so the test
// compares it with the reference above.
func TestNewFormat(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "secret")
		kind := rapid.SampledFrom([]token.Kind{token.Key, token.Login}).Draw(t, "kind")
		word := token.Word(rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[a-z0-9_]{2,24}`)).Draw(t, "word"))
		if word.Check() != nil {
			t.Skip("a word that is refused")
		}
		prefix := map[token.Kind]string{token.Key: string(word) + "_", token.Login: string(word) + "_login_"}[kind]
		if word == "" {
			prefix = map[token.Kind]string{token.Key: "tgk_", token.Login: "tgl_"}[kind]
		}

		made, err := word.New(kind, bytes.NewReader(secret))
		if err != nil {
			t.Fatal(err)
		}
		got, want := made.Reveal(), withChecksum(prefix+reference(new(big.Int).SetBytes(secret), 43))
		if got != want {
			t.Fatalf("text of %x: got %s, want %s", secret, got, want)
		}
		if !shape.MatchString(got) {
			t.Fatalf("%s has not the shape %s", got, shape)
		}
		hash, err := token.Parse(got)
		if err != nil {
			t.Fatalf("Parse: %v", err)
		}
		if hash != sha256.Sum256([]byte(want)) || hash != made.Hash() {
			t.Fatalf("Parse: got hash %x, Hash says %x", hash, made.Hash())
		}
		if hint := prefix + "…" + got[len(got)-4:]; made.String() != hint || !word.Begins(got) || !token.IsOwn(got) || token.Find("/a/"+got) != 3 {
			t.Fatalf("%s has the hint %s, or is not found", got, made)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	if _, err := token.New(0, rand.Reader); err == nil {
		t.Error("kind 0: got no error")
	}
	if _, err := token.Word("Acme").New(token.Key, rand.Reader); err == nil {
		t.Error("word Acme: got no error")
	}
	if _, err := token.New(token.Key, strings.NewReader("too short")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("short random: got %v, want %v", err, io.ErrUnexpectedEOF)
	}
	broken := errors.New("broken")
	if id, err := token.NewID(iotest.ErrReader(broken)); !errors.Is(err, broken) || id != "" {
		t.Errorf("id of broken random: got %q, %v, want %v", id, err, broken)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	good := mustNew(t, token.Key).Reveal()
	body := strings.Repeat("A", 43)
	cases := map[string]string{
		"empty":                            "",
		"one long":                         good + "0",
		"short word":                       withChecksum("a_" + body),
		"long word":                        withChecksum(strings.Repeat("a", 31) + "_" + body),
		"capitals in a word":               withChecksum("Acme_" + body),
		"dash in a word":                   withChecksum("ac-me_" + body),
		"a word's wrong checksum":          "acme_" + good[4:],
		"no digits":                        strings.Repeat("_", 60),
		"dash for underscore":              withChecksum("tgk-" + body),
		"another's checksum":               "tgl_" + good[4:],
		"dash inside, valid checksum":      withChecksum("tgk_-" + body[1:]),
		"NUL inside, valid checksum":       withChecksum("tgk_\x00" + body[1:]),
		"non-ASCII inside, valid checksum": withChecksum("tgk_é" + body[2:]),
		"no checksum":                      "tgk_" + body + "000000",
		"last byte not a digit":            good[:52] + "=",
		"huge":                             strings.Repeat("tgk_", 1<<16),
	}
	for name, text := range cases {
		hash, err := token.Parse(text)
		if !errors.Is(err, token.ErrMalformed) || hash != (token.Hash{}) {
			t.Errorf("%s: Parse(%.60q): got %x, %v; want nothing and %v", name, text, hash, err, token.ErrMalformed)
		}
	}
}

// A mistake in one character must not reach a store: a CRC-32 finds all of
// them.
func TestParseFindsEveryWrongCharacter(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"tgl_", "acme_live_login_"} {
		good := withChecksum(prefix + mustNew(t, token.Login).Reveal()[4:47])
		for i := range len(good) {
			for b := range 256 {
				if byte(b) == good[i] {
					continue
				}
				text := good[:i] + string([]byte{byte(b)}) + good[i+1:]
				if _, err := token.Parse(text); !errors.Is(err, token.ErrMalformed) {
					t.Fatalf("byte %d of %s as %#x: got %v, want %v", i, good, b, err, token.ErrMalformed)
				}
			}
		}
	}
}

func TestHint(t *testing.T) {
	t.Parallel()
	text := withChecksum("tgk_" + strings.Repeat("x", 43))
	word := withChecksum("acme_live_" + strings.Repeat("x", 43))
	for of, want := range map[string]string{text: "tgk_…" + text[49:], word: "acme_live_…" + word[55:], "": "…", "hunter2": "…", text + text: "…", "hunter2_is_my_password_" + word[10:]: "…"} {
		if got := token.Hint(of); got != want {
			t.Errorf("%q: got %q, want %q", of, got, want)
		}
	}
}

// holder is a struct with a token in a private field: fmt cannot call
// methods on it.
type holder struct {
	Public token.Token
	hidden token.Token
}

// Threat: a log or an error has a token, because a struct with the token
// was printed. Request: all verbs, loggers and encoders.
// Expectation: the random part appears in none of them.
func TestTokenNeverLeaks(t *testing.T) {
	t.Parallel()
	for _, word := range []token.Word{"", "acme_live"} {
		made, err := word.New(token.Key, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		neverLeaks(t, made)
	}
}

func neverLeaks(t *testing.T, made token.Token) {
	t.Helper()
	body := made.Reveal()[:len(made.Reveal())-6]
	secret := body[len(body)-43:]
	hidden := holder{Public: made, hidden: made}
	if hidden.hidden.Reveal() != made.Reveal() {
		t.Fatal("the copy lost its secret")
	}

	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%c", "%U", "%t", "%p", "%60v"} {
		fmt.Fprintf(&out, verb+"\n", made)
		fmt.Fprintf(&out, verb+"\n", &made)
		fmt.Fprintf(&out, verb+"\n", hidden)
		fmt.Fprintf(&out, verb+"\n", []any{hidden, &hidden})
	}
	fmt.Fprintln(&out, made, hidden)
	fmt.Fprintln(&out, fmt.Errorf("storing %v", made))
	for _, handler := range []slog.Handler{
		slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil),
	} {
		slog.New(handler).Info("made", "token", made, "holder", hidden, slog.Any("list", []token.Token{made}))
	}
	if err := json.NewEncoder(&out).Encode(map[string]any{"token": made, "holder": hidden}); err != nil {
		t.Fatal(err)
	}

	printed := out.String()
	for _, spelling := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret)} {
		if strings.Contains(printed, spelling) {
			t.Errorf("the secret appears as %s", spelling)
		}
	}
	if !strings.Contains(printed, token.Hint(made.Reveal())) {
		t.Error("the hint appears nowhere")
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	good := mustNew(t, token.Key).Reveal()
	word := withChecksum("acme_live_login_" + good[4:47])
	junk := "tgk_" + strings.Repeat("A", 49)
	for name, text := range map[string]string{"good": good, "word": word, "wrong checksum": junk, "short": "x"} {
		got := testing.AllocsPerRun(1000, func() {
			_, err := token.Parse(text)
			if (err == nil) != (text == good || text == word) {
				t.Error("Parse judged wrong")
			}
		})
		if got != 0 {
			t.Errorf("%s: got %v allocations, want 0", name, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(withChecksum("tgk_" + strings.Repeat("0", 43)))
	f.Add(withChecksum("tgl_" + strings.Repeat("z", 43)))
	f.Add(withChecksum("acme_live_" + strings.Repeat("a", 43)))
	f.Add(withChecksum("__" + strings.Repeat("_login", 4) + "_" + strings.Repeat("a", 43)))
	f.Add("tgk_")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		hash, err := token.Parse(text)
		valid := shape.MatchString(text) && withChecksum(text[:len(text)-6]) == text
		if valid != (err == nil) {
			t.Fatalf("Parse(%q): got error %v, want validity %t", text, err, valid)
		}
		if err == nil && hash != sha256.Sum256([]byte(text)) {
			t.Errorf("hash of %q: got %x", text, hash)
		}
	})
}
