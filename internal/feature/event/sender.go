package event

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

const (
	// atOnce is how many events are posted at once.
	atOnce = 64
	// asking is how long the store may take.
	asking = 5 * time.Second
	// lease is how long no other gate posts, after a renewal. A gate that was
	// killed delays the events of others for that time.
	lease, renewal = 2 * asking, 2 * time.Second
	webhookLease   = "webhook"
	// firstRetry and maxRetry are the waits after the first failure and
	// after many.
	firstRetry, maxRetry = time.Second, time.Hour
	// deliverFor is how long after it happened an event is given up.
	deliverFor = 24 * time.Hour
)

// Outcomes of deliveries.
const (
	Delivered = "delivered"
	Failed    = "failed" // it is tried again
	Expired   = "expired"
	Dropped   = "dropped" // for newer ones, because too many wait, or because the store did not take them
)

// sender posts the events of a queue as Standard Webhooks, each at least once,
// while no other gate does. Only its goroutine uses it, apart from wake and ended.
type sender struct {
	*EmitterOptions
	id       string // of its lease
	wake     chan struct{}
	ended    chan *waiting
	asking   *outage.Log
	receiver *outage.Log

	leased  time.Time    // when it got the lease last
	last    string       // the key of the last row that was read
	waiting []*waiting   // the events of the rows up to last
	done    []book.Write // that remove rows
}

// waiting is an event that waits for a post or its outcome. Only this gate knows
// when it is due: another gate, or this one after a restart, tries at once.
type waiting struct {
	key      string
	due      time.Time
	attempts int
	posting  bool
	event    store.Event // while posting
	err      error       // of the post
}

func newSender(options *EmitterOptions) *sender {
	log := outage.Logger(options.Logger.Named("webhook"))
	return &sender{
		EmitterOptions: options, id: rand.Text(), wake: make(chan struct{}, 1), ended: make(chan *waiting, atOnce),
		asking:   outage.New(log, slog.LevelWarn, "asking the store for events"),
		receiver: outage.New(log, slog.LevelWarn, "posting an event"),
	}
}

// run reads and posts events until ctx ends. Then other gates can post at once what
// it has not delivered.
func (s *sender) run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for posts, next := 0, s.look; ; {
		s.ask(ctx, next)
		posts += s.post(ctx, atOnce-posts)
		next = s.look
		select {
		case <-ctx.Done():
			for ; posts > 0; posts-- {
				s.settle(ctx, <-s.ended)
			}
			if s.ask(ctx, s.remove) && !s.leased.IsZero() {
				s.ask(ctx, func(ctx context.Context) error { return s.Queue.Release(ctx, webhookLease, s.id) })
			}
			return
		case <-s.wake:
		case <-tick.C:
		case w := <-s.ended:
			next = s.remove
			for ; w != nil; posts-- {
				s.settle(ctx, w)
				select {
				case w = <-s.ended:
				default:
					w = nil
				}
			}
		}
	}
}

// ask uses the store, and logs an error of it. It does not end with ctx: the
// outcome of a post must be stored.
func (s *sender) ask(ctx context.Context, use func(context.Context) error) (worked bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), asking)
	defer cancel()
	if err := use(ctx); err != nil {
		s.asking.Failed(slog.Any("error", err))
		return false
	}
	s.asking.Worked()
	return true
}

// look removes what is done, and reads the events that are new if this gate has
// the lease or gets it. Without events it needs none.
func (s *sender) look(ctx context.Context) error {
	if err := s.remove(ctx); err != nil || !s.Webhook().posts() {
		return err
	}
	if now := s.Queue.now(); now.Sub(s.leased) >= renewal {
		if len(s.waiting) == 0 {
			if rows, err := s.Queue.after(ctx, s.last, 1); err != nil || len(rows) == 0 {
				return err
			}
		}
		held, err := s.Queue.Lease(ctx, webhookLease, s.id, lease)
		if err != nil {
			return err
		}
		if !held { // the other gate removes and drops events
			s.last, s.waiting = "", nil
			return nil
		}
		s.leased = now
	}
	for {
		const page = 500
		rows, err := s.Queue.after(ctx, s.last, page)
		if err != nil {
			return err
		}
		for _, row := range rows {
			s.last, s.waiting = row.Key, append(s.waiting, &waiting{key: row.Key})
		}
		if n := len(s.waiting) - store.MaxQueued; n > 0 {
			for _, w := range s.waiting[:n] {
				s.done = append(s.done, book.Write{Row: book.Row{Key: w.key}})
			}
			s.waiting = slices.Delete(s.waiting, 0, n)
			s.Count(Dropped, n)
			s.Logger.Warn("too many events wait for delivery; dropped the oldest", zap.Int("dropped", n), zap.Int("at_most", store.MaxQueued))
		}
		if len(rows) < page {
			return s.remove(ctx)
		}
	}
}

