package route

import (
	"fmt"
	"net/http"
	"strings"
)

// Conflict is the error of a pattern that matches requests of an earlier one, and
// is neither more specific nor less.
type Conflict struct {
	Earlier string
	// Why is what ServeMux says.
	Why string
}

// Error returns the earlier pattern and the reason, which has both.
func (c *Conflict) Error() string { return fmt.Sprintf("it conflicts with %q: %s", c.Earlier, c.Why) }

// register checks a pattern with a ServeMux and returns its error without
// the part "registered at", which names lines of this program and not of
// the operator's configuration.
func (t *Table[T]) register(text string) error {
	pattern := forMux(text)
	if err := handle(&http.ServeMux{}, pattern); err != nil {
		return err
	}
	err := handle(&t.mux, pattern)
	if err == nil {
		return nil
	}
	for _, other := range t.patterns {
		var pair http.ServeMux
		if err := handle(&pair, forMux(other.text)); err != nil {
			return fmt.Errorf("registering an earlier pattern again: %w", err)
		}
		if conflict := handle(&pair, pattern); conflict != nil {
			_, explanation, _ := strings.Cut(conflict.Error(), "\n")
			return &Conflict{other.text, strings.TrimSuffix(explanation, ".")}
		}
	}
	return err
}

// forMux returns a pattern as ServeMux writes it: without a method for any.
func forMux(pattern string) string { return strings.TrimPrefix(pattern, AnyMethod+" ") }

// handle registers a pattern and returns the panic of ServeMux as an error.
func handle(mux *http.ServeMux, pattern string) (err error) {
	defer func() {
		if refusal := recover(); refusal != nil {
			err = fmt.Errorf("%v", refusal)
		}
	}()
	mux.Handle(pattern, http.NotFoundHandler())
	return nil
}

// checkPattern refuses a pattern that no request can match here, or that
// another router would read differently.
func checkPattern(method, path string) error {
	if method != AnyMethod {
		if err := checkMethod(method); err != nil {
			return err
		}
	}
	if err := checkPath(path); err != nil {
		return err
	}
	if scan(path, true) != 0 {
		return fmt.Errorf(`%w: the path cannot match any request: write it without empty, "." and ".." segments`, ErrBadPath)
	}
	return nil
}
