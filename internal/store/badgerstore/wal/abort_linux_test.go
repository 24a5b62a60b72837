package wal

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// TestSyncBesideAbort: a log that fills its segments keeps all records whose
// sync was reported as done, also if an error of the file system ends its
// journal at that moment. Without Fill, about one round in eight lost some.
func TestSyncBesideAbort(t *testing.T) {
	disk, rounds := storetest.NewExt4(t), 3
	if storetest.Long() {
		rounds = 20
	}
	for round := range rounds {
		o := options()
		o.Fill = true
		l, err := Open(disk.Dir, 0, nil, o)
		if err != nil {
			t.Fatalf("opening: %v", err)
		}
		write := func() error { return errors.Join(l.Append([]byte(strings.Repeat("x", 600))), l.Sync()) }
		if err := write(); err != nil { // a slow disk may do no other before the error
			t.Fatalf("writing: %v", err)
		}
		synced := make(chan int)
		go func() {
			n := 1
			for write() == nil {
				n++
			}
			synced <- n
		}()
		time.Sleep(time.Duration(20+3*round) * time.Millisecond)
		disk.Abort(t)
		want := <-synced
		_ = l.Close() // it cannot be closed any more
		disk.Repair(t)
		left, err := Scan(disk.Dir, 0)
		if err != nil {
			t.Fatalf("scanning: %v", err)
		}
		got := 0
		for _, segment := range left {
			got += len(read(t, segment))
			if err := segment.Remove(); err != nil {
				t.Fatalf("removing: %v", err)
			}
		}
		if got < want {
			t.Errorf("round %d: got %d records, want %d", round, got, want)
		}
	}
}