// remove removes the rows of events that are done. Their ids stay known.
func (s *sender) remove(ctx context.Context) error {
	for len(s.done) > 0 {
		some := s.done[:min(len(s.done), 500)]
		if err := s.Queue.commit(ctx, book.EventSpace, some...); err != nil {
			return err
		}
		s.done = s.done[len(some):]
	}
	return nil
}

// post starts up to limit posts of events that are due, oldest first. It starts
// none while events that are done cannot be removed: they could not be either.
func (s *sender) post(ctx context.Context, limit int) (started int) {
	var due []*waiting
	var keys []string
	now, to := s.Queue.now(), s.Webhook()
	for _, w := range s.waiting {
		if len(due) == limit {
			break
		}
		if !w.posting && !w.due.After(now) {
			due, keys = append(due, w), append(keys, w.key)
		}
	}
	var rows []book.Row
	if len(due) == 0 || !to.posts() || len(s.done) > 0 || now.Sub(s.leased) >= lease || !s.ask(ctx, func(ctx context.Context) (err error) {
		rows, err = s.Queue.GetRows(ctx, book.EventSpace, keys...)
		return err
	}) {
		return 0
	}
	for i, w := range due {
		if rows[i].Value == nil || !s.ask(ctx, func(context.Context) error { return book.DecodeRow(rows[i], &w.event) }) {
			s.drop(w) // another gate has removed it, or it is damaged
			if rows[i].Value != nil {
				s.done = append(s.done, book.Write{Row: book.Row{Key: w.key}})
				s.Count(Dropped, 1)
			}
			continue
		}
		w.posting = true
		started++
		go func() {
			w.err = errTooOld
			// The last try is at the end of the time, or somewhat later.
			if at := s.Queue.now(); at.Before(w.event.At.Add(deliverFor + outage.Posting)) {
				w.err = to.post(ctx, w.event, at)
			}
			s.ended <- w
		}()
	}
	return started
}

func (s *sender) drop(w *waiting) {
	s.waiting = slices.DeleteFunc(s.waiting, func(other *waiting) bool { return other == w })
}

// settle keeps the outcome of a post.
func (s *sender) settle(ctx context.Context, w *waiting) {
	e, now := w.event, s.Queue.now()
	w.event, w.posting = store.Event{}, false
	w.attempts++
	switch {
	case w.err == nil:
		s.receiver.Worked()
		s.Count(Delivered, 1)
	case ctx.Err() != nil:
		return
	case now.Before(e.At.Add(deliverFor)):
		s.receiver.Failed(slog.String("event", e.ID), slog.String("type", e.Type), slog.Int("attempts", w.attempts), slog.Any("error", w.err))
		s.Count(Failed, 1)
		w.due = retryAt(e, w.attempts, now)
		return
	default:
		s.Logger.Error("giving an event up: it was not delivered in time",
			zap.String("event", e.ID), zap.String("type", e.Type), zap.Int("attempts", w.attempts), zap.Duration("in", deliverFor), zap.NamedError("last_error", w.err))
		s.Count(Expired, 1)
	}
	s.drop(w)
	s.done = append(s.done, book.Write{Row: book.Row{Key: w.key}})
}

// errTooOld is why an event is given up that waited without a sender.
var errTooOld = errors.New("no gate posted it")

// retryAt returns when to try again after a failure. The wait doubles with
// each failure, less up to a quarter: events that failed together are not
// tried together.
func retryAt(e store.Event, attempts int, now time.Time) time.Time {
	wait := min(maxRetry, firstRetry<<min(attempts-1, 12))
	at, last := now.Add(wait-mathrand.N(wait/4)), e.At.Add(deliverFor)
	if at.After(last) {
		return last
	}
	return at
}
