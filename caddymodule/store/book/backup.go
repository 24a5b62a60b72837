package book

import (
	"context"
	"fmt"
	"time"
)

// backupSpace has one row, with the time of the last backup. A backup does not
// have it: a restored store has no backup of its own.
var backupSpace = Space{Name: "backup"}

const lastBackupRow = "last"

// BackedUp stores when a backup succeeded.
func (b *Book) BackedUp(ctx context.Context, at time.Time) error {
	return commitOne(ctx, b.Engine, backupSpace, []Write{{Row: Row{Key: lastBackupRow, Value: encode(at)}}})
}

// LastBackup returns when the last backup succeeded, zero if none did.
func (b *Book) LastBackup(ctx context.Context) (at time.Time, err error) {
	rows, err := b.GetRows(ctx, backupSpace, lastBackupRow)
	if err != nil || rows[0].Value == nil {
		return at, err
	}
	if err := decode(rows[0].Value, &at); err != nil {
		return at, fmt.Errorf("the time of the last backup: %w", err)
	}
	return at, nil
}
