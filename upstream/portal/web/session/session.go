// Package session has the sessions of the web pages.
//
// The browser has a random token in a cookie; the database has its hash and
// the account. A session ends with its time (see account.Session), at the
// sign-out, and when the account's password changes. Only the time of the
// last visit is written again: an in-flight request cannot restore a session
// that has ended.
package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/alexedwards/scs/v2"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/database"
)

const (
	// touchAfter is the minimum time between two writes of the last visit:
	// not every page should cost a write to the disk.
	touchAfter = time.Minute

	// maxAgent is how much of a User-Agent is stored, in bytes.
	maxAgent = 256
)

// valueKey is the key of the only value in an scs session.
const valueKey = "session"

// Manager opens, finds and closes sessions. It is safe for concurrent use.
type Manager struct {
	manager *scs.SessionManager
	store   *database.Store
	now     func() time.Time
}

// NewManager returns a Manager over a store. Secure is true if the site is
// served over TLS: then the prefix __Host- binds the cookie to this host (RFC
// 6265bis, 4.1.3.2), and it is never sent unencrypted.
func NewManager(store *database.Store, now func() time.Time, secure bool) *Manager {
	// scs.New would start a goroutine for its default store that never ends.
	m := &Manager{store: store, now: now, manager: &scs.SessionManager{
		Lifetime:         account.SessionLifetime,
		HashTokenInStore: true,
		Codec:            codec{},
		Cookie:           scs.SessionCookie{Name: "tollgate", Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Persist: true},
	}}
	m.manager.Store = adapter{m}
	if secure {
		m.manager.Cookie.Name = "__Host-tollgate"
		m.manager.Cookie.Secure = true
	}
	return m
}

// Load returns the request with its session in the context. An invalid cookie
// is ignored.
func (m *Manager) Load(r *http.Request) (*http.Request, error) {
	token := ""
	if cookie, err := r.Cookie(m.manager.Cookie.Name); err == nil {
		token = cookie.Value
	}
	ctx, err := m.manager.Load(r.Context(), token)
	if err != nil {
		return nil, fmt.Errorf("loading session: %w", err)
	}
	return r.WithContext(ctx), nil
}

// Current returns the session of a loaded request, if it has one.
func (m *Manager) Current(ctx context.Context) (account.Session, bool) {
	s, found := m.manager.Get(ctx, valueKey).(account.Session)
	return s, found
}

// Ended reports whether a loaded request has a cookie of a session that has
// ended.
func (m *Manager) Ended(r *http.Request) bool {
	_, err := r.Cookie(m.manager.Cookie.Name)
	_, found := m.Current(r.Context())
	return err == nil && !found
}

// Open opens a session with a new token and sends the cookie. An earlier
// session of the request ends: an attacker may have planted its token. A portal
// session is shorter.
func (m *Manager) Open(w http.ResponseWriter, r *http.Request, who account.Identity, portal bool) error {
	ctx := r.Context()
	now := m.now().UTC().Truncate(time.Millisecond)
	if err := m.manager.RenewToken(ctx); err != nil {
		return fmt.Errorf("renewing session: %w", err)
	}
	agent := r.UserAgent()
	agent = strings.ToValidUTF8(agent[:min(len(agent), maxAgent)], "")
	lifetime := account.SessionLifetime
	if portal {
		lifetime = account.PortalLifetime
	}
	m.manager.Put(ctx, valueKey, account.Session{
		AccountID: who.ID, Version: who.Version, Portal: portal, Agent: agent,
		CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(lifetime),
	})
	token, expiry, err := m.manager.Commit(ctx)
	if err != nil {
		return fmt.Errorf("storing session: %w", err)
	}
	m.manager.WriteSessionCookie(ctx, w, token, expiry)
	return nil
}

// Close ends the request's session and deletes the cookie.
func (m *Manager) Close(w http.ResponseWriter, r *http.Request) error {
	if err := m.manager.Destroy(r.Context()); err != nil {
		return fmt.Errorf("ending session: %w", err)
	}
	m.manager.WriteSessionCookie(r.Context(), w, "", time.Time{})
	return nil
}

// Touch stores the time of a visit.
func (m *Manager) Touch(ctx context.Context, s account.Session) error {
	if now := m.now(); now.Sub(s.SeenAt) >= touchAfter {
		return m.store.TouchSession(ctx, s.ID, now)
	}
	return nil
}

// adapter implements scs.CtxStore. scs passes the hash of the token.
type adapter struct{ m *Manager }

var _ scs.CtxStore = adapter{}

func (a adapter) FindCtx(ctx context.Context, id string) ([]byte, bool, error) {
	s, err := a.m.store.Session(ctx, id)
	if errors.Is(err, account.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil || !s.Live(a.m.now()) {
		return nil, false, err
	}
	data, err := json.Marshal(s)
	return data, err == nil, err
}

func (a adapter) CommitCtx(ctx context.Context, id string, data []byte, _ time.Time) error {
	var s account.Session
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("reading session: %w", err)
	}
	s.ID = id
	return a.m.store.AddSession(ctx, s)
}

func (a adapter) DeleteCtx(ctx context.Context, id string) error {
	return a.m.store.RemoveSession(ctx, id)
}

// Find, Commit and Delete complete scs.Store. scs does not call them, since
// the adapter has methods with a context.
func (a adapter) Find(id string) ([]byte, bool, error) { return a.FindCtx(context.Background(), id) }

func (a adapter) Commit(id string, data []byte, expiry time.Time) error {
	return a.CommitCtx(context.Background(), id, data, expiry)
}

func (a adapter) Delete(id string) error { return a.DeleteCtx(context.Background(), id) }

// codec encodes the session for the adapter.
type codec struct{}

func (codec) Encode(_ time.Time, values map[string]any) ([]byte, error) {
	return json.Marshal(values[valueKey])
}

func (codec) Decode(data []byte) (time.Time, map[string]any, error) {
	var s account.Session
	err := json.Unmarshal(data, &s)
	return s.ExpiresAt, map[string]any{valueKey: s}, err
}
