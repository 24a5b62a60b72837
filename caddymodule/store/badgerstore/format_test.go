package badgerstore

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore/wal"
)

// writeFormat writes a directory as a program that knows this version does:
// an account, a count, and an empty log.
func writeFormat(t *testing.T, dir, version string) {
	t.Helper()
	db, err := openBadger(dir, zap.NewNop())
	if err != nil {
		t.Fatalf("opening the database alone: %v", err)
	}
	log, err := wal.Open(dir, 0, nil, wal.Options{CheckSpace: func() error { return nil }})
	if err != nil {
		t.Fatalf("opening the log alone: %v", err)
	}
	account := encodeAccount(store.Account{Plan: "starter"})
	if version == versionUnlabelled || version == versionUnrestricted || version == versionUnconfirmed {
		e := newEncoder()
		e.string("starter")
		e.bool(false)
		e.time(time.Time{})
		account = e.buf
	}
	rows := []change{
		{key: versionKey, value: []byte(version)},
		{key: segmentKey, value: binary.AppendUvarint(nil, log.Number())},
		{key: accountKey("acc_1"), value: account},
		countRow(appendCountKey(nil, today, "acc_1", "convert"), 7),
	}
	if version != versionUnconfirmed {
		rows = append(rows, changesRow(5))
	}
	err = db.Update(func(txn *badger.Txn) (err error) {
		for _, row := range rows {
			err = errors.Join(err, add(txn, row))
		}
		return err
	})
	if err = errors.Join(err, log.Close(), db.Close()); err != nil {
		t.Fatalf("writing %s: %v", version, err)
	}
}

// TestFormats: a directory of an older format has the current one once it is
// open, before anything else is written to it. A program that does not know
// the format refuses the directory by its version and does not call it
// damaged.
func TestFormats(t *testing.T) {
	t.Parallel()
	for version, known := range map[string]bool{
		versionUnconfirmed: true, versionUnrestricted: true, versionUnlabelled: true, versionWithoutDays: true, version: true, "tollgate 7": false, "tollgate 50": false,
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFormat(t, dir, version)
			if !known {
				_, err := Open(dir, Options{})
				if err == nil || errors.Is(err, errDamaged) || !strings.Contains(err.Error(), `"`+version+`"`) {
					t.Errorf("got error %v, want one that names the version", err)
				}
				return
			}
			for range 2 {
				s := openHere(t, dir, Options{})
				format, err := s.archive.format()
				if err != nil || format.version != "tollgate 6" || format.changes == 0 {
					t.Errorf("once it is open, the format is %+v, %v", format, err)
				}
				if got, err := s.Account(t.Context(), "acc_1"); err != nil || got.Plan != "starter" {
					t.Errorf("got account %+v, %v", got, err)
				}
				wantUsed(t, s, call("convert", today), 7)
				if err := s.Close(); err != nil {
					t.Fatalf("closing: %v", err)
				}
			}
		})
	}
}

// TestCountsOfDays: the counts of a holder on some days are read, and those
// of no other holder or day, whichever days have rows.
func TestCountsOfDays(t *testing.T) {
	t.Parallel()
	const base = today - 100 // of the days below
	s := openHere(t, t.TempDir(), Options{})
	var rows []change
	for _, c := range []struct {
		holder string
		day    calendar.Day
		used   uint64
	}{
		{"acc_1", 10, 1}, {"acc_1", 11, 2}, {"acc_1", 14, 4}, {"acc_1", 20, 8}, {"acc_1", 31, 16},
		{"acc_0", 11, 100}, {"acc_10", 12, 100}, {"acc_1\x01key_1", 13, 100}, {"acc_2", 25, 100}, {"acc_1", 9, 100},
	} {
		rows = append(rows, countRow(appendCountKey(nil, base+c.day, c.holder, "convert"), c.used))
		rows = append(rows, countRow(appendCountKey(nil, base+c.day, c.holder, "rates"), c.used))
	}
	if err := s.archive.writeDurably(nil, rows...); err != nil {
		t.Fatal(err)
	}
	on := func(list ...calendar.Day) []calendar.Day {
		for i := range list {
			list[i] += base
		}
		return list
	}
	days := func(first, last calendar.Day) (list []calendar.Day) {
		for ; first <= last; first++ {
			list = append(list, first)
		}
		return on(list...)
	}
	for _, test := range []struct {
		days []calendar.Day
		want int64
	}{
		{nil, 0},
		{days(10, 31), 31},
		{days(10, 30), 15},
		{days(12, 13), 0},
		{days(15, 19), 0},
		{days(32, 60), 0},
		{on(10, 14, 31), 21},
		{on(12, 15, 20, 40), 8},
	} {
		got := map[string]int64{}
		err := s.archive.counts("acc_1", "acc_1", test.days, func(_ string, c store.Count) { got[c.Endpoint] += c.Used })
		if err != nil || got["convert"] != test.want || got["rates"] != test.want {
			t.Errorf("days %v: got %v, %v, want %d", test.days, got, err, test.want)
		}
	}
	list, err := s.Counts(t.Context(), "acc_1", "key_1", base, base+40)
	if err != nil || len(list) != 2 || list[0].Day != base+13 || list[0].Used != 100 {
		t.Errorf("counts of the key: got %+v, %v", list, err)
	}
}
