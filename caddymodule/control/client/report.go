package client

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// Plans returns the plans and endpoints of the configuration.
func (c *Client) Plans(ctx context.Context) (api.Plans, error) {
	return call(ctx, c, api.ListPlans, api.None{})
}

// PublicKeys returns the keys that verify assertions.
func (c *Client) PublicKeys(ctx context.Context) (assertion.KeySet, error) {
	return call(ctx, c, api.GetPublicKeys, api.None{})
}

// Readiness tells whether the gate can take calls. It returns no error for a
// gate that cannot. It needs no secret.
func (c *Client) Readiness(ctx context.Context) (state api.Readiness, err error) {
	got, err := send(ctx, c, api.GetReadiness, api.None{}, maxAnswer)
	if err != nil {
		return state, err
	}
	if got.status == http.StatusServiceUnavailable && got.is(jsonType) && json.Unmarshal(got.body, &state) == nil && state.Status != "" {
		return state, nil
	}
	return state, got.decode(&state)
}

// Usage returns the usage of an account, with a history of up to
// api.MaxUsageDays days; 0 for none.
func (c *Client) Usage(ctx context.Context, account string, days int) (api.UsageDocument, error) {
	return call(ctx, c, api.GetUsage, api.UsageQuery{OfAccount: of(account), Days: days})
}

// ResetUsage gives all calls of today back, of one endpoint, or of all if endpoint
// is empty. The reason is for the audit log.
func (c *Client) ResetUsage(ctx context.Context, account, endpoint, reason string) error {
	_, err := call(ctx, c, api.ResetUsage, api.ResetQuery{OfAccount: of(account), Endpoint: endpoint, Reason: reason})
	return err
}

// Credit gives calls back. A request that is repeated with the same ID gives
// nothing back again: it returns what the first one gave.
func (c *Client) Credit(ctx context.Context, account string, credit api.CreditRequest) (api.Credit, error) {
	return call(ctx, c, api.CreditUsage, api.CreditCreation{OfAccount: of(account), Body: credit})
}

// TopUp adds calls to a total of an account.
func (c *Client) TopUp(ctx context.Context, account string, t api.TopUpRequest) (api.TopUp, error) {
	return call(ctx, c, api.TopUpUsage, api.TopUpCreation{OfAccount: of(account), Body: t})
}

// Summary returns what all accounts called and what was refused.
func (c *Client) Summary(ctx context.Context) (api.Summary, error) {
	return call(ctx, c, api.ShowSummary, api.None{})
}

// Note adds a change that was made outside the gate to the audit log. The error
// for an unknown account is api.ErrNotFound.
func (c *Client) Note(ctx context.Context, account, action string) error {
	_, err := call(ctx, c, api.AddNote, api.NoteAddition{OfAccount: of(account), Body: api.Note{Action: action}})
	return err
}

// Audit returns a page of the audit log. Account and Actor are the id or the label
// of an account, or another name of an actor. The error for an unknown one is
// api.ErrNotFound.
func (c *Client) Audit(ctx context.Context, query api.AuditQuery) (api.AuditPage, error) {
	for _, name := range []*string{&query.Account, &query.Actor} {
		if strings.Contains(*name, "@") { // programs log URLs: the e-mail of an account does not get there
			found, err := c.LookUpAccount(ctx, *name)
			if err != nil {
				return api.AuditPage{}, err
			}
			if len(found) == 1 {
				*name = found[0].Account
			}
		}
	}
	return call(ctx, c, api.ListAudit, query)
}

// Refused returns a page of the calls that were refused in the last days.
func (c *Client) Refused(ctx context.Context, query api.RefusedQuery) (api.RefusedPage, error) {
	return call(ctx, c, api.ListRefused, query)
}

// maxCounts is the maximum size of a page of counts, in bytes. It has all rows of
// an account, which can have thousands of endpoints and days.
const maxCounts = 1 << 30

// Counts returns what up to limit accounts called in a period, those after an
// account. The period is a day such as 2026-11-20, or a month such as 2026-11.
func (c *Client) Counts(ctx context.Context, period, after string, limit int) (page api.UsageCounts, err error) {
	query := api.CountsQuery{Day: period, After: after, Limit: limit}
	if len(period) == len("2026-11") {
		query.Day, query.Month = "", period
	}
	got, err := send(ctx, c, api.ListCounts, query, maxCounts)
	if err == nil {
		err = got.decode(&page)
	}
	return page, err
}

// TopUsage returns the busiest accounts of the last days, and those nearest
// to a limit, up to limit of each. Zeros are the defaults of the gate.
func (c *Client) TopUsage(ctx context.Context, days, limit int) (api.UsageTop, error) {
	return call(ctx, c, api.ShowTop, api.TopQuery{Days: days, Limit: limit})
}

// Census returns what all accounts need of a configuration.
func (c *Client) Census(ctx context.Context) (api.Census, error) {
	return call(ctx, c, api.ShowCensus, api.None{})
}

// Explain tells what the gate would answer to a request. It counts nothing.
// The error for an unknown account is api.ErrNotFound, and for an unknown key
// api.ErrNoKey.
func (c *Client) Explain(ctx context.Context, q api.Question) (api.Explanation, error) {
	return call(ctx, c, api.Explain, q)
}
