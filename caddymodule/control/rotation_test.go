package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/controltest"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
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
			want.ID, want.Hint, want.CreatedAt = next.ID, next.Hint, old.CreatedAt.Add(time.Minute)
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

// rotations is a store that notes until when old keys are to go on.
type rotations struct {
	control.Store
	ends *[]time.Time
}

func (r rotations) RotateKey(ctx context.Context, account, id string, next store.Key, hash token.Hash, oldEnds time.Time) error {
	*r.ends = append(*r.ends, oldEnds)
	return r.Store.RotateKey(ctx, account, id, next, hash, oldEnds)
}

// An overlap must not lengthen the life of the old key, whatever the
// store makes of what it is told.
func TestOverlapDoesNotOutliveTheKey(t *testing.T) {
	t.Parallel()
	var ends []time.Time
	g := newGateOver(t, func(s control.Store) control.Store { return rotations{s, &ends} })
	g.account(t, "acc_1", "starter")
	key := g.issue(t, `{"name":"ci","ttl":"1h"}`)
	g.must(t, http.StatusCreated, "POST", keysPath+"/"+key.ID+"/rotate", `{"overlap":"24h"}`)
	if diff := cmp.Diff([]time.Time{controltest.Start.Add(time.Hour)}, ends); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestConcurrentRotations checks that a key has one successor.
func TestConcurrentRotations(t *testing.T) {
	t.Parallel()
	g := newGateOver(t, func(s control.Store) control.Store { return slowReads{s} })
	g.account(t, "acc_1", "starter")
	for _, body := range []string{"", `{"overlap":"24h"}`} {
		for i := range 25 {
			key := g.issue(t, fmt.Sprintf(`{"name":"ci-%d-%d"}`, len(body), i))
			g.Advance(time.Second)
			rotate := [3]string{"POST", keysPath + "/" + key.ID + "/rotate", body}
			got := g.atOnce(t, rotate, rotate)
			slices.Sort(got[:])
			if got[0] != http.StatusCreated || got[1] != http.StatusNotFound && got[1] != http.StatusConflict {
				t.Fatalf("with %q: got %v, want one success", body, got)
			}
		}
	}
}

// TestRotationDuringAChangeOfPlan checks that a rotation and a change of
// the plan do not undo each other.
func TestRotationDuringAChangeOfPlan(t *testing.T) {
	t.Parallel()
	g := newGateOver(t, func(s control.Store) control.Store { return slowReads{s} })
	for range 25 {
		g.account(t, "acc_1", "starter")
		key := g.issue(t, `{"name":"ci"}`)
		got := g.atOnce(t, [3]string{"POST", keysPath + "/" + key.ID + "/rotate", ""}, [3]string{"PUT", "/tollgate/accounts/acc_1", `{"plan":"free"}`})
		if got[1] != http.StatusOK || got[0] != http.StatusCreated && got[0] != http.StatusForbidden {
			t.Fatalf("got %v", got)
		}
		if plan := g.must(t, http.StatusOK, "GET", "/tollgate/accounts/acc_1", "")["plan"]; plan != "free" {
			t.Fatalf("the account is on plan %v", plan)
		}
		if _, ok := g.opens(t, key.Token); ok == (got[0] == http.StatusCreated) {
			t.Fatalf("rotation: status %d, the old token opens: %v", got[0], ok)
		}
		g.must(t, http.StatusNoContent, "DELETE", "/tollgate/accounts/acc_1", "")
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

// The login token of a session can be replaced like a key.
func TestRotateLoginToken(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.account(t, "acc_1", "starter")
	old := g.issue(t, `{"kind":"login"}`)
	next := g.must(t, http.StatusCreated, "POST", keysPath+"/"+old.ID+"/rotate", "")
	if next["kind"] != "login" || !strings.HasPrefix(next["token"].(string), "tgl_") {
		t.Errorf("got %v", next)
	}
}
