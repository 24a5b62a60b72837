package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// soon is how long before its expiry a key is marked.
const soon = 7 * day

// keyRow is a key in the list or on its own page.
type keyRow struct {
	ID, Name, Hint string
	Abilities      []string
	// All is true if the key may call all endpoints of the plan. Denied are
	// the endpoints that it may not call.
	All    bool
	Denied []api.Endpoint
	// Limits are the key's own, in words.
	Limits, Addresses []string
	Created           moment
	LastUsed          *moment
	// From is the address of the last use, or empty.
	From string
	// Ends is when the key expires, expired or was revoked. End is the word
	// for it: Expiry, Expired or Revoked.
	Ends  *moment
	End   string
	State state
	// Live is true if the key can be rotated and revoked.
	Live bool
	// Declared is true if only the operator's configuration file changes the key.
	Declared bool
	// Successor is the key that replaced this one, or nil.
	Successor *successor
}

// Ended tells whether the key has expired or was revoked.
func (k keyRow) Ended() bool { return k.End != "Expiry" }

// ShortLimits and ShortAddresses are what a list has room for.
func (k keyRow) ShortLimits() []string    { return shorten(k.Limits) }
func (k keyRow) ShortAddresses() []string { return shorten(k.Addresses) }

// shorten shortens a list of more than 3 texts.
func shorten(texts []string) []string {
	if len(texts) <= 3 {
		return texts
	}
	return []string{texts[0], texts[1], "and " + strconv.Itoa(len(texts)-2) + " more"}
}

// state is the state of a key. Kind is ok, near or over, and selects the
// icon.
type state struct{ Kind, Text string }

// keyList gets the account's keys. An account that is unknown to the gate has
// none.
func (s *site) keyList(ctx context.Context, v *visit, filter client.KeyFilter) ([]api.Key, error) {
	ctx, cancel := account.OfCall(ctx)
	defer cancel()
	keys, err := s.Gate.Keys(ctx, v.who.ID, filter)
	if errors.Is(err, api.ErrNotFound) {
		err = nil
	}
	return append([]api.Key{}, keys...), err
}

func (v *visit) keyRow(key api.Key) keyRow {
	row := keyRow{
		ID: key.ID, Name: key.Name, Hint: key.Hint, Abilities: key.Abilities, Addresses: key.Addresses,
		Declared: key.Declared, Created: v.clock.moment(key.CreatedAt),
	}
	allowed, denied := v.endpointsOf(key.Abilities)
	row.All, row.Denied = len(allowed) > 0 && len(denied) == 0, denied
	for _, l := range key.Limits {
		row.Limits = append(row.Limits, covers(l.Endpoint)+": "+limitText(l.Limit, l.Period))
	}
	if key.LastUsedAt != nil {
		row.LastUsed = new(v.clock.moment(*key.LastUsedAt))
		if key.LastUsedFrom != nil {
			row.From = *key.LastUsedFrom
		}
	}
	row.setEnd(v.clock, key)
	return row
}

// setEnd sets what a row says about the end of its key. An end in the past is
// a date, because people compare it with the dates of other keys.
func (k *keyRow) setEnd(c clock, key api.Key) {
	k.State, k.End, k.Live = state{"ok", "Active"}, "Expiry", true
	ends := end(key)
	if ends == nil {
		return
	}
	k.Ends = new(c.moment(*ends))
	switch left := ends.Sub(c.now); {
	case key.RevokedAt != nil:
		k.State, k.End, k.Live = state{"over", "Revoked"}, "Revoked", false
	case left <= 0:
		k.State, k.End, k.Live = state{"over", "Expired"}, "Expired", false
	case left < soon:
		k.State = state{"near", "Expires soon"}
	}
	if !k.Live {
		k.Ends.Text = ends.In(c.zone).Format(shortDate)
	}
}

// keyView is the page of one key, and the pages that rotate and revoke it.
type keyView struct {
	keyRow
	Overlaps []choice
	// Overlap is the chosen one.
	Overlap string
	// Used is what was used of the key's own limits.
	Used   meters
	Calls  []callRow
	Sample *sample
	// Offer is set if the plan has no access: then a key cannot be rotated.
	Offer   *offer
	Problem string
}

// findKey returns the key with the id in the path. It searches the keys of
// this account only.
func (s *site) findKey(r *http.Request, v *visit) (keyView, error) {
	keys, err := s.keyList(r.Context(), v, client.KeyFilter{Revoked: true})
	if err != nil {
		return keyView{}, err
	}
	return v.keyView(keys, r.PathValue("id"))
}

// liveKey returns the live key with the id in the path.
func (s *site) liveKey(r *http.Request, v *visit) (api.Key, error) {
	keys, err := s.keyList(r.Context(), v, client.KeyFilter{})
	if err != nil {
		return api.Key{}, err
	}
	for _, key := range keys {
		if key.ID == r.PathValue("id") && v.keyRow(key).Live {
			return key, nil
		}
	}
	return api.Key{}, errNotFound
}

func (v *visit) keyView(keys []api.Key, id string) (keyView, error) {
	i := slices.IndexFunc(keys, func(k api.Key) bool { return k.ID == id })
	if i < 0 {
		return keyView{}, errNotFound
	}
	view := keyView{keyRow: v.keyRow(keys[i]), Overlaps: overlaps, Overlap: defaultOverlap, Offer: v.offer()}
	view.Successor = successors(keys, v.clock.now)[id]
	return view, nil
}

func (s *site) key(w http.ResponseWriter, r *http.Request, v *visit) error {
	view, err := s.findKey(r, v)
	if err != nil {
		return err
	}
	document, err := s.usageOf(r.Context(), v, 0)
	if err != nil {
		return err
	}
	s.fillKey(&view, v, document)
	return s.views.show(w, http.StatusOK, "key", v.page("Key "+view.Name, "settings", view))
}

