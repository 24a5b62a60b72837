package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// misuseError is an invalid command line that a command finds itself. It has
// the method Misuse, by which the program tells it from a failure.
type misuseError struct{ error }

func misuse(format string, args ...any) error { return misuseError{fmt.Errorf(format, args...)} }

// Unwrap returns the cause.
func (e misuseError) Unwrap() error { return e.error }

// Misuse marks the error.
func (misuseError) Misuse() {}

// missing refuses a group without a subcommand or with an unknown one. Cobra
// would print the help and succeed, which would mislead a script.
func missing(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return misuse("missing command of %q; see --help", c.CommandPath())
	}
	return misuse("unknown command %q of %q; see --help", args[0], c.CommandPath())
}

// notEmpty refuses flags that are set to nothing. An empty
// variable in a script must not select all.
func notEmpty(c *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if flag := c.Flag(name); flag.Changed && flag.Value.String() == "" {
			return misuse("--%s has no value; omit it for all", name)
		}
	}
	return nil
}

// between refuses a number outside of its bounds.
func between(flag string, n, low, high int) error {
	if n < low || n > high {
		return misuse("--%s %d is not a number from %d to %d", flag, n, low, high)
	}
	return nil
}

// choice is the value of a flag that has to be one of some words.
type choice struct {
	value *string
	words []string
}

// addChoice adds a flag that has to be one of some words.
func addChoice(c *cobra.Command, value *string, flag, preset, usage string, words ...string) {
	*value = preset
	c.Flags().Var(&choice{value, words}, flag, usage)
	// The name of the flag is known, so this cannot fail.
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// Set implements pflag.Value.
func (c *choice) Set(word string) error {
	if !slices.Contains(c.words, word) {
		return errors.New("allowed: " + strings.Join(c.words, ", "))
	}
	*c.value = word
	return nil
}

// String implements pflag.Value.
func (c *choice) String() string { return *c.value }

// Type implements pflag.Value.
func (*choice) Type() string { return "string" }
