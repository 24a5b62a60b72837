// Package terminal has what the command lines of the gate and of the upstream
// share: the form of times in tables, the question before a deletion, and a
// new file that is complete or missing.
package terminal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// errRefused is the error after a question that is not answered with yes.
var errRefused = errors.New("canceled; nothing is deleted")

// maxAnswer is how much of an answer is read.
const maxAnswer = 1 << 10

// Time formats a time for a table, in its own zone. Flags accept this form.
func Time(t time.Time) string { return t.Format(time.RFC3339) }

// Ask adds the flag --yes to a command that deletes something. question is
// asked on a terminal unless the flag is set; any answer but y or yes is an
// error. A command whose standard input is no terminal asks nothing, so that
// scripts work.
func Ask(c *cobra.Command) (question func(format string, args ...any) error) {
	var yes bool
	c.Flags().BoolVar(&yes, "yes", false, "Delete without a question")
	return func(format string, args ...any) error {
		file, ok := c.InOrStdin().(*os.File)
		if yes || !ok || !term.IsTerminal(int(file.Fd())) {
			return nil
		}
		fmt.Fprintf(c.ErrOrStderr(), format+" [y/N] ", args...)
		answer, err := bufio.NewReader(io.LimitReader(file, maxAnswer)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("reading the answer: %w", err)
		}
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			return nil
		}
		return errRefused
	}
}
