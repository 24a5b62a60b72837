package cli

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
)

var (
	errNoTTL     = errors.New("--ttl has no value; omit it for a key that never expires")
	errNoOverlap = errors.New("--overlap has no value; omit it to end the old key at once")
)

func (t *tool) createKey() *cobra.Command {
	var request api.KeyRequest
	c := &cobra.Command{
		Use: "create <account>", Short: "Creates a key and shows its token once", Args: cobra.ExactArgs(1),
		Example: "caddy tollgate key create acc_1 --name ci --ability convert --ttl 720h",
	}
	c.Flags().StringVar(&request.Name, "name", "", "The key's name, unique among the account's live keys")
	c.Flags().StringArrayVar(&request.Abilities, "ability", nil, "What the key may do; repeatable (default: all abilities of the plan)")
	c.Flags().StringVar(&request.TTL, "ttl", "", "The time until the key expires, for example 720h or 30d (default: never)")
	// The name of the flag is known, so this cannot fail.
	_ = c.MarkFlagRequired("name")
	c.RunE = query(t, func(ctx context.Context, gate *client.Client, args []string) (api.IssuedKey, error) {
		// A script with an empty variable does not mean forever.
		if c.Flags().Changed("ttl") && request.TTL == "" {
			return api.IssuedKey{}, errNoTTL
		}
		return gate.CreateKey(ctx, args[0], request)
	}, showIssued)
	return c
}

func (t *tool) listKeys() *cobra.Command {
	var filter client.KeyFilter
	c := &cobra.Command{
		Use: "list <account>", Short: "Lists an account's keys", Args: cobra.ExactArgs(1),
		RunE: query(t, func(ctx context.Context, gate *client.Client, args []string) (api.KeyList, error) {
			keys, err := gate.Keys(ctx, args[0], filter)
			return api.KeyList{Keys: keys}, err
		}, showKeys),
	}
	c.Flags().StringVar(&filter.Kind, "kind", "key", "key, or login for the tokens of logins")
	c.Flags().BoolVar(&filter.Revoked, "revoked", false, "Include revoked keys")
	return c
}

func (t *tool) revokeKey() *cobra.Command {
	return &cobra.Command{
		Use: "revoke <account> <key-id>", Short: "Revokes a key", Args: cobra.ExactArgs(2),
		RunE: perform(t, func(ctx context.Context, gate *client.Client, args []string) (string, error) {
			return "Revoked " + plain(args[1]) + ".", gate.RevokeKey(ctx, args[0], args[1])
		}),
	}
}

func (t *tool) rotateKey() *cobra.Command {
	var rotation api.Rotation
	c := &cobra.Command{
		Use: "rotate <account> <key-id>", Short: "Replaces a key with a new one, and shows its token once", Args: cobra.ExactArgs(2),
		Example: "caddy tollgate key rotate acc_1 key_4kdm2Zq0yT1RbXc7 --overlap 24h",
		RunE: query(t, func(ctx context.Context, gate *client.Client, args []string) (api.IssuedKey, error) {
			if rotation.Overlap == "" {
				return api.IssuedKey{}, errNoOverlap
			}
			return gate.RotateKey(ctx, args[0], args[1], rotation)
		}, showIssued),
	}
	c.Flags().StringVar(&rotation.Overlap, "overlap", "0s", "How long the old key still works, for example 24h or 7d; 0s ends it at once")
	return c
}

func showIssued(table io.Writer, key api.IssuedKey) {
	for _, line := range [][2]string{
		{"ID", key.ID},
		{"Account", key.Account},
		{"Name", key.Name},
		{"Abilities", strings.Join(key.Abilities, " ")},
		{"Expires", momentOr(key.ExpiresAt, "never")},
		{"Token", key.Token},
	} {
		row(table, line[0], line[1])
	}
	row(table)
	row(table, "The token is not shown again.")
}

func showKeys(table io.Writer, list api.KeyList) {
	row(table, "ID", "NAME", "TOKEN", "ABILITIES", "CREATED", "LAST USED", "EXPIRES", "REVOKED")
	for _, k := range list.Keys {
		row(table, k.ID, k.Name, k.Hint, strings.Join(k.Abilities, " "), moment(k.CreatedAt),
			momentOr(k.LastUsedAt, "never"), momentOr(k.ExpiresAt, "never"), momentOr(k.RevokedAt, none))
	}
	if len(list.Keys) == 0 {
		row(table, "There are none.")
	}
}
