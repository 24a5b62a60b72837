package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
)

// maxNamed is how many accounts an error lists.
const maxNamed = 10

const noAccount = "there is no account with this id or label"

// The errors do not show the name: it can be an e-mail address.
var (
	ErrUnknownAccount = errors.New(noAccount + `: "caddy tollgate account list --search <text>" finds accounts, and "caddy tollgate account set <id> --plan <plan>" makes one`)
	errTypingError    = misuse.Errorf("there is no account with this id, which is probably a typing error: --create creates it all the same")
)

// Resolve finds the account that an operator names by its id or its label, or
// by its id only. Without one, it returns the name as the id of a new account if
// it is valid.
func Resolve(ctx context.Context, gate *client.Client, name string, idOnly bool) (id string, known bool, err error) {
	name = strings.TrimSpace(name)
	var found []api.Account
	switch length := utf8.RuneCountInString(name); {
	case idOnly && api.ValidAccount(name): // a look-up of an unknown id reads all labels
		known, err = gate.HasAccount(ctx, name)
		return name, known, err
	case !idOnly && length > 0 && length <= api.MaxLabel:
		if found, err = gate.LookUpAccount(ctx, name); err != nil {
			return "", false, err
		}
	}
	switch {
	case len(found) == 1:
		return found[0].Account, true, nil
	case len(found) > 1:
		var ids []string
		for _, account := range found[:min(len(found), maxNamed)] {
			ids = append(ids, account.Account)
		}
		if more := len(found) - len(ids); more > 0 {
			ids = append(ids, fmt.Sprintf("and at least %d more", more))
		}
		return "", false, misuse.Errorf("several accounts have this label: %s; use an id", strings.Join(ids, ", "))
	case !api.ValidAccount(name):
		return "", false, fmt.Errorf(noAccount+": %w", api.ErrInvalidAccount)
	}
	return name, false, nil
}

// AccountOf is resolve for an account that has to exist.
func AccountOf(ctx context.Context, gate *client.Client, name string) (id string, err error) {
	id, known, err := Resolve(ctx, gate, name, false)
	if err == nil && !known {
		err = ErrUnknownAccount
	}
	return id, err
}

// OfAccount makes the first argument of a command the id of the account that
// it names.
func OfAccount[T any](do func(context.Context, *client.Client, []string) (T, error)) func(context.Context, *client.Client, []string) (T, error) {
	return func(ctx context.Context, gate *client.Client, args []string) (result T, err error) {
		id, err := AccountOf(ctx, gate, args[0])
		if err != nil {
			return result, err
		}
		return do(ctx, gate, append([]string{id}, args[1:]...))
	}
}

// ofKey is ofAccount for a command with a key of the account, which an operator
// names by its id or its name.
func ofKey[T any](do func(context.Context, *client.Client, []string) (T, error)) func(context.Context, *client.Client, []string) (T, error) {
	return OfAccount(func(ctx context.Context, gate *client.Client, args []string) (result T, err error) {
		id, err := KeyOf(ctx, gate, args[0], args[1])
		if err != nil {
			return result, err
		}
		return do(ctx, gate, []string{args[0], id})
	})
}

// KeyOf returns the id of a key. It leaves what looks like an id to the gate, which
// also knows keys that have ended. The errors do not show the word: it can be a
// token.
func KeyOf(ctx context.Context, gate *client.Client, account, word string) (string, error) {
	if word == "" {
		return word, nil
	}
	all, err := gate.Keys(ctx, account, client.KeyFilter{})
	if err != nil {
		return "", err
	}
	var found, names []string
	for _, key := range all {
		switch names = append(names, Plain(key.Name)); word {
		case key.ID:
			return word, nil
		case key.Name:
			found = append(found, key.ID)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1: // one that was rotated, and its replacement
		return "", misuse.Errorf("several keys have this name: %s; use an id", strings.Join(found, ", "))
	case strings.HasPrefix(word, "key_"):
		return word, nil
	case len(names) == 0:
		return "", errors.New("the account has no key: key create makes one")
	}
	return "", misuse.Errorf("the account has no key with this id or name (key find has the id of a token): %s", misuse.Suggest(word, slices.Compact(names)))
}

// AccountFilter is the flag --account of a report. Reports have deleted
// accounts too, which have no label any more.
type AccountFilter struct {
	name  string
	known bool
}

// AddAccountFilter adds the flag to a command.
func (t *Tool) AddAccountFilter(c *cobra.Command, filter *AccountFilter, usage string) {
	c.Flags().StringVar(&filter.name, "account", "", usage)
	t.CompleteFlag(c, "account", Accounts)
}

// ID returns the id of the account that the flag names, or "" without the flag.
func (f *AccountFilter) ID(ctx context.Context, gate *client.Client) (id string, err error) {
	if f.name == "" {
		return "", nil
	}
	id, f.known, err = Resolve(ctx, gate, f.name, false)
	return id, err
}

// Check refuses an account that does not exist if the report has nothing of it.
func (f *AccountFilter) Check(rows int) error {
	if f.name != "" && !f.known && rows == 0 {
		return ErrUnknownAccount
	}
	return nil
}
