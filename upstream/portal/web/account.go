package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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
	ExportedAt  time.Time         `json:"exported_at"`
	Account     exportedAccount   `json:"account"`
	Keys        []api.Key         `json:"keys"`
	LoginTokens []api.Key         `json:"login_tokens"`
	Sessions    []exportedSession `json:"sessions"`
	Usage       exportedUsage     `json:"usage"`
	RecentCalls []api.UsageCall   `json:"recent_calls"`
}

type exportedAccount struct {
	ID                string        `json:"id"`
	Email             account.Email `json:"email"`
	Plan              string        `json:"plan"`
	CreatedAt         time.Time     `json:"created_at"`
	PasswordChangedAt time.Time     `json:"password_changed_at"`
}

type exportedUsage struct {
	Timezone string         `json:"timezone"`
	Days     []api.UsageDay `json:"days"`
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
	data = export{
		ExportedAt: s.Now().UTC().Truncate(time.Second),
		Account:    exportedAccount{v.who.ID, v.who.Email, v.plan.Name, v.who.CreatedAt, v.who.UpdatedAt},
		Keys:       []api.Key{}, LoginTokens: []api.Key{}, Sessions: []exportedSession{}, RecentCalls: []api.UsageCall{},
		Usage: exportedUsage{v.plans.Timezone, []api.UsageDay{}},
	}
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
