package caddymodule_test

import (
	"encoding/hex"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-tollgate/tollgate/caddymodule"
)

// secretParts match what no log may have, as filters of Caddy can find it.
var secretParts = regexp.MustCompile(`tg[kl](_|%5[Ff])[0-9A-Za-z]+|/reset/.*`)

// FuzzRedact: what is left of a path has no secret, however it is encoded, and all
// else of it.
func FuzzRedact(f *testing.F) {
	for _, seed := range []string{
		"/api/rates/EUR?date=2025-03-03", "/api/rates/tgk_abc", "/%74gk_abc", "/tgl%5fabc", "/%2574%67k%255Fabc", "/TGK_ABC",
		"//reset//abc", "/re%73et%2Fabc", "/portal%3Flink=abc", "http://ada:password@host/", "host:443", "*", "",
		"/%", "/%7", "/%zz", "/%%374gk_", "/\x00\n\xfftgk_abc", "/tgk", strings.Repeat("%25", 300) + "74gk_abc",
	} {
		f.Add(seed)
	}
	half := strings.Repeat("aZ3", 8)
	for _, seed := range []string{
		"/acme_live_" + half + half, "/a%63me%5Flive%5f" + half + "%" + hex.EncodeToString([]byte(half[:1])) + half, "/acme_%2561" + half + half[:10],
		"/keep/acme_live_" + half, "/ACME_" + half + half + "/rest", "/" + strings.Repeat("x", 450) + "/acme_" + half + half, "/" + strings.Repeat("x", 462) + "/acme_" + half + half,
	} {
		f.Add(seed)
	}
	parts := []string{half, "acme_live_", "tgk", "tgl", "_", "/reset", "/", "link", "=", "abc", "?", "%", "%25", "%5f", "74", "T", "@", "\xff", "\n", strings.Repeat("x", 240)}
	for range 2000 {
		var text strings.Builder
		for range rand.IntN(8) {
			part := parts[rand.IntN(len(parts))]
			if rand.IntN(3) == 0 && part != "" {
				part = "%" + hex.EncodeToString([]byte(part[:1])) + part[1:]
			}
			text.WriteString(part)
		}
		f.Add(text.String())
	}
	ofWord := regexp.MustCompile(`\w\w_[0-9a-z]{34}`) // behind decode
	begin, encoded := regexp.MustCompile(`tg[kl]_|/reset/|link=`), regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	f.Fuzz(func(t *testing.T, text string) {
		const limit = 500
		got := caddymodule.Redact(text, limit)
		path, _, _ := strings.Cut(text[:min(len(text), limit)], "?")
		kept, redacted := strings.CutSuffix(got, "REDACTED")
		if !strings.HasPrefix(path, kept) || !redacted && got != path {
			t.Fatalf("%q became %q", text, got)
		}
		decode := func(text string) string {
			for before := ""; before != text; {
				before, text = text, encoded.ReplaceAllStringFunc(text, func(code string) string {
					char, _ := hex.DecodeString(code[1:])
					return string(char)
				})
			}
			return strings.ToLower(text)
		}
		if secretParts.MatchString(kept) || secretParts.MatchString(decode(kept)) || ofWord.MatchString(decode(kept)) {
			t.Errorf("%q became %q, with a secret", text, got)
		}
		if redacted && got != path && !strings.Contains(path, "@") && !begin.MatchString(decode(path)) && !ofWord.MatchString(decode(path)) {
			t.Errorf("%q became %q, and has no secret", text, got)
		}
	})
}

// TestLogFormat: the format has what proves a request, and no secret of it, in
// lines of the access log, of errors and of handlers.
func TestLogFormat(t *testing.T) {
	file := filepath.Join(t.TempDir(), "caddy.log")
	s := start(t, setup{
		zone: calmZone(), before: "log\nrewrite /tgk_* /gone", behind: "reverse_proxy " + deadAddress,
		global: "log {\noutput file " + file + "\nlevel DEBUG\nformat tollgate\n}",
	})
	_, bearer := s.account(t, "small")
	const path, header = "/api/convert/EUR/1/USD", "of-a-header"
	_, _ = s.try(t.Context(), "GET", path+"?link=of-a-query", "", "Authorization: Bearer "+bearer, "X-Api-Key: "+header)
	_, _ = s.try(t.Context(), "GET", "/"+bearer, "", "Referer: "+header)
	var access, other []map[string]any
	eventually(t, "the lines of both requests", func() bool {
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		if all := string(text); strings.Contains(all, bearer[4:]) || strings.Contains(all, header) || strings.Contains(all, "of-a-query") {
			t.Fatalf("the log has a secret:\n%s", all)
		}
		access, other = nil, nil
		for line := range strings.Lines(string(text)) {
			var members map[string]any
			if err := json.Unmarshal([]byte(line), &members); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if logger, _ := members["logger"].(string); strings.HasPrefix(logger, "http.log.access") {
				access = append(access, members)
			} else {
				other = append(other, members)
			}
		}
		return len(access) == 2
	})
	for i, want := range []string{
		`bytes_read call duration level logger msg request request_id size status ts user_id client_ip host method proto remote_ip remote_port uri`,
		`bytes_read duration level logger msg request request_id size status ts user_id client_ip host method proto remote_ip remote_port uri`,
	} {
		request, _ := access[i]["request"].(map[string]any)
		if got := strings.Join(slices.AppendSeq(slices.Sorted(maps.Keys(access[i])), slices.Values(slices.Sorted(maps.Keys(request)))), " "); got != want {
			t.Errorf("a line has %s, want %s", got, want)
		}
		if uri := []string{path, "/REDACTED"}[i]; request["uri"] != uri || request["method"] != "GET" || request["client_ip"] != "127.0.0.1" || access[i]["status"] != 502.0 {
			t.Errorf("got the line %v of %s", access[i], uri)
		}
	}
	var errors, roundTrips bool
	for _, line := range other {
		_, duration := line["duration"].(float64)
		errors = errors || line["err_trace"] != nil && duration && line["request"] != nil
		roundTrips = roundTrips || line["msg"] == "upstream roundtrip" && line["upstream"] == deadAddress && line["error"] != nil
	}
	if !errors || !roundTrips {
		t.Errorf("the log has an error line: %v, and one of the proxy: %v; want both:\n%v", errors, roundTrips, other)
	}
}

// TestLogFields: other lines have their fields, but for the environment of FastCGI,
// which has headers, and secrets in paths.
func TestLogFields(t *testing.T) {
	var e caddymodule.LogEncoder
	if err := e.Provision(caddy.Context{}); err != nil {
		t.Fatal(err)
	}
	line, err := e.EncodeEntry(zapcore.Entry{}, []zapcore.Field{
		zap.String("uuid", "of-a-site-without-gate"), zap.Any("env", map[string]string{"HTTP_X_API_KEY": "a-key"}), zap.String("result", "/srv/tgk_abc"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"of-a-site-without-gate": true, "a-key": false, `"/srv/REDACTED"`: true} {
		if strings.Contains(line.String(), text) != want {
			t.Errorf("%q in %s: not %v", text, line, want)
		}
	}
}
