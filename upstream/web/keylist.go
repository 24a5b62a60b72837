package web

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

const (
	// keysPerPage is the number of keys on a page. A page of all keys would
	// be slow on a phone.
	keysPerPage = 30

	// fewKeys is the number of keys that people find without a search.
	fewKeys = 10
)

// keysView is the list of keys.
type keysView struct {
	keyQuery
	Keys []keyRow
	// Many is true if the list has a search, and its columns can be sorted.
	Many bool
	// Found is the number of keys on all pages.
	Found   int
	Columns []keyColumn
	Orders  []choice
	// Previous and Next are links, empty for none.
	Previous, Next string
	// Toggle is the link to the list with or without revoked keys.
	Toggle string
	// Offer is set if the plan has no access.
	Offer *offer
}

// keyQuery is what the list shows.
type keyQuery struct {
	// Search is a part of a name or of a hint.
	Search string
	// Order is one of keyOrders.
	Order   string
	Revoked bool // revoked keys are listed too
}

// keyColumn is a column of the list. Link is empty if it cannot be sorted by
// this column. Sorted is a value of aria-sort, or empty.
type keyColumn struct{ Title, Link, Sorted string }

// newest is the default order.
const newest = "-created"

// keyOrders are the orders of the list. The minus reverses an order.
var keyOrders = []choice{
	{newest, "Newest"}, {"created", "Oldest"}, {"name", "Name, A to Z"}, {"-name", "Name, Z to A"},
	{"-used", "Last used, newest"}, {"used", "Last used, oldest"}, {"expiry", "Expiry, next"}, {"-expiry", "Expiry, last"},
}

// keyColumns are the columns with the order of the first click, empty for a
// column without order.
var keyColumns = []choice{
	{"name", "Key"}, {"", "Permissions"}, {newest, "Created"}, {"-used", "Last used"}, {"expiry", "Expiry"}, {"", "State"},
}

func (s *site) keys(w http.ResponseWriter, r *http.Request, v *visit) error {
	values := r.URL.Query()
	view := keysView{keyQuery: readKeyQuery(values)}
	keys, err := s.keyList(r.Context(), v, view.Revoked)
	if err != nil {
		return err
	}
	view.fill(v, keys, values.Get("page"))
	p := v.page("API keys", "settings", view)
	p.Notice = notices[values.Get("done")]
	return s.views.show(w, http.StatusOK, "keys", p)
}

// readKeyQuery reads the parameters of the list. An unknown order is the
// default.
func readKeyQuery(values url.Values) keyQuery {
	q := keyQuery{Search: strings.TrimSpace(values.Get("q")), Order: values.Get("sort"), Revoked: values.Has("revoked")}
	if !isChoice(keyOrders, q.Order) {
		q.Order = newest
	}
	return q
}

// link returns the URL of a page of the list.
func (q keyQuery) link(page int) string {
	values := url.Values{}
	if q.Search != "" {
		values.Set("q", q.Search)
	}
	if q.Order != newest {
		values.Set("sort", q.Order)
	}
	if q.Revoked {
		values.Set("revoked", "1")
	}
	if page > 1 {
		values.Set("page", strconv.Itoa(page))
	}
	if len(values) == 0 {
		return keysPath
	}
	return keysPath + "?" + values.Encode()
}

// All returns the link to the list without a search.
func (q keyQuery) All() string {
	q.Search = ""
	return q.link(1)
}

// Sorted tells whether the list has another order than the default.
func (q keyQuery) Sorted() bool { return q.Order != newest }

// fill adds one page of the keys to the view. The keys are oldest first.
func (view *keysView) fill(v *visit, keys []api.Key, number string) {
	view.Offer = v.offer()
	view.Many = len(keys) > fewKeys || view.Search != ""
	toggled := view.keyQuery
	toggled.Revoked = !toggled.Revoked
	view.Toggle = toggled.link(1)
	for _, column := range keyColumns {
		view.Columns = append(view.Columns, view.column(column.Value, column.Text))
	}
	view.Orders = keyOrders
	found := view.find(keys)
	view.Found = len(found)
	page, err := strconv.Atoi(number)
	pages := max(1, (len(found)+keysPerPage-1)/keysPerPage)
	if err != nil || page < 1 || page > pages {
		page = 1
	}
	if page > 1 {
		view.Previous = view.link(page - 1)
	}
	if page < pages {
		view.Next = view.link(page + 1)
	}
	start := (page - 1) * keysPerPage
	next := successors(keys, v.clock.now)
	for _, key := range found[start:min(start+keysPerPage, len(found))] {
		row := v.keyRow(key)
		row.Successor = next[key.ID]
		view.Keys = append(view.Keys, row)
	}
}

// column returns a column whose link sorts by it, and reverses the order the
// second time.
func (view *keysView) column(order, title string) keyColumn {
	c := keyColumn{Title: title}
	if order == "" || !view.Many {
		return c
	}
	name := strings.TrimPrefix(order, "-")
	sorted := view.keyQuery
	sorted.Order = order
	switch view.Order {
	case name:
		c.Sorted, sorted.Order = "ascending", "-"+name
	case "-" + name:
		c.Sorted, sorted.Order = "descending", name
	}
	c.Link = sorted.link(1)
	return c
}

// find returns the keys that match the search, in the order of the list.
func (q keyQuery) find(keys []api.Key) []api.Key {
	search := strings.ToLower(q.Search)
	var found []api.Key
	for _, key := range slices.Backward(keys) {
		if strings.Contains(strings.ToLower(key.Name), search) || strings.Contains(strings.ToLower(key.Hint), search) {
			found = append(found, key)
		}
	}
	name, reverse := strings.CutPrefix(q.Order, "-")
	compare := map[string]func(a, b api.Key) int{
		"created": func(a, b api.Key) int { return a.CreatedAt.Compare(b.CreatedAt) },
		"name":    func(a, b api.Key) int { return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) },
		"used":    func(a, b api.Key) int { return compareTimes(a.LastUsedAt, b.LastUsedAt, -1) },
		"expiry":  func(a, b api.Key) int { return compareTimes(end(a), end(b), 1) },
	}[name]
	if q.Order == newest {
		return found // keys of one millisecond keep the order of the gate
	}
	slices.SortStableFunc(found, func(a, b api.Key) int {
		if reverse {
			return compare(b, a)
		}
		return compare(a, b)
	})
	return found
}

// compareTimes compares two times. None is before all times if none is -1,
// and after them if it is 1.
func compareTimes(a, b *time.Time, none int) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return none
	case b == nil:
		return -none
	}
	return a.Compare(*b)
}

// end returns when a key ends or ended, nil for never.
func end(key api.Key) *time.Time {
	if key.RevokedAt != nil {
		return key.RevokedAt
	}
	return key.ExpiresAt
}

// successor is a live key to which another was rotated.
type successor struct{ ID, Hint string }

// successors returns the successors of keys, by the ids of the keys: the newest
// key of the same rotations, if it is live. The keys are oldest first.
func successors(keys []api.Key, now time.Time) map[string]*successor {
	next := map[string]*successor{}
	newestOf := map[string]api.Key{} // by root
	for _, key := range slices.Backward(keys) {
		root := cmp.Or(key.Root, key.ID)
		last, found := newestOf[root]
		switch {
		case !found:
			newestOf[root] = key
		case last.RevokedAt == nil && (last.ExpiresAt == nil || last.ExpiresAt.After(now)):
			next[key.ID] = &successor{last.ID, last.Hint}
		}
	}
	return next
}
