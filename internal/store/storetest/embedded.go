package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

func (s *suite) wantAttempts(want map[string]string) {
	s.Helper()
	got := map[string]string{}
	err := s.embedded.LoadAttempts(s.Context(), func(key, value []byte) error {
		got[string(key)] = string(value)
		return nil
	})
	if err != nil || !maps.Equal(got, want) {
		s.Errorf("attempts: got %q, %v, want %q", got, err, want)
	}
}

// attempts: the rows of the login limiter are any bytes.
func (s *suite) attempts() {
	s.wantAttempts(nil)
	later := s.now.Add(time.Hour)
	row := func(key, value string) login.Row {
		return login.Row{Key: []byte(key), Value: []byte(value), ExpiresAt: later}
	}
	s.must(s.embedded.Save(s.Context(), []login.Row{
		row("0123456789", "one"), row("\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff", "\x00two\xff"),
		row("0123456789abcdefg", "three"), row("expired...", "deleted"),
	}))
	s.must(s.embedded.Save(s.Context(), []login.Row{
		row("0123456789", "one again"),
		{Key: []byte("0123456789abcdefg")},
		{Key: []byte("never saved")},
		{Key: []byte("expired..."), Value: []byte("gone"), ExpiresAt: s.now.Add(-time.Second * 2)},
	}))
	s.must(s.embedded.Save(s.Context(), nil))
	want := map[string]string{
		"0123456789": "one again",
		"\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff": "\x00two\xff",
	}
	s.wantAttempts(want)
	stop, calls := errors.New("stop"), 0
	err := s.embedded.LoadAttempts(s.Context(), func([]byte, []byte) error { calls++; return stop })
	if s.wantError("loading after an error", err, stop); calls != 1 {
		s.Errorf("LoadAttempts continued after an error: %d calls", calls)
	}

	// A large batch, with rows of up to 299 bytes.
	var rows []login.Row
	for i := range 3000 {
		r := row(fmt.Sprintf("many%06d", i), string(bytes.Repeat([]byte{byte(i)}, i%300)))
		rows = append(rows, r)
		want[string(r.Key)] = string(r.Value)
	}
	s.must(s.embedded.Save(s.Context(), rows))
	s.wantAttempts(want)
	s.restart()
	s.wantAttempts(want)
}

// closed: each method of a closed store returns store.ErrClosed.
func (s *suite) closed() {
	s.account("acc_1")
	key := s.newKey("acc_1", "ci")
	hash := s.create(key)
	s.must(s.embedded.Close())
	s.must(s.embedded.Close())

	st, ctx, call := s.embedded, context.Background(), s.call("acc_1", "convert")
	limits, rooms := onlyDaily(call, 1), make([]store.Room, 1)
	space := book.Space{Account: "acc_1"}
	tests := map[string]func() error{
		"Grant":        func() error { _, err := st.Grant(ctx, hash, s.now); return err },
		"GrantAccount": func() error { _, err := st.GrantAccount(ctx, "acc_1", true); return err },
		"Take":         func() error { _, err := st.Take(ctx, call, limits, rooms); return err },
		"Rooms":        func() error { return st.Rooms(ctx, call, limits, rooms) },
		"Settle":       func() error { return st.Settle(ctx, call, nil, nil, 0, false) },
		"Change":       func() error { _, err := PutAccount(ctx, s.store.Book, store.Account{ID: "acc_1"}); return err },
		"Delete":       func() error { return s.store.DeleteAccount(ctx, "acc_1") },
		"Get":          func() error { _, err := st.Get(ctx, "acc_1"); return err },
		"List":         func() error { _, err := st.List(ctx, "", 1, true); return err },
		"Holder":       func() error { _, err := st.Holder(ctx, hash); return err },
		"HolderOfKey":  func() error { _, err := st.HolderOfKey(ctx, key.ID); return err },
		"Totals":       func() error { _, err := st.Totals(ctx); return err },
		"Counts":       func() error { _, err := st.Counts(ctx, "acc_1", "", s.today, s.today); return err },
		"Credit":       func() error { return st.Credit(ctx, "acc_1", nil, s.today, "convert", 1) },
		"GetRows":      func() error { _, err := st.GetRows(ctx, space, "row"); return err },
		"Scan":         func() error { _, err := st.Scan(ctx, 1, book.Range{Space: space}); return err },
		"Commit": func() error {
			return st.Commit(ctx, book.Batch{Space: space, Writes: []book.Write{{Row: book.Row{Key: "row"}}}})[0]
		},
		"Entries":      func() error { _, err := st.Entries(ctx, store.EntryID{}, store.EntryID{}, false, 1); return err },
		"Dump":         func() error { return st.Dump(ctx, nil, func(book.Piece) error { return nil }) },
		"Check":        func() error { return st.Check(ctx) },
		"Save":         func() error { return st.Save(ctx, []login.Row{{Key: []byte("0123456789")}}) },
		"LoadAttempts": func() error { return st.LoadAttempts(ctx, func(_, _ []byte) error { return nil }) },
	}
	for name, late := range tests {
		err := late()
		s.wantError(name+" after closing", err, store.ErrClosed)
		s.wantError(name+" after closing", err, store.ErrUnavailable)
	}
}

// closeUnderLoad: a call that is in flight when the store closes is counted
// or refused, and the counts are there after the store is reopened.
func (s *suite) closeUnderLoad() {
	const callers = 16
	s.account("acc_1")
	call := s.call("acc_1", "convert")
	var admitted atomic.Int64
	warm := make(chan struct{}, callers)
	s.together(callers+1, func(i int) error {
		if i == callers {
			for range callers {
				<-warm
			}
			return s.embedded.Close()
		}
		for {
			ok, err := s.store.Take(context.Background(), call, nil, nil)
			if err != nil {
				return ignore(err, store.ErrClosed)
			}
			if ok {
				admitted.Add(1)
			}
			select {
			case warm <- struct{}{}:
			default:
			}
		}
	})
	s.restart()
	s.wantUsed(call, admitted.Load())
}
