// Package session keeps people signed in to the web pages.
//
// The browser holds a random token in a cookie; the database holds its
// hash, and whose it is. A session ends after Lifetime, after Idle
// without a visit, when it is signed out, and when the account's password
// changes. It is written when it begins and never again but for when it
// was last seen: a page that is under way while its session is ended
// cannot bring the session back.
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

	"github.com/caddy-tollgate/tollgate/upstream/account"
)

const (
	// Lifetime is how long a session lasts at most.
	Lifetime = 7 * 24 * time.Hour

	// Idle is how long a session lasts without a visit.
	Idle = 12 * time.Hour

	// touchAfter is how old the time of the last visit may be before it
	// is written again: not every page shall cost a write to the disk.
	touchAfter = time.Minute

	// maxAgent bounds what is kept of a browser's name, in bytes.
	maxAgent = 256
)

// valueKey is the one value that a session has.
const valueKey = "session"

// Store keeps sessions. Its methods are safe for concurrent use.
type Store interface {
	// AddSession stores a new session, and fails if its id is taken.
	AddSession(ctx context.Context, s account.Session) error

	// Session returns one session or account.ErrNotFound.
	Session(ctx context.Context, id string) (account.Session, error)

	// TouchSession notes a visit.
	TouchSession(ctx context.Context, id string, at time.Time) error

	// RemoveSession ends one session, if it is there.
	RemoveSession(ctx context.Context, id string) error

	// PruneSessions deletes sessions that expired, or were last seen, at
	// those times or before.
	PruneSessions(ctx context.Context, expired, seen time.Time) error
}

// Manager begins, finds and ends sessions. It is safe for concurrent use.
type Manager struct {
	manager *scs.SessionManager
	store   Store
	now     func() time.Time
}

// NewManager returns a Manager over a store. Secure says that the site is
// served over TLS: the cookie is then bound to this very host by the
// prefix __Host- (RFC 6265bis, 4.1.3.2), and never sent in the clear.
func NewManager(store Store, now func() time.Time, secure bool) *Manager {
	// scs.New would start a goroutine for its default store that never ends.
	m := &Manager{store: store, now: now, manager: &scs.SessionManager{
		Lifetime:         Lifetime,
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

// Load returns the request with its session in the context. A cookie that
// opens nothing is the same as none.
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

// Ended tells whether a loaded request came with a cookie whose session
// is over.
func (m *Manager) Ended(r *http.Request) bool {
	_, err := r.Cookie(m.manager.Cookie.Name)
	_, found := m.Current(r.Context())
	return err == nil && !found
}

// Open begins a session under a new token and sends it. A session that
// the request already had ends: a token from before the sign-in, which
// somebody else may have planted, opens nothing.
func (m *Manager) Open(w http.ResponseWriter, r *http.Request, who account.Identity) error {
	ctx := r.Context()
	now := m.now().UTC().Truncate(time.Millisecond)
	// A sign-in pays for the cleaning up after others.
	if err := m.store.PruneSessions(ctx, now, now.Add(-Idle)); err != nil {
		return err
	}
	if err := m.manager.RenewToken(ctx); err != nil {
		return fmt.Errorf("renewing session: %w", err)
	}
	agent := r.UserAgent()
	agent = strings.ToValidUTF8(agent[:min(len(agent), maxAgent)], "")
	m.manager.Put(ctx, valueKey, account.Session{
		Account: who.ID, Version: who.Version, Agent: agent,
		CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(Lifetime),
	})
	token, expiry, err := m.manager.Commit(ctx)
	if err != nil {
		return fmt.Errorf("storing session: %w", err)
	}
	m.manager.WriteSessionCookie(ctx, w, token, expiry)
	return nil
}

// Close ends the request's session and takes the cookie back.
func (m *Manager) Close(w http.ResponseWriter, r *http.Request) error {
	if err := m.manager.Destroy(r.Context()); err != nil {
		return fmt.Errorf("ending session: %w", err)
	}
	m.manager.WriteSessionCookie(r.Context(), w, "", time.Time{})
	return nil
}

// Touch notes that the person is there.
func (m *Manager) Touch(ctx context.Context, s account.Session) error {
	if now := m.now(); now.Sub(s.SeenAt) >= touchAfter {
		return m.store.TouchSession(ctx, s.ID, now)
	}
	return nil
}

// Live tells whether a session is neither expired nor idle.
func (m *Manager) Live(s account.Session) bool {
	now := m.now()
	return now.Before(s.ExpiresAt) && now.Sub(s.SeenAt) < Idle
}

// adapter is the store as scs wants it. The token that it is given is the
// hash already.
type adapter struct{ m *Manager }

var _ scs.CtxStore = adapter{}

func (a adapter) FindCtx(ctx context.Context, id string) ([]byte, bool, error) {
	s, err := a.m.store.Session(ctx, id)
	if errors.Is(err, account.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil || !a.m.Live(s) {
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

// Find, Commit and Delete are part of scs.Store. scs calls the methods
// with a context where a store has them.
func (a adapter) Find(id string) ([]byte, bool, error) { return a.FindCtx(context.Background(), id) }

func (a adapter) Commit(id string, data []byte, expiry time.Time) error {
	return a.CommitCtx(context.Background(), id, data, expiry)
}

func (a adapter) Delete(id string) error { return a.DeleteCtx(context.Background(), id) }

// codec writes the session as what the adapter reads.
type codec struct{}

func (codec) Encode(_ time.Time, values map[string]any) ([]byte, error) {
	return json.Marshal(values[valueKey])
}

func (codec) Decode(data []byte) (time.Time, map[string]any, error) {
	var s account.Session
	err := json.Unmarshal(data, &s)
	return s.ExpiresAt, map[string]any{valueKey: s}, err
}
