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
	settleScript       = newScript("settle")
	creditScript       = newScript("credit")
	readScript         = newScript("read")
	changeScript       = newScript("rows", "change")
	claimScript        = newScript("claim")
	forgetScript       = newScript("forget")
	pendScript         = newScript("pend")
	appendScript       = newScript("append")
	commitScript       = newScript("rows", "commit")
	scanScript         = newScript("scan")
	dumpScript         = newScript("dump")
	pingScript         = newScript("ping")
	runningScript      = newScript("running")
	receiptScript      = newScript("receipt")
	attemptsReadScript = newScript("attempts_read")
	attemptsSwapScript = newScript("attempts_swap")
)

// script is a script that runs on the server.
type script struct{ text, sha string }

// newScript returns the script of some files together.
func newScript(names ...string) *script {
	var text []byte
	for _, name := range names {
		part, err := scripts.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // only of a wrong name
		}
		text = append(text, part...)
	}
	sum := sha1.Sum(text)
	return &script{string(text), hex.EncodeToString(sum[:])}
}

// exec runs the script. A server that does not know it has not run it, so that
// it can be sent again.
func (s *script) exec(ctx context.Context, c rueidis.CoreClient, keys, args []string) rueidis.RedisResult {
	result := c.Do(ctx, s.bySHA(c.B(), keys, args))
	if isUnknown(result) {
		return c.Do(ctx, s.byText(c.B(), keys, args))
	}
	return result
}

// call is the keys and the arguments of a script.
type call struct{ keys, args []string }

func isUnknown(result rueidis.RedisResult) bool {
	reason, isReply := rueidis.IsRedisErr(result.Error())
	return isReply && reason.IsNoScript()
}

func (s *script) bySHA(b rueidis.Builder, keys, args []string) rueidis.Completed {
	return b.Evalsha().Sha1(s.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

func (s *script) byText(b rueidis.Builder, keys, args []string) rueidis.Completed {
	return b.Eval().Script(s.text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}
