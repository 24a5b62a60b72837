package badgerstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/heaptest"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// longCall is a call whose path is a part of a request line.
func longCall(account, key, line, path int) store.Record {
	text := strings.Repeat(string(rune('a'+key%26)), line)
	return store.Record{
		Account: fmt.Sprint("acc_", account), Key: fmt.Sprint("key_", key), KeyName: strings.Repeat("ü", 64),
		At: time.Now(), Endpoint: "convert", Method: "GET", Path: text[:path],
	}
}

// The threat: a client with a key sends long paths, or a long query after a
// short path, while the disk is slow.
//
// TestWaitingCallsAreBounded: the calls that wait for the disk take the memory
// that docs/guarantees.md says.
func TestWaitingCallsAreBounded(t *testing.T) {
	s := openHere(t, t.TempDir(), Options{})
	for name, path := range map[string]int{"long paths": 1 << 10, "long queries": 30} {
		heaptest.Holds(t, "queue, "+name, 2<<20, func() any {
			r := newRecorder(s)
			for key := range queueSize {
				call := longCall(0, key, 64<<10, path)
				r.add(&call)
			}
			return r
		})
		heaptest.Holds(t, "calls of many keys, "+name, 10<<20, func() any {
			r := newRecorder(s)
			for n := range 60_000 {
				call := longCall(n/store.MaxLiveKeys, n%store.MaxLiveKeys, 1<<10, path)
				r.add(&call)
				if len(r.queue) == queueSize {
					r.moveQueue()
				}
			}
			return r
		})
	}
}
