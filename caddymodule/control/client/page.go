package client

// PageSize is the number of rows that All should ask for at once.
const PageSize = 1000

// All returns the rows of all pages. page returns those after a position, and
// the position of the next page or nil.
func All[T any](page func(after string) ([]T, *string, error)) ([]T, error) {
	all := []T{}
	for after := ""; ; {
		rows, next, err := page(after)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
		if next == nil {
			return all, nil
		}
		after = *next
	}
}
