package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// Change changes the document of an account in one step: all that edit makes
// of it, or nothing. edit records the entries of the change in the same step.
// It may be called again after a conflict with another writer.
func (with *Session) Change(ctx context.Context, account string, edit func(a *book.Account) error) error {
	return with.ChangeAll(ctx, []string{account}, func(_ int, a *book.Account) error { return edit(a) })[0]
}

// ChangeAll is Change for up to store.MaxBatch accounts, each in a step of its
// own. It returns an error or nil for each.
func (with *Session) ChangeAll(ctx context.Context, accounts []string, edit func(i int, a *book.Account) error) []error {
	recorded := false
	errs := with.Book.Change(ctx, with.Now, accounts, func(i int, a *book.Account) error {
		err := edit(i, a)
		recorded = recorded || len(a.Log) > 0
		return err
	})
	if recorded && slices.Contains(errs, nil) {
		with.Follow()
	}
	return errs
}

// Record adds an entry about a change of a document to the log. before and
// after are values of package api, or nil. A change to the same is none.
func (with *Session) Record(ctx context.Context, a *book.Account, action, target string, before, after any) {
	e := store.Entry{At: Round(with.Now), Action: action, Target: target, Before: Encode(before), After: Encode(after)}
	if before != nil && bytes.Equal(e.Before, e.After) {
		return
	}
	who, _ := ctx.Value(actorKey{}).(api.Actor) // withActor has set it
	e.ActorKind, e.ActorID = who.Kind, who.ID
	e.Reason, _ = ctx.Value(reasonKey{}).(string)
	a.Record(e)
}

// SetAccount changes an account, or creates it on plan free, and records that.
func (with *Session) SetAccount(ctx context.Context, a *book.Account, set api.AccountChange) {
	with.DeclareAccount(ctx, a, set, a.Declared)
}

// DeclareAccount is SetAccount that also sets whether the configuration file has
// the account.
func (with *Session) DeclareAccount(ctx context.Context, a *book.Account, set api.AccountChange, declared bool) {
	action, old, before := api.AccountSet, a.Label, any(with.accountEntry(a.Account, false))
	if !a.Exists {
		action, before = api.AccountCreate, nil
		// What is not shown of the time tells the accounts apart that had the id.
		a.Exists, a.Plan, a.CreatedAt = true, policy.FreePlan, Round(with.Now).Add(rand.N(time.Millisecond))
	}
	if set.Label != nil {
		a.Label = CleanName(*set.Label)
	}
	if set.Plan != nil {
		a.Plan, a.PlanUntil, a.Then = *set.Plan, time.Time{}, ""
	}
	if end := set.PlanUntil; end.Set && end.Value == nil {
		a.PlanUntil, a.Then = time.Time{}, ""
	} else if end.Set {
		a.PlanUntil, a.Then = Round(*end.Value), policy.FreePlan
		if set.Then != nil {
			a.Then = *set.Then
		}
	}
	if day := set.BillingDay; day != nil && (before != nil || *day > 1) {
		if before == nil { // no month runs yet
			a.Billing.Day = *day
		} else {
			a.Billing = a.Billing.Change(*day, with.Policy.Calendar.At(with.Now).Day)
		}
	}
	if set.Disabled != nil {
		a.Disabled = *set.Disabled
	}
	a.Declared = declared
	with.Record(ctx, a, action, "", before, with.accountEntry(a.Account, a.Label != old))
}

// accountEntry returns an account for an entry. The label is usually an e-mail,
// and entries outlive the account, so they only have whether it has changed.
func (with *Session) accountEntry(account store.Account, labelChanged bool) any {
	return struct {
		api.Account

		Label        string `json:"label,omitempty"` // hides that of the account
		LabelChanged bool   `json:"label_changed,omitempty"`
	}{Account: with.ShowAccount(account), LabelChanged: labelChanged}
}

// loginActions are the actions of login tokens, by those of keys.
var loginActions = map[string]string{api.KeyRevoke: api.LoginRevoke, api.KeyRotate: api.LoginRotate}

// RecordKey records a change of a key or of a login token. before is nil for a
// new key. The entry has no roots: that of a rotation has both keys.
func (with *Session) RecordKey(ctx context.Context, a *book.Account, action string, before *store.Key, after store.Key) {
	if after.Kind == token.Login {
		action = loginActions[action]
	}
	var old any
	if before != nil {
		shown := ShowKey(*before)
		shown.Root = ""
		old = shown
	}
	shown := ShowKey(after)
	shown.Root = ""
	with.Record(ctx, a, action, after.ID, old, shown)
}

// Encode returns JSON, nil for nil.
func Encode(value any) json.RawMessage {
	if value == nil {
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic("admin: encoding an audit entry: " + err.Error()) // types of package api always encode
	}
	return text
}
