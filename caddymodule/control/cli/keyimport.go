package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/cli/keyfile"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/caddymodule/misuse"
)

// The formats of a file with keys.
const (
	formatLines   = "jsonl"
	formatKong    = "kong"
	formatSanctum = "sanctum"
)

// keysAtOnce is how many keys one request imports, so that progress is shown.
const keysAtOnce = 5000

var (
	errSanctumInput = misuse.Errorf("--format sanctum needs the file of a SQLite database, not standard input")
	errNotSanctum   = misuse.Errorf("--type and --expires-after are for --format sanctum only")
	errExpiresAfter = errors.New("allowed: durations above 0, for example 720h or 30d")
	errAnswers      = errors.New("the gate did not answer to each key")
)

// keyImport has the flags of an import of keys.
type keyImport struct {
	keyfile.Options
	format string
	dryRun bool
}

// keyImportResult is what an import of keys prints.
type keyImportResult struct {
	Imported int             `json:"imported"`
	Skipped  int             `json:"skipped"`
	Errors   []keyfile.Error `json:"errors"`
}

func (t *tool) importKeys() *cobra.Command {
	var flags keyImport
	c := &cobra.Command{
		Use: "import <file>|-", Short: "Imports keys that another system made", Args: misuse.Arguments(1),
		Long: "Imports the keys of a file, or of standard input for -, so that the gate accepts tokens that it did not make. " +
			"The configuration needs foreign_keys on. The command hashes tokens: the gate gets only the hash. " +
			"A key that was imported before is skipped, and a revoked one stays revoked.\n\n" +
			"A mistake in one line does not stop the others. " +
			"Prints the numbers of imported and skipped keys and the errors as JSON, with and without --json, and progress to standard error. Exits with status 1 if there are errors.\n\n" +
			"jsonl: each line has account and either token or sha256, and optionally plan, name, abilities, expires_at and prefix.\n" +
			"kong: the declarative file of Kong. The account is the custom_id of the consumer, or its username.\n" +
			"sanctum: the SQLite database of Laravel with the table personal_access_tokens. The account is tokenable_id.",
		Example: "caddy tollgate key import keys.jsonl\n" +
			"caddy tollgate key import kong.yaml --format kong --plan starter --dry-run",
		ValidArgsFunction: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			if err := notEmpty(c, "plan", "account-prefix", "type"); err != nil {
				return err
			}
			flags.Now = t.now()
			keys, err := flags.read(c.Context(), args[0], c.InOrStdin())
			if err != nil {
				return err
			}
			gate, err := t.connect(t.address)
			if err != nil {
				return err
			}
			return flags.run(client.WithOperator(c.Context()), gate, keys, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	addChoice(c, &flags.format, "format", formatLines, "The format of the file: jsonl, kong or sanctum", formatLines, formatKong, formatSanctum)
	c.Flags().BoolVar(&flags.dryRun, "dry-run", false, "Check all keys against the gate, and change nothing")
	c.Flags().StringVar(&flags.Plan, "plan", "", "The plan of accounts that the gate does not know, where a line has none")
	c.Flags().StringVar(&flags.AccountPrefix, "account-prefix", "", "A text to put in front of each account")
	c.Flags().StringVar(&flags.Type, "type", "", `The tokenable_type of the rows to import, for sanctum: for example App\Models\User`)
	c.Flags().Func("expires-after", "How long after created_at a token expires, for sanctum: the `duration` in Sanctum's setting expiration, for example 720h or 30d (default: only expires_at counts)", func(text string) (err error) {
		if flags.ExpiresAfter, err = calendar.ParseDuration(text); err != nil || flags.ExpiresAfter == 0 {
			return errExpiresAfter
		}
		return nil
	})
	t.completeFlag(c, "plan", plans)
	return c
}

// read reads the keys of a file.
func (k *keyImport) read(ctx context.Context, path string, input io.Reader) (keyfile.Keys, error) {
	switch {
	case k.format == formatSanctum && path == "-":
		return keyfile.Keys{}, errSanctumInput
	case k.format == formatSanctum:
		return keyfile.ReadSanctum(ctx, path, k.Options)
	case k.Type != "" || k.ExpiresAfter != 0:
		return keyfile.Keys{}, errNotSanctum
	}
	name := "standard input"
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return keyfile.Keys{}, fmt.Errorf("opening the keys: %w", err)
		}
		defer file.Close()
		input, name = file, path
	}
	if k.format == formatKong {
		keys, err := keyfile.ReadKong(input, k.Options)
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return keys, err
	}
	return keyfile.ReadLines(input, k.Options)
}

// run imports the keys and prints the result. After a failure it prints none:
// the numbers would not be those of the file.
func (k *keyImport) run(ctx context.Context, gate *client.Client, keys keyfile.Keys, w, progress io.Writer) error {
	result := keyImportResult{Errors: append([]keyfile.Error{}, keys.Errors...)}
	// The gate checks the keys of one request against each other.
	atOnce, done := keysAtOnce, 0
	if k.dryRun {
		atOnce = api.MaxImport
	}
	for part := range slices.Chunk(keys.Lines, atOnce) {
		if err := k.send(ctx, gate, part, &result); err != nil {
			return fmt.Errorf("after %d of %d valid keys: %w", done, len(keys.Lines), err)
		}
		done += len(part)
		if _, err := fmt.Fprintf(progress, "sent %d of %d valid keys\n", done, len(keys.Lines)); err != nil {
			return err
		}
	}
	slices.SortStableFunc(result.Errors, func(a, b keyfile.Error) int { return cmp.Compare(a.Line, b.Line) })
	if err := printJSON(w, result); err != nil {
		return err
	}
	if len(result.Errors) > 0 {
		return fmt.Errorf("%d of %d keys have errors", len(result.Errors), len(keys.Lines)+len(keys.Errors))
	}
	return nil
}

// send imports keys with one request, and adds to the result.
func (k *keyImport) send(ctx context.Context, gate *client.Client, lines []keyfile.Line, result *keyImportResult) error {
	ctx, cancel := context.WithTimeout(ctx, importTimeout)
	defer cancel()
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	for _, line := range lines {
		if err := encoder.Encode(line.KeyLine); err != nil {
			return fmt.Errorf("encoding line %d: %w", line.Number, err)
		}
	}
	answers := 0
	err := gate.ImportKeys(ctx, &body, k.dryRun, func(got api.LineResult) error {
		switch answers = got.Line; {
		case answers > len(lines):
			return errAnswers
		case got.Status == http.StatusCreated:
			result.Imported++
		case got.Status == http.StatusOK:
			result.Skipped++
		default:
			result.Errors = append(result.Errors, keyfile.Error{Line: lines[got.Line-1].Number, Message: got.Message})
		}
		return nil
	})
	if err == nil && answers != len(lines) {
		err = errAnswers
	}
	return err
}
