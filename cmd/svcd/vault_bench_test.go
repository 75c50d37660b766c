package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/service/store"
)

// BenchmarkStartBesideGroups measures how long svcd and its svcvault take to start, beside so many groups, and the
// memory of svcvault then.
func BenchmarkStartBesideGroups(b *testing.B) {
	for _, groups := range []int{0, 100_000} {
		b.Run(fmt.Sprint("groups=", groups), func(b *testing.B) {
			p := startServe(b)
			p.stop(b)
			s, err := store.Open(b.Context(), p.data, "")
			ok(b, err)
			ok(b, s.Load(b.Context(), func(tx *store.Tx) error {
				if err := tx.Do(b.Context(), "fill", `INSERT INTO accounts
					(id, credential, key_generation, balance, created_ns) VALUES ('a', x'', 0, '0', 1)`); err != nil {
					return err
				}
				for i := range groups {
					if err := tx.Do(b.Context(), "fill", `INSERT INTO groups (id, owner, key_version, joinable)
						VALUES (?, 'a', 1, 0)`, fmt.Sprint("g", i)); err != nil {
						return err
					}
				}
				return nil
			}))
			ok(b, s.Close())
			memory := 0.0
			for b.Loop() {
				began := time.Now()
				again := startServeWith(b, "--data", p.data, "--listen", "127.0.0.1:0")
				b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-until-it-listens")
				memory = max(memory, residentMiB(b, childOf(b, again.cmd.Process.Pid)))
				again.stop(b)
			}
			b.ReportMetric(memory, "MiB-svcvault")
		})
	}
}

// childOf is the only child of a process.
func childOf(b *testing.B, pid int) int {
	b.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	ok(b, err)
	for _, task := range all {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		ok(b, err)
		if child, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil {
			return child
		}
	}
	b.Fatal("it has no child")
	return 0
}

func residentMiB(b *testing.B, pid int) float64 {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	ok(b, err)
	_, text, _ := strings.Cut(string(raw), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(text)[0])
	ok(b, err)
	return float64(kib) / 1024
}
