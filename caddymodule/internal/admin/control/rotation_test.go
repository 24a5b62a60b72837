package control_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

func TestRotateKey(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, ttl, body string
		overlap         time.Duration // how long the old key must go on
	}{
		{"at once, without a body", "", ``, 0},
		{"at once, with an empty body", "", `{}`, 0},
		{"at once, in so many words", "", `{"overlap":"0s"}`, 0},
		{"with an overlap", "", `{"overlap":"24h"}`, 24 * time.Hour},
		{"with an overlap in days", "", `{"overlap":"2d"}`, 48 * time.Hour},
		{"with a shorter life than the overlap", "1h", `{"overlap":"24h"}`, time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGate(t)
			g.account(t, "acc_1", "starter")
			ttl := ""
			if test.ttl != "" {
				ttl = fmt.Sprintf(`,"ttl":%q`, test.ttl)
			}
			old := g.issue(t, `{"name":"ci","abilities":["convert"]`+ttl+`}`)
			g.Advance(time.Minute)
			w := g.call(t, "POST", keysPath+"/"+old.ID+"/rotate", test.body)
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
			if _, ok := g.opens(t, next.Token); !ok {
				t.Error("the new token opens nothing")
			}
			if test.overlap > 0 {
				g.Advance(min(test.overlap, test.overlap-time.Minute) - time.Millisecond)
				if _, ok := g.opens(t, old.Token); !ok {
					t.Error("the old token ended before the overlap")
				}
				g.Advance(time.Minute + time.Millisecond)
			}
			if _, ok := g.opens(t, old.Token); ok {
				t.Error("the old token opens after the overlap")
			}
		})
	}
}

// A replaced key must not get its life back while the successor is live:
// otherwise two live keys with one name exist for ever.
func TestReplacedKeyKeepsItsEnd(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.account(t, "acc_1", "starter")
	key := g.issue(t, `{"name":"ci"}`)
	path := keysPath + "/" + key.ID
	g.Advance(time.Minute)
	next := g.must(t, http.StatusCreated, "POST", path+"/rotate", `{"overlap":"2h"}`)
	before := g.key(t, key.ID)
	for _, body := range []string{`{"expires_at":null}`, `{"ttl":"3h"}`, `{"expires_at":"2127-01-01T00:00:00Z"}`, `{"name":"new","addresses":["10.0.0.1"],"ttl":"3h"}`} {
		g.refused(t, http.StatusConflict, "key_replaced", "PATCH", path, body)
		if diff := cmp.Diff(before, g.key(t, key.ID)); diff != "" {
			t.Errorf("%s: the refused call changed the key (-want +got):\n%s", body, diff)
		}
	}
	g.must(t, http.StatusOK, "PATCH", keysPath+"/"+next["id"].(string), `{"ttl":"30d"}`)
	g.must(t, http.StatusOK, "PATCH", path, `{"addresses":["10.0.0.1"]}`)
	g.must(t, http.StatusOK, "PATCH", path, `{"ttl":"1h"}`)
	g.refused(t, http.StatusConflict, "key_replaced", "PATCH", path, `{"ttl":"2h"}`)
	g.Advance(time.Hour)
	if _, ok := g.opens(t, key.Token); ok {
		t.Error("the old token opens after its end")
	}
}

func TestRotateRefusals(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.account(t, "acc_1", "starter")
	key := g.issue(t, `{"name":"ci","ttl":"1h"}`)
	path := keysPath + "/" + key.ID + "/rotate"
	for _, body := range []string{`{"overlap":"-1s"}`, `{"overlap":"soon"}`, `{"overlap":1}`, `{"overlap":""}`, `{"overlap":"36501d"}`, `{"overlap":"d"}`, `{"name":"x"}`, `[]`} {
		g.refused(t, http.StatusBadRequest, "invalid_request", "POST", path, body)
	}
	g.refused(t, http.StatusNotFound, "not_found", "POST", keysPath+"/key_unknown/rotate", "")
	if _, ok := g.opens(t, key.Token); !ok {
		t.Error("a refused rotation ended the key")
	}
	g.Advance(time.Hour)
	g.refused(t, http.StatusNotFound, "not_found", "POST", path, "")
	if diff := cmp.Diff([]string{"ci"}, g.names(t, "")); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}
