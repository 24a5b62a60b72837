package ledger

import (
	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// Counts returns an account's counts above zero of a day, as Take sees
// them: calls that are being committed count already, and those that are
// being given back still do. It returns false if the day is not in memory
// and only the log knows.
func (l *Ledger) Counts(account string, d calendar.Day) (list []store.Count, loaded bool) {
	l.calls.RLock()
	defer l.calls.RUnlock()
	day := l.counters.loaded(d)
	if day == nil {
		return nil, false
	}
	number := l.accounts.number(account)
	for i, endpoint := range l.endpoints.all() {
		if used := l.used(day, cellOf(number, uint32(i))); used > 0 {
			list = append(list, store.Count{Day: d, Endpoint: endpoint, Used: used})
		}
	}
	return list, true
}

// used returns a counter's value and makes none.
func (l *Ledger) used(n *day, id cellID) int64 {
	shard := n.shard(id)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if c := shard.find(id); c != nil {
		return l.commits.most(c)
	}
	return 0
}

// Days returns the days that are in memory.
func (l *Ledger) Days() []calendar.Day {
	var list []calendar.Day
	if days := l.counters.days.Load(); days != nil {
		for _, n := range *days {
			list = append(list, n.day)
		}
	}
	return list
}
