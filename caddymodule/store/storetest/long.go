package storetest

import "os"

// Long tells whether tests are to run their full counts, as
// "./xcaddy.sh test --long" does. Without it they run about a twentieth.
func Long() bool { return os.Getenv("TOLLGATE_LONG") == "1" }
