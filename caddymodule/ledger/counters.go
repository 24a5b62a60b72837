package ledger

import (
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/cpu"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// dayShards spreads a day's counters over as many locks, and counterPage
// is how many are allocated at a time.
const (
	dayShards   = 64
	counterPage = 64
)

// cellID identifies a counter within a day: the account's number, then
// the endpoint's in the low 32 bits.
type cellID uint64

// hash spreads cells, whose numbers are consecutive, over an index.
func (id cellID) hash() uint32 {
	high, low := bits.Mul64(uint64(id)+1, 0x9e3779b97f4a7c15) // 2^64 over the golden ratio
	return uint32((high ^ low) >> 32)
}

// counters holds the days that were asked for. A day is read from the log
// once, when its first call arrives; a day that begins has nothing to
// read. Because every day has counters of its own, a clock that steps
// back over midnight, or two days ahead and back, finds the counts where
// it left them.
type counters struct {
	log Log

	mu   sync.Mutex // serialises loading
	days atomic.Pointer[[]*day]
}

// day is the counters of one day.
type day struct {
	day    calendar.Day
	shards [dayShards]dayShard
}

type dayShard struct {
	mu    sync.Mutex
	index index // by cellID.hash
	pages []*[counterPage]counter
	count uint32
	_     cpu.CacheLinePad // the neighbour's lock is not to be near
}

// counter is one account's calls to one endpoint on one day: 24 bytes.
// While it waits in a group, group and place say where, so that several
// calls within a group are written once.
type counter struct {
	cell  cellID
	used  int64
	group uint32
	place uint32
}

// load reads a day, if nobody has meanwhile. cell names a count's cell.
func (t *counters) load(d calendar.Day, cell func(account, endpoint string) cellID) (*day, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.loaded(d); n != nil {
		return n, nil
	}
	n := &day{day: d}
	if t.log != nil {
		err := t.log.LoadDay(d, func(account, endpoint string, used int64) {
			id := cell(account, endpoint)
			shard := n.shard(id)
			shard.mu.Lock()
			defer shard.mu.Unlock()
			shard.at(id).used = used
		})
		if err != nil {
			return nil, fmt.Errorf("%w: loading the counts of %s: %w", store.ErrUnavailable, d, err)
		}
	}
	var days []*day
	if old := t.days.Load(); old != nil {
		days = slices.Clone(*old)
	}
	days = append(days, n)
	t.days.Store(&days)
	return n, nil
}

// loaded returns the counters of a day, or nil if it is not in memory.
func (t *counters) loaded(d calendar.Day) *day {
	days := t.days.Load()
	if days == nil {
		return nil
	}
	for _, n := range *days {
		if n.day == d {
			return n
		}
	}
	return nil
}

// RetainDays lets go of all days but those for which keep returns true.
// It waits for the calls under way, as long as a commit takes: a day that
// somebody still counts in must not be loaded a second time beside it.
// Without a log nothing is let go, as it could not come back.
func (l *Ledger) RetainDays(keep func(calendar.Day) bool) {
	days := l.counters.days.Load()
	if l.counters.log == nil || days == nil || !slices.ContainsFunc(*days, func(n *day) bool { return !keep(n.day) }) {
		return
	}
	l.calls.Lock()
	defer l.calls.Unlock()
	kept := slices.DeleteFunc(slices.Clone(*l.counters.days.Load()), func(n *day) bool { return !keep(n.day) })
	l.counters.days.Store(&kept)
}

// shard spreads by the account's number: an account's endpoints share a
// lock, neighbours do not.
func (n *day) shard(id cellID) *dayShard { return &n.shards[(id>>32)%dayShards] }

// at returns a counter, a new one if need be. The shard's lock must be
// held for as long as the counter is used.
func (s *dayShard) at(id cellID) *counter {
	hash := id.hash()
	if c := s.find(hash, id); c != nil {
		return c
	}
	return s.add(hash, id)
}

// find returns a counter, nil if there is none.
func (s *dayShard) find(hash uint32, id cellID) *counter {
	if s.count == 0 {
		return nil
	}
	row, at, ok := s.index.next(hash, s.index.first(hash))
	for ; ok; row, at, ok = s.index.next(hash, at) {
		if c := s.row(row); c.cell == id {
			return c
		}
	}
	return nil
}

func (s *dayShard) row(i uint32) *counter { return &s.pages[i/counterPage][i%counterPage] }

func (s *dayShard) add(hash uint32, id cellID) *counter {
	i := s.count
	s.count++
	if i%counterPage == 0 {
		s.pages = append(s.pages, new([counterPage]counter))
	}
	s.index.add(hash, i)
	c := s.row(i)
	c.cell = id
	return c
}
