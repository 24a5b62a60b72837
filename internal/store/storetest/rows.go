package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

func put(key, value string) book.Write {
	return book.Write{Row: book.Row{Key: key, Value: []byte(value)}}
}

func remove(key string) book.Write { return book.Write{Row: book.Row{Key: key}} }

// ifWas returns the write if the value is old, or if there is no row and old is
// nil.
func ifWas(w book.Write, old []byte) book.Write {
	w.Check, w.Old = true, old
	return w
}

func expiring(w book.Write, at time.Time) book.Write {
	w.Expires = at
	return w
}

// commit makes writes to one space.
func (s *suite) commit(of book.Space, writes ...book.Write) error {
	s.Helper()
	errs := s.store.Commit(s.Context(), book.Batch{Space: of, Writes: writes})
	if len(errs) != 1 {
		s.Fatalf("got %d errors of one batch", len(errs))
	}
	return errs[0]
}

// wantRows checks all rows of a space, each as its key, an equals sign and its
// value.
func (s *suite) wantRows(of book.Space, want ...string) {
	s.Helper()
	s.wantScan(1000, []book.Range{{Space: of}}, want)
}

func (s *suite) wantScan(limit int, ranges []book.Range, want ...[]string) {
	s.Helper()
	found, err := s.store.Scan(s.Context(), limit, ranges...)
	s.must(err)
	if len(found) != len(ranges) {
		s.Fatalf("got %d lists of %d ranges", len(found), len(ranges))
	}
	for i, rows := range found {
		var got []string
		for _, row := range rows {
			got = append(got, row.Key+"="+string(row.Value))
		}
		if !slices.Equal(got, want[i]) {
			s.Errorf("scan of %+v with limit %d: got %q, want %q", ranges[i], limit, got, want[i])
		}
	}
}

// rows: writes of a batch are made in their order. Rows of two spaces have
// nothing in common.
func (s *suite) rows() {
	s.account("acc_1", "acc_10")
	one, ten, named, other := book.Space{Account: "acc_1"}, book.Space{Account: "acc_10"}, book.Space{Name: "acc_1"}, book.Space{Name: "acc_10"}
	for _, of := range []book.Space{one, ten, named, other} {
		s.wantRows(of)
		s.must(s.commit(of, put("a", of.Account+of.Name), put("gone", "x"), remove("gone"), remove("never"), put("twice", "x"), put("twice", "y")))
	}
	s.must(s.commit(one))
	s.restart()
	for _, of := range []book.Space{one, ten, named, other} {
		s.wantRows(of, "a="+of.Account+of.Name, "twice=y")
	}
	s.must(s.commit(one, put("a", ""), remove("twice")))
	got, err := s.store.GetRows(s.Context(), one, "unknown", "a", "twice", "a")
	if s.must(err); len(got) != 4 {
		s.Fatalf("got %d rows, want 4", len(got))
	}
	for i, want := range []string{"unknown", "a", "twice", "a"} {
		if got[i].Key != want || len(got[i].Value) > 0 || (got[i].Value == nil) != (want != "a") || !got[i].Expires.IsZero() {
			s.Errorf("row %q: got %+v", want, got[i])
		}
	}
	s.wantRows(ten, "a=acc_10", "twice=y")
	s.must(s.commit(ten, remove("a"), remove("twice")))
	s.restart()
	s.wantRows(ten)
	s.wantRows(one, "a=")
}

