package store

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
