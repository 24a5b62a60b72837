// Package option is the settings of the upstream as text: their flags,
// environment variables and errors. The portal and the currency API both
// import it; it knows neither.
package option

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caddy-tollgate/tollgate/internal/misuse"
)

// Setting is one of the settings.
type Setting struct {
	// Name is the option of a Caddyfile, and the flag.
	Name    string
	Value   *string
	Default string
	// Argument is the syntax in a Caddyfile. Empty: the handler has no such
	// option.
	Argument string
	// Usage describes the flag. Empty: there is none, since other users of the
	// machine can read flags.
	Usage string
}

// Variable returns the environment variable of the setting.
func (s Setting) Variable() string { return "TOLLGATE_" + strings.ToUpper(s.Name) }

// Declare declares the flag of the setting.
func (s Setting) Declare(c *cobra.Command) {
	Declare(c, s.Value, s.Name, s.Variable(), s.Default, s.Usage)
}

// environment is the annotation of a flag with its environment variable.
const environment = "environment"

// Declare declares a flag. Its default is an environment variable or, if that
// is empty, the fallback.
func Declare(c *cobra.Command, value *string, name, variable, fallback, usage string) {
	c.Flags().StringVar(value, name, cmp.Or(os.Getenv(variable), fallback), usage+" (environment: "+variable+")")
	c.Flag(name).Annotations = map[string][]string{environment: {variable}}
}

// Variable returns the environment variable of a flag, or "".
func Variable(f *pflag.Flag) string { return strings.Join(f.Annotations[environment], "") }

// Data is the data directory.
func Data(value *string) Setting {
	return Setting{"data", value, "./data", "<directory>", "data `directory`; this program uses upstream/ in it"}
}

// Directory returns the directory of the upstream in a data directory.
func Directory(data string) (string, error) {
	directory, err := filepath.Abs(filepath.Join(data, "upstream"))
	if err != nil {
		return "", fmt.Errorf("data: %w", err)
	}
	return directory, nil
}

// DirectoryOf returns the directory of a command that has the flag of Data,
// and checks its flags.
func DirectoryOf(c *cobra.Command) (string, error) {
	if err := Check(c); err != nil {
		return "", err
	}
	return Directory(c.Flag("data").Value.String())
}

// Check refuses a flag that is set to nothing: it could come from an empty
// variable of a script.
func Check(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if Variable(f) != "" && f.Value.String() == "" {
			err = misuse.Errorf("--%s has no value", f.Name)
		}
	})
	return err
}

// Logger returns the log of a command.
func Logger(c *cobra.Command) *slog.Logger {
	return slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil))
}

// Error is an invalid option.
type Error struct {
	Option string
	// Value is empty where it could hold a password.
	Value string
	// Want says what is allowed.
	Want string
}

func (e *Error) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("invalid %s: want %s", e.Option, e.Want)
	}
	return fmt.Sprintf("invalid %s %q: want %s", e.Option, e.Value, e.Want)
}

// Misuse marks the error as one of the command line, for programs that take
// options from there.
func (*Error) Misuse() {}

// NameFlag makes an error about an option name the flag, or the environment
// variable if the flag is not set.
func NameFlag(c *cobra.Command, err error) error {
	var invalid *Error
	if !errors.As(err, &invalid) {
		return err
	}
	named := *invalid
	named.Option = Setting{Name: invalid.Option}.Variable()
	c.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains(f.Annotations[environment], named.Option) {
			named.Option = "--" + f.Name
		}
	})
	return &named
}
