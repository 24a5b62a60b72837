// Package misuse has the errors for invalid command lines. A program tells
// them from failures by their method Misuse, and exits with status 2. Suggest
// is for unknown words in command lines and configurations.
package misuse

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// misuse is an error for an invalid command line.
type misuse struct{ error }

// Errorf returns an error for an invalid command line. It takes the
// arguments of fmt.Errorf.
func Errorf(format string, args ...any) error { return misuse{fmt.Errorf(format, args...)} }

// Misuse marks the error.
func (misuse) Misuse() {}

// Unwrap returns the cause.
func (m misuse) Unwrap() error { return m.error }

// Is tells whether an error is for an invalid command line.
func Is(err error) bool { return errors.As(err, new(interface{ Misuse() })) }

// Arguments refuses another number of arguments. The words of Use after the
// name of the command are their names. The errors of cobra have only numbers.
func Arguments(count int) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		names := strings.Fields(c.Use)[1 : 1+count]
		takes := "no arguments"
		if count > 0 {
			takes = strings.Join(names, " ")
		}
		switch {
		case len(given) < count:
			return Errorf("missing argument %s: %q takes %s", strings.Join(names[len(given):], " "), c.CommandPath(), takes)
		case len(given) > count:
			return Errorf("unexpected argument %q: %q takes %s%s", given[count], c.CommandPath(), takes, besides(c, given[count]))
		}
		return nil
	}
}

// besides says which flags a command has of its own. A word can be the value of
// one that takes it only behind "=".
func besides(c *cobra.Command, word string) (text string) {
	if names := flags(c.LocalFlags()); len(names) > 0 {
		text = "; its flags are " + strings.Join(names, ", ")
	}
	c.Flags().Visit(func(flag *pflag.Flag) {
		if flag.NoOptDefVal != "" && flag.Value.Set(word) == nil {
			text = "; write --" + flag.Name + "=" + word
		}
	})
	return text
}

// flags returns the flags of a set as they are typed.
func flags(set *pflag.FlagSet) (names []string) {
	set.VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden && flag.Name != "help" {
			names = append(names, "--"+flag.Name)
		}
	})
	return names
}

// Command refuses a command that only groups others, without one of them or with
// an unknown one. Cobra would print the help and succeed, which would mislead a
// script. SuggestFor has what people type instead of a name.
func Command(c *cobra.Command, given []string) error {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	if len(given) == 0 {
		return Errorf("missing command of %q: use %s", c.CommandPath(), strings.Join(names, ", "))
	}
	word := given[0]
	for _, sub := range c.Commands() {
		if slices.Contains(sub.SuggestFor, word) {
			word = sub.Name()
		}
	}
	return Errorf("unknown command %q of %q: %s", given[0], c.CommandPath(), Suggest(word, names))
}

// oneRequired is the annotation of a flag for cobra's MarkFlagsOneRequired.
const oneRequired = "cobra_annotation_one_required"

// Flags refuses a command line without a required flag. The errors of cobra
// do not write flags as they are typed.
func Flags(c *cobra.Command) error {
	var missing, group []string
	c.Flags().VisitAll(func(flag *pflag.Flag) {
		if len(flag.Annotations[cobra.BashCompOneRequiredFlag]) > 0 && !flag.Changed {
			_, usage := pflag.UnquoteUsage(flag)
			missing = append(missing, "--"+flag.Name+" ("+usage+")")
		}
		for _, names := range flag.Annotations[oneRequired] {
			group = strings.Fields(names)
		}
	})
	if len(missing) > 0 {
		return Errorf("missing flag %s of %q", strings.Join(missing, ", "), c.CommandPath())
	}
	if len(group) > 0 && !slices.ContainsFunc(group, func(name string) bool { return c.Flag(name).Changed }) {
		return Errorf("missing flag of %q: use --%s", c.CommandPath(), strings.Join(group, ", --"))
	}
	return nil
}

// CheckFlags makes a command and those below it call Flags before they run.
func CheckFlags(c *cobra.Command) {
	c.PreRunE = func(c *cobra.Command, _ []string) error { return Flags(c) }
	for _, sub := range c.Commands() {
		CheckFlags(sub)
	}
}

// Flag returns the error of a flag with what is allowed, in words. An unknown
// flag behind an unknown command is a flag of the command that is meant.
func Flag(c *cobra.Command, err error) error {
	if given := c.Flags().Args(); len(given) > 0 && c.HasSubCommands() {
		return Command(c, given)
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		word := cmp.Or(unknown.GetSpecifiedShortnames(), unknown.GetSpecifiedName())
		if _, err := strconv.ParseFloat(word, 64); err == nil {
			return Errorf("invalid number -%s: no number is negative here; %q takes %s", word, c.CommandPath(), strings.Join(strings.Fields(c.Use)[1:], " "))
		}
		return Errorf("%w: %s", err, Suggest("--"+word, append(flags(c.Flags()), "--help")))
	}
	if cause, ok := errors.AsType[*strconv.NumError](err); ok {
		allowed := "whole numbers"
		if cause.Func == "ParseBool" {
			allowed = "true, false"
		}
		return Errorf("%sallowed: %s", strings.TrimSuffix(err.Error(), cause.Error()), allowed)
	}
	return err
}
