package admin_test

import (
	"net/http"
	"testing"
)

const loginsPath = "/tollgate/accounts/acc_1/logins"

// One call ends all login tokens of an account, and nothing else.
func TestEndLogins(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Refused(t, http.StatusNotFound, "not_found", "DELETE", loginsPath, "")
	g.Account(t, "acc_1", "starter")
	g.Must(t, http.StatusNoContent, "DELETE", loginsPath, "") // there are none
	key := g.Issue(t, `{"name":"ci"}`)
	first, second := g.Issue(t, `{"kind":"login"}`), g.Issue(t, `{"kind":"login"}`)
	g.Must(t, http.StatusNoContent, "DELETE", loginsPath, "")
	for name, ended := range map[string]string{"first": first.Token, "second": second.Token} {
		if _, opens := g.Opens(t, ended); opens {
			t.Errorf("the %s login token lives", name)
		}
	}
	if _, opens := g.Opens(t, key.Token); !opens {
		t.Error("the key has ended")
	}
	if got := g.names(t, "?kind=login"); len(got) != 0 {
		t.Errorf("listed: %v, want none", got)
	}
	if got := g.names(t, "?kind=login&include=revoked"); len(got) != 2 {
		t.Errorf("listed with revoked ones: %v, want 2", got)
	}
	next := g.Issue(t, `{"kind":"login"}`)
	if _, opens := g.Opens(t, next.Token); !opens {
		t.Error("a login token that was made afterwards does not open anything")
	}
	g.Refused(t, http.StatusBadRequest, "invalid_account", "DELETE", "/tollgate/accounts/a!/logins", "")
}
