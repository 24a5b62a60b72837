package storetest

import "os"

// Long tells whether tests are to run their full counts, as
// "./xcaddy.sh test --long" does. Without it they run about a twentieth.
func Long() bool { return os.Getenv("TOLLGATE_LONG") == "1" }

// rounds returns how often a test repeats a race.
func rounds(full int) int {
	if Long() {
		return full
	}
	return max(2, full/10)
}
