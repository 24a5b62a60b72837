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

// BenchmarkReserve has each attempt come from another client at another
// account, until a million of both are known.
func BenchmarkReserve(b *testing.B) {
	for _, rows := range []int{1e4, 1e6} {
		b.Run("rows="+strconv.Itoa(rows), func(b *testing.B) {
			tr := login.New(nil)
			clients, accounts := make([]login.Client, rows), make([]login.Account, rows)
			for i := range rows {
				clients[i] = login.ClientKey(address(i))
				accounts[i] = login.AccountKey(strconv.Itoa(i))
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

// BenchmarkRefuse is the attempt of a client that has none left.
func BenchmarkRefuse(b *testing.B) {
	tr := login.New(nil)
	client, account := login.ClientKey("192.0.2.1"), login.AccountKey("a")
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := tr.Reserve(b.Context(), start, login.Limits{}, client, account); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAccountKey(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		login.AccountKey("Jane.Doe@Example.com")
	}
}

// BenchmarkRestore starts with a million rows.
func BenchmarkRestore(b *testing.B) {
	d := newDisk()
	tr := login.New(d)
	for i := range 500_000 {
		_, _, err := tr.Reserve(b.Context(), start, loose, login.ClientKey(address(i)), login.AccountKey(fmt.Sprint(i)))
		if err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if err := login.New(nil).Restore(start, d.all()); err != nil {
			b.Fatal(err)
		}
	}
}
