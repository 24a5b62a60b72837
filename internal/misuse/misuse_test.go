package misuse_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/internal/misuse"
)

// TestMessages checks that an error names the argument or flag, what is
// allowed, and what was got.
func TestMessages(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		use, args, want string
	}{
		{"copy <from> <to>", "a b", ""},
		{"copy <from> <to>", "a", `missing argument <to>: "copy" takes <from> <to>`},
		{"copy <from> <to> --force", "a b c d", `unexpected argument "c": "copy" takes <from> <to>; its flags are --force`},
		{"copy <from> <to>", "a b true --force", `unexpected argument "true": "copy" takes <from> <to>; write --force=true`},
		{"copy <from> <to>", "a -5", `invalid number -5: no number is negative here; "copy" takes <from> <to>`},
		{"copy <from> <to>", "a b --forse", "unknown flag: --forse: did you mean --force?"},
		{"list", "--force=maybe", `invalid argument "maybe" for "--force" flag: allowed: true, false`},
	} {
		t.Run(test.use+" "+test.args, func(t *testing.T) {
			t.Parallel()
			c := &cobra.Command{Use: test.use, Args: misuse.Arguments(strings.Count(test.use, "<")), Run: func(*cobra.Command, []string) {}}
			c.Flags().Bool("force", false, "")
			c.SetFlagErrorFunc(misuse.Flag)
			c.SetOut(io.Discard)
			c.SetErr(io.Discard)
			c.SetArgs(strings.Fields(test.args))
			err := c.Execute()
			if got := strings.TrimPrefix(fmt.Sprint(err), "<nil>"); got != test.want || misuse.Is(err) != (test.want != "") {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestSuggest names the nearest word, or all if none is near.
func TestSuggest(t *testing.T) {
	t.Parallel()
	known := []string{"timezone", "rates", "name"}
	for word, want := range map[string]string{
		"timezon": "did you mean timezone?",
		"rate":    "did you mean rates?",
		"mean":    "use name, rates, timezone",
		"":        "use name, rates, timezone",
	} {
		if got := misuse.Suggest(word, known); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}
