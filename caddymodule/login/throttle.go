package login

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"
)

// Capacity is the most rows that each table keeps.
const Capacity = 1 << 20

// shards is how many independent parts the tables have.
const shards = 16

// Throttle is the state of the login throttle. It is safe for concurrent
// use, and outlives the configurations that use it.
type Throttle struct {
	clock    timeline
	seed     maphash.Seed
	capacity int // of one shard's table
	clients  [shards]clientShard
	accounts [shards]accountShard
	commits  *committer
}

// New makes an empty Throttle that keeps its state in a journal, or in
// memory only if the journal is nil.
func New(journal Journal) *Throttle {
	t := &Throttle{seed: maphash.MakeSeed(), capacity: Capacity / shards}
	t.commits = &committer{journal: journal, read: t.row}
	return t
}

// Attempt is an admitted login attempt whose outcome is not known yet. It
// stands as a failure. Of Failed, Succeeded and Abandoned the first call
// decides, and later ones have no effect. All are safe for concurrent use.
type Attempt struct {
	throttle *Throttle
	limits   Limits
	client   Client
	account  Account
	by       tag
	at       int64
	known    bool
	settled  atomic.Bool
}

// Reserve admits or refuses an attempt, and saves an admitted one before it
// returns. It answers in one of three ways:
//
//   - an Attempt, which the caller settles when the outcome is known;
//   - no Attempt and how long to wait: a client that comes back after just
//     that long is admitted, if nobody else acted in between. Nothing was
//     counted;
//   - an error, if ctx is done, the limits are invalid (ErrLimits) or
//     the journal could not save. Nothing is counted in memory; a journal
//     that wrote in spite of its error may count the attempt as failed
//     after a restart.
//
// The reading now must be taken right before the call, not when the request
// began: a reading more than a minute older than another call's is
// taken for a clock that was set back. Saving is not interrupted by ctx,
// since attempts of others may be saved along with this one.
func (t *Throttle) Reserve(
	ctx context.Context, now time.Time, limits Limits, client Client, account Account,
) (*Attempt, time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, fmt.Errorf("reserving login attempt: %w", err)
	}
	limits, err := limits.resolve()
	if err != nil {
		return nil, 0, fmt.Errorf("reserving login attempt: %w", err)
	}
	attempt, wait := t.admit(now, limits, client, account)
	if attempt == nil {
		return nil, wait, nil
	}
	if err := t.commits.save(ctx, attempt.rows()...); err != nil {
		attempt.forgetClient()
		attempt.release()
		return nil, 0, fmt.Errorf("saving login attempt: %w", err)
	}
	attempt.trim(attempt.at)
	return attempt, 0, nil
}

// admit asks both rules and notes the attempt if both agree.
func (t *Throttle) admit(now time.Time, limits Limits, client Client, account Account) (*Attempt, time.Duration) {
	ofClient := t.clientShard(client)
	ofClient.mu.Lock()
	defer ofClient.mu.Unlock()
	ofAccount := t.accountShard(account.bucket)
	ofAccount.mu.Lock()
	defer ofAccount.mu.Unlock()
	// The clock is read under the locks, so that rows stay in order.
	instant, reading := t.clock.at(now)

	attempts := ofClient.trail(client, limits.Window, instant)
	var opens int64
	if n := len(attempts); n >= limits.PerClient {
		opens = attempts[n-limits.PerClient] + int64(limits.Window)
	}
	attempt := &Attempt{throttle: t, limits: limits, client: client, account: account, at: instant}
	var aim *view
	if attempt.aimed() {
		attempt.by = tagOf(client, account)
		aim = ofAccount.view(limits, account.bucket, attempt.by, instant)
		attempt.known = aim.own != nil
		opens = max(opens, aim.opens())
	}
	if opens > instant {
		return nil, time.Duration(opens - reading)
	}
	if aim != nil {
		aim.fail(instant)
	}
	ofClient.store(client, append(attempts, instant), limits.Window)
	return attempt, 0
}

