package memstore

import (
	"context"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// receipt is the name of a receipt of an account.
type receipt struct {
	account string
	handle  store.Handle
	name    string
}

// kept returns what is kept under a name, nil for nothing.
func (e *engine) kept(a *account, name string) []byte {
	r := e.receipts[receipt{a.ID, a.handle, name}]
	if !time.Now().Before(r.Expires) {
		return nil
	}
	return r.New
}

// expects tells whether what is kept is as a call expects it.
func (e *engine) expects(a *account, r *store.Receipt) bool {
	return r == nil || a != nil && sameValue(e.kept(a, r.Name), r.Old)
}

func (e *engine) keep(a *account, r *store.Receipt) {
	if r != nil {
		e.receipts[receipt{a.ID, a.handle, r.Name}] = *r
	}
}

func (e *engine) Receipt(_ context.Context, call store.Call, name string) ([]byte, error) {
	defer e.lock()()
	if a := e.find(call.Account, call.Handle); a != nil {
		return e.kept(a, name), nil
	}
	return nil, nil
}
