package redisstore

import (
	"context"
	"crypto/sha1" // the server names scripts by it
	"embed"
	"encoding/hex"

	"github.com/redis/rueidis"
)

//go:embed lua
var scripts embed.FS

// The scripts. Each begins with "#!lua", so a server that cannot write refuses
// it before its first line.
var (
	takeScript         = newScript("take")
	giveBackScript     = newScript("giveback")
	resetScript        = newScript("reset")
	grantScript        = newScript("grant")
	loadScript         = newScript("load")
	changeScript       = newScript("change")
	deleteScript       = newScript("delete")
	enterScript        = newScript("enter")
	forgetScript       = newScript("forget")
	recordScript       = newScript("record")
	pingScript         = newScript("ping")
	refusedScript      = newScript("refused")
	auditScript        = newScript("audit")
	eventAddScript     = newScript("event_add")
	eventClaimScript   = newScript("event_claim")
	eventRemoveScript  = newScript("event_remove")
	exportScript       = newScript("export")
	attemptsReadScript = newScript("attempts_read")
	attemptsSwapScript = newScript("attempts_swap")
)

// script is a script that runs on the server.
type script struct{ text, sha string }

func newScript(name string) *script {
	text, err := scripts.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // only of a wrong name
	}
	sum := sha1.Sum(text)
	return &script{string(text), hex.EncodeToString(sum[:])}
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
