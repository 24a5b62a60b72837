package book

import (
	"context"
)

// Timezone is the name of the time zone whose days the counts are of.
type Timezone string

// The time zone is the only row of its space.
var timezoneSpace = Space{Name: "timezone"}

const timezoneRow = "timezone"

// Timezone returns the zone of the counts, empty if it is not known.
func (b *Book) Timezone(ctx context.Context) (zone Timezone, err error) {
	rows, err := b.GetRows(ctx, timezoneSpace, timezoneRow)
	if err != nil || rows[0].Value == nil {
		return "", err
	}
	return zone, decode(rows[0].Value, &zone)
}

// SetTimezone sets the zone of the counts.
func (b *Book) SetTimezone(ctx context.Context, zone Timezone) error {
	return commitOne(ctx, b.Engine, timezoneSpace, []Write{{Row: Row{Key: timezoneRow, Value: encode(zone)}}})
}
