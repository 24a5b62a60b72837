package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// keyStories are the states of the pages about keys and plans.
func keyStories() map[string]story {
	return map[string]story{
		"keys":         keysStory("starter", storyKeys(6), ""),
		"keys-empty":   keysStory("starter", nil, ""),
		"keys-free":    keysStory("free", nil, ""),
		"keys-revoked": keysStory("starter", storyKeys(3), notices["revoked"]),
		"keys-hundred": keysStory("starter", storyKeys(100), ""),
		"keys-search":  findStory(keyQuery{Search: "shop", Order: "expiry"}),
		"keys-none":    findStory(keyQuery{Search: "nothing", Order: newest}),
		"keys-sorted":  findStory(keyQuery{Order: "-used", Revoked: true}),
		"keys-rotated": keysStory("starter", rotatedKeys(), ""),
		"keys-limits":  keysStory("starter", manyLimitedKeys(100), ""),
		"key":          usedKeyStory(storyKeys(1)[0], 40),
		"key-rotated":  usedKeyStory(rotatedKeys()[0], 40, newerKey()),
		"key-unused":   usedKeyStory(storyKeys(1)[0], 0),
		"key-refused":  usedKeyStory(storyKeys(2)[1], 1),
		"key-expired":  usedKeyStory(storyKeys(4)[3], 0),
		"key-revoked":  usedKeyStory(rotatedKeys()[1], 3, rotatedKeys()[2]),
		"key-rotate":   keyStory("rotate", "starter", ""),
		"rotate-twice": keyStory("rotate", "starter", rotateProblem(refusedAs("name_taken")), newerKey()),
		"rotate-free":  keyStory("rotate", "free", rotateProblem(refusedAs("plan_required"))),
		"rotate-full":  keyStory("rotate", "starter", rotateProblem(refusedAs("too_many_keys"))),
		"key-revoke":   keyStory("revoke", "starter", ""),
		"key-limits":   limitedKeyStory(900),
		"key-used-up":  limitedKeyStory(1000),
		"key-edit":     editStory(storyKeys(1)[0]),
		"edit-limits":  editStory(storyKeys(3)[2]),
		"edit-full":    editStory(fullKey()),
		"new":          newKeyStory("starter", keyForm{}),
		"new-free":     newKeyStory("free", keyForm{}),
		"new-some":     newKeyStory("starter", keyForm{checked: []string{"rates", "history"}}),
		"new-date": newKeyStory("starter", keyForm{Name: "ci", Life: untilDate, Until: "2026-11-01", Field: "expires",
			Problem: "The date is in the past. Enter today or a later date."}),
		"new-mistake": newKeyStory("starter", keyForm{Name: "ci", Field: "name", Problem: "You have a key with this name. Choose another name, or rotate or revoke that key.", checked: []string{"convert"}}),
		"new-limit": newKeyStory("starter", keyForm{Name: "ci", Field: "limits", Problem: "A limit is a whole number from 0 to 10^15, such as 1000.",
			Limits: []limitRow{{Endpoint: "convert", Limit: "100", Period: perDay}, {Endpoint: api.All, Limit: "many", Period: perMonth, Wrong: true}}}),
		"new-endpoint": newKeyStory("starter", keyForm{Name: "ci", Field: "limits", Problem: "Unknown endpoint \"quotes\".",
			Limits: []limitRow{{Endpoint: "rates", Limit: "100", Period: perDay}}}),
		"new-address": newKeyStory("starter", keyForm{Name: "ci", Addresses: "203.0.113.0/24\nexample.com", Field: "addresses",
			Problem: "\"example.com\" is neither a network such as 203.0.113.0/24 nor an IP address without a zone."}),
		"token-limits": func(s *site, w http.ResponseWriter) error {
			return s.showToken(w, storyVisit("starter"), api.IssuedKey{Key: storyKeys(3)[2], Token: "tgk_" + strings.Repeat("EXAMPLE", 7)}, false)
		},
		"token": func(s *site, w http.ResponseWriter) error {
			return s.showToken(w, storyVisit("starter"), api.IssuedKey{Key: storyKeys(2)[1], Token: "tgk_" + strings.Repeat("EXAMPLE", 7)}, false)
		},
		"plan":      func(s *site, w http.ResponseWriter) error { return s.plan(w, nil, storyVisit("starter")) },
		"plan-free": func(s *site, w http.ResponseWriter) error { return s.plan(w, nil, storyVisit("free")) },
	}
}

func keysStory(plan string, keys []api.Key, notice string) story {
	return func(s *site, w http.ResponseWriter) error {
		v := storyVisit(plan)
		view := keysView{keyQuery: keyQuery{Order: newest}}
		view.fill(v, fromGate(keys), "1")
		p := v.page("API keys", "settings", view)
		p.Notice = notice
		return s.views.show(w, http.StatusOK, "keys", p)
	}
}

// fromGate returns keys in the order of the gate, oldest first.
func fromGate(keys []api.Key) []api.Key {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, func(a, b api.Key) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return keys
}

