package examples_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestKong runs the example of a migration from Kong.
func TestKong(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := r.Method + " " + r.URL.Path + " " + r.Header.Get("X-Consumer-Username") + r.Header.Get("apikey") + r.Header.Get("X-Consumer-Custom-ID") + r.Header.Get("X_Consumer_Username")
		if _, err := w.Write([]byte(text)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(service.Close)
	site, gate := run(t, "kong.Caddyfile", service.URL)
	token := newKey(t, gate, "acme", "starter")
	claim := []string{"X-Consumer-Username", "other", "X-Consumer-Custom-ID", "other", "X_Consumer_Username", "other"}
	for _, fields := range [][]string{{"apikey", token}, {"Authorization", "Bearer " + token}} {
		if got := wantStatus(t, 200, "GET", site+"/shop/orders", "", append(fields, claim...)...); got != "GET /orders acme" {
			t.Errorf("with %q the service got %q", fields, got)
		}
	}
	key := []string{"apikey", token}
	if got := wantStatus(t, 200, "POST", site+"/shop/orders", "{}", key...); got != "POST /orders acme" {
		t.Errorf("the service got %q", got)
	}
	wantStatus(t, 401, "GET", site+"/shop/orders", "", claim...)
	wantStatus(t, 400, "GET", site+"/shop/orders?apikey="+token, "")
	wantStatus(t, 401, "GET", site+"/shop/orders", "", "apikey", "a-key-that-nobody-imported")
	wantStatus(t, 403, "GET", site+"/shop/export", "", key...)
	wantStatus(t, 404, "GET", site+"/orders", "", key...)
	exhaust(t, gate, "acme", "order-create", 1)
	wantStatus(t, 429, "POST", site+"/shop/orders", "{}", key...)
}
