package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/integration/powerfs"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/outbox/outboxtest"
)

const (
	// shortOutboxLosses and shortMountLosses are the moments of the short forms.
	shortOutboxLosses = 40
	shortMountLosses  = 4
	// outboxLoads is how many outboxes lose their power in the short form, each with programs of its own.
	outboxLoads = 2
	// programs that save at the same time, and what each does.
	outboxPrograms, outboxSteps = 3, 24
	// one save of so many is that of a large file, in blocks
	largeShare = 5
	// farAway is the folder of the disk that is on a machine which keeps its power.
	farAway = "var"
)

// boxed is an outbox on a disk that loses its power, and what programs did with it. Its service is in
// memory, so that it can be shown as it was at any moment.
type boxed struct {
	t       *testing.T
	disk    *powerfs.Disk
	service *outboxtest.Service
	cfg     outbox.Config
	away    atomic.Bool
	acts    [outboxPrograms][]boxAct
	records []int // position of the disk at each record
}

// boxAct is a step of a program, between two operations of the disk.
type boxAct struct {
	kind          actKind
	name, content string // no two contents are equal
	to            string
	from, end     int
	failed        bool
}

type actKind int

const (
	actSave actKind = iota
	actRename
	actRemove
)

var errBoxAway = &sdk.Error{Op: "upload", Kind: sdk.ErrUnavailable, Err: errors.New("connection refused")}

func newBoxed(t *testing.T, seed uint64) *boxed {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	b := &boxed{t: t, disk: powerfs.New(t), service: &outboxtest.Service{ID: "alice", Mine: []sdk.Group{{ID: "g"}}}}
	b.service.OnRecord = func() { b.records = append(b.records, b.disk.Position()) }
	b.service.Refuse = func(string, *outbox.Upload) error {
		if b.away.Load() {
			return errBoxAway
		}
		return nil
	}
	b.cfg = outbox.Config{Remote: b.service, Coalesce: 20 * time.Millisecond, Gather: -1,
		Keys: outbox.Keys{Group: make([]byte, 32)}}
	if random.IntN(2) == 0 {
		b.cfg.Keys.Names, _ = format.RandomKey()
	}
	return b
}

// folder is that of the outbox on a disk.
func (b *boxed) folder(disk string) string { return filepath.Join(disk, "home", "state", "outbox") }

// load lets programs save, each into files of its own, while the service goes away and comes back.
func (b *boxed) load(seed uint64) {
	box, err := outbox.New(b.folder(b.disk.Dir()), b.cfg)
	ok(b.t, err)
	var programs sync.WaitGroup
	for n := range b.acts {
		random := rand.New(rand.NewPCG(seed, uint64(n+2)))
		programs.Go(func() { b.acts[n] = b.program(box, n, random) })
	}
	programs.Wait()
	ok(b.t, box.Close())
}

