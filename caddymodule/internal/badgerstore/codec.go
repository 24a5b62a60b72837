package badgerstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// The first byte of a row's key is the kind of row. A NUL ends account ids and
// key ids inside a key. They and the names of endpoints have none.
//
//	m format              the version of the format
//	m log                 the first segment of the log that is still needed
//	m changes             the number of the last change
//	a account             an account
//	k account NUL key     a key without its secret, with the token's hash
//	u key                 when a key was last used, and from where
//	c day holder NUL endpoint    the count of a day; the day is 4 bytes; see ledger.Holder
//	r account NUL slot    up to recentPerSlot of the last admitted or refused calls
//	l …                   a row of the login limiter
//	f day account NUL endpoint NUL code    refused calls of a day
//	e milliseconds number                  an audit entry; 8 bytes each
//	q event               an event that waits for delivery
//	n event               the id of an event that was added before
const (
	prefixMeta    = 'm'
	prefixAccount = 'a'
	prefixKey     = 'k'
	prefixUsed    = 'u'
	prefixCount   = 'c'
	prefixRecent  = 'r'
	prefixAttempt = 'l'
	prefixRefused = 'f'
	prefixEntry   = 'e'
	prefixQueued  = 'q'
	prefixKnown   = 'n'
)

// rowVersion is the first byte of every value with several fields.
const rowVersion = 1

// maxText is the limit of the text of an account, a key or a count, in bytes.
// Valid ones are shorter.
const maxText = 2 << 10

// errCorrupt says that a row cannot be decoded.
var errCorrupt = errors.New("row is damaged")

func accountKey(id string) []byte { return append([]byte{prefixAccount}, id...) }

func keysPrefix(account string) []byte {
	return append(append([]byte{prefixKey}, account...), 0)
}

func keyKey(account, id string) []byte { return append(keysPrefix(account), id...) }

func usedKey(id string) []byte { return append([]byte{prefixUsed}, id...) }

func dayPrefix(day calendar.Day) []byte {
	return binary.BigEndian.AppendUint32([]byte{prefixCount}, uint32(day))
}

func countsPrefix(day calendar.Day, holder string) []byte {
	return append(append(dayPrefix(day), holder...), 0)
}

// dayEnd is where the day of a count's key ends.
const dayEnd = 1 + 4

// dayOf is the day of a count's key.
func dayOf(key []byte) calendar.Day { return calendar.Day(binary.BigEndian.Uint32(key[1:dayEnd])) }

// appendCountKey appends to buf, which the log's only writer reuses.
func appendCountKey(buf []byte, day calendar.Day, holder, endpoint string) []byte {
	buf = append(buf, prefixCount)
	buf = binary.BigEndian.AppendUint32(buf, uint32(day))
	buf = append(append(buf, holder...), 0)
	return append(buf, endpoint...)
}

// parseCountKey returns what follows the day.
func parseCountKey(key []byte) (holder, endpoint string, err error) {
	if len(key) >= dayEnd && len(key) <= maxText {
		if holder, endpoint, ok := strings.Cut(string(key[dayEnd:]), "\x00"); ok {
			return holder, endpoint, nil
		}
	}
	return "", "", fmt.Errorf("count %q: %w", key, errCorrupt)
}

func parseCount(value []byte) (int64, error) {
	n, size := binary.Uvarint(value)
	if size <= 0 || size != len(value) || n > uint64(store.Unlimited) {
		return 0, fmt.Errorf("count: %w", errCorrupt)
	}
	return int64(n), nil
}

func recentPrefix(account string) []byte {
	return append(append([]byte{prefixRecent}, account...), 0)
}

func recentKey(account string, slot byte) []byte { return append(recentPrefix(account), slot) }

func attemptKey(key []byte) []byte { return append([]byte{prefixAttempt}, key...) }

// encoder appends the fields of a row.
type encoder struct{ buf []byte }

func newEncoder() *encoder { return &encoder{buf: []byte{rowVersion}} }

func (e *encoder) uint(v uint64)    { e.buf = binary.AppendUvarint(e.buf, v) }
func (e *encoder) int(v int64)      { e.buf = binary.AppendVarint(e.buf, v) }
func (e *encoder) string(s string)  { e.uint(uint64(len(s))); e.buf = append(e.buf, s...) }
func (e *encoder) time(t time.Time) { e.int(nanos(t)) }

func (e *encoder) bytes(b []byte) { e.uint(uint64(len(b))); e.buf = append(e.buf, b...) }

func (e *encoder) bool(v bool) {
	if v {
		e.uint(1)
	} else {
		e.uint(0)
	}
}

func (e *encoder) limit(l *store.Limit) {
	e.string(l.Endpoint)
	e.uint(uint64(l.Period))
	e.int(l.Max)
	e.bool(l.OfKey)
}

// nanos returns the time as it is stored. 0 is the zero time.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// decoder reads the fields of a row and keeps the first error.
type decoder struct {
	buf []byte
	err error
}

func newDecoder(value []byte) *decoder {
	if len(value) == 0 || value[0] != rowVersion {
		return &decoder{err: errCorrupt}
	}
	return &decoder{buf: value[1:]}
}

