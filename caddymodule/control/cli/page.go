package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

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

// notEmpty refuses flags that are set to nothing. A script with an empty
// variable does not mean all.
func notEmpty(c *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if flag := c.Flag(name); flag.Changed && flag.Value.String() == "" {
			return fmt.Errorf("--%s has no value; omit it for all", name)
		}
	}
	return nil
}

// between refuses a number outside of its bounds.
func between(flag string, n, low, high int) error {
	if n < low || n > high {
		return fmt.Errorf("--%s %d is not a number from %d to %d", flag, n, low, high)
	}
	return nil
}
