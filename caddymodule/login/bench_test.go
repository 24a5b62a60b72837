package login_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
)

func address(i int) string {
	var four [4]byte
	binary.BigEndian.PutUint32(four[:], uint32(i)+1<<24)
	return netip.AddrFrom4(four).String()
}

// BenchmarkReserve makes each attempt from another client at another account,
// up to a million of both.
func BenchmarkReserve(b *testing.B) {
	for _, rows := range []int{1e4, 1e6} {
		b.Run("rows="+strconv.Itoa(rows), func(b *testing.B) {
			tr := login.NewLocal(nil)
			clients, accounts := make([]login.Client, rows), make([]login.Account, rows)
			for i := range rows {
				clients[i] = login.ClientOf(address(i))
				accounts[i] = login.AccountOf(strconv.Itoa(i))
			}
			now := start
			bytes, _ := heapOf(func() {
				for i := range rows {
					if _, _, err := tr.Reserve(b.Context(), now, loose, clients[i], accounts[i]); err != nil {
						b.Fatal(err)
					}
				}
			})
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := tr.Reserve(b.Context(), now, loose, clients[i%rows], accounts[i%rows]); err != nil {
					b.Fatal(err)
				}
				i++
				now = now.Add(time.Millisecond)
			}
			b.ReportMetric(float64(bytes)/float64(2*rows), "B/row")
			runtime.KeepAlive(tr)
		})
	}
}

// BenchmarkRefuse makes attempts of a client over its limit.
func BenchmarkRefuse(b *testing.B) {
	tr := login.NewLocal(nil)
	client, account := login.ClientOf("192.0.2.1"), login.AccountOf("a")
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := tr.Reserve(b.Context(), start, login.Limits{}, client, account); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAccountOf(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		login.AccountOf("Jane.Doe@Example.com")
	}
}

// BenchmarkRestore restores a million rows.
func BenchmarkRestore(b *testing.B) {
	d := newDisk()
	tr := login.NewLocal(d)
	for i := range 500_000 {
		_, _, err := tr.Reserve(b.Context(), start, loose, login.ClientOf(address(i)), login.AccountOf(fmt.Sprint(i)))
		if err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if err := login.NewLocal(d).Restore(b.Context(), start); err != nil {
			b.Fatal(err)
		}
	}
}
