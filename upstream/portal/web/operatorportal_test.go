package web_test

import (
	"net/http"
	"net/url"
	"testing"
)

// Threat: a link of the gate opens the operator's pages.
func TestPortalOpensNoOperatorPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, olga := w.operator()
	made, err := w.gate.Client.Portal(t.Context(), olga.ID)
	if err != nil {
		t.Fatal(err)
	}
	link, err := url.Parse(made.URL)
	if err != nil {
		t.Fatal(err)
	}
	visitor := w.person()
	if a := visitor.get(link.RequestURI()); a.status != http.StatusSeeOther {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	visitor.get("/settings/keys").has(t, http.StatusOK)
	visitor.get("/operator").has(t, http.StatusNotFound)
	visitor.post("/operator/try").has(t, http.StatusNotFound)
}