func (d *decoder) advance(size int) bool {
	if d.err == nil && (size <= 0 || size > len(d.buf)) {
		d.err = errCorrupt
	}
	if d.err != nil {
		return false
	}
	d.buf = d.buf[size:]
	return true
}

func (d *decoder) uint() uint64 {
	v, size := binary.Uvarint(d.buf)
	if !d.advance(size) {
		return 0
	}
	return v
}

func (d *decoder) int() int64 {
	v, size := binary.Varint(d.buf)
	if !d.advance(size) {
		return 0
	}
	return v
}

func (d *decoder) bytes(size uint64) []byte {
	if size == 0 {
		return nil
	}
	if size > uint64(len(d.buf)) {
		d.err = errCorrupt
		return nil
	}
	b := d.buf[:size]
	d.buf = d.buf[size:]
	return b
}

func (d *decoder) string() string  { return string(d.bytes(d.uint())) }
func (d *decoder) time() time.Time { return fromNanos(d.int()) }

func (d *decoder) bool() bool {
	v := d.uint()
	if v > 1 {
		d.err = errCorrupt
	}
	return v == 1
}

func (d *decoder) limit() store.Limit {
	l := store.Limit{Endpoint: d.string()}
	period := d.uint()
	if period < uint64(store.Second) || period > uint64(store.Month) {
		d.err = errCorrupt
	}
	l.Period, l.Max, l.OfKey = store.Period(period), d.int(), d.bool()
	if l.Max < 0 || l.Max == 0 && l.Period.IsPace() {
		d.err = errCorrupt
	}
	return l
}

// more tells whether there are more fields, of a list at the end of a row.
func (d *decoder) more() bool { return d.err == nil && len(d.buf) > 0 }

// end returns the first error. Data after the last field is an error, too.
func (d *decoder) end() error {
	if d.err == nil && len(d.buf) > 0 {
		d.err = errCorrupt
	}
	return d.err
}

func encodeAccount(a store.Account) []byte {
	e := newEncoder()
	e.string(a.Plan)
	e.bool(a.Disabled)
	e.time(a.CreatedAt)
	e.string(a.Label)
	for i := range a.Overrides {
		o := &a.Overrides[i]
		e.limit(&o.Limit)
		e.time(o.ExpiresAt)
		e.string(o.Reason)
		e.time(o.CreatedAt)
	}
	return e.buf
}

func decodeAccount(id string, value []byte) (store.Account, error) {
	d := newDecoder(value)
	a := store.Account{ID: id, Plan: d.string(), Disabled: d.bool(), CreatedAt: d.time(), Label: d.string()}
	for d.more() {
		a.Overrides = append(a.Overrides, store.Override{
			Limit: d.limit(), ExpiresAt: d.time(), Reason: d.string(), CreatedAt: d.time(),
		})
	}
	if err := d.end(); err != nil || len(id) > maxText {
		return a, fmt.Errorf("account %.40s: %w", id, errCorrupt)
	}
	return a, nil
}

// keyRow is a key as it is stored, with the hash of its token.
type keyRow struct {
	store.Key
	hash token.Hash
}

func encodeKey(k keyRow) []byte {
	e := newEncoder()
	e.buf = append(e.buf, k.hash[:]...)
	e.uint(uint64(k.Kind))
	e.string(k.Name)
	e.string(strings.Join(k.Abilities, " "))
	e.string(k.Hint)
	e.time(k.CreatedAt)
	e.time(k.ExpiresAt)
	e.time(k.RevokedAt)
	e.string(k.Root)
	e.uint(uint64(len(k.Limits)))
	for i := range k.Limits {
		e.limit(&k.Limits[i])
	}
	for _, network := range k.Addresses {
		e.string(network.String())
	}
	return e.buf
}

func decodeKey(key, value []byte) (keyRow, error) {
	var k keyRow
	account, id, ok := strings.Cut(string(key[1:]), "\x00")
	d := newDecoder(value)
	copy(k.hash[:], d.bytes(uint64(len(k.hash))))
	k.Account, k.ID = account, id
	k.Kind = token.Kind(d.uint())
	k.Name = d.string()
	k.Abilities = strings.Fields(d.string())
	k.Hint = d.string()
	k.CreatedAt, k.ExpiresAt, k.RevokedAt = d.time(), d.time(), d.time()
	k.Root = d.string()
	for n := d.uint(); n > 0 && d.err == nil; n-- {
		k.Limits = append(k.Limits, d.limit())
	}
	for d.more() {
		network, err := netip.ParsePrefix(d.string())
		if err != nil {
			d.err = errCorrupt
		}
		k.Addresses = append(k.Addresses, network)
	}
	if err := d.end(); err != nil || !ok || len(key)+len(k.Name)+len(k.Root) > maxText {
		return k, fmt.Errorf("key %.40s: %w", id, errCorrupt)
	}
	return k, nil
}

// joinAbilities returns a set of abilities as store.Grant has it.
func joinAbilities(abilities []string) string {
	sorted := slices.Clone(abilities)
	slices.Sort(sorted)
	return strings.Join(slices.Compact(sorted), " ")
}
