package admin_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

func TestRotateKey(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, body string
		overlap    time.Duration // how long the old key must go on
	}{
		{"at once, without a body", ``, 0},
		{"at once, with an empty body", `{}`, 0},
		{"with an overlap in days", `{"overlap":"2d"}`, 48 * time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGate(t)
			g.Account(t, "acc_1", "starter")
			old := g.Issue(t, `{"name":"ci","abilities":["convert"]}`)
			g.Advance(time.Minute)
			w := g.Call(t, "POST", keysPath+"/"+old.ID+"/rotate", test.body)
			var next api.IssuedKey
			if err := json.Unmarshal(w.Body.Bytes(), &next); err != nil || w.Code != http.StatusCreated {
				t.Fatalf("got %d %s", w.Code, w.Body)
			}
			want := old.Key
			want.ID, want.Root, want.Hint, want.CreatedAt = next.ID, old.ID, next.Hint, old.CreatedAt.Add(time.Minute)
			if diff := cmp.Diff(want, next.Key); diff != "" {
				t.Errorf("the new key (-want +got):\n%s", diff)
			}
			if next.ID == old.ID || next.Token == old.Token {
				t.Error("the new key is the old one")
			}
			if _, ok := g.Opens(t, next.Token); !ok {
				t.Error("the new token opens nothing")
			}
			if test.overlap > 0 {
				g.Advance(test.overlap - time.Millisecond)
				if _, ok := g.Opens(t, old.Token); !ok {
					t.Error("the old token ended before the overlap")
				}
				g.Advance(time.Millisecond)
			}
			if _, ok := g.Opens(t, old.Token); ok {
				t.Error("the old token opens after the overlap")
			}
		})
	}
}

func TestRotateRefusals(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Account(t, "acc_1", "starter")
	key := g.Issue(t, `{"name":"ci","ttl":"1h"}`)
	path := keysPath + "/" + key.ID + "/rotate"
	for _, body := range []string{`{"overlap":"-1s"}`, `{"overlap":"soon"}`, `{"overlap":1}`, `{"overlap":""}`, `{"overlap":"36501d"}`, `{"overlap":"d"}`, `{"name":"x"}`, `[]`} {
		g.Refused(t, http.StatusBadRequest, "invalid_request", "POST", path, body)
	}
	g.Refused(t, http.StatusNotFound, "not_found", "POST", keysPath+"/key_unknown/rotate", "")
	if _, ok := g.Opens(t, key.Token); !ok {
		t.Error("a refused rotation ended the key")
	}
	g.Advance(time.Hour)
	g.Refused(t, http.StatusNotFound, "not_found", "POST", path, "")
	if diff := cmp.Diff([]string{"ci"}, g.names(t, "")); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}
