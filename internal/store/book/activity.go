package book

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

const (
	// queueSize is how many calls wait in the queue. Further ones are
	// dropped.
	queueSize = 512

	// flushEvery is how long a call waits at most.
	flushEvery = 5 * time.Second

	// maxPending is how many bytes of calls are pending or being written, about.
	// With three quarters of it a flush begins at once. Further calls are
	// dropped.
	maxPending = 8 << 20

	// callSize is what a call takes besides its texts, in bytes, about, and
	// useSize what the last use of a key takes.
	callSize = 300
	useSize  = 300

	// mostCalls is how many calls of an account make its list be cut to those
	// that are kept. 100 accounts below it do not begin a flush.
	mostCalls = store.MaxRecent * 3 / 2

	// accountsPerFlush is how many accounts one commit writes.
	accountsPerFlush = 64

	// readsAtOnce is how many accounts are read at once, from a store over a
	// network.
	readsAtOnce = 16

	// flushWithin is how long the flush of some accounts may take, and
	// closeWithin how long Close may take.
	flushWithin = 10 * time.Second
	closeWithin = 10 * time.Second

	// maxTries is how often a flush writes the rows of an account that another
	// gate changes at the same time.
	maxTries = 10
)

// activity writes recent calls and last uses of keys in the background. A
// request copies its call to a queue and waits for nothing else. collect moves
// the queue to the accounts, and write flushes them every few seconds.
type activity struct {
	engine           Engine
	writing, reading *outage.Log
	stop             context.CancelFunc
	running          sync.WaitGroup

	queueing sync.Mutex // guards queue
	queue    []queuedCall
	filling  chan struct{} // tells collect that the queue is filling
	full     chan struct{} // tells write that much is pending

	mu      sync.Mutex // guards what follows; never held while the engine is used
	spare   []queuedCall
	pending map[Space]*pending // by account and handle
	size    int                // of all pending and being written, in bytes
	flushes map[*flush]bool    // under way
}

// queuedCall is a call in the queue, with a copy of its path: the path is a
// part of the request line, which can have a megabyte.
type queuedCall struct {
	store.Record

	path   [store.MaxPath]byte
	length int
}

// pending is what an account did since the last flush.
type pending struct {
	calls []store.Record // fewer than mostCalls
	uses  map[string]LastUse
	texts int // of calls, in bytes
	size  int // of all, in bytes, about
}

// flush writes what was pending of some accounts.
type flush struct {
	accounts map[Space]*pending // not changed after the beginning
	done     chan struct{}
	err      error // once done is closed
}

func newActivity(e Engine, logger *slog.Logger) *activity {
	ctx, stop := context.WithCancel(context.Background())
	a := &activity{
		engine: e, stop: stop,
		writing: outage.New(logger, slog.LevelError, "writing recent calls"),
		reading: outage.New(logger, slog.LevelError, "reading the recent calls of an account"),
		queue:   make([]queuedCall, 0, queueSize), spare: make([]queuedCall, 0, queueSize),
		filling: make(chan struct{}, 1), full: make(chan struct{}, 1),
		pending: map[Space]*pending{}, flushes: map[*flush]bool{},
	}
	a.running.Go(func() { a.collect(ctx) })
	a.running.Go(func() { a.write(ctx) })
	return a
}

// Record adds a finished call to the recent calls, and to what its key was
// used for. It never blocks. The record is durable within seconds. Calls that
// end faster than they can be written are dropped.
func (b *Book) Record(r store.Record) {
	a := b.activity
	a.queueing.Lock()
	n := len(a.queue)
	if n < queueSize {
		a.queue = a.queue[:n+1]
		last := &a.queue[n]
		last.Record, last.Path = r, ""
		last.length = copy(last.path[:], store.CutPath(r.Path))
	}
	a.queueing.Unlock()
	if n == queueSize/4 {
		signal(a.filling)
	}
}

// signal wakes the reader of a channel, which may be awake already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// collect moves a filling queue to the accounts until close, also during a slow
// flush.
func (a *activity) collect(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.filling:
		}
		a.mu.Lock()
		a.drain()
		if a.size >= maxPending/4*3 {
			signal(a.full)
		}
		a.mu.Unlock()
	}
}

// write flushes all accounts every few seconds until close.
func (a *activity) write(ctx context.Context) {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.full:
		case <-ticker.C:
		}
		switch err := a.flush(ctx, ""); {
		case err == nil:
			a.writing.Worked()
		case ctx.Err() == nil:
			a.writing.Failed(slog.Any("error", err))
		}
	}
}

func (a *activity) close() error {
	a.stop()
	a.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	return a.flush(ctx, "")
}

// drain moves the queue to the accounts. The caller holds mu.
func (a *activity) drain() {
	a.queueing.Lock()
	calls := a.queue
	a.queue = a.spare[:0]
	a.queueing.Unlock()
	for i := range calls {
		if a.size < maxPending {
			a.add(&calls[i])
		}
		calls[i].Record = store.Record{}
	}
	a.spare = calls
}

