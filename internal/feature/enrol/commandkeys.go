package enrol

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/terminal"
)

// keysAtOnce is how many keys one request imports, so that progress is shown.
const keysAtOnce = 5000

var errAnswers = errors.New("the gate did not answer to each key")

// keyReport is what an import of keys prints.
type keyReport struct {
	Imported int         `json:"imported"`
	Skipped  int         `json:"skipped"`
	Errors   []lineError `json:"errors"`
}

func keysCommand(t *cli.Tool) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "import <file>|-", Short: "Imports keys that another system made", Args: misuse.Arguments(1),
		Long: "Imports the key of each line of a file, or of standard input for -, so that the gate accepts tokens that it did not make. " +
			"The configuration needs foreign_keys on. " +
			"A line is JSON with account, either token or sha256, and optionally plan, name, abilities, expires_at and prefix. " +
			"The command hashes tokens: the gate gets only the hash. " +
			"A key that was imported before is skipped, and a revoked one stays revoked.\n\n" +
			"A mistake in one line does not stop the others. " +
			"Prints the numbers of imported and skipped keys and the errors as JSON, with and without --json, and progress to standard error. Exits with status 1 if there are errors.",
		Example:           "caddy tollgate key import keys.jsonl --dry-run",
		ValidArgsFunction: cli.OneFile,
		RunE: func(c *cobra.Command, args []string) error {
			file, err := terminal.OpenLines(c, args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			keys, mistakes, err := readKeys(file)
			if err != nil {
				return err
			}
			gate, err := t.Connect()
			if err != nil {
				return err
			}
			result := keyReport{Errors: append([]lineError{}, mistakes...)}
			if err := result.send(client.WithOperator(c.Context()), gate, keys, dryRun, c.ErrOrStderr()); err != nil {
				return err
			}
			slices.SortStableFunc(result.Errors, func(a, b lineError) int { return cmp.Compare(a.Line, b.Line) })
			if err := cli.PrintJSON(c.OutOrStdout(), result); err != nil || len(result.Errors) == 0 {
				return err
			}
			return fmt.Errorf("%d of %d keys have errors", len(result.Errors), len(keys)+len(mistakes))
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "Check all keys against the gate, and change nothing")
	return c
}

// send imports the keys in parts. After a failure, the numbers are not those of
// the file.
func (k *keyReport) send(ctx context.Context, gate *client.Client, keys []keyLine, dryRun bool, progress io.Writer) error {
	// The gate checks the keys of one request against each other.
	atOnce, done := keysAtOnce, 0
	if dryRun {
		atOnce = api.MaxImport
	}
	for part := range slices.Chunk(keys, atOnce) {
		if err := k.sendPart(ctx, gate, part, dryRun); err != nil {
			return fmt.Errorf("after %d of %d valid keys: %w", done, len(keys), err)
		}
		done += len(part)
		if _, err := fmt.Fprintf(progress, "sent %d of %d valid keys\n", done, len(keys)); err != nil {
			return err
		}
	}
	return nil
}

// sendPart imports keys with one request.
func (k *keyReport) sendPart(ctx context.Context, gate *client.Client, keys []keyLine, dryRun bool) error {
	ctx, cancel := context.WithTimeout(ctx, importTimeout)
	defer cancel()
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	for _, key := range keys {
		if err := encoder.Encode(key.KeyLine); err != nil {
			return fmt.Errorf("encoding line %d: %w", key.number, err)
		}
	}
	answers := 0
	err := gate.ImportKeys(ctx, &body, dryRun, func(got api.LineResult) error {
		switch answers = got.Line; {
		case answers > len(keys):
			return errAnswers
		case got.Status == http.StatusCreated:
			k.Imported++
		case got.Status == http.StatusOK:
			k.Skipped++
		default:
			k.Errors = append(k.Errors, lineError{keys[got.Line-1].number, got.Message})
		}
		return nil
	})
	if err == nil && answers != len(keys) {
		err = errAnswers
	}
	return err
}
