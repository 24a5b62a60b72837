package web

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
)

// sessionsView is the page that lists the sessions of the account.
type sessionsView struct {
	Sessions []sessionRow
	Others   bool
}

type sessionRow struct {
	Browser         string
	Current         bool
	Since, LastSeen moment
}

func (s *site) sessionList(w http.ResponseWriter, r *http.Request, v *visit) error {
	all, err := s.Sessions.Sessions(r.Context(), v.who.ID)
	if err != nil {
		return err
	}
	var view sessionsView
	for _, one := range all {
		if one.Version != v.who.Version || !s.sessions.Live(one) {
			continue
		}
		row := sessionRow{
			Browser: browser(one.Agent), Current: one.ID == v.session.ID,
			Since: v.clock.moment(one.CreatedAt), LastSeen: v.clock.moment(one.SeenAt),
		}
		view.Others = view.Others || !row.Current
		view.Sessions = append(view.Sessions, row)
	}
	p := v.page("Sessions", "settings", view)
	p.Notice = notices[r.URL.Query().Get("done")]
	return s.views.show(w, http.StatusOK, "sessions", p)
}

// endSessions ends all other sessions.
func (s *site) endSessions(w http.ResponseWriter, r *http.Request, v *visit) error {
	if err := s.Sessions.RemoveOtherSessions(r.Context(), v.who.ID, v.session.ID); err != nil {
		return err
	}
	redirect(w, "/settings/sessions", url.Values{"done": {"elsewhere"}})
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
