// Command modules is a Caddy with the gate and modules of other projects, for
// the tests of their orders. It is a module of its own: the programs must not
// depend on theirs.
package main

import (
	_ "github.com/caddyserver/cache-handler"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/mholt/caddy-ratelimit"

	_ "github.com/caddy-tollgate/tollgate/caddymodule"
	_ "github.com/caddy-tollgate/tollgate/caddymodule/redis"
)

func main() { caddycmd.Main() }
