package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/terminal"
)

// Commands adds the commands. find is for restore.
func Commands(t *cli.Tool, parent *cobra.Command, find FindTarget) {
	parent.AddCommand(backupCommand(t), restoreCommand(t, find))
}

func backupCommand(t *cli.Tool) *cobra.Command {
	c := &cobra.Command{
		Use: "backup <file> [--keep <number>]", Short: "Writes a backup of the running gate's store to a file", Args: misuse.Arguments(1),
		Long: `
Writes accounts, keys, counts, recent calls, refused calls, the audit log and
queued events to a new file, while the gate admits calls. Every call that was
admitted before is in it. The file has no tokens, only their hashes, but it
names all accounts: keep it private. Its mode is 0600. Each account, key, count
and so on is one row of the file.

Paces and login attempts are not in it: they begin again after a restore.

With --keep, older backups are deleted afterwards: files in the same directory
whose names differ in the date only. Only complete backups are deleted: each one
is verified before.`,
		Example: "caddy tollgate backup tollgate-2026-11-23.backup --keep 14",
	}
	keep := c.Flags().Int("keep", 0, "How many backups to keep, with the new one (default all)")
	c.RunE = func(c *cobra.Command, args []string) error {
		prune := c.Flags().Changed("keep")
		switch {
		case prune && *keep < 1:
			return misuse.Errorf("invalid --keep %d: at least 1", *keep)
		case prune && !IsDated(args[0]):
			return misuse.Errorf("--keep needs a date in the name of the file, such as tollgate-2026-11-23.backup: got %q", args[0])
		}
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		file, err := writeFile(ctx, t, args[0])
		if err != nil {
			return err
		}
		if err := printFile(t, c, file, "Backed up", ""); err != nil || !prune {
			return err
		}
		return Prune(ctx, args[0], *keep, func(err error) { fmt.Fprintf(c.ErrOrStderr(), "not deleted: %v\n", err) })
	}
	c.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveDefault) // files
	return c
}

// writeFile writes a backup to a new file, and verifies it. Then the gate notes
// the time.
func writeFile(ctx context.Context, t *cli.Tool, path string) (file *File, err error) {
	gate, err := t.Connect()
	if err != nil {
		return nil, err
	}
	err = terminal.NewFile(path, func(draft *os.File) (err error) {
		if err = gate.Backup(ctx, draft); err != nil {
			return err
		}
		if file, err = Open(ctx, draft.Name()); err != nil {
			return fmt.Errorf("verifying the backup: %w", err)
		}
		return file.Close()
	})
	if err != nil {
		return nil, err
	}
	if err = gate.BackedUp(ctx); err != nil {
		return nil, fmt.Errorf("%s is complete, but the gate did not note its time for the metrics: %w", path, err)
	}
	return file, nil
}

// printFile prints what a file has, and to which store it was restored, if
// it was.
func printFile(t *cli.Tool, c *cobra.Command, file *File, what, to string) error {
	out := c.OutOrStdout()
	if t.JSON {
		result := map[string]any{"at": file.At, "accounts": file.Accounts, "keys": file.Keys, "rows": file.Rows, "bytes": file.Size}
		if to != "" {
			result["store"] = to
		}
		return json.NewEncoder(out).Encode(result)
	}
	if to != "" {
		to = " Store: " + to
	}
	_, err := fmt.Fprintf(out, "%s the state of %s: %s and %s, %s in all, %s.%s\n", what, file.At.UTC().Format(time.RFC3339),
		amount(file.Accounts, "account"), amount(file.Keys, "key"), amount(file.Rows, "row"), humanize.IBytes(uint64(file.Size)), to)
	return err
}

// amount formats a number of things.
func amount(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return humanize.Comma(n) + " " + thing
}

// Target is a closed store: a pool.Opener.
type Target interface {
	Key() string
	Restore(ctx context.Context, pieces iter.Seq2[book.Piece, error]) error
}

// FindTarget returns the store of a configuration file.
type FindTarget func(config, adapter string) (to Target, release func(), err error)

func restoreCommand(t *cli.Tool, find FindTarget) *cobra.Command {
	c := &cobra.Command{
		Use: "restore <file> --config <file> [--adapter <name>]", Short: "Writes a backup to an empty store, while no gate runs on it", Args: misuse.Arguments(1),
		Long: `
Verifies a backup with the checksum in the file, which is not a signature, and
writes it to the store of a configuration. It talks to no Caddy: the store must be empty, and no gate may use it. It may be another
store than that of the backup: so a gate moves from badger to redis, and back.

The restored state is that of the backup: keys that were revoked after it work
again, and changes after it are undone.`,
		Example: "caddy tollgate restore tollgate-2026-11-23.backup --config /etc/caddy/Caddyfile",
	}
	config, adapter := cli.ConfigFlags(c, "The configuration with the store")
	// It hides the flag of the other commands.
	c.Flags().String("address", "", "")
	_ = c.Flags().MarkHidden("address") // the flag exists
	c.RunE = func(c *cobra.Command, args []string) error {
		if c.Flags().Changed("address") {
			return misuse.Errorf("--address has no meaning here: restore talks to no Caddy, and writes to the store of --config")
		}
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		file, to, err := restore(ctx, args[0], find, *config, *adapter)
		if err != nil {
			return err
		}
		if err := printFile(t, c, file, "Restored", to); err != nil {
			return err
		}
		return remind(c.ErrOrStderr(), file.At)
	}
	return c
}

// remind says what a restore has verified and undone.
func remind(w io.Writer, at time.Time) error {
	_, err := fmt.Fprintf(w, "The file matches the checksum that the backup command wrote into it. The checksum finds damage. It is not a signature: anyone who can change the file can change it too.\n"+
		"Changes after %s are undone. Keys that were revoked since then work again: revoke them before clients can reach the gate.\n",
		at.UTC().Format(time.RFC3339))
	return err
}

// restore writes a backup to the store of a configuration, and returns the name
// of the store.
func restore(ctx context.Context, path string, find FindTarget, config, adapter string) (file *File, to string, err error) {
	if file, err = Open(ctx, path); err != nil {
		return nil, "", err
	}
	defer file.Close()
	target, release, err := find(config, adapter)
	if err != nil {
		return nil, "", err
	}
	defer release()
	to = target.Key()
	if err = target.Restore(ctx, file.Pieces(ctx)); err == nil {
		return file, to, nil
	}
	switch {
	case errors.Is(err, store.ErrInUse):
		err = fmt.Errorf("%w; stop all gates that use it", err)
	case errors.Is(err, store.ErrNotEmpty):
		err = fmt.Errorf("%w; a backup can only be restored to an empty store: choose another directory or prefix, or delete what is there", err)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return nil, "", fmt.Errorf("restoring to %s: %w", to, err)
}
