package cli

import "github.com/spf13/cobra"

// ConfigFlags adds the flags of a command that reads a configuration file. use
// says what the file is.
func ConfigFlags(c *cobra.Command, use string) (config, adapter *string) {
	config = c.Flags().String("config", "", use)
	adapter = c.Flags().String("adapter", "", "The adapter of the configuration, such as caddyfile")
	_ = c.MarkFlagRequired("config") // the flag exists
	// Its values are files.
	c.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveDefault)
	return config, adapter
}
