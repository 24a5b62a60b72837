package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// EntryChange is a member of an audit entry that changed, in words. A text is
// empty without a value.
type EntryChange struct{ Name, Before, After string }

// unshown has the members that Changes omits: an entry has them elsewhere, or they
// follow from what is shown.
var unshown = []string{"account", "created_at", "endpoint", "hint", "kind", "month", "period", "reason"}

// renamed has the members that Changes gives a better name, some by their action.
var renamed = map[string]string{UsageTopUp + " calls": "added", "calls": "asked", "label_changed": "label", "usage": "called"}

// Changes returns what an entry changed, for people. moment formats a time.
func (e AuditEntry) Changes(moment func(time.Time) string) (changes []EntryChange) {
	var before, after map[string]json.RawMessage
	// null leaves its map nil.
	_, _ = json.Unmarshal(e.Before, &before), json.Unmarshal(e.After, &after)
	isOne, all := before == nil || after == nil || e.Action == AccountDelete, map[string]json.RawMessage{}
	maps.Copy(all, before)
	maps.Copy(all, after)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c := EntryChange{name, words(name, before[name], moment), words(name, after[name], moment)}
		isEmpty := isOne && (c.Before+c.After == "" || c.Before+c.After == "no" || name == "id") // the id is the target
		if isEmpty || bytes.Equal(before[name], after[name]) || slices.Contains(unshown, name) {
			continue
		}
		if name == "label_changed" { // the log does not have the text
			c.Before, c.After = "", "changed"
		}
		c.Name = cmp.Or(renamed[e.Action+" "+name], renamed[name], strings.ReplaceAll(name, "_", " "))
		changes = append(changes, c)
	}
	return changes
}

// words returns the value of a member as people read it.
func words(name string, member json.RawMessage, moment func(time.Time) string) string {
	var text string
	var list []json.RawMessage
	var of struct {
		Limit
		Calls *int64
	}
	switch {
	case name == "limit" && string(member) == "null":
		return "unlimited"
	case member == nil || string(member) == "null":
		return ""
	case string(member) == "true":
		return "yes"
	case string(member) == "false":
		return "no"
	case json.Unmarshal(member, &text) == nil:
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return moment(at)
		}
		return text
	case json.Unmarshal(member, &list) == nil:
		var texts []string
		for _, element := range list {
			texts = append(texts, words("", element, moment))
		}
		return strings.Join(texts, ", ")
	case json.Unmarshal(member, &of) != nil:
		return string(member) // a number
	case of.Calls != nil:
		return fmt.Sprintf("%s %d", of.Endpoint, *of.Calls)
	}
	return fmt.Sprintf("%s %d %s", of.Endpoint, of.Limit.Limit, Per(of.Period))
}
