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

func storyPlans() api.Plans {
	names := []string{"currencies", "convert", "rates", "history", "batch", "usage"}
	paths := []string{"/api/currencies", "/api/convert/{from}/{amount}/{to}", "/api/rates/{base}",
		"/api/history/{from}/{to}", "/api/convert/batch", "/api/usage"}
	limits := []int64{100, 1000, 1000, 100, 50, 1000}
	plans := api.Plans{Timezone: "Europe/Berlin", Plans: []api.Plan{
		{Name: "free"},
		{Name: "starter", Limits: map[string]*int64{}},
		{Name: "business", Limits: map[string]*int64{"currencies": nil, "convert": new(int64(100000)), "rates": nil, "history": nil},
			MoreLimits: []api.Limit{
				{Endpoint: "convert", Period: "month", Limit: 2_000_000}, {Endpoint: "rates", Period: "month", Limit: 500_000},
				{Endpoint: "history", Period: "minute", Limit: 60},
				{Endpoint: api.All, Period: "month", Limit: 2_500_000}, {Endpoint: api.All, Period: "second", Limit: 50},
			}},
	}}
	for i, name := range names {
		e := api.Endpoint{Name: name, Method: "GET", Path: paths[i], Ability: name}
		if name == "batch" {
			e.Method, e.Ability, e.CostMember = "POST", "convert", new("conversions")
		}
		if name == "history" {
			e.Cost = 5
		}
		plans.Endpoints = append(plans.Endpoints, e)
		plans.Plans[1].Limits[name] = new(limits[i])
	}
	return plans
}

// storyVisit is a visit of a person on a plan.
func storyVisit(plan string) *visit {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	v := &visit{plans: storyPlans(), clock: clock{storyTime, zone}}
	v.who.Email = "ada@example.com"
	v.who.Version = 1
	v.plan = planOf(v.plans, plan)
	return v
}

// storyKeys returns n keys in all states.
func storyKeys(n int) []api.Key {
	names := []string{"ci", "shop backend", "nightly report", "Ada's laptop", "old importer", "a name that is as long as a name may be, sixty-four characters!!"}
	keys := make([]api.Key, n)
	for i := range keys {
		k := api.Key{
			ID: fmt.Sprintf("key_%022d", i), Name: names[i%len(names)], Hint: fmt.Sprintf("tgk_…%04d", i*37%10000),
			Abilities: []string{"convert", "currencies", "history", "rates", "usage"},
			CreatedAt: storyTime.Add(-time.Duration(i*i) * 26 * time.Hour),
		}
		switch i % len(names) {
		case 0:
			k.LastUsedAt, k.LastUsedFrom = new(storyTime.Add(-20*time.Second)), new("203.0.113.7")
		case 1:
			k.LastUsedAt, k.ExpiresAt = new(storyTime.Add(-3*time.Hour)), new(storyTime.Add(3*24*time.Hour))
			k.Abilities = []string{"convert", "rates"}
		case 2:
			k.ExpiresAt = new(storyTime.Add(80 * 24 * time.Hour))
			k.LastUsedAt, k.LastUsedFrom = new(storyTime.Add(-time.Hour)), new("2001:db8:85a3:8d3:1319:8a2e:370:7348")
			k.Limits, k.Addresses = storyLimits(4), []string{"203.0.113.0/24", "198.51.100.7", "2001:db8:85a3::/48"}
		case 3:
			k.LastUsedAt, k.ExpiresAt = new(storyTime.Add(-9*24*time.Hour)), new(storyTime.Add(-24*time.Hour))
		case 4:
			k.LastUsedAt, k.RevokedAt = new(storyTime.Add(-40*24*time.Hour)), new(storyTime.Add(-30*24*time.Hour))
		}
		keys[i] = k
	}
	return keys
}

// storyLimits returns n limits of a key.
func storyLimits(n int) []api.Limit {
	var limits []api.Limit
	for _, endpoint := range []string{"convert", api.All, "rates", "history", "currencies", "batch", "usage"} {
		for _, period := range []string{"day", "second", "month", "minute", "hour"} {
			limits = append(limits, api.Limit{Endpoint: endpoint, Period: period, Limit: int64(len(limits)*250 + 1000)})
		}
	}
	return limits[:n]
}

// storyUsedLimit is a limit of which a part is used.
func storyUsedLimit(period string, limit, used int64) api.UsageLimit {
	l := api.UsageLimit{Period: period, Limit: limit}
	if !isPace(period) {
		l.Used, l.Remaining = &used, new(max(0, limit-used))
		l.ResetsAt = new(time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC))
	}
	if period == perMonth {
		l.ResetsAt = new(time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC))
	}
	return l
}

