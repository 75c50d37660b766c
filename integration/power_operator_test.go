package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
)

// shortMoments are how many moments of a command the short form tries, beside its end.
const shortMoments = 4

// Fault "power loss": an operator's command that has ended is done, and one that is cut off
// by a loss of power leaves a service that has everything it acknowledged.
func TestPowerLossOfOperatorsCommands(t *testing.T) {
	proctest.Need(t, "mount")
	random := rand.New(rand.NewPCG(testSeed(t), 2<<32))
	p := newPowered(t)
	p.start()
	ok(t, p.noted("account alice", "there", func() error { p.alice = p.account("alice", startTokens); return nil }))
	p.bob = p.account("bob", "0")
	g := p.client(t, p.alice, p).Group("team")
	ok(t, p.noted("group team", "there", func() error { _, err := g.Register(t.Context()); return err }))
	p.work(g, "before", random)
	p.stop()
	for _, command := range []string{"rotate-master-key", "rotate-log-key", "rotate-token-key", "rotate-upload-key"} {
		before := p.disk.Position()
		if out, err := p.svcd(command); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		for _, l := range p.during(before, random) {
			t.Run(fmt.Sprintf("%s, behind %d with seed %d", command, l.position, l.seed), func(t *testing.T) {
				t.Parallel()
				p.check(t, l)
			})
		}
	}
	before := p.disk.Position()
	if out, err := p.svcd("export", filepath.Join(p.disk.Dir(), "safe")); err != nil {
		t.Fatalf("export: %v\n%s", err, out)
	}
	end := p.disk.Position()
	for _, l := range p.during(before, random) {
		t.Run(fmt.Sprintf("export, behind %d with seed %d", l.position, l.seed), func(t *testing.T) {
			t.Parallel()
			p.restore(t, l, end)
		})
	}
}

// during are moments from a position on: some at random, and several at the end. The long
// form tries each.
func (p *powered) during(before int, random *rand.Rand) (list []loss) {
	end := p.disk.Position()
	if os.Getenv(powerVar) != "" {
		for position := before; position < end; position++ {
			list = append(list, loss{position: position, seed: random.Uint64()})
		}
	} else {
		for range shortMoments {
			list = append(list, loss{position: before + random.IntN(end-before), seed: random.Uint64()})
		}
	}
	return append(list, loss{position: end}, loss{position: end, seed: random.Uint64()})
}

// restore makes a service of an archive on a disk that lost its power. Before the end the
// archive is whole, or not there.
func (p *powered) restore(t *testing.T, l loss, end int) {
	dir := t.TempDir()
	ok(t, p.disk.Lose(l.position, l.seed, dir))
	w := &world{t: t, bin: p.bin, dir: t.TempDir(), log: &safeBuffer{}, addr: "127.0.0.1:0"}
	w.data = w.mkdir("restored")
	w.mkdir("home")
	write(t, filepath.Join(w.data, "master.key"), read(t, filepath.Join(p.data, "master.key"))) // it is in no archive
	if out, err := w.svcd("import", filepath.Join(dir, "safe")); err != nil {
		if _, missing := os.Stat(filepath.Join(dir, "safe")); missing == nil || l.position >= end {
			t.Errorf("import: %v\n%s", err, out)
		}
		return
	}
	if out, err := w.svcd("verify", "--read-data"); err != nil {
		t.Errorf("svcd verify: %v\n%s", err, out)
	}
	w.start()
	defer w.kill()
	p.compare(t, l.position, p.states(t, w.client(t, p.alice, nil)))
}
