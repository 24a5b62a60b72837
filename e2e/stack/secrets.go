package stack

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/token"
)

// tokens recognises what can be tokens.
var tokens = regexp.MustCompile(`[a-z0-9_]{2,}_[0-9A-Za-z]{49}`)

// tokenIn returns a token of a text. Random texts, such as a nonce of ACME, have no
// checksum.
func tokenIn(text string) string {
	for _, found := range tokens.FindAllString(text, -1) {
		for i := range found {
			if _, err := token.Parse(found[i:]); err == nil {
				return found[i:]
			}
		}
	}
	return ""
}

// checkSecrets fails the test if the programs wrote a token, a secret or a
// password to their logs, the access log, the audit log or the metrics.
func (s *Stack) checkSecrets() {
	s.t.Helper()
	written := map[string]string{"logs": s.log.String()}
	for name, path := range map[string]string{"audit log": "/tollgate/audit?limit=1000", "metrics": "/metrics", "refused calls": "/tollgate/refused?limit=1000"} {
		written[name] = s.fromAdmin(path)
	}
	// A Caddyfile of a test may have no access log.
	if text, err := os.ReadFile(s.AccessLog()); err == nil {
		written["access log"] = string(text)
	}
	for name, text := range written {
		if found := tokenIn(text); found != "" {
			s.t.Errorf("the %s have the token %s", name, found)
		}
		for _, secret := range s.secrets {
			if strings.Contains(text, secret) {
				s.t.Errorf("the %s have the secret or password %q", name, secret)
			}
		}
	}
}

// fromAdmin reads from the admin endpoint. It returns nothing if Caddy does
// not run, or refuses it.
func (s *Stack) fromAdmin(path string) string {
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Get(s.Admin() + path)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}
	return string(text)
}