// fillKey adds the usage of the key and a sample to its page.
func (s *site) fillKey(view *keyView, v *visit, document api.UsageDocument) {
	view.Calls = v.keyCalls(view.ID, document)
	if view.Live {
		view.Used = v.keyMeters(document, view.ID)
		view.Sample = s.sample(v, view.Abilities, "")
	}
}

// liveKeyForm returns the page that rotates or revokes a key.
func (s *site) liveKeyForm(name string) pageHandler {
	return func(w http.ResponseWriter, r *http.Request, v *visit) error {
		view, err := s.findKey(r, v)
		if err != nil {
			return err
		}
		if !view.Live {
			return errNotFound
		}
		if draft := s.takeDraftOf(v.who.ID, w, r); isChoice(overlaps, draft.Get("overlap")) {
			view.Overlap = draft.Get("overlap")
		}
		return s.showKey(w, http.StatusOK, v, name, view)
	}
}

func (s *site) showKey(w http.ResponseWriter, status int, v *visit, name string, view keyView) error {
	return s.views.show(w, status, name, v.page(strings.ToUpper(name[:1])+name[1:]+" "+view.Name, "settings", view))
}

// choice is one option of a field.
type choice struct{ Value, Text string }

const defaultOverlap = "24"

// overlaps are the times after which an old token ends.
var overlaps = []choice{{"0", "At once"}, {"1", "1 hour"}, {"24", "24 hours"}, {"168", "7 days"}}

func (s *site) rotateKey(w http.ResponseWriter, r *http.Request, v *visit) error {
	overlap := r.PostForm.Get("overlap")
	hours, err := strconv.Atoi(overlap)
	if err != nil || !isChoice(overlaps, overlap) {
		return errForm
	}
	view, err := s.findKey(r, v)
	if err != nil {
		return err
	}
	view.Overlap = overlap
	issued, err := untilDone(r.Context(), func(ctx context.Context) (api.IssuedKey, error) {
		return s.Gate.RotateKey(ctx, v.who.ID, view.ID, api.Rotation{Overlap: (time.Duration(hours) * time.Hour).String()})
	})
	if refused, ok := errors.AsType[*apierror.Error](err); ok {
		if view.Problem = rotateProblem(refused); view.Problem != "" {
			return s.showKey(w, http.StatusUnprocessableEntity, v, "rotate", view)
		}
	}
	if err != nil {
		return err
	}
	return s.showToken(w, v, issued, true)
}

// rotateProblem returns the text of the page for a refused rotation, empty
// for a refusal that the page cannot explain.
func rotateProblem(refused *apierror.Error) string {
	switch refused.Code {
	case "name_taken":
		return "This key was rotated already. It works until it expires, or until you revoke it."
	case "too_many_keys":
		return "You have 100 keys, and both tokens would be live. Choose “At once”, or revoke a key first."
	}
	_, problem := keyProblem(refused)
	return problem
}

// revokeKey looks for the key first: the gate is not asked about unknown
// keys.
func (s *site) revokeKey(w http.ResponseWriter, r *http.Request, v *visit) error {
	view, err := s.findKey(r, v)
	if err != nil {
		return err
	}
	_, err = untilDone(r.Context(), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.Gate.RevokeKey(ctx, v.who.ID, view.ID)
	})
	if err != nil {
		return err
	}
	redirect(w, keysPath, url.Values{"done": {"revoked"}})
	return nil
}

// tokenView is the page that shows a token once.
type tokenView struct {
	Key     keyRow
	Token   string
	Sample  *sample // nil if the key may call no GET endpoint
	Rotated bool
}

// showToken answers the request that created the token. It does not redirect
// to another page, since the token must not be stored.
func (s *site) showToken(w http.ResponseWriter, v *visit, issued api.IssuedKey, rotated bool) error {
	view := tokenView{v.keyRow(issued.Key), issued.Token, s.sample(v, issued.Abilities, issued.Token), rotated}
	return s.views.show(w, http.StatusOK, "token", v.page("Your new key", "settings", view))
}

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
	keys, err := s.keyList(r.Context(), v, client.KeyFilter{Revoked: view.Revoked})
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

// refuse keeps the first problem.
func (f *keyForm) refuse(field, problem string) {
	if f.Problem == "" {
		f.Field, f.Problem = field, problem
	}
}

// refused tells whether an error is a refusal of the gate that is about a
// field.
func (f *keyForm) refused(err error) bool {
	if refused, ok := errors.AsType[*apierror.Error](err); ok {
		f.Field, f.Problem = keyProblem(refused)
	}
	return f.Problem != ""
}

// keyProblem returns the field that the gate refuses and the text for it. The
// text is empty for a refusal that our forms cannot cause.
func keyProblem(refused *apierror.Error) (field, problem string) {
	switch refused.Code {
	case "invalid_name":
		return "name", "Give the key a name of 1 to 64 characters, all of them visible."
	case "name_taken":
		return "name", "You have a key with this name. Choose another name, or rotate or revoke that key."
	case "key_replaced":
		return "expires", "This key was rotated, and cannot expire later. Edit the key that replaces it."
	case "too_many_keys":
		return "name", "You have 100 keys, the maximum. Revoke a key first."
	case "not_entitled":
		return "abilities", "Your plan does not have all of these endpoints. Choose again."
	case "plan_required":
		return "name", "Your plan has no access to the API yet."
	case "invalid_address":
		return "addresses", "An address is not valid. Use addresses such as 203.0.113.7, and networks such as 203.0.113.0/24."
	case "unknown_endpoint":
		return "limits", "A limit is for an endpoint that the API no longer has. Choose “remove this limit”."
	}
	return "", ""
}