// scan: rows are in the order of their bytes. A limit is one of all ranges.
func (s *suite) scan() {
	s.account("acc_1")
	of, other := book.Space{Account: "acc_1"}, book.Space{Name: "other"}
	keys := []string{"", "\x00", "A", "a", "a\x00b", "a\x00b\x00", "a ", "ab", "b", "~", "ß", "\U0001F600"}
	var all []string
	var writes []book.Write
	for _, key := range keys[1:] {
		writes, all = append(writes, put(key, "1")), append(all, key+"=1")
	}
	slices.Reverse(writes)
	s.must(s.commit(of, writes...))
	s.must(s.commit(other, put("x", "2"), put("y", "3")))
	in := func(from, to string) book.Range { return book.Range{Space: of, From: from, To: to} }
	s.restart()
	s.wantRows(of, all...)
	for _, test := range []struct {
		from, to    string
		first, last int // in all
	}{
		{"", "", 0, 11}, {"a", "", 2, 11}, {"", "a", 0, 2}, {"a", "b", 2, 7}, {"a\x00", "a\x01", 3, 5}, {"a\x00b", "a\x00b\x00", 3, 4},
		{"a\x00b\x00\x00", "b", 5, 7}, {"b", "b", 0, 0}, {"c", "b", 0, 0}, {"ß", "", 9, 11}, {"\U0001F600", "", 10, 11}, {"\xff", "", 0, 0},
	} {
		want := all[test.first:test.last]
		s.wantScan(1000, []book.Range{in(test.from, test.to)}, want)
		s.wantScan(1, []book.Range{in(test.from, test.to)}, want[:min(1, len(want))])
	}
	both := []book.Range{{Space: other}, in("b", "c"), in("none", "none"), in("", "b"), {Space: book.Space{Account: "acc_unknown"}}, {Space: other, From: "y"}}
	s.wantScan(5, both, []string{"x=2", "y=3"}, []string{"b=1"}, nil, all[:2], nil, nil)
	s.wantScan(1000, both, []string{"x=2", "y=3"}, []string{"b=1"}, nil, all[:7], nil, []string{"y=3"})
	s.wantScan(1, both, []string{"x=2"}, nil, nil, nil, nil, nil)
	s.wantScan(1000, nil)
}

// checkedRows: a batch with a row that is not as expected writes nothing. Other
// batches are not affected.
func (s *suite) checkedRows() {
	s.account("acc_1", "acc_2")
	one, two, named := book.Space{Account: "acc_1"}, book.Space{Account: "acc_2"}, book.Space{Name: "named"}
	s.must(s.commit(one, put("a", "1"), put("empty", "")))
	for name, check := range map[string]book.Write{
		"another value": ifWas(put("a", "2"), []byte("0")), "no row": ifWas(put("a", "2"), nil), "an empty value": ifWas(remove("a"), []byte{}),
		"a row": ifWas(put("b", "2"), []byte("1")), "an empty row": ifWas(remove("b"), []byte{}), "no empty row": ifWas(put("empty", "2"), nil),
	} {
		s.wantError("expecting "+name, s.commit(one, put("c", "3"), check, put("d", "4")), book.ErrConflict)
	}
	s.wantRows(one, "a=1", "empty=")
	s.must(s.commit(one, ifWas(put("a", "2"), []byte("1")), ifWas(put("b", "2"), nil), ifWas(remove("empty"), []byte{}), ifWas(remove("c"), nil)))
	s.wantRows(one, "a=2", "b=2")
	errs := s.store.Commit(s.Context(),
		book.Batch{Space: one, Writes: []book.Write{ifWas(put("a", "3"), []byte("1"))}},
		book.Batch{Space: two, Writes: []book.Write{ifWas(put("a", "3"), nil)}},
		book.Batch{Space: named, Writes: []book.Write{put("a", "3")}},
		book.Batch{Space: book.Space{Name: "another"}, Writes: []book.Write{ifWas(remove("a"), []byte("1"))}},
	)
	if len(errs) != 4 || !errors.Is(errs[0], book.ErrConflict) || errs[1] != nil || errs[2] != nil || !errors.Is(errs[3], book.ErrConflict) {
		s.Errorf("got errors %v, want the first and the last", errs)
	}
	s.wantRows(one, "a=2", "b=2")
	s.wantRows(two, "a=3")
	s.wantRows(named, "a=3")
	if errs := s.store.Commit(s.Context()); len(errs) > 0 {
		s.Errorf("got errors %v of no batch", errs)
	}
}

