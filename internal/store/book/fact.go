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
	// A dump does not have it: a restored store is compared as a whole.
	declaredSpace = Space{Name: "declared"}
)

// Declared says which accounts and keys of a configuration file the documents
// have. Its zero value says that this is not known.
type Declared struct {
	// Sum is that of the declaration. It is empty while a gate writes the
	// documents.
	Sum string `cbor:"1,keyasint,omitempty"`
	// Gate is the instance of the gate that wrote them.
	Gate string `cbor:"2,keyasint"`
}

// Declared returns what was declared last.
func (b *Book) Declared(ctx context.Context) (d Declared, err error) {
	_, err = b.readRow(ctx, declaredSpace, declaredSpace.Name, &d)
	return d, err
}

// SetDeclared replaces old. The error is ErrConflict if another gate has replaced
// it.
func (b *Book) SetDeclared(ctx context.Context, old, d Declared) error {
	w := Write{Row: Row{Key: declaredSpace.Name, Value: encode(d)}, Check: true}
	if old != (Declared{}) {
		w.Old = encode(old)
	}
	return commitOne(ctx, b.Engine, declaredSpace, []Write{w})
}

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
