package terminal

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/caddy-tollgate/tollgate/internal/misuse"
)

// Manpage returns a hidden command that writes the manual pages of its program.
// A build of a package runs it. Caddy's own command manpage loses all text
// between < and >, because it takes help for Markdown.
func Manpage() *cobra.Command {
	return &cobra.Command{
		Use:    "manpage <directory>",
		Short:  "Writes the manual pages to a directory",
		Hidden: true,
		Args:   misuse.Arguments(1),
		RunE: func(c *cobra.Command, args []string) error {
			root := c.Root()
			root.DisableAutoGenTag = true // the date of the build
			escape(root)
			return doc.GenManTree(root, &doc.GenManHeader{Section: "8", Source: "Tollgate"}, args[0])
		},
	}
}

// escape escapes the help of a command and of those below it for Markdown.
func escape(c *cobra.Command) {
	markdown := strings.NewReplacer("<", `\<`, "*", `\*`)
	c.Use, c.Short, c.Long = markdown.Replace(c.Use), markdown.Replace(c.Short), markdown.Replace(c.Long)
	c.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = markdown.Replace(f.Usage) })
	for _, sub := range c.Commands() {
		escape(sub)
	}
}
