package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// exportDays is how many days of usage an export has.
const exportDays = 90

// accountView is the page about the account.
type accountView struct {
	ID, Email, Plan, Problem string
	// Offer is set if the plan has no access.
	Offer   *offer
	Created moment
	Days    int
}

func (s *site) account(w http.ResponseWriter, _ *http.Request, v *visit) error {
	return s.showAccount(w, http.StatusOK, v, "")
}

func (s *site) showAccount(w http.ResponseWriter, status int, v *visit, problem string) error {
	return s.views.show(w, status, "account", v.page("Account", "settings", accountView{
		ID: v.who.ID, Email: string(v.who.Email), Plan: v.plan.Name, Offer: v.offer(), Problem: problem,
		Created: v.clock.moment(v.who.CreatedAt), Days: exportDays,
	}))
}

// closeAccount deletes the account of a person who knows the password.
func (s *site) closeAccount(w http.ResponseWriter, r *http.Request, v *visit) error {
	if err := s.countTry(r, v); err != nil {
		return err
	}
	err := s.Accounts.Close(r.Context(), v.who.ID, r.PostForm.Get("current"))
	switch {
	case errors.Is(err, account.ErrCredentials):
		return s.showAccount(w, http.StatusUnauthorized, v, wrongPassword)
	case errors.Is(err, account.ErrNotFound):
		// For instance a form that was sent twice.
	case err != nil:
		return err
	}
	if err := s.sessions.Close(w, r); err != nil {
		return err
	}
	redirect(w, "/", url.Values{"done": {"closed"}})
	return nil
}

// export is what a person can download about the account.
type export struct {
	ExportedAt time.Time `json:"exported_at"`
	Account    struct {
		ID                string        `json:"id"`
		Email             account.Email `json:"email"`
		Plan              string        `json:"plan"`
		CreatedAt         time.Time     `json:"created_at"`
		PasswordChangedAt time.Time     `json:"password_changed_at"`
	} `json:"account"`
	Keys        []api.Key         `json:"keys"`
	LoginTokens []api.Key         `json:"login_tokens"`
	Sessions    []exportedSession `json:"sessions"`
	Usage       struct {
		Timezone string         `json:"timezone"`
		Days     []api.UsageDay `json:"days"`
	} `json:"usage"`
	RecentCalls []api.UsageCall `json:"recent_calls"`
}

type exportedSession struct {
	UserAgent  string    `json:"user_agent"`
	CreatedAt  time.Time `json:"created_at"`
	LastSeenAt time.Time `json:"last_seen_at"`
	ExpiresAt  time.Time `json:"expires_at"`
	Current    bool      `json:"current"`
}

// exportData answers with the data of the account, as a file.
func (s *site) exportData(w http.ResponseWriter, r *http.Request, v *visit) error {
	data, err := s.collect(r.Context(), v)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(data, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding export: %w", err)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="account.json"`)
	// If this fails, the client is gone; ignore the error.
	_, _ = w.Write(append(text, '\n'))
	return nil
}

func (s *site) collect(ctx context.Context, v *visit) (data export, err error) {
	sessions, err := s.liveSessions(ctx, v)
	if err != nil {
		return export{}, err
	}
	data = export{ExportedAt: s.Now().UTC().Truncate(time.Second), Sessions: []exportedSession{}, RecentCalls: []api.UsageCall{}}
	data.Account.ID, data.Account.Email, data.Account.Plan = v.who.ID, v.who.Email, v.plan.Name
	data.Account.CreatedAt, data.Account.PasswordChangedAt = v.who.CreatedAt, v.who.UpdatedAt
	data.Usage.Timezone, data.Usage.Days = v.plans.Timezone, []api.UsageDay{}
	for _, one := range sessions {
		data.Sessions = append(data.Sessions, exportedSession{one.Agent, one.CreatedAt, one.SeenAt, one.ExpiresAt, one.ID == v.session.ID})
	}
	ctx, cancel := account.OfCall(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		data.Keys, err = s.keyList(ctx, v, client.KeyFilter{Revoked: true})
		return err
	})
	group.Go(func() (err error) {
		data.LoginTokens, err = s.keyList(ctx, v, client.KeyFilter{Kind: "login"})
		return err
	})
	group.Go(func() error {
		document, err := s.Gate.Usage(ctx, v.who.ID, exportDays)
		if errors.Is(err, api.ErrNotFound) {
			return nil
		}
		data.Usage.Days = append(data.Usage.Days, document.Days...)
		data.RecentCalls = append(data.RecentCalls, document.RecentCalls...)
		return err
	})
	return data, group.Wait()
}

