package redisstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/caddy-tollgate/tollgate/caddymodule/outage"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

const (
	// flushEvery is the time between two writes of recent calls.
	flushEvery = 2 * time.Second

	// maxWaiting is how many calls wait for the next write at most. One takes
	// about 300 bytes, with a long path 800.
	maxWaiting = 20_000

	// maxFlush is how many accounts a flush writes, and writers how many of
	// them at once.
	maxFlush = 512
	writers  = 16
)

// errDropped says that calls are missing in the lists of recent calls.
var errDropped = errors.New("too many calls wait to be written")

// recent collects recent calls and last uses of keys, and writes them after the
// answers.
type recent struct {
	store *Store
	log   *outage.Log
	stop  context.CancelFunc
	ended chan struct{}
	// writing has a place for one writer of what was collected.
	writing chan struct{}

	mu      sync.Mutex
	waiting map[holder]*batch
	count   int
}

// holder is an account by its id and its handle.
type holder struct {
	account string
	handle  store.Handle
}

func newRecent(s *Store) *recent {
	ctx, stop := context.WithCancel(context.Background())
	r := &recent{
		store: s, stop: stop, ended: make(chan struct{}), writing: make(chan struct{}, 1), waiting: map[holder]*batch{},
		log: outage.New(s.client.options.Logger, slog.LevelWarn, "writing recent calls"),
	}
	go r.keep(ctx)
	return r
}

// add collects a call.
func (r *recent) add(record store.Record) {
	// A copy: the path is a part of the request line, which can have a megabyte.
	record.Path = strings.Clone(store.CutPath(record.Path))
	of := holder{record.Account, record.Handle}
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := r.waiting[of]
	if r.count >= maxWaiting && (waiting == nil || len(*waiting.of(&record)) < store.MaxRecent) {
		r.log.Failed(slog.Any("error", errDropped))
		return
	}
	if waiting == nil {
		waiting = &batch{used: map[string]*store.Key{}}
		r.waiting[of] = waiting
	}
	waiting.use(&record)
	calls := waiting.of(&record)
	if len(*calls) == store.MaxRecent { // the server keeps no more
		*calls = slices.Delete(*calls, 0, 1)
		r.count--
	}
	*calls = append(*calls, record)
	r.count++
}

// batch has the calls of one account that wait, oldest first. Refused calls do
// not displace admitted ones.
type batch struct {
	admitted, refused []store.Record
	// used has the last use of the keys, by id.
	used map[string]*store.Key
}

// of returns the calls that a call belongs to.
func (b *batch) of(record *store.Record) *[]store.Record {
	if record.Code != "" {
		return &b.refused
	}
	return &b.admitted
}

// use keeps the last use of the key of a call.
func (b *batch) use(record *store.Record) {
	if record.Key == "" {
		return
	}
	k := b.used[record.Key]
	if k == nil {
		k = &store.Key{ID: record.Key}
		b.used[record.Key] = k
	}
	if record.At.After(k.LastUsedAt) {
		k.LastUsedAt, k.LastUsedFrom = record.At, record.From
	}
}

func (r *recent) keep(ctx context.Context) {
	defer close(r.ended)
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if err := r.flushAll(ctx); err != nil {
			r.log.Failed(slog.Any("error", err))
		} else {
			r.log.Worked()
		}
	}
}

// close writes what waits.
func (r *recent) close() error {
	r.stop()
	<-r.ended
	ctx, cancel := r.store.client.within(context.Background())
	defer cancel()
	if err := r.flushAll(ctx); err != nil {
		return fmt.Errorf("writing recent calls: %w", err)
	}
	return nil
}

// flushAll writes what waits, some accounts at a time, so that flushOf does not
// wait for all of them.
func (r *recent) flushAll(ctx context.Context) error {
	for {
		left := maxFlush
		err := r.flush(ctx, func(holder) bool {
			left--
			return left >= 0
		})
		if err != nil || left > 0 {
			return err
		}
	}
}

// flushOf writes what waits of one account.
func (r *recent) flushOf(ctx context.Context, account string) error {
	return r.flush(ctx, func(of holder) bool { return of.account == account })
}

// flush writes the calls of some accounts. Calls that cannot be written are
// dropped. It first waits for another flush, so that the calls of that flush are
// written too when it returns.
func (r *recent) flush(ctx context.Context, of func(holder) bool) error {
	select {
	case r.writing <- struct{}{}:
		defer func() { <-r.writing }()
	case <-ctx.Done():
		return unavailable(ctx.Err())
	}
	var group errgroup.Group
	group.SetLimit(writers)
	for of, taken := range r.take(of) {
		group.Go(func() error { return r.write(ctx, of, taken) })
	}
	return group.Wait()
}

// take removes what waits of some accounts, and returns it.
func (r *recent) take(of func(holder) bool) map[holder]*batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := map[holder]*batch{}
	for h, waiting := range r.waiting {
		if of(h) {
			taken[h] = waiting
			r.count -= len(waiting.admitted) + len(waiting.refused)
			delete(r.waiting, h)
		}
	}
	return taken
}

// drop forgets what waits of a deleted account.
func (r *recent) drop(account string) {
	r.take(func(of holder) bool { return of.account == account })
}

// write writes the calls of an account, and what its keys were used for.
func (r *recent) write(ctx context.Context, of holder, taken *batch) error {
	list := slices.Concat(taken.admitted, taken.refused)
	slices.Reverse(list) // of calls at the same time, the last is the newest
	list = store.LastCalls(list)
	args := []string{
		number(uint64(of.handle)), strconv.Itoa(store.MaxRecent), strconv.Itoa(store.MaxRecentRefused),
		strconv.Itoa(int(store.RecentFor / time.Second)), strconv.Itoa(len(taken.used)),
	}
	for _, k := range taken.used {
		args = append(args, keyField(k.ID), useField(k.ID), encodeUse(k))
	}
	for _, record := range slices.Backward(list) {
		row, err := encodeRecord(&record)
		if err != nil {
			return err
		}
		args = append(args, row)
	}
	s := r.store
	_, err := s.client.runWithin(ctx, recordScript, append(s.stateKeys(of.account), s.recentKey(of.account)), args)
	return err
}

// recordRow is a store.Record without its account. The script that writes rows
// knows a refused call by its first member.
type recordRow struct {
	Code     string `json:"c,omitempty"`
	At       int64  `json:"t"`
	Key      string `json:"k"`
	KeyName  string `json:"n"`
	Endpoint string `json:"e"`
	Method   string `json:"m"`
	Path     string `json:"p"`
	Status   int    `json:"s"`
	Duration int64  `json:"d"` // in nanoseconds
}

func encodeRecord(r *store.Record) (string, error) {
	return encode(recordRow{r.Code, nanos(r.At), r.Key, r.KeyName, r.Endpoint, r.Method, r.Path, r.Status, int64(r.Duration)})
}

func decodeRecord(account, text string) (store.Record, error) {
	var row recordRow
	if err := json.Unmarshal([]byte(text), &row); err != nil {
		return store.Record{}, damaged("a recent call of "+account, err)
	}
	return store.Record{
		Account: account, Key: row.Key, KeyName: row.KeyName, At: fromNanos(row.At), Endpoint: row.Endpoint,
		Method: row.Method, Path: row.Path, Status: row.Status, Code: row.Code, Duration: time.Duration(row.Duration),
	}, nil
}