// program is one program: what it knows of its files is what a mount knows of them.
func (b *boxed) program(box *outbox.Outbox, n int, random *rand.Rand) (acts []boxAct) {
	newest := map[string]sdk.Ref{} // by name
	known := func(name string) sdk.Ref {
		if ref, ok := box.Recorded(outbox.IDOf(newest[name])); ok {
			newest[name] = ref
		}
		return newest[name]
	}
	do := func(a boxAct, change func() error) bool {
		a.from = b.disk.Position()
		a.failed = change() != nil
		a.end = b.disk.Position()
		acts = append(acts, a)
		return !a.failed
	}
	save := func(ctx context.Context, i int, name string) {
		content := fmt.Sprintf("%d-%d %s", n, i, strings.Repeat("x", random.IntN(10_000)))
		base := known(name)
		var item outbox.Item
		if do(boxAct{kind: actSave, name: name, content: content}, func() (err error) {
			s := outbox.Save{Group: "g", Name: name, Content: []byte(content), Base: &base}
			if random.IntN(largeShare) == 0 {
				s.Content, s.Large = nil, inBlocks(content)
			}
			item, err = box.Put(ctx, s)
			return err
		}) {
			newest[name] = item.Ref()
			box.Ready(item.ID)
		}
	}
	ended, end := context.WithCancel(b.t.Context())
	end()
	again := fmt.Sprintf("%d-again", n)
	for i := range outboxSteps {
		time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
		fresh := fmt.Sprintf("%d-%d", n, i)
		switch random.IntN(8) {
		case 0:
			b.away.Store(!b.away.Load())
			box.Again()
		case 1:
			save(ended, i, fresh) // it may be taken all the same
		case 2, 3: // a file that is removed, or gets another name
			save(b.t.Context(), i, fresh)
			id := outbox.IDOf(newest[fresh])
			if random.IntN(2) == 0 {
				do(boxAct{kind: actRemove, name: fresh}, func() error { return box.Remove(b.t.Context(), id) })
				continue
			}
			to := fresh + "-renamed"
			if ref := known(again); random.IntN(2) == 0 && ref != "" && outbox.IDOf(ref) == "" {
				to = again // a name that is recorded
			}
			base := known(to)
			if do(boxAct{kind: actRename, name: fresh, to: to},
				func() error { return box.Rename(b.t.Context(), id, to, base) }) {
				newest[to] = newest[fresh]
			}
		default:
			save(b.t.Context(), i, again)
		}
	}
	return acts
}

// inBlocks is content as that of a large file.
func inBlocks(content string) *outbox.Large {
	layout := format.Layout{Size: int64(len(content)), BlockBytes: 4 << 10}
	return &outbox.Large{Layout: layout, Changed: format.Extents{{First: 0, Count: layout.Blocks()}},
		Read: func(_ context.Context, block int64, into []byte) (int, error) {
			return copy(into, content[block*layout.BlockBytes:]), nil
		}}
}

// Fault "power loss" of the machine of a mount: behind each operation of its disk, with nothing there
// that was not synced, or any part of it, an outbox has what it acknowledged. All of it is recorded, once,
// under its name. What got an error, what was removed, and what a later save replaced does not come back.
func TestPowerLossOfTheOutbox(t *testing.T) {
	seed, loads := testSeed(t), uint64(outboxLoads)
	if os.Getenv(powerVar) == "all" {
		loads = 1
	}
	for load := range loads {
		wantOutboxSurvives(t, seed+load)
	}
}

func wantOutboxSurvives(t *testing.T, seed uint64) {
	b := newBoxed(t, seed)
	b.load(seed)
	random, losses, saves := rand.New(rand.NewPCG(seed, 1<<33)), 0, 0
	for _, list := range b.acts {
		for _, a := range list {
			if a.kind == actSave && !a.failed {
				saves++
			}
		}
	}
	for _, l := range b.moments(random) {
		losses++
		if b.check(l.position, l.seed, random.IntN(2) == 0); t.Failed() {
			t.Fatalf("-seed %d: the power went behind operation %d, with seed %d: %s", seed, l.position, l.seed,
				b.disk.Op(l.position))
		}
	}
	t.Logf("%d operations, %d saves acknowledged, %d losses of power: 0 saves missing, 0 recorded twice",
		b.disk.Position(), saves, losses)
}

func (b *boxed) moments(random *rand.Rand) (list []loss) {
	if os.Getenv(powerVar) == "all" {
		for position := range b.disk.Position() + 1 {
			list = append(list, loss{position: position}, loss{position: position, seed: random.Uint64()})
		}
		return list
	}
	for i := range shortOutboxLosses {
		l := loss{position: random.IntN(b.disk.Position() + 1), seed: random.Uint64()}
		if acts := b.acts[i%outboxPrograms]; i%2 == 0 && len(acts) > 0 {
			l.position = acts[random.IntN(len(acts))].end
		}
		if i%4 < 2 {
			l.seed = 0
		}
		list = append(list, l)
	}
	return list
}