// sessionsView is the page that lists the sessions of the account.
type sessionsView struct {
	Sessions []sessionRow
	Others   bool
}

type sessionRow struct {
	ID, Browser     string
	Current         bool
	Since, LastSeen moment
}

// liveSessions returns the sessions of the account that have not ended.
func (s *site) liveSessions(ctx context.Context, v *visit) ([]account.Session, error) {
	all, err := s.Sessions.Sessions(ctx, v.who.ID)
	ended := func(one account.Session) bool { return one.Version != v.who.Version || !one.Live(s.Now()) }
	return slices.DeleteFunc(all, ended), err
}

func (s *site) sessionList(w http.ResponseWriter, r *http.Request, v *visit) error {
	all, err := s.liveSessions(r.Context(), v)
	if err != nil {
		return err
	}
	var view sessionsView
	for _, one := range all {
		row := sessionRow{
			ID: one.ID, Browser: browser(one.Agent), Current: one.ID == v.session.ID,
			Since: v.clock.moment(one.CreatedAt), LastSeen: v.clock.moment(one.SeenAt),
		}
		view.Others = view.Others || !row.Current
		view.Sessions = append(view.Sessions, row)
	}
	return s.views.show(w, http.StatusOK, "sessions", v.page("Sessions", "settings", view))
}

// endSessions ends one session of the account, or all others.
func (s *site) endSessions(w http.ResponseWriter, r *http.Request, v *visit) error {
	if r.PostForm.Has("session") {
		return s.endSession(w, r, v, r.PostForm.Get("session"))
	}
	if err := s.Sessions.RemoveOtherSessions(r.Context(), v.who.ID, v.session.ID); err != nil {
		return err
	}
	redirect(w, "/settings/sessions", url.Values{"done": {"elsewhere"}})
	return nil
}

// endSession ends one session of the account, if it is there.
func (s *site) endSession(w http.ResponseWriter, r *http.Request, v *visit, id string) error {
	if id == v.session.ID {
		return s.logout(w, r)
	}
	all, err := s.liveSessions(r.Context(), v)
	if err != nil {
		return err
	}
	done := "unchanged"
	if slices.ContainsFunc(all, func(one account.Session) bool { return one.ID == id }) {
		done = "ended"
		if err := s.Sessions.RemoveSession(r.Context(), id); err != nil {
			return err
		}
	}
	redirect(w, "/settings/sessions", url.Values{"done": {done}})
	return nil
}

// known is a part of a User-Agent and its name for people. The order matters:
// Chrome's User-Agent contains Safari, for instance.
type known struct{ word, name string }

var (
	browsers = []known{{"Edg", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chrome/", "Chrome"},
		{"Safari/", "Safari"}, {"curl/", "curl"}}
	systems = []known{{"Android", "Android"}, {"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Windows", "Windows"},
		{"Mac OS", "macOS"}, {"CrOS", "ChromeOS"}, {"Linux", "Linux"}}
)

// browser describes a User-Agent, so that a person recognises the machine.
func browser(agent string) string {
	name := cmp.Or(find(agent, browsers), "A browser")
	if system := find(agent, systems); system != "" {
		name += " on " + system
	}
	return name
}

func find(agent string, words []known) string {
	for _, k := range words {
		if strings.Contains(agent, k.word) {
			return k.name
		}
	}
	return ""
}
