// Package audit lists who changed what.
package audit

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

var errUnknownName = apierror.New(http.StatusNotFound, "not_found",
	"No account has this id or label, and the audit log has no entry with it. Search the accounts for a part of it.")

// Serve adds the operations of the audit log.
func Serve(s *admin.Server) {
	admin.Handle(s, api.ListAudit, func(ctx context.Context, with *admin.Session, in *api.AuditQuery) (api.AuditPage, error) {
		return listAudit(ctx, s, with, in)
	})
	admin.Perform(s, api.AddNote, addNote)
}

func addNote(ctx context.Context, with *admin.Session, in *api.NoteAddition) error {
	return with.Change(ctx, in.Account, func(a *book.Account) error {
		if !a.Exists {
			return store.ErrNotFound
		}
		with.Record(ctx, a, in.Body.Action, "", nil, nil)
		return nil
	})
}

func listAudit(ctx context.Context, s *admin.Server, with *admin.Session, in *api.AuditQuery) (api.AuditPage, error) {
	filter := book.EntryFilter{NewestFirst: in.Order == "desc"}
	var err error
	if filter.Accounts, err = meant(ctx, s, with, in.Account, book.EntryFilter{Accounts: []string{in.Account}}); err == nil {
		filter.Actors, err = meant(ctx, s, with, in.Actor, book.EntryFilter{Actors: []string{in.Actor}})
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
			return api.AuditPage{}, admin.InvalidRequest("The parameter after is not the next of a page.")
		}
	}
	begun := s.Backend.Now()
	entries, next, err := with.Book.SomeEntries(ctx, filter, after, in.Limit+1, func() bool { return s.IsSlow(begun) })
	if err != nil {
		return api.AuditPage{}, err
	}
	page := api.AuditPage{Audit: []api.AuditEntry{}}
	entries, page.Next = admin.Cut(entries, in.Limit, func(e store.Entry) string { return e.ID.String() })
	if page.Next == nil && next != (store.EntryID{}) { // it ended early
		page.Next = new(next.String())
	}
	known := map[string]string{}
	label := func(id string) string {
		text, read := known[id]
		if !read && api.ValidAccount(id) && !s.IsSlow(begun) {
			if a, err := with.Book.Get(ctx, id); err == nil { // otherwise the id is all that is known
				text = a.Label
			}
			known[id] = text
		}
		return text
	}
	for _, e := range entries {
		shown := api.AuditEntry{
			ID: e.ID.String(), At: admin.Round(e.At), Actor: api.Actor{Kind: e.ActorKind, ID: e.ActorID},
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
func meant(ctx context.Context, s *admin.Server, with *admin.Session, name string, logged book.EntryFilter) (ids []string, err error) {
	if name == "" {
		return nil, nil
	}
	find := func(idOnly bool) error {
		found, err := admin.LookUpAccount(ctx, with, &api.AccountSearch{Body: api.AccountLookup{Name: name, IDOnly: idOnly}})
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
	some, next, err := with.Book.SomeEntries(ctx, logged, store.EntryID{}, 1, func() bool { return s.IsSlow(with.Now) })
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
	return time.Time{}, admin.InvalidRequest("The parameter " + parameter + " is neither a time such as 2026-11-20T18:00:00Z nor a date such as 2026-11-20.")
}