// check opens the outbox of a disk that lost its power. late decides whether a record of the very
// moment was made before.
func (b *boxed) check(position int, seed uint64, late bool) {
	t := b.t
	dir, err := os.MkdirTemp(t.TempDir(), "")
	ok(t, err)
	defer os.RemoveAll(dir)
	ok(t, b.disk.Lose(position, seed, dir))
	n := 0
	for n < len(b.records) && (b.records[n] < position || late && b.records[n] == position) {
		n++
	}
	service := b.service.At(n)
	cfg := b.cfg
	cfg.Remote, cfg.Coalesce = service, -1
	box, err := outbox.New(b.folder(dir), cfg)
	ok(t, err)
	defer box.Close()
	ctx, cancel := context.WithTimeout(t.Context(), proctest.Hang)
	defer cancel()
	if left := box.Drain(ctx); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
	rows, err := service.Entries(ctx, "g")
	ok(t, err)
	count, heads := map[sdk.Digest]int{}, map[string]sdk.Digest{}
	for _, e := range rows {
		if e.Uploader != b.service.ID {
			continue
		}
		count[e.Hash]++
		heads[e.Name] = e.Hash
		if strings.Contains(e.Name, "(conflict") {
			t.Errorf("%s: nobody else saved it", e.Name)
		}
	}
	for _, acts := range b.acts {
		done := slices.IndexFunc(acts, func(a boxAct) bool { return a.end > position })
		if done < 0 {
			done = len(acts)
		}
		begun := done // one may be under way
		if begun < len(acts) && acts[begun].from < position {
			begun++
		}
		may := []map[string]string{after(acts[:done]), after(acts[:begun])}
		for i, a := range acts {
			sum := sdk.ComputeHash([]byte(a.content))
			switch {
			case a.kind != actSave:
			case count[sum] > 1:
				t.Errorf("a save of %s was recorded %d times", a.name, count[sum])
			case count[sum] == 1 && (i >= begun || a.failed && i < done):
				t.Errorf("a save of %s that nobody acknowledged is recorded", a.name)
			}
		}
		for _, a := range acts {
			for _, name := range []string{a.name, a.to} {
				was, is := may[0][name], may[1][name]
				if got := heads[name]; got != digest(was) && got != digest(is) {
					t.Errorf("%s holds %s, and may hold %.9q or %.9q", name, got, was, is)
				}
			}
		}
	}
}

func digest(content string) (d sdk.Digest) {
	if content != "" {
		d = sdk.ComputeHash([]byte(content))
	}
	return d
}

// after returns what the names hold behind some acts.
func after(acts []boxAct) map[string]string {
	holds := map[string]string{}
	for _, a := range acts {
		switch {
		case a.failed:
		case a.kind == actSave:
			holds[a.name] = a.content
		case a.kind == actRemove:
			delete(holds, a.name)
		default:
			holds[a.to] = holds[a.name]
			delete(holds, a.name)
		}
	}
	return holds
}

