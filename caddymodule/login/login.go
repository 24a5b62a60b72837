package login

import (
	"context"
	"sync/atomic"
	"time"
)

// Limiter limits login attempts per client and per account. It is safe
// for concurrent use.
type Limiter interface {
	// Reserve admits an attempt, or returns how long the client must wait,
	// or an error if the limiter does not work. It counts the attempt as
	// failed before it returns, so that parallel guesses count. now is
	// the current time. ctx bounds the wait for a remote limiter.
	Reserve(ctx context.Context, now time.Time, limits Limits, client Client, account Account) (attempt Attempt, wait time.Duration, err error)
}

// Attempt is an admitted login attempt. It counts as failed until one of its
// methods says otherwise. The first call decides; later calls have no
// effect. All methods are safe for concurrent use.
type Attempt interface {
	// Failed says that the password was wrong. The attempt counts as
	// failed already, so there is nothing to write.
	Failed()

	// Succeeded says that the password was right. It clears the failures
	// of this client at this account, including attempts in flight, and
	// makes the client known to the account. If it returns an error, the
	// limiter may forget the success when its process ends.
	Succeeded(ctx context.Context, now time.Time) error

	// Abandoned says that the password was not checked, because no service
	// answered. It takes the failure back from the account. The attempt
	// still counts for the client. If it returns an error, the failure may
	// count again when the limiter's process has ended.
	Abandoned(ctx context.Context) error
}

// request is what both limiters know of an attempt.
type request struct {
	limits      Limits
	client      Client
	account     Account
	fingerprint fingerprint
	known       bool // whether the client was known at the time
	settled     atomic.Bool
}

func (r *request) hasAccount() bool { return r.account != Account{} }

// Failed implements Attempt.
func (r *request) Failed() { r.settled.Store(true) }
