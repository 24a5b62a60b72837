package feed

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

const (
	// lookBack is how many days before today are compared after a start and after
	// midnight. Metronome takes nothing that is older than 34 days.
	lookBack = 33
	// keptFor is how long the store knows what was sent: longer than lookBack,
	// because a day without a row is sent again.
	keptFor = 35 * 24 * time.Hour
	// batch is how many messages a post has at most. Lago and Metronome take 100.
	batch = 100
	// page is how many accounts are compared at once.
	page = 500
	// leeway is how long a gate that is killed keeps others from feeding, after
	// its next pass would have begun.
	leeway = 30 * time.Second
	// firstRetry and maxRetry are the waits after the first failure and after many.
	firstRetry, maxRetry = 2 * time.Second, 15 * time.Minute
	// closing bounds Close, and asking an answer of the store.
	closing, asking = 5 * time.Second, 30 * time.Second
	// settling is how long after its entry in the log a credit is in the counts,
	// also if a gate was killed in between.
	settling = 2 * time.Minute
)

// Outcomes of messages.
const (
	Delivered = "delivered"
	Failed    = "failed"  // it is tried again
	Refused   = "refused" // alone, by a receiver that takes others
)

// space has the rows of feeds. Their keys begin with the receiver, because another
// one needs all sums. No backup has them: without them, all is sent again.
//
//	to day account  what was sent of an account on a day
//	to p            the entry of the audit log up to which credits were sent
var space = book.Space{Name: "feed"}

// Options are what a Feeder uses.
type Options struct {
	Book *book.Book
	// InForce returns the feed of the configuration, nil without one.
	InForce func() (*Feed, *policy.Policy)
	// Count counts outcomes of messages.
	Count  func(outcome string, n int)
	Logger *zap.Logger
}

// Feeder posts the sums that have changed while no other gate does. It belongs to an
// open store and outlives configurations.
type Feeder struct {
	Options
	id     string // of its lease
	began  time.Time
	stop   context.CancelFunc
	ended  chan struct{}
	outage *outage.Log

	feed     *Feed
	passed   time.Time    // when the last pass ended
	compared calendar.Day // when the days of lookBack were compared last
	failures int          // of passes, since the last one without
	pause    time.Duration
}

// Start returns a Feeder. Close it before its store.
func Start(options Options) *Feeder {
	ctx, stop := context.WithCancel(context.Background())
	f := &Feeder{
		Options: options, id: rand.Text(), began: time.Now(), stop: stop, ended: make(chan struct{}),
		outage: outage.New(outage.Logger(options.Logger), slog.LevelWarn, "feeding usage"),
	}
	go f.run(ctx)
	return f
}

// Close ends posting. It does not wait for a store that hangs.
func (f *Feeder) Close() {
	f.stop()
	select {
	case <-f.ended:
	case <-time.After(closing):
		f.Logger.Warn("stopping to feed usage although the store hangs")
	}
}

func (f *Feeder) run(ctx context.Context) {
	defer close(f.ended)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if f.feed != nil {
				ctx, cancel := context.WithTimeout(context.Background(), closing)
				defer cancel()
				_ = f.Book.Release(ctx, space.Name, f.id) // the lease ends by itself
			}
			return
		case <-tick.C:
		}
		to, under := f.InForce()
		if to != f.feed {
			f.feed, f.passed, f.compared, f.failures, f.pause = to, time.Time{}, 0, 0, 0
		}
		if to != nil && time.Since(f.passed) >= cmp.Or(f.pause, to.every()) {
			p := &pass{Feeder: f, to: to, book: f.Book.Renamed(under.Names), calendar: under.Calendar}
			f.settle(ctx, p.run(ctx))
		}
	}
}

// settle keeps the outcome of a pass.
func (f *Feeder) settle(ctx context.Context, err error) {
	f.passed = time.Now()
	switch {
	case err == nil, errors.Is(err, errOther):
		f.failures, f.pause = 0, 0
		f.outage.Worked()
	case ctx.Err() == nil:
		f.pause = min(maxRetry, firstRetry<<min(f.failures, 12))
		f.pause -= mathrand.N(f.pause / 4)
		f.failures++
		f.outage.Failed(slog.Any("error", err), slog.Int("attempts", f.failures))
	}
}

