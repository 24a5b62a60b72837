package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // names of scripts in the server are SHA-1
	_ "embed"
	"encoding/hex"

	"github.com/redis/rueidis"
)

//go:embed lua/enter.lua
var enterLua string

//go:embed lua/forget.lua
var forgetLua string

//go:embed lua/take.lua
var takeLua string

//go:embed lua/giveback.lua
var giveBackLua string

//go:embed lua/reset.lua
var resetLua string

//go:embed lua/grant.lua
var grantLua string

//go:embed lua/load.lua
var loadLua string

//go:embed lua/change.lua
var changeLua string

//go:embed lua/delete.lua
var deleteLua string

//go:embed lua/record.lua
var recordLua string

//go:embed lua/attempts_read.lua
var attemptsReadLua string

//go:embed lua/attempts_swap.lua
var attemptsSwapLua string

//go:embed lua/refused.lua
var refusedLua string

//go:embed lua/audit.lua
var auditLua string

//go:embed lua/event_add.lua
var eventAddLua string

//go:embed lua/event_claim.lua
var eventClaimLua string

//go:embed lua/event_remove.lua
var eventRemoveLua string

//go:embed lua/export.lua
var exportLua string

//go:embed lua/ping.lua
var pingLua string

// The scripts. Each begins with "#!lua", so a server that cannot write refuses
// it before its first line.
var (
	takeScript     = newScript(takeLua)
	giveBackScript = newScript(giveBackLua)
	resetScript    = newScript(resetLua)
	grantScript    = newScript(grantLua)
	loadScript     = newScript(loadLua)
	changeScript   = newScript(changeLua)
	deleteScript   = newScript(deleteLua)
	enterScript    = newScript(enterLua)
	forgetScript   = newScript(forgetLua)
	recordScript   = newScript(recordLua)
	pingScript     = newScript(pingLua)

	refusedScript      = newScript(refusedLua)
	auditScript        = newScript(auditLua)
	eventAddScript     = newScript(eventAddLua)
	eventClaimScript   = newScript(eventClaimLua)
	eventRemoveScript  = newScript(eventRemoveLua)
	exportScript       = newScript(exportLua)
	attemptsReadScript = newScript(attemptsReadLua)
	attemptsSwapScript = newScript(attemptsSwapLua)
)

// script is a script that runs on the server.
type script struct{ text, sha string }

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see the import
	return &script{text, hex.EncodeToString(sum[:])}
}

// exec runs the script. A server that does not know it has not run it, so that
// it can be sent again.
func (s *script) exec(ctx context.Context, c rueidis.CoreClient, keys, args []string) rueidis.RedisResult {
	n := int64(len(keys))
	result := c.Do(ctx, c.B().Evalsha().Sha1(s.sha).Numkeys(n).Key(keys...).Arg(args...).Build())
	if reason, isReply := rueidis.IsRedisErr(result.Error()); isReply && reason.IsNoScript() {
		return c.Do(ctx, c.B().Eval().Script(s.text).Numkeys(n).Key(keys...).Arg(args...).Build())
	}
	return result
}
