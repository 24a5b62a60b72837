package book_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// creditDay is a day whose credits are kept.
var creditDay = calendar.UTCDay(time.Now())

func credit(t *testing.T, b *book.Book, calls int64) (credited int64, err error) {
	t.Helper()
	made, err := b.Credit(t.Context(), time.Now(), "acc_1", "credit_1", []book.Credit{{Day: creditDay, Endpoint: "convert", Calls: calls}}, func(*book.Account, []book.Credit) {})
	if err != nil {
		return 0, err
	}
	return made[0].Credited, nil
}

func called(t *testing.T, b *book.Book, calls int64) {
	t.Helper()
	_, err := storetest.PutAccount(t.Context(), b, store.Account{ID: "acc_1", Plan: "starter"})
	if err == nil {
		_, err = b.Take(t.Context(), store.Call{Account: "acc_1", Endpoint: "convert", Day: creditDay, At: time.Now(), Cost: calls}, nil, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func billed(t *testing.T, b *book.Book) book.Bill {
	t.Helper()
	bills, _, err := b.Bills(t.Context(), "", 10, creditDay, creditDay)
	if err != nil || len(bills) != 1 {
		t.Fatalf("got %+v, %v, want one bill", bills, err)
	}
	return bills[0]
}

func closing(t *testing.T, b *book.Book) error {
	return b.CloseAccount(t.Context(), time.Now(), "acc_1", creditDay, creditDay, func(*book.Account, []book.Bill) {})
}

// TestCreditBeforeRename: calls that were counted under the new name, by a
// configuration that had no rename yet, are in no limit. They are not credited.
func TestCreditBeforeRename(t *testing.T) {
	t.Parallel()
	b := book.New(memstore.New(), slog.New(slog.DiscardHandler))
	called(t, b, 3)
	today := b.Renamed(renames())
	credited, err := credit(t, today, 3)
	if bill := billed(t, today); !errors.Is(err, book.ErrNothingLeft) || credited != 0 || bill.Calls != 3 || bill.Credited != 0 {
		t.Errorf("the credit says %d, %v, the bill %+v", credited, err, bill)
	}
}

// breaking is an engine whose next Credit calls a function, and fails with its
// error.
type breaking struct {
	book.Engine
	next func() error
}

func (b *breaking) Credit(ctx context.Context, account string, keys []string, day calendar.Day, endpoint string, total int64) error {
	if next := b.next; next != nil {
		b.next = nil
		if err := next(); err != nil {
			return err
		}
	}
	return b.Engine.Credit(ctx, account, keys, day, endpoint, total)
}

// TestCreditInterrupted: a credit whose counts were not moved before the process
// ended is made when it is repeated, and when the account is closed.
func TestCreditInterrupted(t *testing.T) {
	t.Parallel()
	errEnded := errors.New("the process ended")
	for name, then := range map[string]func(t *testing.T, b *book.Book) error{
		"repeated": func(t *testing.T, b *book.Book) error {
			_, err := credit(t, b, 4)
			return err
		},
		"closed": closing,
	} {
		e := &breaking{Engine: memstore.New(), next: func() error { return errEnded }}
		b := book.New(e, slog.New(slog.DiscardHandler))
		called(t, b, 5)
		if _, err := credit(t, b, 4); !errors.Is(err, errEnded) {
			t.Fatalf("%s: got %v", name, err)
		}
		if err := then(t, b); err != nil {
			t.Fatalf("%s: got %v", name, err)
		}
		if bill := billed(t, b); bill.Calls != 5 || bill.Credited != 4 {
			t.Errorf("%s: got the bill %+v", name, bill)
		}
	}
	// Closed by another gate between the two steps.
	e := &breaking{Engine: memstore.New()}
	b := book.New(e, slog.New(slog.DiscardHandler))
	called(t, b, 5)
	e.next = func() error { return closing(t, b) }
	if credited, err := credit(t, b, 5); err != nil || billed(t, b).Credited != credited {
		t.Errorf("closed meanwhile: the credit says %d, %v, the bill %+v", credited, err, billed(t, b))
	}
}

// TestFinishCredits: a credit in which a gate ended is finished without another one, as
// often as gates start. Its mark stays as long as another gate may be making it.
func TestFinishCredits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		errEnded := errors.New("the process ended")
		b := book.New(&breaking{Engine: memstore.New(), next: func() error { return errEnded }}, slog.New(slog.DiscardHandler))
		defer b.Close()
		called(t, b, 5)
		if _, err := credit(t, b, 4); !errors.Is(err, errEnded) {
			t.Fatalf("got %v", err)
		}
		for _, want := range []int{1, 1, 0} {
			if err := b.FinishCredits(t.Context()); err != nil {
				t.Fatal(err)
			}
			marks := 0
			for _, p := range storetest.Pieces(t, b) {
				if p.Row != nil && p.Space.Name == "moving" {
					marks++
				}
			}
			if bill := billed(t, b); bill.Credited != 4 || marks != want {
				t.Errorf("got the bill %+v and %d marks, want %d", bill, marks, want)
			}
			time.Sleep(50 * time.Second)
		}
	})
}

// TestCreditOfLostTotal: a credit does not count on calls that were credited
// before, also if their total is lost.
func TestCreditOfLostTotal(t *testing.T) {
	t.Parallel()
	b := book.New(memstore.New(), slog.New(slog.DiscardHandler))
	called(t, b, 5)
	if err := b.Engine.Credit(t.Context(), "acc_1", nil, creditDay, "convert", 3); err != nil {
		t.Fatal(err)
	}
	credited, err := credit(t, b, 4)
	if bill := billed(t, b); err != nil || credited != 2 || bill.Calls != 5 || bill.Credited != 5 {
		t.Errorf("the credit says %d, %v, the bill %+v", credited, err, bill)
	}
}

// TestBillsExpire: what is kept of a credit and of a closed account is deleted
// when its counts are, and not before.
func TestBillsExpire(t *testing.T) {
	t.Parallel()
	b := book.New(memstore.New(), slog.New(slog.DiscardHandler))
	called(t, b, 5)
	_, err := credit(t, b, 4)
	if err == nil {
		err = closing(t, b)
	}
	called(t, b, 5)
	if _, err2 := credit(t, b, 4); err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	rows, soonest := 0, time.Now().AddDate(0, 0, store.CountsFor-1)
	err = b.Dump(t.Context(), func(p book.Piece) error {
		if p.Row == nil {
			return nil
		}
		if rows++; p.Row.Expires.Before(soonest) || p.Row.Expires.After(soonest.AddDate(0, 0, 3)) {
			t.Errorf("row %q expires at %v", p.Row.Key, p.Row.Expires)
		}
		return nil
	})
	if err != nil || rows != 3 {
		t.Errorf("got %d rows, %v, want those of a credit, of a total and of a closed account", rows, err)
	}
}

// TestCreditOfClosed: an account that is closed while it is credited gets the
// credit.
func TestCreditOfClosed(t *testing.T) {
	t.Parallel()
	e := &reading{Engine: memstore.New()}
	b := book.New(e, slog.New(slog.DiscardHandler))
	called(t, b, 5)
	e.next = func() {
		if err := closing(t, b); err != nil {
			t.Error(err)
		}
	}
	credited, err := credit(t, b, 4)
	if bill := billed(t, b); err != nil || credited != 4 || !bill.Closed || bill.Credited != 4 {
		t.Errorf("got a credit of %d, %v, and the bill %+v", credited, err, bill)
	}
}
