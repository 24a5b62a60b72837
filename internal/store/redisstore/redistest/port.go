package redistest

import "github.com/caddy-tollgate/tollgate/tools/freeport"

// port is a TCP port that no other server has, as long as it is in use here.
type port = freeport.Port

func freePort() (*port, error) { return freeport.New() }
