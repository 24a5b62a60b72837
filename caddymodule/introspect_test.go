package caddymodule_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestIntrospection imports a key with the command, and asks about its token
// on the control listener. The admin endpoint has no introspection.
func TestIntrospection(t *testing.T) {
	const secret, text = "a third secret of at least 32 characters", "token-of-another-system"
	t.Setenv("TOLLGATE_TEST_INTROSPECTION", secret)
	c := newControlledCaddy(t)
	app := c.gateApp("starter")
	app["foreign_keys"], app["introspection_secret"] = true, "{env.TOLLGATE_TEST_INTROSPECTION}"
	if err := c.load(t, app); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "keys.jsonl")
	if err := os.WriteFile(file, []byte(`{"account":"acc_1","plan":"starter","token":"`+text+`"}`+"\n"+`{"account":"acc_1","token":"short"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	out, complaints, status := c.command(t, "key", "import", file)
	if want := `{"imported":1,"skipped":0,"errors":[{"line":2,"message":"the token has fewer than 20 characters"}]}` + "\n"; out != want || status != 1 || strings.Contains(complaints, "short") {
		t.Errorf("importing: got status %d, %s%s", status, out, complaints)
	}
	ask := func(socket, password string) (int, string) {
		t.Helper()
		transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(c.dir, socket))
		}}
		form := strings.NewReader(url.Values{"token": {text}}.Encode())
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/tollgate/introspect", form)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth("service", password)
		response, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	if status, body := ask("control.sock", secret); status != http.StatusOK || !strings.HasPrefix(body, `{"active":true,"scope":"convert","sub":"acc_1","client_id":"key_`) {
		t.Errorf("got %d: %s", status, body)
	}
	for _, other := range []string{controlSecret, ""} {
		if status, body := ask("control.sock", other); status != http.StatusUnauthorized {
			t.Errorf("another secret: got %d: %s", status, body)
		}
	}
	if status, body := ask("admin.sock", secret); status != http.StatusNotFound {
		t.Errorf("the admin endpoint: got %d: %s", status, body)
	}
	if _, err := c.client(t, secret).Plans(t.Context()); err == nil {
		t.Error("the introspection secret opens the control API")
	}
}
