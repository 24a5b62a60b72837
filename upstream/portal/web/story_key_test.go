package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

// keyStories are the states of the pages about keys and plans.
func keyStories() map[string]story {
	return map[string]story{
		"keys":         keysStory("starter", storyKeys(6), ""),
		"keys-empty":   keysStory("starter", nil, ""),
		"keys-free":    keysStory("free", nil, ""),
		"keys-hundred": keysStory("starter", storyKeys(100), ""),
		"keys-rotated": keysStory("starter", rotatedKeys(), ""),
		"key":          usedKeyStory(storyKeys(1)[0], 40),
		"key-rotated":  usedKeyStory(rotatedKeys()[0], 40, newerKey()),
		"key-expired":  usedKeyStory(storyKeys(4)[3], 0),
		"key-revoked":  usedKeyStory(rotatedKeys()[1], 3, rotatedKeys()[2]),
		"key-rotate":   keyStory("rotate", "starter", ""),
		"rotate-twice": keyStory("rotate", "starter", rotateProblem(refusedAs("name_taken")), newerKey()),
		"key-revoke":   keyStory("revoke", "starter", ""),
		"key-limits":   limitedKeyStory(900),
		"key-edit":     editStory(storyKeys(1)[0]),
		"edit-full":    editStory(fullKey()),
		"new":          newKeyStory("starter", keyForm{}),
		"new-free":     newKeyStory("free", keyForm{}),
		"new-date": newKeyStory("starter", keyForm{Name: "ci", Life: untilDate, Until: "2026-11-01", Field: "expires",
			Problem: "The date is in the past. Enter today or a later date."}),
		"new-limit": newKeyStory("starter", keyForm{Name: "ci", Field: "limits", Problem: "A limit is a whole number from 0 to 10^15, such as 1000.",
			Limits: []limitRow{{Endpoint: "convert", Limit: "100", Period: api.Day}, {Endpoint: api.All, Limit: "many", Period: api.Month, Wrong: true}}}),
		"new-endpoint": newKeyStory("starter", keyForm{Name: "ci", Field: "limits", Problem: "Unknown endpoint \"quotes\".",
			Limits: []limitRow{{Endpoint: "rates", Limit: "100", Period: api.Day}}}),
		"new-address": newKeyStory("starter", keyForm{Name: "ci", Addresses: "203.0.113.0/24\nexample.com", Field: "addresses",
			Problem: "example.com is neither an IP address nor a network such as 203.0.113.0/24."}),
		"token": func(s *site, w http.ResponseWriter) error {
			return s.showToken(w, storyVisit("starter"), api.IssuedKey{Key: storyKeys(2)[1], Token: "tgk_" + strings.Repeat("EXAMPLE", 7)}, false)
		},
		"plan": func(s *site, w http.ResponseWriter) error {
			return s.showPlan(w, storyVisit("starter"), storyOverrides())
		},
		"plan-kinds": func(s *site, w http.ResponseWriter) error {
			v := storyVisit("starter")
			v.plans.Endpoints[1].Unit = "tokens"
			v.plans.Plans = append(v.plans.Plans, api.Plan{Name: "prepaid", Limits: map[string]*int64{"convert": nil, "rates": nil}, MoreLimits: []api.PlanLimit{
				{Endpoint: "convert", Period: api.Total, Limit: 50_000}, {Endpoint: "convert", Period: "minute", Limit: 20_000}, {Endpoint: "convert", Period: api.Day, Limit: 60, Calls: true},
				{Endpoint: "rates", Period: api.Week, Limit: 1000, Soft: 5000}, {Endpoint: api.All, Period: api.Month, Limit: 90_000},
			}})
			return s.showPlan(w, v, nil)
		},
		"plan-free": func(s *site, w http.ResponseWriter) error { return s.showPlan(w, storyVisit("free"), nil) },
		"plan-contact": func(s *site, w http.ResponseWriter) error {
			shown, brand := *s, Brand{Name: "Currency API", Contact: Contact{"mailto:help@example.com", "help@example.com"}}
			shown.views, _ = newViews(brand, true)
			return shown.showPlan(w, storyVisit("free"), nil)
		},
	}
}

func keysStory(plan string, keys []api.Key, notice string) story {
	return func(s *site, w http.ResponseWriter) error {
		v := storyVisit(plan)
		view := keysView{Offer: v.offer()}
		view.fill(v, fromGate(keys))
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

// usedKeyStory is the page of a key with calls on each day; others of the
// account come after it.
func usedKeyStory(key api.Key, calls int64, others ...api.Key) story {
	return func(s *site, w http.ResponseWriter) error {
		v := storyVisit("starter")
		view, err := v.keyView(append([]api.Key{key}, others...), key.ID)
		if err != nil {
			return err
		}
		s.fillKey(&view, v, storyKeyCalls(key, calls))
		return s.showKey(w, http.StatusOK, v, "key", view)
	}
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
		s.fillKey(&view, v, keyUsage(3, used))
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
