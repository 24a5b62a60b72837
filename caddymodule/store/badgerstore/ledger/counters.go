package ledger

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/cpu"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

const (
	// dayShards spreads a day's counters over as many locks.
	dayShards = 64
	// blockAccounts is how many accounts of a shard have their counters for
	// an endpoint side by side: the fewer, the less is taken for those that
	// call nothing, and the more to find the others. For each endpoint that
	// is called, that is half a byte for every account up to the highest
	// number that calls it, for each day in memory.
	blockAccounts = 8
	// blockPage is how many such blocks are allocated at a time.
	blockPage = 16
)

// cellID identifies a counter within a day: the account's number, then
// the endpoint's in the low 32 bits.
type cellID uint64

func (id cellID) account() uint32  { return uint32(id >> 32) }
func (id cellID) endpoint() uint32 { return uint32(id) }

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

// dayShard holds the counters of every 64th account. As accounts are
// numbered one after the other, a counter's place follows from its
// account's number, and nothing has to be searched.
type dayShard struct {
	mu     sync.Mutex
	blocks [][]uint32 // their numbers, from 1, by endpoint and account; 0 for none
	pages  []*[blockPage]block
	count  uint32           // of blocks
	_      cpu.CacheLinePad // the neighbour's lock is not to be near
}

// block is the counters of some accounts that are neighbours in a shard.
type block [blockAccounts]counter

// counter is one account's calls to one endpoint on one day: 16 bytes.
// While it waits in a Group, group and place say where, so that several
// calls within a group are written once.
type counter struct {
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

// Counter is a counter and its value.
type Counter struct {
	store.Call
	Used int64
}

// Moved returns the counters of the days in memory that have moved since
// the day was loaded. It waits for the calls under way.
func (l *Ledger) Moved() (moved []Counter) {
	l.calls.Lock()
	defer l.calls.Unlock()
	days := l.counters.days.Load()
	if days == nil {
		return nil
	}
	for _, n := range *days {
		for shard := range n.shards {
			n.shards[shard].each(uint32(shard), func(account, endpoint uint32, c *counter) {
				if c.group != 0 {
					call := store.Call{Account: l.accounts.at(account).id, Endpoint: l.endpoints.at(endpoint), Day: n.day}
					moved = append(moved, Counter{Call: call, Used: c.used})
				}
			})
		}
	}
	return moved
}

// each calls fn with all counters of the shard, those that were never used
// included.
func (s *dayShard) each(shard uint32, fn func(account, endpoint uint32, c *counter)) {
	for endpoint, blocks := range s.blocks {
		for at, number := range blocks {
			if number == 0 {
				continue
			}
			page := s.pages[(number-1)/blockPage]
			for in := range page[(number-1)%blockPage] {
				account := uint32(at*blockAccounts+in)*dayShards + shard
				fn(account, uint32(endpoint), &page[(number-1)%blockPage][in])
			}
		}
	}
}

// shard spreads by the account's number: an account's endpoints share a
// lock, neighbours do not.
func (n *day) shard(id cellID) *dayShard { return &n.shards[id.account()%dayShards] }

// at returns a counter, a new one if need be. The shard's lock must be
// held for as long as the counter is used.
func (s *dayShard) at(id cellID) *counter {
	if c := s.find(id); c != nil {
		return c
	}
	s.add(id)
	return s.find(id)
}

// find returns a counter, nil if there is none.
func (s *dayShard) find(id cellID) *counter {
	if int(id.endpoint()) >= len(s.blocks) {
		return nil
	}
	blocks, in := s.blocks[id.endpoint()], id.account()/dayShards
	if at := in / blockAccounts; at < uint32(len(blocks)) && blocks[at] != 0 {
		i := blocks[at] - 1
		return &s.pages[i/blockPage][i%blockPage][in%blockAccounts]
	}
	return nil
}

// add makes the block of a counter.
func (s *dayShard) add(id cellID) {
	endpoint, at := int(id.endpoint()), int(id.account()/dayShards/blockAccounts)
	s.blocks = grown(s.blocks, endpoint)
	s.blocks[endpoint] = grown(s.blocks[endpoint], at)
	if s.count%blockPage == 0 {
		s.pages = append(s.pages, new([blockPage]block))
	}
	s.count++
	s.blocks[endpoint][at] = s.count
}

// grown returns a list that reaches to an index.
func grown[T any](list []T, to int) []T {
	if missing := to + 1 - len(list); missing > 0 {
		list = append(list, make([]T, missing)...)
	}
	return list
}