// rowsUnderConcurrency: of writes that expect the same row, one is made.
func (s *suite) rowsUnderConcurrency() {
	const writers, each = 8, 10
	s.account("acc_1")
	for _, of := range []book.Space{{Account: "acc_1"}, {Name: "named"}} {
		var conflicts atomic.Int64
		s.together(writers, func(w int) error {
			for n := 0; n < each; {
				rows, err := s.store.GetRows(s.Context(), of, "sum")
				if err != nil {
					return err
				}
				sum, _ := strconv.Atoi(string(rows[0].Value)) // none is 0
				err = s.commit(of, put(fmt.Sprintf("%d %02d", w, n), ""), ifWas(put("sum", strconv.Itoa(sum+1)), rows[0].Value))
				switch {
				case errors.Is(err, book.ErrConflict):
					conflicts.Add(1)
				case err != nil:
					return err
				default:
					n++
				}
			}
			return nil
		})
		s.wantScan(1, []book.Range{{Space: of, From: "sum"}}, []string{fmt.Sprint("sum=", writers*each)})
		found, err := s.store.Scan(s.Context(), 1000, book.Range{Space: of, To: "sum"})
		if s.must(err); len(found[0]) != writers*each {
			s.Errorf("got %d rows after %d conflicts, want %d", len(found[0]), conflicts.Load(), writers*each)
		}
	}
}

// sameSecond compares expiries, which an engine may keep in seconds.
func sameSecond(a, b time.Time) bool { return a.Truncate(time.Second).Equal(b.Truncate(time.Second)) }

// expiringRows: a row whose time is over does not exist. The time is that of
// the last write.
func (s *suite) expiringRows() {
	s.account("acc_1")
	past, later := s.now.Add(-time.Minute), s.now.Add(time.Hour)
	for _, of := range []book.Space{{Account: "acc_1"}, {Name: "named"}} {
		s.must(s.commit(of, expiring(put("later", "1"), later), expiring(put("over", "1"), past), put("ever", "1"), expiring(put("shortened", "1"), later)))
		s.must(s.commit(of, expiring(put("shortened", "2"), past), ifWas(expiring(put("again", "1"), past), nil)))
		for range 2 {
			s.wantRows(of, "ever=1", "later=1")
			rows, err := s.store.GetRows(s.Context(), of, "over", "shortened", "later")
			if s.must(err); rows[0].Value != nil || rows[1].Value != nil || !sameSecond(rows[2].Expires, later) {
				s.Errorf("got rows %+v", rows)
			}
			s.restart()
		}
		s.wantError("expecting a row that is over", s.commit(of, ifWas(put("over", "2"), []byte("1"))), book.ErrConflict)
		s.must(s.commit(of, ifWas(put("over", "2"), nil), put("later", "2"), expiring(put("ever", "2"), later)))
		s.wantRows(of, "ever=2", "later=2", "over=2")
		rows, err := s.store.GetRows(s.Context(), of, "later", "ever")
		if s.must(err); !rows[0].Expires.IsZero() || !sameSecond(rows[1].Expires, later) {
			s.Errorf("got rows %+v, want new times", rows)
		}
	}
}

// manyBatches: one commit writes the rows of many accounts, also large ones.
func (s *suite) manyBatches() {
	const accounts = 100
	large := make([]byte, 100_000)
	for i := range large {
		large[i] = byte(i * i >> 3)
	}
	var batches []book.Batch
	for i := range accounts {
		of := book.Space{Account: fmt.Sprintf("acc_%02d", i)}
		s.account(of.Account)
		batches = append(batches, book.Batch{Space: of, Writes: []book.Write{put("large", string(large)), put("small", fmt.Sprint(i))}})
	}
	s.must(errors.Join(s.store.Commit(s.Context(), batches...)...))
	s.restart()
	for i, b := range batches {
		rows, err := s.store.GetRows(s.Context(), b.Space, "large", "small")
		if s.must(err); !slices.Equal(rows[0].Value, large) || string(rows[1].Value) != fmt.Sprint(i) {
			s.Errorf("%s: got %d bytes and %q", b.Account, len(rows[0].Value), rows[1].Value)
		}
	}
}

