package web

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// keysView is the list of keys, newest first.
type keysView struct {
	Keys []keyRow
	// Revoked is true if revoked keys are listed too.
	Revoked bool
	// Offer is set if the plan has no access.
	Offer *offer
}

func (s *site) keys(w http.ResponseWriter, r *http.Request, v *visit) error {
	view := keysView{Revoked: r.URL.Query().Has("revoked"), Offer: v.offer()}
	keys, err := s.keyList(r.Context(), v, view.Revoked)
	if err != nil {
		return err
	}
	view.fill(v, keys)
	return s.views.show(w, http.StatusOK, "keys", v.page("API keys", "settings", view))
}

// fill adds the keys, which are oldest first.
func (view *keysView) fill(v *visit, keys []api.Key) {
	next := successors(keys, v.clock.now)
	for _, key := range slices.Backward(keys) {
		row := v.keyRow(key)
		row.Successor = next[key.ID]
		view.Keys = append(view.Keys, row)
	}
}

// end returns when a key ends or ended, nil for never.
func end(key api.Key) *time.Time {
	if key.RevokedAt != nil {
		return key.RevokedAt
	}
	return key.ExpiresAt
}

// successor is a live key to which another was rotated.
type successor struct{ ID, Hint string }

// successors returns the successors of keys, by the ids of the keys: the newest
// key of the same rotations, if it is live. The keys are oldest first.
func successors(keys []api.Key, now time.Time) map[string]*successor {
	next := map[string]*successor{}
	newestOf := map[string]api.Key{} // by root
	for _, key := range slices.Backward(keys) {
		root := cmp.Or(key.Root, key.ID)
		last, found := newestOf[root]
		switch {
		case !found:
			newestOf[root] = key
		case last.RevokedAt == nil && (last.ExpiresAt == nil || last.ExpiresAt.After(now)):
			next[key.ID] = &successor{last.ID, last.Hint}
		}
	}
	return next
}
