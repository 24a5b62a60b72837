package badgerstore

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// keyUse is the last use of a key, when and from which address.
type keyUse struct {
	key  string
	at   time.Time
	from netip.Addr // the zero Addr if it is not known
}

func (u *keyUse) add(record *store.Record) {
	if record.At.After(u.at) {
		u.at, u.from = record.At, record.From
	}
}

// usedRows returns the rows of the keys that were used.
func (r *recorder) usedRows(keys []keyUse) (rows []change, err error) {
	for _, u := range keys {
		stored, err := r.store.lastUse(u.key)
		if err != nil {
			return nil, err
		}
		// A clock that was far ahead has stored a time in the future.
		if since := u.at.Sub(stored.at); since < 0 && since >= -clockAhead {
			u.at, u.from = stored.at, stored.from
		}
		rows = append(rows, useChange(u))
	}
	return rows, nil
}

// useChange is the row of a key's last use.
func useChange(u keyUse) change {
	return change{key: usedKey(u.key), value: encodeUse(u), expires: u.at.Add(usedFor)}
}

func encodeUse(u keyUse) []byte {
	e := newEncoder()
	e.time(u.at)
	from := ""
	if u.from.IsValid() {
		from = u.from.String()
	}
	e.string(from)
	return e.buf
}

func decodeUse(key string, value []byte) (keyUse, error) {
	d := newDecoder(value)
	u := keyUse{key: key, at: d.time()}
	if from := d.string(); from != "" {
		var err error
		if u.from, err = netip.ParseAddr(from); err != nil {
			d.err = errCorrupt
		}
	}
	if err := d.end(); err != nil {
		return keyUse{}, fmt.Errorf("last use of key %.40s: %w", key, err)
	}
	return u, nil
}
