package stack

import (
	"fmt"
	"sync"
	"time"
)

// CalmZone is a zone in which it was around noon when the first test asked, so
// that no test runs over midnight. Stacks have it.
var CalmZone = sync.OnceValue(func() string {
	hours := 12 - time.Now().UTC().Hour() // to be added to UTC
	if hours == 0 {
		return "UTC"
	}
	return fmt.Sprintf("Etc/GMT%+d", -hours) // POSIX counts westwards
})
