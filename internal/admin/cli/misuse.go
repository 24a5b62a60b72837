package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/internal/misuse"
)

// NotEmpty refuses flags that are set to nothing. An empty
// variable in a script must not select all.
func NotEmpty(c *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if flag := c.Flag(name); flag.Changed && flag.Value.String() == "" {
			return misuse.Errorf("--%s has no value; omit it for all", name)
		}
	}
	return nil
}

// number is the value of a flag that has to be a whole number in bounds.
type number[T int | int64] struct {
	value     *T
	low, high T
}

// AddNumber adds a flag that has to be a whole number from low to high.
func AddNumber[T int | int64](c *cobra.Command, value *T, flag string, preset, low, high T, usage string) {
	*value = preset
	c.Flags().Var(&number[T]{value, low, high}, flag, usage)
}

// Set implements pflag.Value.
func (n *number[T]) Set(text string) error {
	got, err := strconv.ParseInt(text, 10, 64)
	if err != nil || got < int64(n.low) || got > int64(n.high) {
		return fmt.Errorf("allowed: whole numbers from %d to %d", n.low, n.high)
	}
	*n.value = T(got)
	return nil
}

// String implements pflag.Value.
func (n *number[T]) String() string { return strconv.FormatInt(int64(*n.value), 10) }

// Type implements pflag.Value.
func (*number[T]) Type() string { return "int" }

// choice is the value of a flag that has to be one of some words.
type choice struct {
	value *string
	words []string
}

// AddChoice adds a flag that has to be one of some words.
func AddChoice(c *cobra.Command, value *string, flag, preset, usage string, words ...string) {
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
