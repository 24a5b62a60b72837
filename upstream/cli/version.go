package cli

import (
	"cmp"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/misuse"
)

// release is the version that a build sets with -ldflags -X.
var release string

// version returns the version of the program: that of the release, or the one
// that Go made from the repository.
func version() string {
	made := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		made = info.Main.Version
	}
	return cmp.Or(release, made)
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  misuse.Arguments(0),
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), version())
			return err
		},
	}
}
