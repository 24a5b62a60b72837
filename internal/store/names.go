package store

import "slices"

// Names are the names of endpoints and abilities that a configuration has
// changed. A store keeps each of them under its oldest name, so that counts,
// limits and keys stay as they are, and gates with the old and the new
// configuration share them.
type Names struct{ Endpoints, Abilities Renames }

// Renames translate between the oldest name of a thing and the one of today.
// The zero Renames change no name.
type Renames struct {
	today  map[string]string // by the older names
	oldest map[string]string // by the name of today
}

// Add adds a name of today and the older ones, the oldest first. All names are
// new.
func (r *Renames) Add(today string, older []string) {
	if r.today == nil {
		r.today, r.oldest = map[string]string{}, map[string]string{}
	}
	for _, name := range older {
		r.today[name] = today
	}
	r.oldest[today] = older[0]
}

// Today returns the name of today for a name that a store has.
func (r Renames) Today(name string) string {
	if today, renamed := r.today[name]; renamed {
		return today
	}
	return name
}

// Oldest returns the name under which a store keeps what has this name today.
func (r Renames) Oldest(name string) string {
	if oldest, renamed := r.oldest[name]; renamed {
		return oldest
	}
	return name
}

// None tells whether no name is changed.
func (r Renames) None() bool { return len(r.oldest) == 0 }

// Grant returns a grant whose limits have the names of today. Its abilities stay
// as they are: plans translate them, with a cache.
func (n Names) Grant(g Grant) Grant {
	if g.Terms != nil && !n.Endpoints.None() {
		translated := n.Terms(*g.Terms, Renames.Today)
		g.Terms = &translated
	}
	if own := g.Restriction; own != nil && !n.Endpoints.None() {
		translated := *own
		translated.Limits = n.Limits(own.Limits, Renames.Today)
		g.Restriction = &translated
	}
	return g
}

// Terms is Overrides for terms.
func (n Names) Terms(t Terms, to func(Renames, string) string) Terms {
	t.Overrides = n.Overrides(t.Overrides, to)
	t.Prepaid = translate(t.Prepaid, func(p *Prepaid) *string { return &p.Endpoint }, func(a, b *Prepaid) bool { return a.Endpoint == b.Endpoint }, n.Endpoints, to)
	return t
}

// Overrides returns overrides with the names that to returns. Of those that become
// the same, the last one stays. It does not change the list.
func (n Names) Overrides(list []Override, to func(Renames, string) string) []Override {
	return translate(list, func(o *Override) *string { return &o.Endpoint }, func(a, b *Override) bool { return a.Same(b.Limit) }, n.Endpoints, to)
}

// Limits is Overrides for the limits of a key.
func (n Names) Limits(list []Limit, to func(Renames, string) string) []Limit {
	return translate(list, func(l *Limit) *string { return &l.Endpoint }, func(a, b *Limit) bool { return a.Same(*b) }, n.Endpoints, to)
}

// AbilitiesOf is Overrides for the abilities of a key. Those that change are
// sorted.
func (n Names) AbilitiesOf(list []string, to func(Renames, string) string) []string {
	translated := translate(list, func(a *string) *string { return a }, func(a, b *string) bool { return *a == *b }, n.Abilities, to)
	if !slices.Equal(translated, list) {
		slices.Sort(translated)
	}
	return translated
}

func translate[T any](list []T, name func(*T) *string, same func(a, b *T) bool, r Renames, to func(Renames, string) string) []T {
	if !slices.ContainsFunc(list, func(t T) bool { return to(r, *name(&t)) != *name(&t) }) {
		return list
	}
	translated := make([]T, 0, len(list))
	for _, t := range list {
		*name(&t) = to(r, *name(&t))
		translated = append(slices.DeleteFunc(translated, func(other T) bool { return same(&other, &t) }), t)
	}
	return translated
}
