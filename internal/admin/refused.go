package admin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

type listRefusedInput struct {
	Days    int    `query:"days" minimum:"1" maximum:"400" default:"7" doc:"Lists the last days, including today."`
	Account string `query:"account" pattern:"^\\.{0,63}[A-Za-z0-9_@-][A-Za-z0-9._@-]*$" maxLength:"64" doc:"Lists the calls of this account only."`
	After   string `query:"after" maxLength:"1024" doc:"Lists the rows after the page with this next."`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The maximum number of rows."`
}

func (s *server) registerRefused(router huma.API) {
	huma.Register(router, operation(huma.Operation{
		OperationID: "list-refused", Method: http.MethodGet, Path: "/tollgate/refused", Tags: []string{"usage"},
		Summary:     "Show how many calls were refused",
		Description: fmt.Sprintf("By day, account, endpoint, code and reason, with those that mode shadow would have refused. Kept for %d days.", store.ReportsFor),
	}), answer(s, s.listRefused))
}

func (s *server) listRefused(ctx context.Context, with *session, in *listRefusedInput) (api.RefusedPage, error) {
	after, err := parseCursor(in.After)
	if err != nil {
		return api.RefusedPage{}, err
	}
	if err := s.backend.FlushReports(ctx); err != nil {
		return api.RefusedPage{}, fmt.Errorf("storing refused calls: %w", err)
	}
	today := with.policy.Calendar.At(with.now).Day
	first := today - calendar.Day(in.Days-1)
	rows, err := with.book.ListRefused(ctx, in.Account, first, today, after, in.Limit+1)
	if err != nil {
		return api.RefusedPage{}, err
	}
	page := api.RefusedPage{Refused: []api.Refused{}}
	rows, page.Next = cut(rows, in.Limit, cursor)
	for _, r := range rows {
		page.Refused = append(page.Refused, api.Refused{
			Day: r.Day.String(), Account: r.Account, Endpoint: with.policy.Names.Endpoints.Today(r.Endpoint),
			Code: r.Code, Reason: r.Reason, Calls: r.Calls,
		})
	}
	return page, nil
}

// cursor returns the position of a row as an opaque text.
func cursor(row store.Refused) string {
	row.Calls = 0
	return base64.RawURLEncoding.EncodeToString(encode(row))
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
		return row, invalidRequest("The parameter after is not the next of a page.")
	}
	return row, nil
}