// pass is a comparison of what accounts called with what was sent.
type pass struct {
	*Feeder
	to       *Feed
	book     *book.Book
	calendar *calendar.Calendar
	// refused is how many messages the receiver has refused alone, and delivered
	// tells whether it has taken others.
	refused   int
	delivered bool
}

// errOther means that another gate feeds, or that this one has another configuration.
var errOther = errors.New("another feed is in force")

// errRefused means that the receiver does not understand what it gets.
var errRefused = errors.New("the receiver refuses all messages")

// run compares today and yesterday, also the days of lookBack if that was not done
// today, and older days that have credits in the log.
func (p *pass) run(ctx context.Context) error {
	today := p.calendar.At(p.book.Now()).Day
	first := today - 1
	if p.compared != today {
		first = today - lookBack
	}
	older, follow, err := p.follow(ctx, first)
	if err != nil {
		return err
	}
	for day := today; day >= first; day-- { // the newest first: a pass can be long
		for after, more := "", true; more; more = after != "" {
			if after, err = p.compare(ctx, day, after, page); err != nil {
				return err
			}
		}
	}
	for of := range older {
		last := len(of.account) - 1
		before := of.account[:last] + string(of.account[last]-1) + "\x7f" // behind all accounts before it
		if _, err := p.compare(ctx, of.day, before, 1); err != nil {
			return err
		}
	}
	if p.refused > 0 && !p.delivered {
		return errRefused
	}
	p.compared = today
	return follow()
}

// accountDay is a day of an account.
type accountDay struct {
	account string
	day     calendar.Day
}

// follow returns the days before first that got credits since the last pass, by the
// log, and a function that remembers how far it has read.
func (p *pass) follow(ctx context.Context, first calendar.Day) (older map[accountDay]bool, done func() error, err error) {
	reading, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	key, older := p.to.to+" p", map[accountDay]bool{}
	until := p.book.Now().Add(-settling)
	at := store.EntryID{Milliseconds: until.UnixMilli()} // a new feed has sent nothing of older days
	rows, err := p.book.GetRows(reading, space, key)
	if err == nil && rows[0].Value != nil {
		err = book.DecodeRow(rows[0], &at)
	}
	for more := time.Since(p.began) >= settling; more && err == nil; {
		var entries []store.Entry
		entries, err = p.book.ListEntries(reading, book.EntryFilter{}, at, page)
		more = len(entries) == page
		for _, e := range entries {
			if !e.At.Before(until) {
				more = false
				break
			}
			var credit struct{ Day calendar.Day }
			if at = e.ID; e.Action == api.UsageCredit && json.Unmarshal(e.After, &credit) == nil && credit.Day < first {
				older[accountDay{e.Account, credit.Day}] = true
			}
		}
	}
	return older, func() error {
		value := book.EncodeRow(at)
		if bytes.Equal(value, rows[0].Value) {
			return nil
		}
		return p.commit(ctx, book.Write{Row: book.Row{Key: key, Value: value}, Check: true, Old: rows[0].Value})
	}, err
}

// commit writes rows, also if the process is about to end.
func (p *pass) commit(ctx context.Context, writes ...book.Write) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), asking)
	defer cancel()
	return p.book.Commit(ctx, book.Batch{Space: space, Writes: writes})[0]
}

