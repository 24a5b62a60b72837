package caddyupstream

import "github.com/caddy-tollgate/tollgate/upstream/app"

// Apps returns the open Apps, by the directory of their data.
func Apps() map[string]*app.App {
	open := map[string]*app.App{}
	apps.Range(func(key, value any) bool {
		open[key.(appKey).directory] = value.(*pooledApp).App
		return true
	})
	return open
}