// Fault "power loss" of the machine of a mount, with the programs themselves: the next mount has every
// save, name and removal that was acknowledged, the service records each once, and the books are
// right. The service is on another machine, which keeps its power, and is killed for a while.
func TestPowerLossOfTheMount(t *testing.T) {
	seed := testSeed(t)
	p := newPowered(t)
	t.Cleanup(func() {
		if p.service != nil {
			p.kill()
		}
	})
	p.vars = []string{"XDG_STATE_HOME=" + filepath.Join(p.disk.Dir(), "home", "state")}
	p.start()
	ok(t, p.noted("account alice", "there", func() error { p.alice = p.account("alice", startTokens); return nil }))
	p.bob = p.account("bob", "0")
	ok(t, p.noted("group team", "there", func() error {
		_, err := p.client(t, p.alice, nil).Group("team").Register(t.Context())
		return err
	}))
	from := p.disk.Position()
	m := p.alice.mount("m", "--outbox")
	_, err := os.ReadDir(m.path("team"))
	ok(t, err)
	for round := range 3 {
		if round == 1 {
			p.kill()
		}
		var programs sync.WaitGroup
		for n := range 2 {
			random := rand.New(rand.NewPCG(seed, uint64(round*10+n)))
			programs.Go(func() { p.program(m, fmt.Sprintf("r%d-p%d", round, n), random) })
		}
		programs.Wait()
		if round == 1 {
			p.start()
		}
	}
	m.kill()
	p.kill()
	if p.acknowledged() < 10 {
		t.Errorf("only %d changes were acknowledged", p.acknowledged())
	}
	random, list := rand.New(rand.NewPCG(seed, 1<<34)), []loss{}
	if os.Getenv(powerVar) == "all" {
		for position := from; position <= p.disk.Position(); position++ {
			list = append(list, loss{position: position, seed: uint64(position%2) * random.Uint64()})
		}
	} else {
		for i := range shortMountLosses {
			l := loss{position: from + random.IntN(p.disk.Position()-from+1), seed: uint64(i%2) * random.Uint64()}
			if e := p.events[random.IntN(len(p.events))]; e.from >= from && e.to != never {
				l.position = e.to
			}
			list = append(list, l)
		}
	}
	for _, l := range list {
		t.Run(fmt.Sprintf("behind %d with seed %d", l.position, l.seed), func(t *testing.T) { p.mountAgain(t, l) })
	}
	if !t.Failed() {
		t.Logf("%d operations, %d changes acknowledged, %d losses of power: 0 changes missing, 0 charged twice",
			p.disk.Position()-from, p.acknowledged(), len(list))
	}
}

// program saves files through a mount, saves some again, renames some and removes some.
func (p *powered) program(m *mount, prefix string, random *rand.Rand) {
	for i := range 5 {
		name := fmt.Sprintf("%s-%d", prefix, i)
		path := m.path("team", name)
		save := func() bool {
			content := noise(random, 1+random.IntN(60_000)>>random.IntN(6))
			return p.noted("file "+name, stateOf(name, content),
				func() error { return os.WriteFile(path, content, 0o600) }) == nil
		}
		if !save() {
			continue
		}
		switch random.IntN(4) {
		case 0, 1:
			for range 2 {
				if !save() {
					break
				}
			}
		case 2:
			_ = p.noted("file "+name, "", func() error { return os.Remove(path) })
		case 3:
			now := p.stateNow("file " + name)
			_ = p.noted("file "+name, strings.Replace(now, name, name+".renamed", 1),
				func() error { return os.Rename(path, path+".renamed") })
		}
	}
}

// mountAgain mounts on what the disk has after a loss of power. The service has its address again:
// an outbox is for one.
func (p *powered) mountAgain(t *testing.T, l loss) {
	dir := t.TempDir()
	ok(t, p.disk.Lose(l.position, l.seed, dir, farAway))
	w := &world{t: t, bin: p.bin, dir: t.TempDir(), log: &safeBuffer{}, addr: p.addr,
		data: filepath.Join(dir, farAway, "data"),
		vars: []string{"XDG_STATE_HOME=" + filepath.Join(dir, "home", "state")}}
	w.mkdir("home")
	defer func() {
		if t.Failed() {
			t.Logf("the last operation: %s\n%s", p.disk.Op(l.position), w.log)
		}
	}()
	w.start()
	defer w.kill()
	alice := &person{w: w, id: p.alice.id, key: p.alice.key, keyFile: p.alice.keyFile}
	m := alice.mount("m", "--outbox")
	if out, code := alice.try("sync", m.dir); code != 0 {
		list, _ := alice.try("outbox", "list")
		t.Errorf("sync: %s\n%s", out, list)
	}
	m.unmount()
	c := w.client(t, alice, nil)
	p.compare(t, l.position, p.states(t, c))
	checkBooks(t.Context(), t, c, startTokens)
}
