package login

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrCorrupt is wrapped by the error for a row or a cell that no limiter can
// have written.
var ErrCorrupt = errors.New("corrupt row")

// The tables, each by the first byte of its keys.
const (
	clientsTable  = 'c'
	failuresTable = 'f'
	knownTable    = 'k'
)

// A value is the version, the eviction order, the expiry (8 bytes, little
// endian like all numbers) and the body that the table holds.
const (
	version    = 1
	headerSize = 1 + 1 + 8
)

// lastInstant leaves room to add any duration that Limits allow.
const lastInstant = math.MaxInt64 - 2*int64(maxKeep)

// rowKey identifies a row of any table.
type rowKey struct {
	table byte
	id    hash // of an account; or a Client, padded with zeros
}

func clientRow(client Client) rowKey {
	key := rowKey{table: clientsTable}
	copy(key.id[:], client[:])
	return key
}

func failuresRow(account hash) rowKey { return rowKey{failuresTable, account} }
func knownRow(account hash) rowKey    { return rowKey{knownTable, account} }

func (k rowKey) bytes() []byte {
	return append([]byte{k.table}, k.id[:]...)
}

func parseKey(key []byte) (rowKey, error) {
	if len(key) != 1+len(hash{}) || !bytes.Contains([]byte{clientsTable, failuresTable, knownTable}, key[:1]) {
		return rowKey{}, fmt.Errorf("%w: invalid key of %d bytes", ErrCorrupt, len(key))
	}
	return rowKey{key[0], hash(key[1:])}, nil
}

func encode(body []byte, expires int64, order evictionOrder) []byte {
	value := make([]byte, 0, headerSize+len(body))
	value = append(value, version, byte(order))
	value = binary.LittleEndian.AppendUint64(value, uint64(expires))
	return append(value, body...)
}

// decoded is a valid value.
type decoded struct {
	body    []byte
	expires int64
	order   evictionOrder
	latest  int64 // the latest instant in body
}

// decode validates everything that the rest of the package relies on.
func decode(table byte, value []byte) (decoded, error) {
	if len(value) < headerSize || value[0] != version || value[1] >= byte(evictionOrders) {
		return decoded{}, fmt.Errorf("%w: invalid header", ErrCorrupt)
	}
	d := decoded{
		body:    value[headerSize:],
		expires: int64(binary.LittleEndian.Uint64(value[2:])),
		order:   evictionOrder(value[1]),
	}
	valid := len(d.body) > 0
	switch table {
	case clientsTable:
		log, whole := readClientLog(d.body)
		valid = valid && whole && d.addClientLog(log)
	case failuresTable:
		valid = valid && len(d.body)%failureSize == 0 && d.addFailures(readFailures(d.body))
	case knownTable:
		valid = valid && d.addKnownClients()
	}
	if !valid {
		return decoded{}, fmt.Errorf("%w: invalid body", ErrCorrupt)
	}
	if d.expires < 0 || d.expires > d.latest+int64(maxKeep) {
		return decoded{}, fmt.Errorf("%w: invalid expiry", ErrCorrupt)
	}
	return d, nil
}

// addTimes validates instants and updates latest.
func (d *decoded) addTimes(list times, longest int) (valid bool) {
	var before int64
	for _, at := range list {
		if at < before || at > lastInstant {
			return false
		}
		before = at
	}
	d.latest = max(d.latest, before)
	return len(list) <= longest
}

func (d *decoded) addClientLog(log clientLog) (valid bool) {
	return d.addTimes(log.attempts, maxPerClient) && d.addTimes(log.successes, maxPerClient*successesPerAttempt)
}

// maxFailures is the most failures in a list: the free ones, the doublings
// from a second to a day, and the spare ones.
const maxFailures = maxFree + 17 + spare

func (d *decoded) addFailures(list failures) (valid bool) {
	at := make(times, len(list))
	for i, one := range list {
		at[i] = one.at
	}
	return d.addTimes(at, maxFailures)
}

func (d *decoded) addKnownClients() (valid bool) {
	known, complete := readKnownClients(d.body)
	if !complete || len(known) > maxKnown {
		return false
	}
	for i, one := range known {
		if !d.addTimes(times{one.login}, 1) || !d.addFailures(one.failures) || known[:i].find(one.client) != nil {
			return false
		}
	}
	return true
}