// rowsOfDeleted: the rows of a deleted account are gone, and a commit for it
// does nothing, also not to the next account with its id.
func (s *suite) rowsOfDeleted() {
	of := book.Space{Account: "acc_1"}
	s.must(s.commit(of, put("a", "1")))
	s.account("acc_1")
	s.wantRows(of)
	granted, err := s.store.GrantAccount(s.Context(), "acc_1", true)
	s.must(err)
	handled := book.Space{Account: "acc_1", Handle: granted.Handle}
	s.must(s.commit(handled, put("a", "2")))
	s.wantRows(of, "a=2")
	s.wantRows(handled, "a=2")
	s.must(s.store.DeleteAccount(s.Context(), "acc_1"))
	s.wantRows(of)
	s.must(s.commit(of, put("a", "3")))
	s.account("acc_1")
	if granted.Handle != 0 {
		s.must(s.commit(handled, put("a", "4")))
	}
	s.wantRows(of)
	s.restart()
	s.wantRows(of)
}

// steps: a step writes document, rows and entries of the log, and deletes the
// counts of keys that are no longer kept, or it does nothing.
func (s *suite) steps() {
	s.account("acc_1", "acc_2")
	of := book.Space{Account: "acc_1"}
	call := byKey(s.call("acc_1", "convert"), "key_retired")
	change := func(plan string, rows ...book.Write) error {
		return s.store.Engine.Change(s.Context(), s.now, []string{"acc_1"}, func(_ int, a *book.Account) error {
			a.Plan, a.Retired, a.Rows = plan, []string{call.Key}, rows
			a.Record(store.Entry{At: s.now, Action: "to " + plan})
			a.Record(store.Entry{At: s.now, Action: "second"})
			return nil
		})[0]
	}
	want := func(plan string, used int64, entries int, rows ...string) {
		s.Helper()
		a, err := s.store.Account(s.Context(), "acc_1")
		if s.must(err); a.Plan != plan {
			s.Errorf("got plan %q, want %q", a.Plan, plan)
		}
		list, err := s.store.Entries(s.Context(), store.EntryID{}, store.EntryID{}, false, 100)
		if s.must(err); len(list) != entries {
			s.Errorf("got %d entries, want %d", len(list), entries)
		}
		s.wantUsed(call, used)
		s.wantUsed(byKey(call, ""), 3)
		s.wantRows(of, rows...)
	}
	s.takeList(costing(call, 3), nil, true)
	s.wantError("a step with a row that differs", change("business", put("b", "1"), ifWas(put("a", "1"), []byte("0"))), book.ErrConflict)
	want("starter", 3, 0)
	s.must(change("business", put("b", "1"), ifWas(put("a", "1"), nil), expiring(put("over", "1"), s.now.Add(-time.Minute))))
	want("business", 0, 2, "a=1", "b=1")
	s.restart()
	want("business", 0, 2, "a=1", "b=1")

	// The entry of a deletion stays.
	s.must(s.store.ChangeOne(s.Context(), s.now, "acc_1", func(a *book.Account) error {
		a.Exists = false
		a.Record(store.Entry{At: s.now, Action: "deleted"})
		return nil
	}))
	s.restart()
	list, err := s.store.ListEntries(s.Context(), book.EntryFilter{Accounts: []string{"acc_1"}}, store.EntryID{}, 100)
	if err != nil || len(list) != 3 || list[2].Action != "deleted" {
		s.Errorf("got entries %+v, %v", list, err)
	}
	s.account("acc_1")
	s.wantRows(of)
}
