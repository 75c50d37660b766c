package service_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/vaulttest"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// BenchmarkVault compares, in turns, a service whose vault is in its process with one that asks it over a socket, as
// svcd asks svcvault: time and CPU time of a save and of a retrieval.
func BenchmarkVault(b *testing.B) {
	const turn = 10 // operations
	dialers := map[string]vaultwire.Dialer{"in-process": vaulttest.InProcess, "socket": vaulttest.BehindSocket}
	for _, read := range []bool{false, true} {
		b.Run(map[bool]string{false: "save", true: "retrieval"}[read], func(b *testing.B) {
			took, cpu := map[string]time.Duration{}, map[string]time.Duration{}
			do := map[string]func(i int){}
			for name, dial := range dialers {
				r := runWith(b, service.Config{Database: newDatabase(b), RequestRate: -1, Vault: dial})
				alice := r.owner()
				alice.give("100000000")
				key := r.vaultKey()
				ref := alice.mustPut(alice.sealsFor(key, "g", "first", noise(4<<10))).CID
				do[name] = func(i int) {
					if read {
						alice.tool(wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": ref, "transfer": "raw"})
					} else {
						alice.mustPut(alice.sealsFor(key, "g", fmt.Sprint(i), noise(4<<10)))
					}
				}
			}
			for i := 0; i < b.N; i += turn {
				for name, op := range do {
					began, before := time.Now(), spent(b)
					for j := range turn {
						op(i + j)
					}
					took[name] += time.Since(began)
					cpu[name] += spent(b) - before
				}
			}
			n := float64((b.N + turn - 1) / turn * turn)
			for name := range do {
				b.ReportMetric(float64(took[name].Microseconds())/n, "µs-"+name+"/op")
				b.ReportMetric(float64(cpu[name].Microseconds())/n, "µs-CPU-"+name+"/op")
			}
			b.ReportMetric(took["socket"].Seconds()/took["in-process"].Seconds(), "times-as-long")
			b.ReportMetric(0, "ns/op")
		})
	}
}
