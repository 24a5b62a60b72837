package examples_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/tools/npmtest"
)

// TestOtherLanguage runs the example of an API of another language in front of
// json-server, the program of Node.js that it names.
func TestOtherLanguage(t *testing.T) {
	const jsonServer = "json-server@0.17.4"
	if !strings.Contains(read(t, "other-language.Caddyfile"), "npx "+jsonServer+" ") {
		t.Errorf("the example does not name %s", jsonServer)
	}
	modules := npmtest.Install(t, jsonServer)
	books := filepath.Join(t.TempDir(), "books.json")
	if err := os.WriteFile(books, []byte(`{"books": [{"id": 1, "title": "Emma"}, {"id": 2, "title": "Ulysses"}], "authors": []}`), 0o600); err != nil {
		t.Fatal(err)
	}
	port := stack.FreePorts(t, 1)[0]
	service := "127.0.0.1:" + port
	program(t, service, exec.Command("node", filepath.Join(modules, ".bin", "json-server"), "--host", "127.0.0.1", "--port", port, books))
	site, gate := run(t, "other-language.Caddyfile", service)
	token := newKey(t, gate, "acc_1", "starter")

	key := []string{"Authorization", "Bearer " + token}
	for _, path := range []string{"/books", "/books/2", "/usage"} {
		wantStatus(t, 401, "GET", site+path, "")
	}
	if got := decode[[]book](t, wantStatus(t, 200, "GET", site+"/books", "", key...)); len(got) != 2 || got[0] != (book{1, "Emma"}) {
		t.Errorf("GET /books: got %v", got)
	}
	if got := decode[book](t, wantStatus(t, 200, "GET", site+"/books/2", "", key...)); got != (book{2, "Ulysses"}) {
		t.Errorf("GET /books/2: got %v", got)
	}
	wantStatus(t, 404, "GET", site+"/books/9", "", key...) // json-server's
	wantStatus(t, 200, "GET", site+"/books/1", "", "X-Api-Key", token)
	wantStatus(t, 400, "GET", site+"/books/1", "", append(key, "X-Api-Key", token)...)
	post := append(key, "Content-Type", "application/json", "X-HTTP-Method-Override", "DELETE")
	if got := decode[book](t, wantStatus(t, 201, "POST", site+"/books", `{"title": "Walden"}`, post...)); got != (book{3, "Walden"}) {
		t.Errorf("POST /books: got %v", got)
	}
	wantStatus(t, 404, "GET", site+"/db", "", key...)
	wantStatus(t, 404, "GET", site+"/authors", "", key...)
	wantStatus(t, 404, "GET", site+"/", "", key...)
	wantStatus(t, 405, "DELETE", site+"/books/1", "", key...)

	for endpoint, want := range map[string]int64{"list": 1, "book": 3, "add": 1} {
		if got := used(t, gate, "acc_1", endpoint); got != want {
			t.Errorf("%s has %d calls, want %d", endpoint, got, want)
		}
	}
	exhaust(t, gate, "acc_1", "add", 1)
	wantStatus(t, 429, "POST", site+"/books", `{"title": "Persuasion"}`, post...)
	if got := decode[[]book](t, wantStatus(t, 200, "GET", site+"/books", "", key...)); len(got) != 3 {
		t.Errorf("GET /books after a refused POST: got %v", got)
	}
}

// book is an element of what json-server serves.
type book struct {
	ID    int
	Title string
}

// decode decodes a JSON document.
func decode[T any](t *testing.T, text string) (value T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Errorf("decoding %.200q: %v", text, err)
	}
	return value
}
