package declare

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// Commands adds the command.
func Commands(t *cli.Tool, _ *cobra.Command) { t.KeyGroup.AddCommand(newCommand(t)) }

func newCommand(t *cli.Tool) *cobra.Command {
	c := &cobra.Command{
		Use: "new", Short: "Makes a token, and its line for a configuration file", Args: misuse.Arguments(0),
		Long:    "Makes a token and prints it once, with the line that declares its key in an account of the configuration file. It asks no gate and changes nothing.",
		Example: "caddy tollgate key new --name ci",
	}
	name := c.Flags().String("name", "main", "The key's name, unique among the account's live keys")
	word := (*token.Word)(c.Flags().String("token-prefix", "", "The option token_prefix of the configuration"))
	c.RunE = func(c *cobra.Command, _ []string) error {
		cleaned := admin.CleanName(*name)
		if !admin.ValidName(cleaned) || strings.ContainsAny(cleaned, "\"`\\{}#") {
			return misuse.Errorf("invalid --name: use 1 to 64 characters, none of them invisible, and without quotes, braces, # and \\")
		}
		if strings.Contains(cleaned, " ") { // one word of a Caddyfile
			cleaned = `"` + cleaned + `"`
		}
		if err := word.Check(); err != nil {
			return misuse.Errorf("invalid --token-prefix: %w", err)
		}
		secret, err := word.New(token.Key, rand.Reader)
		if err != nil {
			return err
		}
		hash := secret.Hash()
		line := "key " + cleaned + " sha256:" + hex.EncodeToString(hash[:])
		if t.JSON {
			return cli.PrintJSON(c.OutOrStdout(), map[string]string{"token": secret.Reveal(), "line": line})
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "Token  %s\nLine   %s\n\nThe token is not shown again.\n", secret.Reveal(), line)
		return err
	}
	return c
}
