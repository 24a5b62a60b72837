package cli

// pageSize is the number of rows in one request.
const pageSize = 1000

// collect returns the items of all pages. page returns those after a
// position, and the position of the next page or nil.
func collect[T any](page func(after string) ([]T, *string, error)) ([]T, error) {
	all := []T{}
	for after := ""; ; {
		items, next, err := page(after)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		if next == nil {
			return all, nil
		}
		after = *next
	}
}
