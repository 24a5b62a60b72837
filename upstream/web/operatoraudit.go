package web

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// entryRow is one entry of the audit log.
type entryRow struct {
	api.AuditEntry
	At      moment
	Changes []valueChange
}

// valueChange is a member that an entry changed, in words. Before is empty if
// there was none, and After if there is none.
type valueChange struct{ Name, Before, After string }

func (v *visit) entryRows(entries []api.AuditEntry) (rows []entryRow) {
	for _, e := range entries {
		rows = append(rows, entryRow{e, v.clock.moment(e.At), v.valueChanges(e.Before, e.After)})
	}
	return rows
}

// valueChanges returns what differs between two JSON objects, or null.
func (v *visit) valueChanges(before, after json.RawMessage) (changes []valueChange) {
	was, is := members(before), members(after)
	names := maps.Clone(is)
	maps.Copy(names, was)
	delete(names, "account") // the entry has it
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c := valueChange{name, v.valueText(was[name]), v.valueText(is[name])}
		if c.Before != c.After {
			changes = append(changes, c)
		}
	}
	return changes
}

// members returns the members of a JSON object that have a value.
func members(object json.RawMessage) map[string]any {
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	all := map[string]any{}
	if decoder.Decode(&all) != nil || all == nil { // null
		return map[string]any{}
	}
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil || value == "" })
	return all
}

func (v *visit) valueText(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case bool:
		return map[bool]string{true: "yes", false: "no"}[value]
	case string:
		if at, err := time.Parse(time.RFC3339, value); err == nil {
			return v.clock.moment(at).Full
		}
		return value
	}
	text, _ := json.Marshal(value) // it was decoded from JSON
	return string(text)
}
