package explain_test

import (
	"net/http"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/admin/cli/clitest"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
)

func TestScripts(t *testing.T) { clitest.Run(t, "testdata/script") }

// TestExplain: the answers are as the document says. The script has the messages,
// and a test of package gate that nothing is counted.
func TestExplain(t *testing.T) {
	t.Parallel()
	g := controltest.NewChecked(t)
	g.Account(t, "acc_1", "starter")
	g.Account(t, "acc_2", "starter")
	key := g.Issue(t, `{"name":"ci","abilities":["currencies"],"addresses":["203.0.113.0/24"]}`).ID
	const explain = "/tollgate/explain?method=GET&target=/api/currencies"
	for query, code := range map[string]any{
		"&account=acc_2": nil, "&key=" + key + "&from=203.0.113.9": nil, "&key=" + key + "&from=198.51.100.1": "address_not_allowed", "": "unauthenticated",
	} {
		if got := g.Must(t, http.StatusOK, "GET", explain+query, ""); got["code"] != code || got["admitted"] != (code == nil) || got["passes"] != got["admitted"] {
			t.Errorf("%s: got %v, want %v", query, got, code)
		}
	}
	const noAccount, noKey = "There is no such account.", "The account has no such key."
	for query, want := range map[string]string{
		"&account=x": noAccount, "&account=x&key=key_x": noAccount, "&account=acc_1&key=key_x": noKey, "&account=acc_2&key=" + key: noKey, "&key=key_x": "There is no such key.",
	} {
		if got := g.Must(t, http.StatusNotFound, "GET", explain+query, ""); got["message"] != want || got["code"] != "not_found" {
			t.Errorf("%s: got %v, want %s", query, got, want)
		}
	}
	g.Refused(t, http.StatusBadRequest, "invalid_request", "GET", "/tollgate/explain?method=GET", "")
	g.Refused(t, http.StatusBadRequest, "invalid_address", "GET", explain+"&from=home", "")
}
