package book

import (
	"context"
	"time"
)

// What is known about the whole store is in spaces of one row, which has the
// name of its space.
var (
	timezoneSpace = Space{Name: "timezone"}
	// A dump does not have it: a restored store has no backup of its own.
	backupSpace = Space{Name: "backup"}
)

// Timezone is the name of the time zone whose days the counts are of.
type Timezone string

// Timezone returns the zone of the counts, empty if it is not known.
func (b *Book) Timezone(ctx context.Context) (zone Timezone, err error) {
	_, err = b.readRow(ctx, timezoneSpace, timezoneSpace.Name, &zone)
	return zone, err
}

// SetTimezone sets the zone of the counts.
func (b *Book) SetTimezone(ctx context.Context, zone Timezone) error {
	return b.setFact(ctx, timezoneSpace, zone)
}

// LastBackup returns when the last backup succeeded, zero if none did.
func (b *Book) LastBackup(ctx context.Context) (at time.Time, err error) {
	_, err = b.readRow(ctx, backupSpace, backupSpace.Name, &at)
	return at, err
}

// BackedUp stores when a backup succeeded.
func (b *Book) BackedUp(ctx context.Context, at time.Time) error {
	return b.setFact(ctx, backupSpace, at)
}

func (b *Book) setFact(ctx context.Context, of Space, value any) error {
	return commitOne(ctx, b.Engine, of, []Write{{Row: Row{Key: of.Name, Value: encode(value)}}})
}
