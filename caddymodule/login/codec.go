package login

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"
)

// ErrCorrupt is wrapped by the error for a row that no Throttle wrote.
var ErrCorrupt = errors.New("corrupt row")

// The kinds of rows, each the first byte of its keys.
const (
	ofClient   = 'c'
	ofFailures = 'f'
	ofKnown    = 'k'
)

// A value is the version, the rank, the expiry (8 bytes, little endian like
// all numbers) and the body that the tables hold, too.
const (
	version    = 1
	headerSize = 1 + 1 + 8
)

// lastInstant leaves room for adding any duration that Limits allow.
const lastInstant = math.MaxInt64 - 2*int64(maxKeep)

// rowKey names a row of any table.
type rowKey struct {
	kind    byte
	client  Client
	account bucket
}

func clientKey(client Client) rowKey    { return rowKey{kind: ofClient, client: client} }
func failuresKey(account bucket) rowKey { return rowKey{kind: ofFailures, account: account} }
func knownKey(account bucket) rowKey    { return rowKey{kind: ofKnown, account: account} }

func (k rowKey) bytes() []byte {
	if k.kind == ofClient {
		return append([]byte{k.kind}, k.client[:]...)
	}
	return append([]byte{k.kind}, k.account[:]...)
}

func parseKey(key []byte) (rowKey, error) {
	switch {
	case len(key) == 1+len(Client{}) && key[0] == ofClient:
		return clientKey(Client(key[1:])), nil
	case len(key) == 1+len(bucket{}) && key[0] == ofFailures:
		return failuresKey(bucket(key[1:])), nil
	case len(key) == 1+len(bucket{}) && key[0] == ofKnown:
		return knownKey(bucket(key[1:])), nil
	}
	return rowKey{}, fmt.Errorf("%w: key of %d bytes", ErrCorrupt, len(key))
}

func encode(body []byte, expires int64, as rank) []byte {
	value := make([]byte, 0, headerSize+len(body))
	value = append(value, version, byte(as))
	value = binary.LittleEndian.AppendUint64(value, uint64(expires))
	return append(value, body...)
}

// decoded is a value that passed all checks.
type decoded struct {
	body    []byte
	expires int64
	rank    rank
	latest  int64 // the latest instant in it
}

// decode checks all that the rest of the package relies on.
func decode(kind byte, value []byte) (decoded, error) {
	if len(value) < headerSize || value[0] != version || value[1] >= byte(ranks) {
		return decoded{}, fmt.Errorf("%w: bad header", ErrCorrupt)
	}
	d := decoded{
		body:    value[headerSize:],
		expires: int64(binary.LittleEndian.Uint64(value[2:])),
		rank:    rank(value[1]),
	}
	var ok bool
	switch kind {
	case ofClient:
		d.latest, ok = checkTrail(d.body, maxPerClient)
	case ofFailures:
		d.latest, ok = checkLedger(d.body)
	case ofKnown:
		d.latest, ok = checkCircle(d.body)
	}
	if !ok || len(d.body) == 0 {
		return decoded{}, fmt.Errorf("%w: bad body", ErrCorrupt)
	}
	if d.expires < 0 || d.expires > d.latest+int64(maxKeep) {
		return decoded{}, fmt.Errorf("%w: bad expiry", ErrCorrupt)
	}
	return d, nil
}

// maxFailures bounds a row's failures: the free ones, the doublings from a
// second to a day, and those to spare.
const maxFailures = maxFree + 17 + spare

func checkTrail(body []byte, longest int) (latest int64, ok bool) {
	if len(body)%8 != 0 || len(body)/8 > longest {
		return 0, false
	}
	for _, at := range readTrail(nil, body) {
		if at < latest || at > lastInstant {
			return 0, false
		}
		latest = at
	}
	return latest, true
}

func checkLedger(body []byte) (latest int64, ok bool) {
	if len(body)%failureSize != 0 || len(body)/failureSize > maxFailures {
		return 0, false
	}
	for _, entry := range readLedger(nil, body) {
		if entry.at < latest || entry.at > lastInstant {
			return 0, false
		}
		latest = entry.at
	}
	return latest, true
}

func checkCircle(body []byte) (latest int64, ok bool) {
	known, whole := readCircle(body)
	if !whole || len(known) > maxKnown {
		return 0, false
	}
	for i, of := range known {
		if of.since < 0 || of.since > lastInstant || known[:i].find(of.by) != nil {
			return 0, false
		}
		last, ok := checkTrail(of.failures.appendTo(nil), maxFailures)
		if !ok {
			return 0, false
		}
		latest = max(latest, of.since, last)
	}
	return latest, true
}

// Restore reads back what a Journal saved, in any order. It is called once,
// before the first Reserve; now tells which rows have expired meanwhile. An
// attempt that was pending when the process ended counts as failed. Of a
// row, Key and Value are read. Restore ends with the first error that the
// sequence yields, and with an error that wraps ErrCorrupt at the first row
// that no Throttle wrote: the state is not to be used then, as beginning
// with half of it would give attackers their allowance back.
func (t *Throttle) Restore(now time.Time, rows iter.Seq2[Row, error]) error {
	_, reading := t.clock.at(now)
	for row, err := range rows {
		if err != nil {
			return fmt.Errorf("reading login throttle: %w", err)
		}
		key, err := parseKey(row.Key)
		if err != nil {
			return fmt.Errorf("restoring login throttle: %w", err)
		}
		value, err := decode(key.kind, row.Value)
		if err != nil {
			return fmt.Errorf("restoring login throttle: row of kind %q: %w", key.kind, err)
		}
		t.clock.resume(value.latest)
		if value.expires > reading {
			t.restore(key, value)
		}
	}
	for i := range shards {
		t.settle(i, reading)
	}
	return nil
}

func (t *Throttle) restore(key rowKey, value decoded) {
	if key.kind == ofClient {
		shard := t.clientShard(key.client)
		shard.mu.Lock()
		defer shard.mu.Unlock()
		shard.attempts.put(key.client, value.body, value.expires, value.rank)
		return
	}
	shard := t.accountShard(key.account)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if key.kind == ofFailures {
		shard.failures.put(key.account, value.body, value.expires, value.rank)
		return
	}
	shard.known.put(key.account, value.body, value.expires, value.rank)
}

// settle orders one part of the restored rows, and drops those beyond
// capacity: the journal may hold more, if evictions were not saved.
func (t *Throttle) settle(part int, instant int64) {
	clients := &t.clients[part]
	clients.mu.Lock()
	defer clients.mu.Unlock()
	clients.attempts.sort()
	for _, client := range clients.attempts.trim(instant, t.capacity) {
		t.commits.later(clientKey(client))
	}
	accounts := &t.accounts[part]
	accounts.mu.Lock()
	defer accounts.mu.Unlock()
	accounts.failures.sort()
	for _, account := range accounts.failures.trim(instant, t.capacity) {
		t.commits.later(failuresKey(account))
	}
	accounts.known.sort()
	for _, account := range accounts.known.trim(instant, t.capacity) {
		t.commits.later(knownKey(account))
	}
}
