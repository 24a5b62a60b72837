package login

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"
)

// Capacity is the most rows of each table.
const Capacity = 1 << 20

// shards is how many independent parts each table has.
const shards = 16

// Local limits the login attempts of one process. It is safe for concurrent
// use. It outlives configurations.
type Local struct {
	clock    clock
	seed     maphash.Seed
	capacity int // of a table in one shard
	clients  [shards]clientShard
	accounts [shards]accountShard
	commits  *commits
}

// NewLocal returns an empty Local. If the journal is nil, Local keeps its
// state in memory only.
func NewLocal(journal Journal) *Local {
	l := &Local{seed: maphash.MakeSeed(), capacity: Capacity / shards}
	l.commits = &commits{journal: journal, read: l.row}
	return l
}

// Restore loads the rows of the journal. Call it once, before the first
// Reserve. now decides which rows have expired. Attempts that were in flight
// when the process ended count as failed. After an error, do not use the
// Local: with a part of the rows it would give attackers their allowance
// back. An invalid row is an error that wraps ErrCorrupt.
func (l *Local) Restore(ctx context.Context, now time.Time) error {
	_, reading := l.clock.at(now)
	err := l.commits.journal.LoadAttempts(ctx, func(key, value []byte) error {
		row, err := parseKey(key)
		if err != nil {
			return err
		}
		decoded, err := decode(row.table, value)
		if err != nil {
			return fmt.Errorf("table %q: %w", row.table, err)
		}
		l.clock.resume(decoded.latest)
		if decoded.expires > reading {
			mu, table := l.table(row)
			mu.Lock()
			defer mu.Unlock()
			table.put(row.id, decoded.body, decoded.expires, decoded.order)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("restoring login attempts: %w", err)
	}
	for i := range shards {
		l.restoreOrder(&l.clients[i].mu, &l.clients[i].attempts, clientsTable, reading)
		l.restoreOrder(&l.accounts[i].mu, &l.accounts[i].failures, failuresTable, reading)
		l.restoreOrder(&l.accounts[i].mu, &l.accounts[i].known, knownTable, reading)
	}
	return nil
}

// restoreOrder sorts a restored table and evicts rows over its capacity: the
// journal has more rows if evictions were not saved.
func (l *Local) restoreOrder(mu *sync.Mutex, t *table, name byte, instant int64) {
	mu.Lock()
	t.sort()
	mu.Unlock()
	l.trim(mu, t, name, instant)
}

// trim makes room in a table.
func (l *Local) trim(mu *sync.Mutex, t *table, name byte, instant int64) {
	mu.Lock()
	ids := t.trim(instant, l.capacity)
	mu.Unlock()
	evicted := make([]rowKey, len(ids))
	for i, id := range ids {
		evicted[i] = rowKey{name, id}
	}
	l.commits.saveLater(evicted)
}

// table returns the table of a row and its lock.
func (l *Local) table(key rowKey) (*sync.Mutex, *table) {
	switch key.table {
	case clientsTable:
		shard := l.clientShard(Client(key.id[:len(Client{})]))
		return &shard.mu, &shard.attempts
	case failuresTable:
		shard := l.accountShard(key.id)
		return &shard.mu, &shard.failures
	default:
		shard := l.accountShard(key.id)
		return &shard.mu, &shard.known
	}
}

// row returns a row as it is now.
func (l *Local) row(key rowKey) Row {
	mu, table := l.table(key)
	mu.Lock()
	body, expires, order := table.read(key.id)
	mu.Unlock()
	if body == nil {
		return Row{Key: key.bytes()}
	}
	return Row{Key: key.bytes(), Value: encode(body, expires, order), ExpiresAt: l.clock.wall(expires)}
}

func (l *Local) clientShard(client Client) *clientShard {
	return &l.clients[maphash.Comparable(l.seed, client)%shards]
}

func (l *Local) accountShard(account hash) *accountShard {
	return &l.accounts[maphash.Comparable(l.seed, account)%shards]
}

// Reserve admits or refuses an attempt, and saves an admitted one before it
// returns. It returns one of these:
//
//   - an Attempt, whose outcome the caller reports.
//   - no Attempt, and a wait. Nothing was counted. A client that waits that
//     long is admitted, unless other attempts come first.
//   - an error, if ctx is done, the limits are invalid (ErrLimits) or the
//     journal cannot save. Nothing is counted in memory. If the journal
//     wrote the attempt despite its error, it counts as failed after a
//     restart.
//
// Read the clock for now right before the call, not when the request began:
// a reading more than a minute older than another one counts as a clock set
// back. ctx does not interrupt saving, because a batch has attempts of other
// callers.
func (l *Local) Reserve(
	ctx context.Context, now time.Time, limits Limits, client Client, account Account,
) (Attempt, time.Duration, error) {
	limits, err := begin(ctx, limits)
	if err != nil {
		return nil, 0, err
	}
	r, wait := l.reserve(now, limits, client, account)
	if r == nil {
		return nil, wait, nil
	}
	if err := l.commits.save(ctx, r.rows()...); err != nil {
		r.releaseClient()
		r.releaseAccount()
		return nil, 0, fmt.Errorf("saving login attempt: %w", err)
	}
	r.trim(r.at)
	return r, 0, nil
}

// reserve applies both rules, and counts the attempt if both admit it.
func (l *Local) reserve(now time.Time, limits Limits, client Client, account Account) (*reservation, time.Duration) {
	clients := l.clientShard(client)
	clients.mu.Lock()
	defer clients.mu.Unlock()
	accounts := l.accountShard(account.group)
	accounts.mu.Lock()
	defer accounts.mu.Unlock()
	// Read the clock with the locks held, so that rows stay in order.
	instant, reading := l.clock.at(now)

	attempts := clients.state(limits, client, instant)
	opens := attempts.opens()
	r := &reservation{local: l, at: instant}
	r.limits, r.client, r.account, r.fingerprint = limits, client, account, fingerprintOf(client, account)
	var state *accountState
	if r.hasAccount() {
		state = accounts.state(limits, account.group, r.fingerprint, instant)
		r.known = state.own != nil
		opens = max(opens, state.opens())
	}
	if opens > instant {
		return nil, time.Duration(opens - reading)
	}
	if state != nil {
		state.fail(instant)
		accounts.save(account.group, state)
	}
	attempts.add(instant)
	clients.save(client, attempts)
	return r, 0
}

// reservation is the Attempt of a Local.
type reservation struct {
	request
	local *Local
	at    int64
}

// Succeeded implements Attempt.
func (r *reservation) Succeeded(ctx context.Context, now time.Time) error {
	if r.settled.Swap(true) {
		return nil
	}
	instant := r.succeed(now)
	rows := []rowKey{clientRow(r.client)}
	if r.hasAccount() {
		rows = append(rows, failuresRow(r.account.group), knownRow(r.account.group))
	}
	if err := r.local.commits.save(ctx, rows...); err != nil {
		return fmt.Errorf("saving login success: %w", err)
	}
	r.trim(instant)
	return nil
}

// Abandoned implements Attempt.
func (r *reservation) Abandoned(ctx context.Context) error {
	if r.settled.Swap(true) || !r.hasAccount() {
		return nil
	}
	r.releaseAccount()
	if err := r.local.commits.save(ctx, r.accountRow()); err != nil {
		return fmt.Errorf("saving abandoned login attempt: %w", err)
	}
	return nil
}

func (r *reservation) succeed(now time.Time) int64 {
	clients := r.local.clientShard(r.client)
	clients.mu.Lock()
	defer clients.mu.Unlock()
	shard := r.local.accountShard(r.account.group)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	instant, _ := r.local.clock.at(now)
	if !r.limits.Strict {
		attempts := clients.state(r.limits, r.client, instant)
		attempts.succeed(r.at)
		clients.save(r.client, attempts)
	}
	if !r.hasAccount() {
		return instant
	}
	state := shard.state(r.limits, r.account.group, r.fingerprint, instant)
	state.succeed(instant)
	shard.save(r.account.group, state)
	return instant
}

// releaseAccount takes the failure back from the account.
func (r *reservation) releaseAccount() {
	if !r.hasAccount() {
		return
	}
	shard := r.local.accountShard(r.account.group)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	state := shard.state(r.limits, r.account.group, r.fingerprint, r.at)
	state.release(r.at, r.known)
	shard.save(r.account.group, state)
}

// releaseClient takes the attempt back from the client.
func (r *reservation) releaseClient() {
	shard := r.local.clientShard(r.client)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	attempts := shard.state(r.limits, r.client, r.at)
	attempts.release(r.at)
	shard.save(r.client, attempts)
}

// trim makes room in the tables of this attempt. It runs after saving, so
// that attempts that were not saved evict no row.
func (r *reservation) trim(instant int64) {
	rows := []rowKey{clientRow(r.client), failuresRow(r.account.group), knownRow(r.account.group)}
	for _, key := range rows {
		mu, table := r.local.table(key)
		r.local.trim(mu, table, key.table, instant)
	}
}

// rows are the rows that the reservation changed.
func (r *reservation) rows() []rowKey {
	if !r.hasAccount() {
		return []rowKey{clientRow(r.client)}
	}
	return []rowKey{clientRow(r.client), r.accountRow()}
}

func (r *reservation) accountRow() rowKey {
	if r.known {
		return knownRow(r.account.group)
	}
	return failuresRow(r.account.group)
}

// Interface guard.
var _ Attempt = (*reservation)(nil)