// manyLimitedKeys returns n keys with limits and addresses.
func manyLimitedKeys(n int) []api.Key {
	keys := slices.Repeat(storyKeys(3)[2:], n)
	for i := range keys {
		keys[i].ID, keys[i].Name = fmt.Sprintf("key_%022d", i), fmt.Sprint("report ", i)
	}
	return keys
}

// findStory is the list of some of many keys.
func findStory(q keyQuery) story {
	return func(s *site, w http.ResponseWriter) error {
		v := storyVisit("starter")
		view := keysView{keyQuery: q}
		view.fill(v, fromGate(storyKeys(40)), "1")
		return s.views.show(w, http.StatusOK, "keys", v.page("API keys", "settings", view))
	}
}

// usedKeyStory is the page of a key with calls on each day; others of the
// account come after it.
func usedKeyStory(key api.Key, calls int64, others ...api.Key) story {
	return func(s *site, w http.ResponseWriter) error {
		v := storyVisit("starter")
		view, err := v.keyView(append([]api.Key{key}, others...), key.ID)
		if err != nil {
			return err
		}
		if err := s.fillKey(&view, v, storyKeyCalls(key, calls), storyKeyDays(calls)); err != nil {
			return err
		}
		return s.showKey(w, http.StatusOK, v, "key", view)
	}
}

// storyKeyDays are the days of a key. A key with one call is refused most of
// the time.
func storyKeyDays(calls int64) []api.KeyDay {
	days := make([]api.KeyDay, api.MaxKeyUsageDays)
	for i := range days {
		days[i] = api.KeyDay{Day: storyTime.AddDate(0, 0, i-len(days)+1).Format(time.DateOnly), Calls: calls * int64(i*7%23)}
		if calls == 1 {
			days[i].Refused = int64(i * 11 % 37)
		} else if i%9 == 8 {
			days[i].Refused = calls
		}
	}
	return days
}

// storyKeyCalls is the usage of an account whose calls are all with one key.
func storyKeyCalls(key api.Key, calls int64) api.UsageDocument {
	if calls == 0 {
		return api.UsageDocument{}
	}
	d := storyUsage(nil, 14)
	for i := range d.RecentCalls {
		call := &d.RecentCalls[i]
		call.Key, call.KeyID = key.Name, key.ID
		if call.Status == http.StatusTooManyRequests {
			call.Code = "quota_exceeded"
		} else if calls == 1 {
			call.Status, call.Code, call.DurationMS = http.StatusForbidden, "insufficient_scope", 0
		}
	}
	return d
}

// rotatedKeys are three keys of one name: the first was rotated to the second
// and still works, and the second was rotated to the third at once.
func rotatedKeys() []api.Key {
	keys := make([]api.Key, 3)
	for i := range keys {
		keys[i] = storyKeys(1)[0]
		keys[i].ID, keys[i].Hint = fmt.Sprint("key_rotated", i), fmt.Sprintf("tgk_…%04d", i)
		keys[i].CreatedAt = storyTime.Add(time.Duration(i-20) * day)
	}
	keys[0].ExpiresAt = new(storyTime.Add(5 * time.Hour))
	keys[1].RevokedAt = &keys[2].CreatedAt
	return keys
}

// keyStory is a page about a key; some others of the account come after
// it.
func keyStory(name, plan, problem string, others ...api.Key) story {
	return func(s *site, w http.ResponseWriter) error {
		v := storyVisit(plan)
		key := storyKeys(1)[0]
		view, err := v.keyView(append([]api.Key{key}, others...), key.ID)
		if err != nil {
			return err
		}
		view.Problem = problem
		return s.showKey(w, http.StatusOK, v, name, view)
	}
}

// limitedKeyStory is the page of a key with limits and addresses.
func limitedKeyStory(used int64) story {
	return func(s *site, w http.ResponseWriter) error {
		v := storyVisit("starter")
		keys := storyKeys(3)
		view, err := v.keyView(keys, keys[2].ID)
		if err != nil {
			return err
		}
		if err := s.fillKey(&view, v, keyUsage(3, used), storyKeyDays(used)); err != nil {
			return err
		}
		return s.showKey(w, http.StatusOK, v, "key", view)
	}
}

// editStory is the form that changes a key.
func editStory(key api.Key) story {
	return func(s *site, w http.ResponseWriter) error {
		v := storyVisit("starter")
		return s.showKeyForm(w, http.StatusOK, v, v.formOf(key))
	}
}

// newerKey is what the key of the stories was rotated to.
func newerKey() api.Key {
	key := storyKeys(1)[0]
	key.ID, key.Hint, key.CreatedAt = "key_newer", "tgk_…0815", key.CreatedAt.Add(time.Minute)
	return key
}

func newKeyStory(plan string, form keyForm) story {
	return func(s *site, w http.ResponseWriter) error {
		form.Life, form.All = cmp.Or(form.Life, defaultLife), form.checked == nil
		form.Limits = slices.Clone(form.Limits)
		return s.showKeyForm(w, http.StatusOK, storyVisit(plan), form)
	}
}

func refusedAs(code string) *apierror.Error {
	return apierror.New(http.StatusConflict, code, "")
}
