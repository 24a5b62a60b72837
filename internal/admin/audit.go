package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

type listAuditInput struct {
	Account string `query:"account" maxLength:"200" doc:"Lists the changes of the account with this id or label only."`
	Actor   string `query:"actor" maxLength:"200" doc:"Lists the changes of the actor with this id only, or of the account with this id or label."`
	Since   string `query:"since" maxLength:"64" doc:"Lists the changes since a time in RFC 3339, or since the beginning of a date in UTC, such as 2026-11-20."`
	Until   string `query:"until" maxLength:"64" doc:"Lists the changes before a time or a date, in the form of since."`
	Order   string `query:"order" enum:"asc,desc" default:"asc" doc:"Lists the oldest changes first, or with desc the newest."`
	After   string `query:"after" maxLength:"64" doc:"Lists the changes that follow this id in the order."`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The maximum number of changes."`
}

var errUnknownName = apierror.New(http.StatusNotFound, "not_found",
	"No account has this id or label, and the audit log has no entry with it. Search the accounts for a part of it.")

func (s *server) registerAudit(router huma.API) {
	huma.Register(router, operation(huma.Operation{
		OperationID: "list-audit", Method: http.MethodGet, Path: "/tollgate/audit", Tags: []string{"audit"},
		Summary:     "List who changed what",
		Description: fmt.Sprintf("One page at a time. A page can have fewer changes than its limit, or none, and a next page. No change over this API is missing in it: an entry and its change are one step. Only a reset of counts can fail after its entry. A new login token is not a change. Entries are kept for %d days and have no secrets. An account or actor that neither the gate nor the log has is 404.", store.ReportsFor),
	}, http.StatusNotFound), answer(s, s.listAudit))
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
	filter := book.EntryFilter{NewestFirst: in.Order == "desc"}
	var err error
	if filter.Accounts, err = s.meant(ctx, with, in.Account, book.EntryFilter{Accounts: []string{in.Account}}); err == nil {
		filter.Actors, err = s.meant(ctx, with, in.Actor, book.EntryFilter{Actors: []string{in.Actor}})
	}
	if err != nil {
		return api.AuditPage{}, err
	}
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
	begun := s.backend.Now()
	entries, next, err := with.book.SomeEntries(ctx, filter, after, in.Limit+1, func() bool { return s.isSlow(begun) })
	if err != nil {
		return api.AuditPage{}, err
	}
	page := api.AuditPage{Audit: []api.AuditEntry{}}
	entries, page.Next = cut(entries, in.Limit, func(e store.Entry) string { return e.ID.String() })
	if page.Next == nil && next != (store.EntryID{}) { // it ended early
		page.Next = new(next.String())
	}
	known := map[string]string{}
	label := func(id string) string {
		text, read := known[id]
		if !read && api.ValidAccount(id) && !s.isSlow(begun) {
			if a, err := with.book.Get(ctx, id); err == nil { // otherwise the id is all that is known
				text = a.Label
			}
			known[id] = text
		}
		return text
	}
	for _, e := range entries {
		shown := api.AuditEntry{
			ID: e.ID.String(), At: round(e.At), Actor: api.Actor{Kind: e.ActorKind, ID: e.ActorID},
			Action: e.Action, Account: e.Account, Label: label(e.Account), Target: e.Target, Reason: e.Reason, Before: e.Before, After: e.After,
		}
		if e.ActorKind == api.ActorPerson {
			shown.Actor.Label = label(e.ActorID)
		}
		page.Audit = append(page.Audit, shown)
	}
	return page, nil
}

// meant returns the ids of the account with a name as its id, or else of those with
// it as their label. A name of no account is an id if the log has it, which logged
// selects: of another actor, or of an account that was deleted. Labels that are
// e-mails are with them: programs also name persons so.
func (s *server) meant(ctx context.Context, with *session, name string, logged book.EntryFilter) (ids []string, err error) {
	if name == "" {
		return nil, nil
	}
	find := func(idOnly bool) error {
		found, err := s.lookUpAccount(ctx, with, &lookUpInput{api.AccountLookup{Name: name, IDOnly: idOnly}})
		for _, a := range found.Accounts {
			if ids = append(ids, a.Account); strings.Contains(a.Label, "@") {
				ids = append(ids, a.Label)
			}
		}
		return err
	}
	if err := find(true); err != nil || len(ids) > 0 {
		return ids, err
	}
	logged.NewestFirst = true
	some, next, err := with.book.SomeEntries(ctx, logged, store.EntryID{}, 1, func() bool { return s.isSlow(with.now) })
	if err == nil && (len(some) == 0 || strings.Contains(name, "@")) { // reading all labels is slow
		err = find(false)
	}
	if err == nil && len(ids)+len(some) == 0 && next == (store.EntryID{}) { // all entries were read
		err = errUnknownName
	}
	return append(ids, name), err
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
