package web

import (
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
		"keys-limits":  keysStory("starter", slices.Repeat(storyKeys(3)[2:], 100), ""),
		"key":          keyStory("key", "starter", ""),
		"key-rotated":  keyStory("key", "starter", "", successor()),
		"key-rotate":   keyStory("rotate", "starter", ""),
		"rotate-twice": keyStory("rotate", "starter", rotateProblem(refusedAs("name_taken")), successor()),
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
		"new-mistake":  newKeyStory("starter", keyForm{Name: "ci", Field: "name", Problem: "You have a key with this name. Choose another name, or rotate or revoke that key.", checked: []string{"convert"}}),
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
		var view keysView
		view.fill(v, keys, "1")
		p := v.page("API keys", "settings", view)
		p.Notice = notice
		return s.views.show(w, http.StatusOK, "keys", p)
	}
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
		view.Used = v.keyMeters(keyUsage(3, used), keys[2].ID)
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

// successor is what the key of the stories was rotated to.
func successor() api.Key {
	key := storyKeys(1)[0]
	key.ID, key.CreatedAt = "key_younger", key.CreatedAt.Add(time.Minute)
	return key
}

func newKeyStory(plan string, form keyForm) story {
	return func(s *site, w http.ResponseWriter) error {
		form.Life = defaultLife
		form.Limits = slices.Clone(form.Limits)
		return s.showKeyForm(w, http.StatusOK, storyVisit(plan), form)
	}
}

func refusedAs(code string) *apierror.Error {
	return apierror.New(http.StatusConflict, code, "")
}
