package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/currency/api"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// accountStories are the states of the pages about an account.
func accountStories() map[string]story {
	return map[string]story{
		"front": func(s *site, w http.ResponseWriter) error {
			return s.front(w, loaded(s, httptest.NewRequest(http.MethodGet, "/", nil)))
		},
		"login":          loginStory(http.StatusOK, loginView{}, ""),
		"login-expired":  loginStory(http.StatusOK, loginView{Ended: true}, ""),
		"login-operator": loginStory(http.StatusOK, loginView{}, notices["operator"]),
		"login-wrong":    loginStory(http.StatusUnauthorized, loginView{Email: "ada@example.com", Problem: "E-mail or password is wrong."}, ""),
		"signup-free": func(s *site, w http.ResponseWriter) error {
			return s.showSignUp(w, http.StatusOK, signUpView{Plan: "free", Offer: storyVisit("free").offer()})
		},
		"signup-taken": func(s *site, w http.ResponseWriter) error {
			return s.showSignUp(w, http.StatusUnprocessableEntity, signUpView{Plan: "starter", Email: "ada@example.com", Field: "email", Problem: "An account with this e-mail address exists. Sign in instead."})
		},
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
		"signup-plan": problemStory(fmt.Errorf("%w: %q", errSignUpPlan, "gold"), ""),
		"reset": func(s *site, w http.ResponseWriter) error {
			return s.showReset(w, http.StatusOK, passwordView{Email: "ada@example.com"})
		},
		"portal": func(s *site, w http.ResponseWriter) error {
			return s.showPortal(w, storyVisit("starter"), portalView{"shop-7", "link"})
		},
		"portal-new": func(s *site, w http.ResponseWriter) error {
			return s.showPortal(w, nil, portalView{"shop-7", "link"})
		},
		"portal-dead":   problemStory(errPortal, ""),
		"reset-dead":    problemStory(account.ErrReset, ""),
		"account":       accountStory(http.StatusOK, "starter", ""),
		"account-free":  accountStory(http.StatusOK, "free", ""),
		"account-wrong": accountStory(http.StatusUnauthorized, "starter", wrongPassword),
		"sessions": func(s *site, w http.ResponseWriter) error {
			v := storyVisit("starter")
			return s.views.show(w, http.StatusOK, "sessions", v.page("Sessions", "settings", sessionsView{Others: true, Sessions: []sessionRow{
				{ID: "a", Browser: "Firefox on Linux", Current: true, Since: v.clock.moment(storyTime.Add(-26 * time.Hour)), LastSeen: v.clock.moment(storyTime)},
				{ID: "b", Browser: "Safari on iPhone", Since: v.clock.moment(storyTime.Add(-90 * time.Hour)), LastSeen: v.clock.moment(storyTime.Add(-5 * time.Hour))},
			}}))
		},
	}
}

func loginStory(status int, view loginView, notice string) story {
	return func(s *site, w http.ResponseWriter) error {
		view.Next = usagePath
		return s.showLogin(w, status, view, notice)
	}
}

func accountStory(status int, plan, problem string) story {
	return func(s *site, w http.ResponseWriter) error {
		v := storyVisit(plan)
		v.who.ID, v.who.CreatedAt = "acc_4fTg0Wq1ZrXbL7uKc9Yd", storyTime.Add(-100*24*time.Hour)
		return s.showAccount(w, status, v, problem)
	}
}

// embedded is a source with the embedded indicative rates.
type embedded struct{ data *rates.Dataset }

func (s embedded) Current() *rates.Dataset            { return s.data }
func (embedded) NextExpected(now time.Time) time.Time { return now }

// docsStories are the states of the reference of the API.
func docsStories() map[string]story {
	return map[string]story{
		"docs":        docsStory("/docs"),
		"docs-go":     docsStory("/docs/go"),
		"docs-errors": docsStory("/docs/errors"),
	}
}

func docsStory(path string) story {
	return func(s *site, w http.ResponseWriter) error {
		data, err := rates.Indicative()
		if err != nil {
			return err
		}
		currencies, err := api.New(embedded{data}, s.Address, s.Now)
		if err != nil {
			return err
		}
		shown := *s
		shown.Docs = currencies.Reference
		shown.routes().ServeHTTP(w, loaded(s, httptest.NewRequest(http.MethodGet, path, nil)))
		return nil
	}
}