func (a *activity) add(q *queuedCall) {
	r, of := q.Record, Space{Account: q.Account, Handle: q.Handle}
	p := a.pending[of]
	if p == nil {
		p = &pending{uses: map[string]LastUse{}}
		a.pending[of] = p
	}
	if r.Key != "" && r.At.After(p.uses[r.Key].At) {
		p.uses[r.Key] = LastUse{r.At, r.From}
	}
	r.Path, r.Handle, r.From = string(q.path[:q.length]), 0, netip.Addr{}
	p.calls = append(p.calls, r)
	p.texts += textsOf(&r)
	if len(p.calls) >= mostCalls {
		p.calls, p.texts = store.LastCalls(p.calls), 0
		for i := range p.calls {
			p.texts += textsOf(&p.calls[i])
		}
	}
	a.size -= p.size
	p.size = useSize*(1+len(p.uses)) + callSize*len(p.calls) + p.texts
	a.size += p.size
}

func textsOf(r *store.Record) int { return len(r.KeyName) + len(r.Path) + len(r.RequestID) }

// flush writes what an account did, or all accounts if it is empty, and waits
// for the flushes of these accounts that are under way. It writes also if ctx
// ends. What cannot be written is dropped.
func (a *activity) flush(ctx context.Context, account string) (err error) {
	for some := range slices.Chunk(a.unwritten(account), accountsPerFlush) {
		for _, f := range a.begin(ctx, some) {
			select {
			case <-f.done:
				err = cmp.Or(err, f.err)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return err
}

// unwritten returns the accounts that have calls pending or being written, or
// those with an id.
func (a *activity) unwritten(id string) []Space {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drain()
	found := slices.Collect(maps.Keys(a.pending))
	for f := range a.flushes {
		found = slices.AppendSeq(found, maps.Keys(f.accounts))
	}
	found = slices.DeleteFunc(found, func(of Space) bool { return id != "" && of.Account != id })
	slices.SortFunc(found, func(x, y Space) int {
		return cmp.Or(cmp.Compare(x.Account, y.Account), cmp.Compare(x.Handle, y.Handle))
	})
	return slices.Compact(found)
}

// begin begins a flush of some accounts. It returns all that are under way.
func (a *activity) begin(ctx context.Context, accounts []Space) (underWay []*flush) {
	own := &flush{accounts: map[Space]*pending{}, done: make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	for f := range a.flushes {
		if slices.ContainsFunc(accounts, func(of Space) bool { return f.accounts[of] != nil }) {
			underWay = append(underWay, f)
		}
	}
	for _, of := range accounts {
		if p := a.pending[of]; p != nil {
			own.accounts[of] = p
			delete(a.pending, of)
		}
	}
	a.flushes[own] = true
	go func() {
		// The end of a request must not lose the calls that it has taken.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
		defer cancel()
		own.err = a.writeRows(ctx, own.accounts)
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, p := range own.accounts {
			a.size -= p.size
		}
		delete(a.flushes, own)
		close(own.done)
	}()
	return append(underWay, own)
}

// writeRows adds what is pending of accounts to their rows. Its error is that
// of one of them: the others are written.
func (a *activity) writeRows(ctx context.Context, accounts map[Space]*pending) (err error) {
	for range maxTries {
		batches, failed := a.batches(ctx, accounts)
		err = cmp.Or(err, failed)
		again, written := map[Space]*pending{}, map[string]bool{}
		batches = slices.DeleteFunc(batches, func(b Batch) bool { // of another handle: later
			if written[b.Account] {
				again[b.Space] = accounts[b.Space]
			}
			written[b.Account] = true
			return again[b.Space] != nil
		})
		for i, failed := range a.engine.Commit(ctx, batches...) {
			if of := batches[i].Space; errors.Is(failed, ErrConflict) {
				again[of] = accounts[of]
			} else {
				err = cmp.Or(err, failed)
			}
		}
		if accounts = again; len(accounts) == 0 {
			return err
		}
	}
	return ErrConflict
}

// batches returns the writes to the rows of accounts. It leaves out those with
// damaged rows, which stay as they are.
func (a *activity) batches(ctx context.Context, accounts map[Space]*pending) (list []Batch, err error) {
	var mu sync.Mutex // guards the results
	var reads errgroup.Group
	reads.SetLimit(readsAtOnce)
	for of, p := range accounts {
		reads.Go(func() error {
			b, err := a.batch(ctx, of, p)
			if errors.Is(err, ErrDamaged) {
				a.reading.Failed(slog.String("account", of.Account), slog.Any("error", err))
				return nil
			}
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				list = append(list, b)
			}
			return err
		})
	}
	err = reads.Wait()
	return list, err
}