// compare compares a day of up to limit accounts behind an id, and posts what
// differs. next is the last of these accounts, "" if there are no more.
func (p *pass) compare(ctx context.Context, day calendar.Day, after string, limit int) (next string, err error) {
	inForce, _ := p.InForce()
	if inForce == nil || inForce.to != p.to.to {
		return "", errOther
	}
	p.to = inForce // with its token
	reading, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	held, err := p.book.Lease(reading, space.Name, p.id, p.to.every()+leeway)
	if err != nil || !held {
		return "", cmp.Or(err, errOther)
	}
	bills, next, err := p.book.Bills(reading, after, limit, day, day)
	if err != nil {
		return "", err
	}
	prefix := fmt.Sprint(p.to.to, " ", day)
	behind := book.Range{Space: space, From: prefix + " " + after + "\x00", To: prefix + "!"}
	if next != "" {
		behind.To = prefix + " " + next + "\x00"
	}
	stored, err := p.book.Scan(reading, math.MaxInt32, behind) // accounts that are deleted can have rows, too
	if err != nil {
		return "", err
	}
	rows := map[string]*row{}
	of := func(key string) *row {
		if rows[key] == nil {
			rows[key] = &row{account: key[len(prefix)+1:], day: day, key: key, sent: map[string]sent{}, called: map[string]sums{}}
		}
		return rows[key]
	}
	for _, s := range stored[0] {
		r := of(s.Key)
		r.stored = s.Value
		if err := book.DecodeRow(s, &r.sent); err != nil {
			p.Logger.Error("sending the usage of a day again", zap.Error(err))
			r.sent = map[string]sent{}
		}
	}
	for _, b := range bills {
		called := of(prefix + " " + b.Account).called
		s := called[b.Endpoint] // of another account that had the id
		called[b.Endpoint] = sums{s.Calls + b.Calls, s.Credited + b.Credited, s.Overage + b.Overage}
	}
	var list []*message
	for _, row := range rows { // in any order: those that are refused are not always the first
		list = append(list, p.changed(row)...)
	}
	for some := range slices.Chunk(list, batch) {
		if err := p.deliver(ctx, some); err != nil {
			return "", err
		}
	}
	return next, nil
}

// changed returns what differs from what was sent, and what the receiver may not
// have. Sums that are gone, of calls that were refunded, are zero.
func (p *pass) changed(r *row) (list []*message) {
	for endpoint := range r.sent {
		if _, found := r.called[endpoint]; !found {
			r.called[endpoint] = sums{}
		}
	}
	for _, endpoint := range slices.Sorted(maps.Keys(r.called)) {
		last, now := r.sent[endpoint], r.called[endpoint]
		if last.sums != now {
			last = sent{sums: now, At: timeOf(p.book.Now(), p.calendar.EndOf(r.day), last.At), Open: true}
		}
		if last.Open {
			list = append(list, &message{r, endpoint, last})
		}
	}
	return list
}

// deliver posts messages. The store has them before: whatever ends the process, a
// message that may have arrived is repeated, or followed by a newer one. If one is
// refused, they are posted in halves.
func (p *pass) deliver(ctx context.Context, list []*message) error {
	if err := p.save(ctx, list, true); err != nil {
		return err
	}
	err, answer := p.to.post(ctx, list), &outage.StatusError{}
	errors.As(err, &answer)
	refused := slices.Contains([]int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity}, answer.Status)
	switch m := list[0]; {
	case refused && len(list) > 1:
		half := len(list) / 2
		if err := p.deliver(ctx, list[:half]); err != nil {
			return err
		}
		return p.deliver(ctx, list[half:])
	case err == nil, refused && p.to.Format == lago && bytes.Contains(answer.Body, []byte("value_already_exist")): // Lago refuses repetitions
		p.delivered = true
		p.Count(Delivered, len(list))
		return p.save(ctx, list, false)
	case refused && (p.delivered || p.refused < batch): // otherwise the receiver refuses all
		if p.refused++; p.refused <= batch {
			p.Logger.Error("the receiver refuses the usage of a day", zap.Int("status", answer.Status),
				zap.String("account", m.account), zap.String("endpoint", m.endpoint), zap.Stringer("day", m.day))
		}
		p.Count(Refused, 1)
		return nil
	case ctx.Err() == nil:
		p.Count(Failed, len(list))
	}
	return err
}

// save writes the rows of messages that the store does not have so.
func (p *pass) save(ctx context.Context, list []*message, open bool) error {
	changed := map[*row]bool{}
	for _, m := range list {
		m.Open = open
		if m.row.sent[m.endpoint] != m.sent {
			m.row.sent[m.endpoint], changed[m.row] = m.sent, true
		}
	}
	var writes []book.Write
	for r := range changed {
		value := book.EncodeRow(r.sent)
		writes = append(writes, book.Write{Row: book.Row{Key: r.key, Value: value, Expires: p.book.Now().Add(keptFor)}, Check: true, Old: r.stored})
		r.stored = value
	}
	if len(writes) == 0 {
		return nil
	}
	return p.commit(ctx, writes...)
}
