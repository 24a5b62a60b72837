package main
import ("testing";"context";"runtime";"github.com/caddy-tollgate/tollgate/caddymodule/store")
func TestX(t *testing.T){
 for _, ps := range [][]store.Period{{store.Day},{store.Day,store.Month}} {
 before:=heap(); l,_:=fillLedger(context.Background(),200000,ps...); t.Log(float64(heap()-before)/200000); runtime.KeepAlive(l)
 }
}
