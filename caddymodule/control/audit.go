package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/event"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// auditTimeout bounds the write of audit entries after the client is gone.
const auditTimeout = 10 * time.Second

// change is a change to add to the audit log.
type change struct {
	action, account, target string
	// before and after are JSON values of package api, nil if there is none.
	before, after any
	// event is the event to publish, nil for none.
	event *event.Change
}

// audit adds changes to the audit log and publishes their events. Call it
// after each change and before its answer: an answered change is in the log.
// It also finishes when the client is gone, because the change is made.
func (with *session) audit(ctx context.Context, changes ...change) error {
	who := actorOf(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	entries := make([]store.Entry, len(changes))
	for i, c := range changes {
		entries[i] = store.Entry{
			At: round(with.now), ActorKind: who.Kind, ActorID: who.ID,
			Action: c.action, Account: c.account, Target: c.target, Before: encode(c.before), After: encode(c.after),
		}
	}
	if err := with.store.AddEntries(ctx, entries); err != nil {
		return fmt.Errorf("writing the audit log: %w", err)
	}
	for i, c := range changes {
		if c.event != nil {
			told := *c.event
			told.ID, told.At, told.Account = entries[i].ID.String(), entries[i].At, c.account
			with.publish(ctx, told)
		}
	}
	return nil
}

func encode(value any) json.RawMessage {
	if value == nil {
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic("control: encoding an audit entry: " + err.Error()) // types of package api always encode
	}
	return text
}

// accountChange returns the change of an account, which is new without before.
func accountChange(before *store.Account, after store.Account) change {
	c := change{action: api.AccountCreate, account: after.ID, after: showAccount(after)}
	if before != nil {
		c.action, c.before = api.AccountSet, showAccount(*before)
	}
	c.event = &event.Change{Type: event.AccountChanged, Plan: after.Plan, Disabled: after.Disabled}
	return c
}

// keyChange returns the change of a key or of a login token. Login tokens
// have actions of their own, and no events.
func keyChange(kind token.Kind, action, loginAction, eventType, id, name string) change {
	if kind == token.Login {
		return change{action: loginAction, target: id}
	}
	c := change{action: action, target: id}
	if eventType != "" {
		c.event = &event.Change{Type: eventType, Key: id, KeyName: name}
	}
	return c
}

type listAuditInput struct {
	Account string `query:"account" pattern:"^\\.{0,63}[A-Za-z0-9_@-][A-Za-z0-9._@-]*$" maxLength:"64" doc:"Lists the changes of this account only."`
	Since   string `query:"since" maxLength:"64" doc:"Lists the changes since a time in RFC 3339, or since the beginning of a date in UTC, such as 2026-11-20."`
	After   string `query:"after" maxLength:"64" doc:"Lists the changes after this id."`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The maximum number of changes."`
}

func (s *server) registerAudit(router huma.API) {
	huma.Register(router, operation(huma.Operation{
		OperationID: "list-audit", Method: http.MethodGet, Path: "/tollgate/audit", Tags: []string{"audit"},
		Summary:     "List who changed what",
		Description: fmt.Sprintf("Oldest first, one page at a time. Each change over this API is in it before the change is answered. Entries are kept for %d days and have no secrets.", store.ReportsFor),
	}), answer(s, s.listAudit))
}

func (s *server) listAudit(ctx context.Context, with *session, in *listAuditInput) (api.AuditPage, error) {
	since, err := parseSince(in.Since)
	if err != nil {
		return api.AuditPage{}, err
	}
	var after store.EntryID
	if in.After != "" {
		if after, err = store.ParseEntryID(in.After); err != nil {
			return api.AuditPage{}, invalidRequest("The parameter after is not the next of a page.")
		}
	}
	entries, err := with.store.ListEntries(ctx, in.Account, since, after, in.Limit+1)
	if err != nil {
		return api.AuditPage{}, err
	}
	page := api.AuditPage{Audit: []api.AuditEntry{}}
	if len(entries) > in.Limit {
		entries = entries[:in.Limit]
		page.Next = new(entries[in.Limit-1].ID.String())
	}
	for _, e := range entries {
		page.Audit = append(page.Audit, api.AuditEntry{
			ID: e.ID.String(), At: round(e.At), Actor: api.Actor{Kind: e.ActorKind, ID: e.ActorID},
			Action: e.Action, Account: e.Account, Target: e.Target, Before: e.Before, After: e.After,
		})
	}
	return page, nil
}

func parseSince(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, invalidRequest("The parameter since is neither a time such as 2026-11-20T18:00:00Z nor a date such as 2026-11-20.")
}
