package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
)

const (
	// completeTimeout is short: the operator waits for the shell.
	completeTimeout = 1500 * time.Millisecond
	// maxOffers is the maximum number of accounts that a shell offers.
	maxOffers = 100
)

// offer returns the words of a running gate that begin with what the operator
// has typed, after the arguments args.
type offer func(ctx context.Context, gate *client.Client, args []string, typed string) ([]cobra.Completion, error)

// Complete returns the completion of arguments: one offer for each.
func (t *Tool) Complete(offers ...offer) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= len(offers) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return t.ask(c, offers[len(args)], args, typed)
	}
}

// CompleteFlag completes the value of a flag.
func (t *Tool) CompleteFlag(c *cobra.Command, flag string, of offer) {
	// The name of the flag is known, so this cannot fail.
	_ = c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return t.ask(c, of, args, typed)
	})
}

// ask offers nothing if no gate answers: a message would disturb the line that
// the operator types.
func (t *Tool) ask(c *cobra.Command, of offer, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	gate, err := t.Connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(c.Context(), completeTimeout)
	defer cancel()
	words, err := of(ctx, gate, args, typed)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.DeleteFunc(words, func(word string) bool { return !strings.HasPrefix(word, typed) }), cobra.ShellCompDirectiveNoFileComp
}

// OneFile completes a command whose only argument is a file.
func OneFile(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// Accounts offers the ids that follow what is typed, but for an e-mail address:
// it must not be in a URL, because access logs have URLs.
func Accounts(ctx context.Context, gate *client.Client, _ []string, typed string) (words []cobra.Completion, err error) {
	if strings.Contains(typed, "@") {
		return nil, nil
	}
	// The page begins after what is typed, which can be an account too.
	if api.ValidAccount(typed) {
		if account, err := gate.Account(ctx, typed); err == nil {
			words = append(words, cobra.CompletionWithDesc(account.Account, Plain(account.Label)))
		}
	}
	page, err := gate.Accounts(ctx, api.AccountQuery{After: typed, Limit: maxOffers})
	for _, account := range page.Accounts {
		words = append(words, cobra.CompletionWithDesc(account.Account, Plain(account.Label)))
	}
	return words, err
}

// Keys offers the live keys of the account in the first argument.
func Keys(ctx context.Context, gate *client.Client, args []string, _ string) (words []cobra.Completion, err error) {
	id, err := AccountOf(ctx, gate, args[0])
	if err != nil {
		return nil, err
	}
	all, err := gate.Keys(ctx, id, client.KeyFilter{})
	for _, key := range all {
		words = append(words, cobra.CompletionWithDesc(key.ID, Plain(key.Name)))
	}
	return words, err
}

func plans(ctx context.Context, gate *client.Client, _ []string, _ string) (words []cobra.Completion, err error) {
	config, err := gate.Plans(ctx)
	for _, plan := range config.Plans {
		words = append(words, plan.Name)
	}
	return words, err
}

// Endpoints offers the endpoints of the gate.
func Endpoints(ctx context.Context, gate *client.Client, _ []string, _ string) (words []cobra.Completion, err error) {
	config, err := gate.Plans(ctx)
	for _, endpoint := range config.Endpoints {
		words = append(words, cobra.CompletionWithDesc(endpoint.Name, Plain(endpoint.Summary())))
	}
	return words, err
}

// Limited offers what a limit can be of.
func Limited(ctx context.Context, gate *client.Client, args []string, typed string) ([]cobra.Completion, error) {
	words, err := Endpoints(ctx, gate, args, typed)
	return append(words, cobra.CompletionWithDesc(api.All, "all endpoints together")), err
}

func abilities(ctx context.Context, gate *client.Client, _ []string, _ string) (words []cobra.Completion, err error) {
	config, err := gate.Plans(ctx)
	for _, endpoint := range config.Endpoints {
		words = append(words, endpoint.Ability)
	}
	slices.Sort(words)
	return slices.Compact(words), err
}
