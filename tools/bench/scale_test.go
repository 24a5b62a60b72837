package main

import (
	"path/filepath"
	"testing"
	"time"
)

// In a zone of writeZone, a day ends at the given instant.
func TestWriteZone(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("ZONEINFO", dir)
	for name, midnight := range map[string]time.Time{
		"Morning": time.Date(2026, 11, 25, 3, 4, 5, 0, time.UTC), "Evening": time.Date(2026, 11, 25, 22, 1, 2, 0, time.UTC),
		"Midnight": time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC),
	} {
		if err := writeZone(filepath.Join(dir, "Bench", name), midnight); err != nil {
			t.Fatal(err)
		}
		zone, err := time.LoadLocation("Bench/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if h, m, s := midnight.In(zone).Clock(); h != 0 || m != 0 || s != 0 {
			t.Errorf("%s: the midnight is at %02d:%02d:%02d", name, h, m, s)
		}
	}
}
