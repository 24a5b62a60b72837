package command

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/site"
)

// ReadConfig reads the global option of a configuration file into app, and
// returns the servers of the file. From then on, the process logs warnings and
// errors only: Caddy would log that it loads the configuration.
func ReadConfig(file, adapter string, app any) (map[string]site.Server, error) {
	_, log, _ := caddy.BufferedLog()
	text, _, _, err := caddycmd.LoadConfig(file, adapter)
	caddy.UnbufferDefaultLogger(log.WithOptions(zap.IncreaseLevel(zap.WarnLevel)))
	if err != nil {
		return nil, err
	}
	var loaded struct {
		Apps struct {
			Tollgate json.RawMessage `json:"tollgate"`
			HTTP     struct {
				Servers map[string]site.Server `json:"servers"`
			} `json:"http"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(text, &loaded); err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	if loaded.Apps.Tollgate == nil {
		return nil, errors.New("the configuration has no global option tollgate")
	}
	if err := caddy.StrictUnmarshalJSON(loaded.Apps.Tollgate, app); err != nil {
		return nil, fmt.Errorf("reading the global option tollgate: %w", err)
	}
	return loaded.Apps.HTTP.Servers, nil
}
