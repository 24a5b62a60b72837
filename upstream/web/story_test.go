package web

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/account"
)

// storybook is where to write every state of every page, to look at them
// without any data:
//
//	go test ./upstream/web -run Storybook -storybook DIRECTORY
//
// and then serve the directory at the root of some web server.
var storybook = flag.String("storybook", "", "`directory` to write every state of every page to")

// story is a page in one state, rendered from fixtures.
type story func(s *site, w http.ResponseWriter) error

var storyTime = time.Date(2026, 11, 20, 18, 47, 30, 0, time.UTC)

func usageStory(plan string, d api.UsageDocument) story {
	return func(s *site, w http.ResponseWriter) error {
		v := storyVisit(plan)
		p := v.page("My usage", "usage", v.usageView(d))
		p.Updates = "/usage?background=1"
		return s.views.show(w, http.StatusOK, "usage", p)
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

func loginStory(status int, view loginView, notice string) story {
	return func(s *site, w http.ResponseWriter) error {
		view.Next = usagePath
		return s.showLogin(w, status, view, notice)
	}
}

func problemStory(err error, plan string) story {
	return func(s *site, w http.ResponseWriter) error {
		var v *visit
		if plan != "" {
			v = storyVisit(plan)
		}
		s.fail(w, httptest.NewRequest(http.MethodGet, "/", nil), v, err)
		return nil
	}
}

// stories are all states of all pages.
func stories() map[string]story {
	busyDay := map[string]float64{"currencies": 0.12, "convert": 0.83, "rates": 0.41, "history": 1, "batch": 0.24, "usage": 0.05}
	return map[string]story{
		"front": func(s *site, w http.ResponseWriter) error {
			return s.front(w, loaded(s, httptest.NewRequest(http.MethodGet, "/", nil)))
		},
		"login":           loginStory(http.StatusOK, loginView{}, ""),
		"login-signedout": loginStory(http.StatusOK, loginView{}, notices["signed-out"]),
		"login-expired":   loginStory(http.StatusOK, loginView{Ended: true}, ""),
		"login-wrong":     loginStory(http.StatusUnauthorized, loginView{Email: "ada@example.com", Problem: "E-mail or password is wrong."}, ""),
		"signup":          func(s *site, w http.ResponseWriter) error { return s.showSignUp(w, http.StatusOK, signUpView{}) },
		"signup-taken": func(s *site, w http.ResponseWriter) error {
			return s.showSignUp(w, http.StatusUnprocessableEntity, signUpView{Email: "ada@example.com", Field: "email", Problem: "An account with this e-mail address exists. Sign in instead."})
		},
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
		"password": func(s *site, w http.ResponseWriter) error {
			return s.showPassword(w, http.StatusOK, storyVisit("starter"), passwordView{})
		},
		"password-wrong": func(s *site, w http.ResponseWriter) error {
			return s.showPassword(w, http.StatusUnauthorized, storyVisit("starter"), passwordView{Field: "current", Problem: "This is not your current password."})
		},
		"password-often": func(s *site, w http.ResponseWriter) error {
			v := storyVisit("starter")
			v.who.ChangesUntil = storyTime.Add(time.Hour)
			return s.tooManyChanges(w, v)
		},
		"password-alone": func(s *site, w http.ResponseWriter) error {
			return s.passwordForm(w, httptest.NewRequest(http.MethodGet, "/settings/password?done=password-alone", nil), storyVisit("starter"))
		},
		"sessions": func(s *site, w http.ResponseWriter) error {
			v := storyVisit("starter")
			return s.views.show(w, http.StatusOK, "sessions", v.page("Sessions", "settings", sessionsView{Others: true, Sessions: []sessionRow{
				{Browser: "Firefox on Linux", Current: true, Since: v.clock.moment(storyTime.Add(-26 * time.Hour)), LastSeen: v.clock.moment(storyTime)},
				{Browser: "Safari on iPhone", Since: v.clock.moment(storyTime.Add(-90 * time.Hour)), LastSeen: v.clock.moment(storyTime.Add(-5 * time.Hour))},
			}}))
		},
		"usage":            usageStory("starter", storyUsage(map[string]float64{"currencies": 0.12, "convert": 0.43, "rates": 0.41, "history": 0.6, "batch": 0.24, "usage": 0.05}, 40)),
		"usage-empty":      usageStory("starter", storyUsage(nil, 0)),
		"usage-warn":       usageStory("starter", storyUsage(busyDay, 40)),
		"usage-month":      usageStory("business", monthlyUsage(1_200_000, 1_500_000)),
		"usage-month-up":   usageStory("business", monthlyUsage(2_000_000, 2_412_000)),
		"usage-all-up":     usageStory("business", monthlyUsage(1_700_000, 2_500_000)),
		"usage-override":   usageStory("starter", overriddenUsage()),
		"usage-key":        usageStory("starter", keyUsage(1, 900)),
		"usage-key-up":     usageStory("starter", keyUsage(2, 1000)),
		"usage-many-keys":  usageStory("starter", keyUsage(100, 700)),
		"usage-unused":     unusedStory,
		"usage-free":       usageStory("free", api.UsageDocument{Plan: "free", Timezone: "Europe/Berlin"}),
		"calls":            callsStory,
		"gate-unreachable": problemStory(client.ErrUnreachable, ""),
		"not-found":        problemStory(errNotFound, "starter"),
		"broken":           problemStory(errors.New("the disk is on fire"), ""),
		"busy":             problemStory(account.ErrBusy, ""),
		"cross-origin":     problemStory(errCrossOrigin, "starter"),
		"wrong-method":     problemStory(errMethod, ""),
	}
}

func refusedAs(code string) *apierror.Error {
	return apierror.New(http.StatusConflict, code, "")
}

func unusedStory(s *site, w http.ResponseWriter) error {
	d, err := storyVisit("starter").unused(historyDays)
	if err != nil {
		return err
	}
	return usageStory("starter", d)(s, w)
}

func callsStory(s *site, w http.ResponseWriter) error {
	v := storyVisit("starter")
	return s.views.show(w, http.StatusOK, "calls", v.page("Recent calls", "usage",
		usageView{Calls: v.callRows(storyUsage(nil, callsPerPage).RecentCalls), More: true}))
}

// loaded is a request as pages get it.
func loaded(s *site, r *http.Request) *http.Request {
	r, err := s.sessions.Load(r)
	if err != nil {
		panic(err)
	}
	return r
}

// tell renders a story.
func tell(t *testing.T, s *site, name string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	if err := stories()[name](s, w); err != nil {
		t.Fatal(err)
	}
	return w
}

// maxPage is what a page may weigh with its style, script and icon.
const maxPage = 50 << 10

func TestStorybook(t *testing.T) {
	t.Parallel()
	s := storySite(t)
	shared := 0
	for name := range assetTypes {
		content := s.views.assets.files[s.views.assets.path(name)].content
		shared += len(content)
		write(t, s.views.assets.path(name), content)
	}
	var index bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(stories())) {
		t.Run(name, func(t *testing.T) {
			w := tell(t, s, name)
			body := w.Body.Bytes()
			if got := len(body) + shared; got > maxPage {
				t.Errorf("%d bytes with style, script and icon, want at most %d", got, maxPage)
			}
			for _, wrong := range []string{"<no value>", "ZgotmplZ", " style=", " onclick="} {
				if bytes.Contains(body, []byte(wrong)) {
					t.Errorf("has %q in it", wrong)
				}
			}
			write(t, name+".html", body)
			fmt.Fprintf(&index, "<p><a href=\"%s.html\">%s</a> %d</p>\n", name, name, w.Code)
		})
	}
	write(t, "index.html", index.Bytes())
}

// write stores a file of the storybook, for a person to look at.
func write(t *testing.T, name string, content []byte) {
	t.Helper()
	if *storybook == "" {
		return
	}
	path := filepath.Join(*storybook, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// storySite is a site that shows stories: no person is signed in, and there
// is nothing behind it.
func storySite(t *testing.T) *site {
	t.Helper()
	s, err := newSite(Config{Address: &url.URL{Scheme: "http", Host: "localhost:8080"}, Timezone: "Europe/Berlin", SignUp: true, Now: func() time.Time { return storyTime }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
