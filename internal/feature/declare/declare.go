// Package declare makes the accounts and keys that the configuration file has.
//
// The file has hashes of tokens only. What it declares is read-only for the control
// API: package book refuses other changes with store.ErrDeclared.
package declare

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// Account is an account that the configuration declares: nothing else changes or
// deletes it.
type Account struct {
	// ID has 1 to 64 letters, digits and . _ @ -.
	ID string `json:"id"`

	// Plan is the name of a plan of this configuration.
	Plan string `json:"plan"`

	// Label is a text for people, at most 200 characters. Default: none.
	Label string `json:"label,omitempty"`

	// Disabled refuses all tokens of the account. Default: off.
	Disabled bool `json:"disabled,omitempty"`

	// BillingDay is the day, 1 to 31, on which the account's months begin; in a
	// shorter month, its last day. Default 1.
	BillingDay int `json:"billing_day,omitempty"`

	// Keys lists keys of the account. It can have others too.
	Keys []Key `json:"keys,omitempty"`
}

// Key is a key that the configuration declares.
type Key struct {
	// Name is 1 to 64 characters, unique among the account's live keys.
	Name string `json:"name"`

	// SHA256 is the SHA-256 of the token, as 64 hexadecimal digits. A token of
	// another system also needs foreign_keys.
	SHA256 string `json:"sha256"`

	// Abilities are what the key may do, of those of the plan. Default: all,
	// also after the plan has changed.
	Abilities []string `json:"abilities,omitempty"`
}

// Declaration is what a configuration declares. It is immutable.
type Declaration struct {
	accounts map[string]*account
	ids      []string // sorted
	sum      string
}

// account is an Account with the abilities of its keys.
type account struct {
	Plan, Label string
	Disabled    bool
	BillingDay  int
	Keys        []key
}

type key struct {
	Name      string
	Hash      token.Hash
	Abilities []string
}

// New checks accounts against a policy. It returns all mistakes joined, each of
// them a *policy.Error. None shows a token or a hash.
func New(accounts []Account, p *policy.Policy) (*Declaration, error) {
	d := &Declaration{accounts: map[string]*account{}}
	holders, errs := map[token.Hash]string{}, []error(nil)
	for _, c := range accounts {
		subject, plan := "account "+c.ID, p.Plan(c.Plan)
		add := func(format string, args ...any) { errs = append(errs, mistake(subject, format, args...)) }
		a := &account{Plan: c.Plan, Label: admin.CleanName(c.Label), Disabled: c.Disabled, BillingDay: cmp.Or(c.BillingDay, 1)}
		if a.BillingDay < 1 || a.BillingDay > 31 {
			add("billing_day %d is not from 1 to 31", c.BillingDay)
		}
		if !api.ValidAccount(c.ID) {
			add("%q is not an id: use 1 to 64 letters, digits and . _ @ -, and not only dots", c.ID)
		}
		if d.accounts[c.ID] != nil {
			add("duplicate account")
		}
		if !admin.IsText(a.Label, 0, store.MaxLabel) {
			add("invalid label: use at most %d characters, none of them invisible", store.MaxLabel)
		}
		if len(c.Keys) > store.MaxLiveKeys {
			add("%d keys: an account has at most %d", len(c.Keys), store.MaxLiveKeys)
		}
		if plan == nil {
			add("unknown plan %q: plans are %s", c.Plan, p.PlanNames())
		}
		for _, k := range c.Keys {
			made, err := newKey(k, plan)
			if slices.ContainsFunc(a.Keys, func(other key) bool { return other.Name == made.Name }) {
				err = errors.Join(err, errors.New("duplicate name"))
			}
			if first, taken := holders[made.Hash]; taken && err == nil {
				err = fmt.Errorf("the token is that of the %s already", first)
			}
			if subject := KeySubject(c.ID, k.Name); err != nil {
				errs = append(errs, &policy.Error{Subject: subject, Err: err})
			} else {
				holders[made.Hash] = subject
			}
			a.Keys = append(a.Keys, made)
		}
		d.accounts[c.ID] = a
	}
	d.ids = slices.Sorted(maps.Keys(d.accounts))
	text, err := json.Marshal(d.accounts)
	sum := sha256.Sum256(text)
	d.sum = hex.EncodeToString(sum[:])
	return d, errors.Join(append(errs, err)...)
}

// KeySubject is the subject of the mistakes in a key.
func KeySubject(account, name string) string { return "account " + account + " key " + shown(name) }

// newKey checks a key of an account with a plan, which can be nil.
func newKey(c Key, plan *policy.Plan) (key, error) {
	k := key{Name: admin.CleanName(c.Name), Abilities: slices.Compact(slices.Sorted(slices.Values(c.Abilities)))}
	switch {
	case !admin.ValidName(k.Name):
		return k, errors.New("invalid name: use 1 to 64 characters, none of them invisible")
	case token.IsOwn(k.Name), k.Hash.UnmarshalText([]byte(c.SHA256)) != nil:
		return k, errors.New("a key has the SHA-256 of its token, not the token: write key <name> sha256:<64 hexadecimal digits>; caddy tollgate key new prints the line")
	case token.IsOfNoToken(k.Hash):
		return k, errors.New("the SHA-256 is that of an empty text, or one digit repeated")
	case plan == nil:
		return k, nil
	case len(k.Abilities) == 0:
		k.Abilities = slices.Sorted(slices.Values(plan.Abilities))
	}
	for _, ability := range k.Abilities {
		if !slices.Contains(plan.Abilities, ability) {
			return k, fmt.Errorf("the plan %s does not have the ability %q: use %s", plan.Name, shown(ability), strings.Join(plan.Abilities, ", "))
		}
	}
	return k, nil
}

// shown returns a text of a configuration for an error, and only the hint of one
// that claims to be a token.
func shown(text string) string {
	if token.IsOwn(text) {
		return token.Hint(text)
	}
	return text
}

func mistake(subject, format string, args ...any) error {
	return &policy.Error{Subject: subject, Err: fmt.Errorf(format, args...)}
}
