package ledger

import (
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// Totals counts the accounts and the tokens that are live at now. It reads
// all rows: a million take some milliseconds.
func (l *Ledger) Totals(now time.Time) (totals store.Totals) {
	rows := l.accounts.rows.Load()
	for i := range l.accounts.known.Load() {
		if rows.at(i).load().exists() {
			totals.Accounts++
		}
	}
	for i := range l.tokens.shards {
		s := &l.tokens.shards[i]
		s.mu.RLock()
		for j := range s.rows {
			if row := &s.rows[j]; row.owner != 0 && !row.expired(now.UnixNano()) {
				totals.LiveKeys++
			}
		}
		s.mu.RUnlock()
	}
	return totals
}
