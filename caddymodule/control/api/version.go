package api

import (
	"cmp"
	"runtime/debug"
	"strings"
	"sync"
)

// VersionHeader has the Version of the gate, in the answers of the control API.
const VersionHeader = "Tollgate-Version"

// InstanceHeader has a text that is another one in each process of a gate, in the
// answers of the control API.
const InstanceHeader = "Tollgate-Instance"

// module is the path of this module.
const module = "github.com/caddy-tollgate/tollgate"

// release is the version that ./xcaddy.sh sets with -ldflags -X.
var release string

// Version returns the version of this program, such as 1.2.3: that of the
// release, or that of the module that a build has fetched, or "devel".
var Version = sync.OnceValue(func() string { return cmp.Or(release, fetched(), "devel") })

// fetched returns the version of the module, or "" if it was built from a
// directory.
func fetched() string {
	info, found := debug.ReadBuildInfo()
	if !found {
		return ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && m.Replace == nil && m.Version != "(devel)" {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return ""
}