func (t *Throttle) clientShard(client Client) *clientShard {
	return &t.clients[maphash.Comparable(t.seed, client)%shards]
}

func (t *Throttle) accountShard(account bucket) *accountShard {
	return &t.accounts[maphash.Comparable(t.seed, account)%shards]
}

// Failed settles the attempt as a failure. As it has stood as one since it
// was reserved, there is nothing left to save.
func (a *Attempt) Failed() {
	a.settled.Store(true)
}

// Succeeded settles the attempt as a success: the client's failures towards
// the account are cleared, also those of its attempts that are still
// pending, and the client is known to the account from now on. An error
// means that the journal could not save this; it is in force until the
// process ends.
func (a *Attempt) Succeeded(ctx context.Context, now time.Time) error {
	if a.settled.Swap(true) || !a.aimed() {
		return nil
	}
	instant := a.succeed(now)
	account := a.account.bucket
	if err := a.throttle.commits.save(ctx, failuresKey(account), knownKey(account)); err != nil {
		return fmt.Errorf("saving login success: %w", err)
	}
	a.trim(instant)
	return nil
}

// Abandoned settles an attempt of which nobody said whether the password
// was right, because no upstream answered. The account's failure is taken
// back; for the client it remains an attempt. An error means that the
// journal could not save this; it is in force until the process ends.
func (a *Attempt) Abandoned(ctx context.Context) error {
	if a.settled.Swap(true) || !a.aimed() {
		return nil
	}
	a.release()
	if err := a.throttle.commits.save(ctx, a.accountRow()); err != nil {
		return fmt.Errorf("saving abandoned login attempt: %w", err)
	}
	return nil
}

// aimed tells whether the attempt names an account.
func (a *Attempt) aimed() bool {
	return a.account != Account{}
}

func (a *Attempt) succeed(now time.Time) int64 {
	shard := a.throttle.accountShard(a.account.bucket)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	instant, _ := a.throttle.clock.at(now)
	shard.view(a.limits, a.account.bucket, a.by, instant).succeed(instant)
	return instant
}

// release takes the attempt back from its account.
func (a *Attempt) release() {
	if !a.aimed() {
		return
	}
	shard := a.throttle.accountShard(a.account.bucket)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	shard.view(a.limits, a.account.bucket, a.by, a.at).release(a.at, a.known)
}

// forgetClient takes the attempt back from its client.
func (a *Attempt) forgetClient() {
	shard := a.throttle.clientShard(a.client)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	attempts := shard.trail(a.client, a.limits.Window, a.at)
	shard.store(a.client, attempts.without(a.at), a.limits.Window)
}

// trim makes room in the tables that the attempt touched. It comes after
// saving, so that attempts that could not be saved evict nobody.
func (a *Attempt) trim(instant int64) {
	var evicted []rowKey
	clients := a.throttle.clientShard(a.client)
	clients.mu.Lock()
	for _, client := range clients.attempts.trim(instant, a.throttle.capacity) {
		evicted = append(evicted, clientKey(client))
	}
	clients.mu.Unlock()
	accounts := a.throttle.accountShard(a.account.bucket)
	accounts.mu.Lock()
	for _, account := range accounts.failures.trim(instant, a.throttle.capacity) {
		evicted = append(evicted, failuresKey(account))
	}
	for _, account := range accounts.known.trim(instant, a.throttle.capacity) {
		evicted = append(evicted, knownKey(account))
	}
	accounts.mu.Unlock()
	a.throttle.commits.later(evicted...)
}

// rows are those that the reservation changed.
func (a *Attempt) rows() []rowKey {
	if !a.aimed() {
		return []rowKey{clientKey(a.client)}
	}
	return []rowKey{clientKey(a.client), a.accountRow()}
}

func (a *Attempt) accountRow() rowKey {
	if a.known {
		return knownKey(a.account.bucket)
	}
	return failuresKey(a.account.bucket)
}
