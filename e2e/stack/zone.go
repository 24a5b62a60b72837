package stack

import (
	"fmt"
	"time"
)

// CalmZone is a zone in which it is around noon, so that no test runs over
// midnight.
func CalmZone() string {
	hours := 12 - time.Now().UTC().Hour() // to be added to UTC
	if hours == 0 {
		return "UTC"
	}
	return fmt.Sprintf("Etc/GMT%+d", -hours) // POSIX counts westwards
}
