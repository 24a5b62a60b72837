package database

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A URL can have other timeouts than ours.
func TestTimeoutsOfURL(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]struct {
		connect   time.Duration
		statement string
	}{
		"":                                   {5 * time.Second, "5000"},
		"connect_timeout=30":                 {30 * time.Second, "5000"},
		"statement_timeout=7s":               {5 * time.Second, "7s"},
		"options=-c%20statement_timeout%3D0": {5 * time.Second, ""},
	} {
		config, err := pgx.ParseConfig("postgres://u@127.0.0.1/x?" + query)
		if err != nil {
			t.Fatal(err)
		}
		setTimeouts(config)
		if got := config.RuntimeParams["statement_timeout"]; config.ConnectTimeout != want.connect || got != want.statement {
			t.Errorf("%q: got %v and %q, want %v and %q", query, config.ConnectTimeout, got, want.connect, want.statement)
		}
	}
}
