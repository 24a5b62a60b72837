package gate

import (
	"context"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/admin/event"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/policy"
)

// Reporter gets the refused calls, and the limits that accounts reach. It is
// safe for concurrent use.
type Reporter interface {
	// Refused reports that the gate refused a request, or would have refused
	// it in mode enforce. The account is empty if it is not known,
	// endpoint is nil if the request reached none. It does not block.
	Refused(account string, endpoint *policy.Endpoint, code string)

	// Reached reports that an account reached a percentage of a limit, or
	// that a limit refused a call. The gate calls it again for each later
	// call in the same state. When it returns for the first time, the event
	// is stored, unless the store fails.
	Reached(ctx context.Context, quota event.Quota)
}
