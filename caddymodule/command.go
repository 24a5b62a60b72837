package caddymodule

import (
	"context"
	"errors"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-tollgate/tollgate/internal/command"
	"github.com/caddy-tollgate/tollgate/internal/feature"
	"github.com/caddy-tollgate/tollgate/internal/feature/backup"
	"github.com/caddy-tollgate/tollgate/internal/feature/check"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/site"
)

func init() {
	caddycmd.RegisterCommand(command.New(feature.Commands, feature.FileCommands(storeOf, checkFile)))
}

// storeOf provisions the store of a configuration, and nothing else of it.
func storeOf(config, adapter string) (to backup.Target, release func(), err error) {
	app := new(App)
	if _, err := command.ReadConfig(config, adapter, app); err != nil {
		return nil, nil, err
	}
	if app.StoreRaw == nil {
		return nil, nil, errors.New("the global option tollgate has no store")
	}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	opener, err := app.loadStore(ctx)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return opener, cancel, nil
}

// checkFile compiles the policy of a configuration, and finds what cannot work.
func checkFile(config, adapter string) (*policy.Policy, []string, error) {
	app := new(App)
	servers, err := command.ReadConfig(config, adapter, app)
	if err != nil {
		return nil, nil, err
	}
	compiled, err := app.check(true)
	if err != nil {
		return nil, nil, err
	}
	return compiled, append(site.Check(servers, compiled), check.Doubts(compiled)...), nil
}
