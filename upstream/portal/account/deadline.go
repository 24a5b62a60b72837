package account

import (
	"context"
	"sync"
	"time"
)

const (
	// gateTimeout is the timeout of one call of the control API, or of all calls
	// of a page. A call usually takes a millisecond.
	gateTimeout = 5 * time.Second

	// undoTimeout is the timeout of a call that undoes a failed change. A person
	// has waited for the change.
	undoTimeout = time.Second
)

// deadline is the key of the deadline of calls in a context: a func() time.Time.
type deadline struct{}

// OfPage returns the context of a page: all its calls of the control API
// together have the timeout of one, from the first call. So a page waits once for a
// gate that hangs, and hashing a password first takes none of that time.
func OfPage(ctx context.Context) context.Context { return within(ctx, gateTimeout) }

// OfCall returns the context of a call of the control API. It ends with its page
// or, if it has none, after its own timeout.
func OfCall(ctx context.Context) (context.Context, context.CancelFunc) {
	if until, found := ctx.Value(deadline{}).(func() time.Time); found {
		return context.WithDeadline(ctx, until())
	}
	return context.WithTimeout(ctx, gateTimeout)
}

// within gives the calls with a context a deadline together, from the first call.
func within(ctx context.Context, timeout time.Duration) context.Context {
	return context.WithValue(ctx, deadline{}, sync.OnceValue(func() time.Time { return time.Now().Add(timeout) }))
}
