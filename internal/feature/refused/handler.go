package refused

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Flusher stores the refused calls that are counted in memory.
type Flusher interface {
	FlushReports(ctx context.Context) error
}

// Serve adds the operation.
func Serve(s *admin.Server, counted Flusher) {
	admin.Handle(s, api.ListRefused, func(ctx context.Context, with *admin.Session, in *api.RefusedQuery) (api.RefusedPage, error) {
		return listRefused(ctx, counted, with, in)
	})
}

func listRefused(ctx context.Context, counted Flusher, with *admin.Session, in *api.RefusedQuery) (api.RefusedPage, error) {
	after, err := parseCursor(in.After)
	if err != nil {
		return api.RefusedPage{}, err
	}
	if err := counted.FlushReports(ctx); err != nil {
		return api.RefusedPage{}, fmt.Errorf("storing refused calls: %w", err)
	}
	today := with.Policy.Calendar.At(with.Now).Day
	first := today - calendar.Day(in.Days-1)
	rows, err := with.Book.ListRefused(ctx, in.Account, first, today, after, in.Limit+1)
	if err != nil {
		return api.RefusedPage{}, err
	}
	page := api.RefusedPage{Refused: []api.Refused{}}
	rows, page.Next = admin.Cut(rows, in.Limit, cursor)
	for _, r := range rows {
		page.Refused = append(page.Refused, api.Refused{
			Day: r.Day.String(), Account: r.Account, Endpoint: with.Policy.Names.Endpoints.Today(r.Endpoint),
			Code: r.Code, Reason: r.Reason, Calls: r.Calls,
		})
	}
	return page, nil
}

// cursor returns the position of a row as an opaque text.
func cursor(row store.Refused) string {
	row.Calls = 0
	return base64.RawURLEncoding.EncodeToString(admin.Encode(row))
}

func parseCursor(text string) (row store.Refused, err error) {
	if text == "" {
		return row, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &row)
	}
	if err != nil {
		return row, admin.InvalidRequest("The parameter after is not the next of a page.")
	}
	return row, nil
}
