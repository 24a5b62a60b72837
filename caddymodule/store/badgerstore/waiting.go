package badgerstore

import (
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// An account's calls wait in some lists of which the oldest is used again,
// so that MaxRecent are there and few more.
const (
	waitingLists   = 5
	waitingPerList = store.MaxRecent / (waitingLists - 1)
)

// waiting is what an account did since the last flush, as far as Recent
// can tell of it.
type waiting struct {
	lists   [waitingLists]callList
	newest  int  // of the lists
	full    bool // the oldest calls have made room for others
	flushes int  // that have passed it over
	last    time.Time
	keys    []use
}

// use is when a key was used last.
type use struct {
	key string
	at  time.Time
}

// add adds a call and returns by how many bytes the lists have grown.
func (w *waiting) add(record *store.Record) int {
	grown := 0
	list := &w.lists[w.newest]
	if list.n >= waitingPerList {
		w.newest = (w.newest + 1) % waitingLists
		list = &w.lists[w.newest]
		grown -= len(list.buf)
		w.full = w.full || list.n > 0
		*list = callList{buf: list.buf[:0]}
	}
	grown -= len(list.buf)
	list.add(record)
	if record.At.After(w.last) {
		w.last = record.At
	}
	w.use(record)
	return grown + len(list.buf)
}

func (w *waiting) use(record *store.Record) {
	if record.Key == "" {
		return
	}
	for i := range w.keys {
		if u := &w.keys[i]; u.key == record.Key {
			if record.At.After(u.at) {
				u.at = record.At
			}
			return
		}
	}
	w.keys = append(w.keys, use{record.Key, record.At})
}

// recent returns the last calls.
func (w *waiting) recent() (all callList) {
	all.buf = make([]byte, 0, w.size())
	for i := range waitingLists {
		all.join(w.lists[(w.newest+1+i)%waitingLists])
	}
	all.cut(all.n - store.MaxRecent)
	return all
}

// due tells, once in flushEvery, whether it is time to write.
func (w *waiting) due() bool {
	w.flushes++
	return !w.full || w.flushes >= int(flushFullEvery/flushEvery)
}

// size is what all lists take, in bytes.
func (w *waiting) size() (size int) {
	for i := range w.lists {
		size += len(w.lists[i].buf)
	}
	return size
}
