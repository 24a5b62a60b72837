//go:build !386 && !arm && !mipsle

package badgerstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
)

// powerStep is a step of a load.
type powerStep struct {
	what, id        string
	number          int64
	sync            bool  // with Options.Sync
	began, answered int64 // of clock; answered is 0 if no answer came
}

// bounds is what a store must have of steps of one kind and id.
type bounds struct {
	began, kept         int64 // how many steps
	beganLast, keptLast int64 // their last numbers
	keptSum             int64 // of their numbers
}

// powerOracle knows what a store must have after a power cut.
type powerOracle struct {
	day   calendar.Day
	steps map[string]map[string]*bounds // by what and id
	found []string                      // what a store has
	bad   []string                      // what is wrong
}

// newPowerOracle takes the steps that began before a power cut.
func newPowerOracle(steps []powerStep, day calendar.Day, l *left) *powerOracle {
	o := &powerOracle{day: day, steps: map[string]map[string]*bounds{}}
	// Without Options.Sync, a call is lost at most if the log was not synced since,
	// which happens every second, or before the store was closed.
	synced := max(l.logSynced, l.ended-int64(synced))
	for _, s := range steps {
		if s.what == "close" && s.answered > 0 && s.answered < l.ended {
			synced = max(synced, s.began)
		}
	}
	for _, s := range steps {
		if s.began >= l.ended {
			continue
		}
		b := o.of(s.what, s.id)
		b.began, b.beganLast = b.began+1, s.number
		isCall := s.what == "call" || s.what == "settled"
		if s.answered > 0 && s.answered < l.ended && (s.sync || !isCall || s.answered < synced) {
			b.kept, b.keptLast, b.keptSum = b.kept+1, s.number, b.keptSum+s.number
		}
	}
	return o
}

func (o *powerOracle) of(what, id string) *bounds {
	if o.steps[what] == nil {
		o.steps[what] = map[string]*bounds{}
	}
	if o.steps[what][id] == nil {
		o.steps[what][id] = &bounds{}
	}
	return o.steps[what][id]
}

// want notes what a store has, and whether it is right.
func (o *powerOracle) want(right bool, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	o.found = append(o.found, text)
	if !right {
		o.bad = append(o.bad, text)
	}
}

// openTwice opens a store and checks it, and again, with the same result.
func (o *powerOracle) openTwice(ctx context.Context, dir string) error {
	err := o.open(ctx, dir)
	if err != nil || len(o.bad) > 0 {
		return err
	}
	found := o.found
	if err = o.open(ctx, dir); err == nil && !slices.Equal(found, o.found) {
		err = errors.New("it is not the same after a restart")
	}
	return err
}

func (o *powerOracle) open(ctx context.Context, dir string) error {
	s, err := badgerstore.OpenTest(dir, badgerstore.Options{})
	if err != nil {
		return fmt.Errorf("refused: %w", err)
	}
	o.found = nil
	err = errors.Join(o.checkCalls(ctx, s), o.checkKeys(ctx, s), o.checkChanges(ctx, s, "change"), o.checkChanges(ctx, s, "import"), s.Close())
	slices.Sort(o.found)
	return err
}

func (o *powerOracle) checkCalls(ctx context.Context, s badgerstore.TestStore) error {
	for id, b := range o.steps["call"] {
		account, endpoint, _ := strings.Cut(id, "/")
		used, credited, err := o.used(ctx, s, account, endpoint)
		if err != nil {
			return err
		}
		most := b.began
		if endpoint == "limited" {
			most = min(most, powerLimit)
		}
		o.want(used >= b.kept && used <= most, "%s has %d calls, want %d to %d", id, used, b.kept, most)
		if receipts, err := s.CountReceipts(account); endpoint == "named" { // those of calls that are lost may be there
			o.want(receipts >= used && receipts <= b.began && err == nil, "%s has %d calls and %d receipts: %v", id, used, receipts, err)
		}
		c := o.of("credit", account)
		o.want(credited >= c.keptLast && credited <= c.beganLast, "%s has credits of %d, want %d to %d", id, credited, c.keptLast, c.beganLast)
	}
	for account, b := range o.steps["settled"] {
		used, _, err := o.used(ctx, s, account, "settled")
		if err != nil {
			return err
		}
		o.want(used >= b.keptSum && used <= powerCost*b.began, "%s has used %d of settled calls, want %d to %d", account, used, b.keptSum, powerCost*b.began)
	}
	return nil
}

// used returns what an account has used of an endpoint, with what was credited,
// which it returns, too.
func (o *powerOracle) used(ctx context.Context, s badgerstore.TestStore, account, endpoint string) (used, credited int64, err error) {
	counts, err := s.CountsOfAccounts(ctx, []string{account}, o.day, o.day)
	for _, c := range counts {
		if c.Endpoint == endpoint {
			used += c.Used
		}
		if c.Endpoint == endpoint && c.Key == store.Credited {
			credited = c.Used
		}
	}
	return used, credited, err
}

// checkKeys checks each key with its token, and as it is listed.
func (o *powerOracle) checkKeys(ctx context.Context, s badgerstore.TestStore) error {
	listed := map[string]store.Key{}
	for id := range o.steps["account"] {
		keys, err := s.ListKeys(ctx, id)
		if err != nil {
			return err
		}
		for _, k := range keys {
			listed[k.ID] = k
			o.want(o.steps["create"][k.ID] != nil, "there is key %s, which no step has created", k.ID)
		}
	}
	for id, created := range o.steps["create"] {
		revoked := o.of("revoke", id)
		grant, err := s.Grant(ctx, keyHash(id), time.Now())
		if err != nil && !errors.Is(err, store.ErrNoGrant) {
			return err
		}
		works, k := err == nil && grant.Key == id, listed[id]
		o.want((works || created.kept == 0 || revoked.began > 0) && !(works && revoked.kept > 0),
			"key %s works: %t, created: %d, revoked: %d of %d", id, works, created.kept, revoked.kept, revoked.began)
		o.want(works == (k.ID != "" && k.RevokedAt.IsZero()), "key %s works: %t, in the list it is %q, revoked at %s", id, works, k.ID, k.RevokedAt)
	}
	return nil
}

// checkChanges checks the accounts of changes or imports.
func (o *powerOracle) checkChanges(ctx context.Context, s badgerstore.TestStore, what string) error {
	for first, b := range o.steps[what] {
		prefix, _, _ := strings.Cut(first, "_")
		list, err := s.List(ctx, "", 2*powerImports, false)
		if err != nil {
			return err
		}
		n := 0
		for _, a := range list {
			if !strings.HasPrefix(a.ID, prefix) {
				continue
			}
			n++
			number, err := strconv.ParseInt(a.Label, 10, 64)
			o.want(err == nil && number >= b.keptLast && number <= b.beganLast, "%s has change %s, want %d to %d", a.ID, a.Label, b.keptLast, b.beganLast)
			o.want(a.Plan == planOf(number) && a.Disabled == (number%3 == 0) && len(a.Overrides) == 1 && a.Overrides[0].Max == number,
				"%s has parts of several changes: %+v", a.ID, a.Account)
			if a.ID == first {
				last, err := lastEntry(ctx, s, a.ID)
				o.want(last == a.Label && err == nil, "the audit log has change %s of %s, want %s: %v", last, a.ID, a.Label, err)
			}
		}
		o.want(n == map[string]int{"change": 1, "import": powerImports}[what] || b.kept == 0, "of the accounts of a %s there are %d", what, n)
	}
	return nil
}
