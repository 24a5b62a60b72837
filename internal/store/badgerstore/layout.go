package badgerstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// The first byte of a row's key is the kind of row. A NUL ends ids and names
// inside a key. They and the names of endpoints have none.
//
//	m format              the version of the format
//	m log                 the first segment of the log that is still needed
//	m kept number         the number of a transaction that is synced in Badger; 2 bytes, see keptRows
//	m deleted account     the account was deleted and may have counts: its keys
//	                      that may have some, with a NUL before each
//	a account             the account part of a document; see book.Parts
//	k account             its keys
//	g account             its login tokens
//	r account NUL row     a row of the account; those of credits stay when it is deleted
//	s space NUL row       a row of another space
//	e milliseconds number an entry of the audit log; 8 bytes each
//	c day holder NUL endpoint    the count of a day; the day is 4 bytes; see ledger.Holder
//	l …                   a row of the login limiter
const (
	prefixMeta    = 'm'
	prefixAccount = 'a'
	prefixKeys    = 'k'
	prefixLogins  = 'g'
	prefixRow     = 'r'
	prefixSpace   = 's'
	prefixEntry   = 'e'
	prefixCount   = 'c'
	prefixAttempt = 'l'
)

// maxText is the limit of the text of a count's key, in bytes. Valid ones are
// shorter.
const maxText = 2 << 10

// errCorrupt says that a row cannot be decoded.
var errCorrupt = errors.New("row is damaged")

// deletedKey is the key of the row of a deleted account that may have counts.
func deletedKey(account string) []byte {
	return append(append([]byte{prefixMeta}, "deleted "...), account...)
}

// deletedRow is this row. It expires after all of these counts, but those of totals:
// the day of one can be some days ahead of the clock.
func deletedRow(account string, keys []string) change {
	value := strings.Join(append([]string{""}, keys...), "\x00")
	return change{key: deletedKey(account), value: []byte(value), expires: time.Now().AddDate(0, 0, store.CountsFor+7)}
}

// partKey is the key of a part of a document.
func partKey(prefix byte, account string) []byte { return append([]byte{prefix}, account...) }

// rowKey is the key of a row of a space. Without a row it is the prefix of all
// its rows.
func rowKey(of book.Space, row string) []byte {
	prefix, name := byte(prefixRow), of.Account
	if name == "" {
		prefix, name = prefixSpace, of.Name
	}
	return append(append(append([]byte{prefix}, name...), 0), row...)
}

func entryKey(id store.EntryID) []byte {
	key := binary.BigEndian.AppendUint64([]byte{prefixEntry}, uint64(id.Milliseconds))
	return binary.BigEndian.AppendUint64(key, uint64(id.Number))
}

func parseEntryKey(key []byte) (id store.EntryID, err error) {
	if len(key) != 1+8+8 {
		return id, fmt.Errorf("audit entry %.40q: %w", key, errCorrupt)
	}
	id.Milliseconds = int64(binary.BigEndian.Uint64(key[1:]))
	id.Number = int64(binary.BigEndian.Uint64(key[9:]))
	return id, nil
}

func attemptKey(key []byte) []byte { return append([]byte{prefixAttempt}, key...) }

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
