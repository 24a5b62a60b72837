package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
)

// jwks always prints JSON: the set is for programs.
func (t *Tool) jwks() *cobra.Command {
	return &cobra.Command{
		Use: "jwks", Short: "Prints the public keys that verify Tollgate-Assertion, as a JWK Set", Args: misuse.Arguments(0),
		RunE: func(c *cobra.Command, _ []string) error {
			set, err := Call(t, c, nil, func(ctx context.Context, gate *client.Client, _ []string) (assertion.KeySet, error) {
				return gate.PublicKeys(ctx)
			})
			if err != nil {
				return err
			}
			return PrintJSON(c.OutOrStdout(), set)
		},
	}
}
