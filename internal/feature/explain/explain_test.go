package explain_test

import (
	"net/http"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	g := controltest.NewChecked(t)
	g.Account(t, "acc_1", "starter")
	g.Account(t, "acc_2", "starter")
	g.Account(t, "acc_3", "starter")
	g.Must(t, http.StatusOK, "PUT", "/tollgate/accounts/acc_3", `{"disabled":true}`)
	key := func(body string) string {
		return g.Must(t, http.StatusCreated, "POST", "/tollgate/accounts/acc_1/keys", body)["id"].(string)
	}
	narrow := key(`{"name":"narrow","abilities":["currencies"],"addresses":["203.0.113.0/24"]}`)
	revoked := key(`{"name":"revoked"}`)
	g.Must(t, http.StatusNoContent, "DELETE", "/tollgate/accounts/acc_1/keys/"+revoked, "")
	const convert, currencies = "&target=/api/convert/USD/1/EUR", "&target=/api/currencies"
	before := g.Used(t)
	for _, test := range []struct {
		query  string
		status any // nil if it is admitted
		code   any
		step   string
	}{
		{currencies + "&account=acc_2", nil, nil, "proxy"},
		{currencies + "&key=" + narrow + "&from=203.0.113.9", nil, nil, "proxy"},
		{currencies + "&key=" + narrow + "&from=198.51.100.1", 403., "address_not_allowed", "address"},
		{convert + "&key=" + revoked, 401., "invalid_token", "token"},
		{convert + "&account=acc_3", 401., "invalid_token", "token"},
		{convert, 401., "unauthenticated", "token"},
	} {
		got := g.Must(t, http.StatusOK, "GET", "/tollgate/explain?method=GET"+test.query, "")
		steps := got["steps"].([]any)
		last := steps[len(steps)-1].(map[string]any)
		if got["status"] != test.status || got["code"] != test.code || last["step"] != test.step || last["ok"] != (test.status == nil) || got["admitted"] != last["ok"] || got["passes"] != last["ok"] {
			t.Errorf("%s: got %v, want %v %v at %s", test.query, got, test.status, test.code, test.step)
		}
	}
	if after := g.Used(t); after["convert"] != before["convert"] || after["currencies"] != 0 || after["batch"] != 0 {
		t.Errorf("explaining counts: got %v after %v", after, before)
	}
	for query, want := range map[string]struct {
		status int
		code   string
	}{
		convert + "&account=nobody":              {http.StatusNotFound, "not_found"},
		convert + "&key=key_0":                   {http.StatusNotFound, "not_found"},
		convert + "&account=acc_2&key=" + narrow: {http.StatusNotFound, "not_found"},
		convert + "&from=home":                   {http.StatusBadRequest, "invalid_address"},
		"":                                       {http.StatusBadRequest, "invalid_request"},
	} {
		g.Refused(t, want.status, want.code, "GET", "/tollgate/explain?method=GET"+query, "")
	}
}
