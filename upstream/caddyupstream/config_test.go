package caddyupstream_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/upstream/caddyupstream"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/database"
)

// full has every option.
const full = `{
	admin off
	auto_https off
	persist_config off
	tollgate {
		store badger DATA/gate
		timezone Europe/Berlin
		secret 0123456789abcdef0123456789abcdef
		guard /api/
		plan trial
	}
}
http://:0 {
	bind 127.0.0.1
	tollgate
	tollgate_upstream {
		address https://rates.example
		data DATA
		database {env.TOLLGATE_TEST_NOT_SET}
		signup trial
		name "Weather & More"
		logo ../portal/web/static/icon.svg
		contact help@weather.example
		rates none
	}
}
`

const fullJSON = `{"admin":{"disabled":true,"config":{"persist":false}},"apps":{
	"tollgate":{"store":{"module":"badger","directory":"DATA/gate"},"timezone":"Europe/Berlin","secret":"0123456789abcdef0123456789abcdef","guard":["/api/"],"plans":[{"name":"trial"}]},
	"http":{"servers":{"srv0":{"listen":["127.0.0.1:0"],"automatic_https":{"disable":true},"routes":[{"handle":[
		{"handler":"tollgate"},
		{"handler":"tollgate_upstream","address":"https://rates.example","data":"DATA","database":"{env.TOLLGATE_TEST_NOT_SET}",
			"signup":"trial","name":"Weather & More","logo":"../portal/web/static/icon.svg","contact":"help@weather.example","rates":"none"}]}]}}}}}`

// in puts the data directory into a configuration.
func in(data, text string) string { return strings.ReplaceAll(text, "DATA", data) }

// TestMistakes: an invalid value is found when the configuration is
// validated. The error names the option.
func TestMistakes(t *testing.T) {
	t.Setenv("TOLLGATE_TEST_EMPTY", "")
	missing := "{file." + filepath.Join(t.TempDir(), "missing") + "}"
	for name, c := range map[string]struct{ old, new, want string }{
		"unknown field":         {`"signup":"trial"`, `"sign_up":"trial"`, "sign_up"},
		"signup":                {`"signup":"trial"`, `"signup":"false"`, `invalid signup "false": want off, on or the name of a plan`},
		"address":               {`https://rates.example`, `ftp://rates.example`, `invalid address "ftp://rates.example"`},
		"logo not there":        {`../portal/web/static/icon.svg`, `DATA/missing.svg`, "reading logo: open "},
		"rates":                 {`"rates":"none"`, `"rates":"ftp://u:hunter2@x"`, "invalid rates: want an HTTP or HTTPS URL, embedded or none"},
		"file not there":        {`{env.TOLLGATE_TEST_NOT_SET}`, missing, "database: {file."},
		"password not there":    {`{env.TOLLGATE_TEST_NOT_SET}`, "postgres://u:" + missing + "@127.0.0.1:1/x", "database: {file."},
		"password empty":        {`{env.TOLLGATE_TEST_NOT_SET}`, "postgres://u:{env.TOLLGATE_TEST_EMPTY}@127.0.0.1:1/x", "database: {env.TOLLGATE_TEST_EMPTY} has no value"},
		"directory, empty part": {`"data":"DATA"`, `"data":"{env.TOLLGATE_TEST_NOT_SET}/data"`, "data: {env.TOLLGATE_TEST_NOT_SET} has no value"},
		"unknown placeholder":   {`"data":"DATA"`, `"data":"{http.request.host}"`, "data: unknown placeholder {http.request.host}"},
	} {
		config := strings.Replace(fullJSON, c.old, c.new, 1)
		if config == fullJSON {
			t.Fatalf("%s: nothing to replace", name)
		}
		err := validate([]byte(in(t.TempDir(), config)))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestHandlerWithoutOption is a mistake: there is no gate to ask.
func TestHandlerWithoutOption(t *testing.T) {
	err := load("{\n\tadmin off\n}\nhttp://:0 {\n\tbind 127.0.0.1\n\ttollgate_upstream\n}\n")
	if err == nil || !strings.Contains(err.Error(), "the global option tollgate is missing") {
		t.Errorf("got %v", err)
	}
}

// TestPlaceholders are resolved when the configuration is loaded. An option
// that is one empty variable has its default.
func TestPlaceholders(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	t.Setenv("TOLLGATE_TEST_DATA", data)
	t.Setenv("TOLLGATE_TEST_EMPTY", "")
	r := start(t, setup{
		data:    "{env.TOLLGATE_TEST_DATA}",
		options: "database {env.TOLLGATE_TEST_EMPTY}\nsignup {env.TOLLGATE_TEST_NOT_SET}\naddress {env.TOLLGATE_TEST_EMPTY}",
		gate:    "timezone Asia/Kathmandu",
	})
	if body := r.ask(t, "GET", "/", "").body; !strings.Contains(body, "Asia/Kathmandu") {
		t.Errorf("the page has not the gate's time zone: %s", body)
	}
	if _, err := os.Stat(filepath.Join(data, "upstream", "accounts.db")); err != nil {
		t.Error(err)
	}
}

// TestValidateWhileInUse opens nothing, so it works beside the processes
// that use the store and the database, and creates no file.
func TestValidateWhileInUse(t *testing.T) {
	data := t.TempDir()
	defer controltest.Lock(t, filepath.Join(data, "gate"))()
	accounts, err := database.OpenFile(t.Context(), filepath.Join(data, "upstream"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := accounts.Close(); err != nil {
			t.Error(err)
		}
	}()
	before := openFiles(t, data)
	fresh := filepath.Join(t.TempDir(), "new")
	for _, validated := range []string{data, fresh} {
		adapted, err := adapt(in(validated, full))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(adapted); err != nil {
			t.Errorf("validating: %v", err)
		}
	}
	if after := openFiles(t, data); !slices.Equal(after, before) || len(before) == 0 || len(caddyupstream.Apps()) != 0 {
		t.Errorf("open before: %v, after: %v", before, after)
	}
	if _, err := os.Stat(fresh); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("validating created the directory: %v", err)
	}
}
