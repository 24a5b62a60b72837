package web

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

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
