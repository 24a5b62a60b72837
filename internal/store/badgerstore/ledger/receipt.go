package ledger

import "github.com/caddy-tollgate/tollgate/internal/store"

// Receipt is a receipt of an account.
type Receipt struct {
	Account string
	*store.Receipt
}

// keep adds the receipt of a call to the group.
func (l *Ledger) keep(c *change) {
	if r := c.call.Receipt; r != nil {
		g := &l.commits.group
		g.Receipts = append(g.Receipts, Receipt{c.call.Account, r})
	}
}
