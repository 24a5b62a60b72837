package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// AuditFilter selects entries of the audit log. Its zero value selects all.
type AuditFilter struct {
	Account string
	// Since is a time in RFC 3339 or a date, such as 2026-11-20.
	Since string
	// NewestFirst lists the newest entries first instead of the oldest.
	NewestFirst bool
}

// Audit returns up to limit entries of the audit log that follow a position,
// oldest first unless the filter says otherwise. Limit 0 is the default of the
// gate.
func (c *Client) Audit(ctx context.Context, filter AuditFilter, after string, limit int) (page api.AuditPage, err error) {
	query := pageQuery(after, limit)
	setQuery(query, "account", filter.Account)
	setQuery(query, "since", filter.Since)
	if filter.NewestFirst {
		query.Set("order", "desc")
	}
	err = c.do(ctx, http.MethodGet, "/audit", query, nil, &page)
	return page, err
}

// Refused returns up to limit rows of the calls that were refused in the last
// days, up to api.MaxRefusedDays, of all accounts or of one. Days 0 and limit
// 0 are the defaults of the gate.
func (c *Client) Refused(ctx context.Context, days int, account, after string, limit int) (page api.RefusedPage, err error) {
	query := pageQuery(after, limit)
	setQuery(query, "account", account)
	if days != 0 {
		query.Set("days", strconv.Itoa(days))
	}
	err = c.do(ctx, http.MethodGet, "/refused", query, nil, &page)
	return page, err
}

// CountsOfDay returns what up to limit accounts used on a day, those after an
// account. The day is a date such as 2026-11-20. Limit 0 is the default of
// the gate.
func (c *Client) CountsOfDay(ctx context.Context, day, after string, limit int) (counts api.UsageCounts, err error) {
	query := pageQuery(after, limit)
	query.Set("day", day)
	err = c.do(ctx, http.MethodGet, "/usage/counts", query, nil, &counts)
	return counts, err
}

// TopUsage returns the busiest accounts of the last days, and those nearest
// to a limit, up to limit of each. Zeros are the defaults of the gate.
func (c *Client) TopUsage(ctx context.Context, days, limit int) (top api.UsageTop, err error) {
	query := pageQuery("", limit)
	if days != 0 {
		query.Set("days", strconv.Itoa(days))
	}
	err = c.do(ctx, http.MethodGet, "/usage/top", query, nil, &top)
	return top, err
}

// pageQuery returns the query of a page.
func pageQuery(after string, limit int) url.Values {
	query := url.Values{}
	setQuery(query, "after", after)
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return query
}

func setQuery(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}
