package control

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/book"
)

type listAuditInput struct {
	Account string `query:"account" pattern:"^\\.{0,63}[A-Za-z0-9_@-][A-Za-z0-9._@-]*$" maxLength:"64" doc:"Lists the changes of this account only."`
	Actor   string `query:"actor" maxLength:"200" doc:"Lists the changes of the actor with this id only."`
	Since   string `query:"since" maxLength:"64" doc:"Lists the changes since a time in RFC 3339, or since the beginning of a date in UTC, such as 2026-11-20."`
	Until   string `query:"until" maxLength:"64" doc:"Lists the changes before a time or a date, in the form of since."`
	Order   string `query:"order" enum:"asc,desc" default:"asc" doc:"Lists the oldest changes first, or with desc the newest."`
	After   string `query:"after" maxLength:"64" doc:"Lists the changes that follow this id in the order."`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The maximum number of changes."`
}

func (s *server) registerAudit(router huma.API) {
	huma.Register(router, operation(huma.Operation{
		OperationID: "list-audit", Method: http.MethodGet, Path: "/tollgate/audit", Tags: []string{"audit"},
		Summary:     "List who changed what",
		Description: fmt.Sprintf("One page at a time. A page can have fewer changes than its limit, or none, and a next page. No change over this API is missing in it: an entry and its change are one step. Only a reset of counts can fail after its entry. A new login token is not a change. Entries are kept for %d days and have no secrets.", store.ReportsFor),
	}), answer(s, s.listAudit))
	huma.Register(router, operation(huma.Operation{
		OperationID: "add-note", Method: http.MethodPost, Path: "/tollgate/accounts/{account}/audit", Tags: []string{"audit"},
		Summary:     "Add a change that was made outside the gate to the audit log",
		Description: "For upstream, whose operators and passwords the gate does not know.",
	}), perform(s, s.addNote))
}

type noteInput struct {
	Account accountID `path:"account"`
	Body    api.Note
}

func (s *server) addNote(ctx context.Context, with *session, in *noteInput) error {
	return with.change(ctx, string(in.Account), func(a *book.Account) error {
		if !a.Exists {
			return store.ErrNotFound
		}
		with.record(ctx, a, in.Body.Action, "", nil, nil)
		return nil
	})
}

func (s *server) listAudit(ctx context.Context, with *session, in *listAuditInput) (api.AuditPage, error) {
	filter := book.EntryFilter{Account: in.Account, Actor: in.Actor, NewestFirst: in.Order == "desc"}
	var err error
	if filter.Since, err = parseTime("since", in.Since); err == nil {
		filter.Until, err = parseTime("until", in.Until)
	}
	if err != nil {
		return api.AuditPage{}, err
	}
	var after store.EntryID
	if in.After != "" {
		if after, err = store.ParseEntryID(in.After); err != nil {
			return api.AuditPage{}, invalidRequest("The parameter after is not the next of a page.")
		}
	}
	entries, next, err := with.book.SomeEntries(ctx, filter, after, in.Limit+1, func() bool { return s.isSlow(with) })
	if err != nil {
		return api.AuditPage{}, err
	}
	page := api.AuditPage{Audit: []api.AuditEntry{}}
	entries, page.Next = cut(entries, in.Limit, func(e store.Entry) string { return e.ID.String() })
	if page.Next == nil && next != (store.EntryID{}) { // it ended early
		page.Next = new(next.String())
	}
	for _, e := range entries {
		page.Audit = append(page.Audit, api.AuditEntry{
			ID: e.ID.String(), At: round(e.At), Actor: api.Actor{Kind: e.ActorKind, ID: e.ActorID},
			Action: e.Action, Account: e.Account, Target: e.Target, Reason: e.Reason, Before: e.Before, After: e.After,
		})
	}
	return page, nil
}

func parseTime(parameter, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, invalidRequest("The parameter " + parameter + " is neither a time such as 2026-11-20T18:00:00Z nor a date such as 2026-11-20.")
}
