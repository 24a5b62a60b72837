// Package misuse has the errors for invalid command lines. A program tells
// them from failures by their method Misuse, and exits with status 2. Suggest
// is for unknown words in command lines and configurations.
package misuse

import (
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
			return Errorf("unexpected argument %q: %q takes %s", given[count], c.CommandPath(), takes)
		}
		return nil
	}
}

// oneRequired is the annotation of a flag for cobra's MarkFlagsOneRequired.
const oneRequired = "cobra_annotation_one_required"

// Flags refuses a command line without a required flag. The errors of cobra
// do not write flags as they are typed.
func Flags(c *cobra.Command) error {
	var missing, group []string
	c.Flags().VisitAll(func(flag *pflag.Flag) {
		if len(flag.Annotations[cobra.BashCompOneRequiredFlag]) > 0 && !flag.Changed {
			missing = append(missing, "--"+flag.Name)
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

// Flag returns the error of a flag with the values that are allowed: strconv
// does not say which ones a Boolean has.
func Flag(err error) error {
	if cause, ok := errors.AsType[*strconv.NumError](err); ok && cause.Func == "ParseBool" {
		return Errorf("%sallowed: true, false", strings.TrimSuffix(err.Error(), cause.Error()))
	}
	return err
}