// storyUsage is a day of the plan starter on which each endpoint used a
// part of its limit, with a history and some calls.
func storyUsage(share map[string]float64, calls int) api.UsageDocument {
	plans := storyPlans()
	d := api.UsageDocument{Account: "acc_1", Plan: "starter", Timezone: plans.Timezone, Day: "2026-11-20",
		ResetsAt: time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)}
	for _, e := range plans.Endpoints {
		limit := plans.Plans[1].Limits[e.Name]
		row := api.UsageEndpoint{Endpoint: e.Name, Method: e.Method, Path: e.Path, Limit: limit}
		row.Used = int64(share[e.Name] * float64(*limit))
		row.Remaining = new(*limit - row.Used)
		row.Limits = []api.UsageLimit{storyUsedLimit(perDay, *limit, row.Used)}
		d.Endpoints = append(d.Endpoints, row)
	}
	for i := range historyDays {
		counts := map[string]int64{}
		for j, e := range d.Endpoints {
			if len(share) > 0 {
				weekend := int64((i + 1) % 7 / 5 * 3)
				counts[e.Endpoint] = *e.Limit * int64((i*7+j*13)%23) / 40 / (1 + weekend)
			}
			if i == historyDays-1 {
				counts[e.Endpoint] = e.Used
			}
		}
		d.Days = append(d.Days, api.UsageDay{Day: storyTime.AddDate(0, 0, i-historyDays+1).Format(time.DateOnly), Calls: counts})
	}
	paths := []string{"/api/convert/EUR/10/USD", "/api/rates/GBP", "/api/convert/USD/1250.50/JPY", "/api/history/EUR/CHF"}
	for i := range calls {
		d.RecentCalls = append(d.RecentCalls, api.UsageCall{
			At: api.Millis{Time: storyTime.Add(-time.Duration(i*i*7) * time.Second)}, Endpoint: "convert", Method: "GET",
			Path: paths[i%4], Status: []int{200, 200, 200, 304, 404, 200, 429, 200, 502}[i%9],
			DurationMS: 0.8 + float64(i*i%29)/3, Key: []string{"ci", "shop backend"}[i%2],
		})
	}
	return d
}

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

// fullKey is a key with as many limits and addresses as a key can have.
func fullKey() api.Key {
	key := storyKeys(1)[0]
	key.Limits = storyLimits(maxLimits)
	for i := range maxLimits {
		key.Addresses = append(key.Addresses, fmt.Sprintf("2001:db8:85a3:8d3:1319:8a2e:%d:/112", 1000+i))
	}
	return key
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

// monthlyUsage is usage of the plan business, with the calls of this month to
// convert and to all endpoints.
func monthlyUsage(convert, together int64) api.UsageDocument {
	d := storyUsage(map[string]float64{"convert": 0.4, "currencies": 0.5, "rates": 0.3, "history": 0.2}, 4)
	d.Plan, d.Endpoints = "business", d.Endpoints[:4]
	for i := range d.Endpoints {
		d.Endpoints[i].Limit, d.Endpoints[i].Remaining, d.Endpoints[i].Limits = nil, nil, nil
	}
	d.Endpoints[1].Limits = []api.UsageLimit{storyUsedLimit(perDay, 100_000, 40_000), storyUsedLimit(perMonth, 2_000_000, convert)}
	d.Endpoints[2].Limits = []api.UsageLimit{storyUsedLimit(perMonth, 500_000, 300_000)}
	d.Endpoints[3].Limits = []api.UsageLimit{storyUsedLimit("minute", 60, 0)}
	d.Limits = []api.UsageLimit{storyUsedLimit(perMonth, 2_500_000, together), storyUsedLimit("second", 50, 0)}
	return d
}

// keyUsage is usage of the plan starter with the limits of n keys.
func keyUsage(n int, used int64) api.UsageDocument {
	d := storyUsage(map[string]float64{"convert": 0.43, "rates": 0.2, "batch": 0.1}, 40)
	for _, k := range storyKeys(n) {
		key := api.UsageKey{ID: k.ID, Name: k.Name}
		for i, l := range storyLimits(4) {
			key.Limits = append(key.Limits, api.UsageKeyLimit{
				Endpoint: l.Endpoint, UsageLimit: storyUsedLimit(l.Period, l.Limit, used/int64(i+1)),
			})
		}
		d.Keys = append(d.Keys, key)
	}
	return d
}

// overriddenUsage is usage of the plan starter with another limit of convert
// and a limit of the month.
func overriddenUsage() api.UsageDocument {
	d := storyUsage(map[string]float64{"convert": 1, "rates": 0.2}, 4)
	d.Endpoints[1].Limit, d.Endpoints[1].Remaining = new(int64(5000)), new(int64(4000))
	d.Endpoints[1].Limits = []api.UsageLimit{storyUsedLimit(perDay, 5000, 1000)}
	d.Limits = []api.UsageLimit{storyUsedLimit(perMonth, 50_000, 41_000)}
	return d
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
		"new-limit": newKeyStory("starter", keyForm{Name: "ci", Field: "limits", Problem: "A limit is a whole number, such as 1000.",
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
