package integration

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/blob/s3test"
	"github.com/svcfs/svcfs/service/store/pgtest"
)

// killsVar says how often each process is killed; see the target soak.
const killsVar = "SVCFS_KILLS"

func kills(t *testing.T) int {
	t.Helper()
	text, given := os.LookupEnv(killsVar)
	if !given {
		return 8
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", killsVar, err)
	}
	return n
}

// Fault "kill -9 of the service": what close() acknowledged is there afterwards,
// once, and the books are right.
func TestServiceKilledAtRandomMoments(t *testing.T) {
	proctest.Long(t)
	t.Run("SQLite and directory", func(t *testing.T) {
		t.Parallel() // both wait more than they work
		testServiceKilled(t)
	})
	t.Run("PostgreSQL and S3", func(t *testing.T) {
		t.Parallel()
		s3 := s3test.Start(t)
		testServiceKilled(t, "--db", pgtest.Start(t).NewDatabase(t), "--blobs", s3.Location(s3.NewBucket(t)))
	})
}

func testServiceKilled(t *testing.T, stores ...string) {
	w, alice, bob := teamOn(t, stores...)
	random, kills := rand.New(rand.NewPCG(testSeed(t), 0)), kills(t)
	a := alice.mount("a")
	a.lost = true
	saved := newSaves(random)
	for round := range kills {
		enough := saved.count() + random.IntN(7)
		wait := saved.keep(a.path("team"), fmt.Sprintf("r%d", round), round%largeEvery == 0)
		proctest.Eventually(t, "some uploads", func() bool { return saved.count() > enough })
		time.Sleep(time.Duration(random.IntN(int(killWithin)))) // then the axe falls
		w.kill()
		wait()
		w.start()
		tries := 0
		proctest.Eventually(t, "a write after the restart", func() bool {
			tries++
			return os.WriteFile(a.path("team", fmt.Sprintf("probe%d", round)),
				fmt.Appendf(nil, "probe %d, %d", round, tries), 0o600) == nil
		})
	}
	saved.check(t, bob.mount("b"), "") // which is mounted after the last of them
	if saved.count() < kills {
		t.Errorf("only %d files were acknowledged", saved.count())
	}
	checkBooks(t.Context(), t, w.client(t, alice, nil), startTokens)
	if out, err := w.svcd("verify", "--read-data"); err != nil {
		t.Errorf("svcd verify: %v\n%s", err, out)
	}
	if out, err := w.svcd("audit"); err != nil || !strings.Contains(out, "chain intact") {
		t.Errorf("svcd audit: %v\n%s", err, out)
	}
	if !t.Failed() {
		t.Logf("%d kills, %d saves acknowledged, 0 of them missing, 0 charged twice", kills, saved.count())
	}
}

const (
	// largeEvery is every how many rounds a file in parts is among the saves.
	largeEvery = 4
	// killWithin is how long after a save the axe may fall, chosen at random.
	killWithin = 30 * time.Millisecond
	// smallSave is the smallest file, in bytes: no two have the same content.
	smallSave = 100
	// savesPerRound bounds the files of a round.
	savesPerRound = 200
)

// saves are files that programs save until a save fails, each with content of its own.
type saves struct {
	mu           sync.Mutex
	random       *rand.Rand
	acknowledged map[string][sha256.Size]byte // by name; closing returned 0
	last         map[string][sha256.Size]byte // what was saved last, acknowledged or not
	again        bool                         // one of the files is saved again and again
}

func newSaves(random *rand.Rand) *saves {
	return &saves{random: rand.New(rand.NewPCG(random.Uint64(), 0)), acknowledged: map[string][sha256.Size]byte{},
		last: map[string][sha256.Size]byte{}}
}

func (s *saves) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.acknowledged)
}

// keep saves files of up to 200 kB into a folder, and a large one beside them, until one
// of them fails. wait returns when no more come.
func (s *saves) keep(dir, prefix string, large bool) (wait func()) {
	var programs sync.WaitGroup
	save := func(name string, size int) bool {
		s.mu.Lock()
		content := noise(s.random, size)
		s.last[name] = sha256.Sum256(content)
		s.mu.Unlock()
		if os.WriteFile(filepath.Join(dir, name), content, 0o600) != nil {
			return false
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.acknowledged[name] = sha256.Sum256(content)
		return true
	}
	programs.Go(func() {
		for i := 0; i < savesPerRound && save(fmt.Sprintf("%s-%d", prefix, i), smallSave+(i*i*997)%200_000); i++ {
		}
	})
	if s.again {
		programs.Go(func() {
			for i := 0; i < savesPerRound && save(prefix+"-again", smallSave+i); i++ {
			}
		})
	}
	if large {
		programs.Go(func() { save(prefix+"-large", wire.WholeFileBytes+100_000) })
	}
	return programs.Wait
}

// check reads what was acknowledged, of names that begin with the prefix.
func (s *saves) check(t *testing.T, m *mount, prefix string) {
	t.Helper()
	for name, sum := range s.acknowledged {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if got, err := os.ReadFile(m.path("team", name)); err != nil || sha256.Sum256(got) != sum &&
			sha256.Sum256(got) != s.last[name] {
			t.Errorf("%s was acknowledged and reads %d bytes, %v", name, len(got), err)
		}
	}
}

// Fault "kill -9 of the mount": what close() acknowledged is retrievable, what
// was not is absent or whole.
func TestMountKilledAtRandomMoments(t *testing.T) {
	proctest.Long(t)
	for _, c := range []struct {
		name  string
		flags []string // of the mount
		later bool     // what was acknowledged may come with the next mount of the account
	}{
		{name: "without an outbox"},
		{name: "with an outbox", flags: []string{"--outbox"}, later: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wantNothingLost(t, c.later, c.flags...)
		})
	}
}

func wantNothingLost(t *testing.T, later bool, flags ...string) {
	w, alice, bob := team(t)
	random, kills := rand.New(rand.NewPCG(testSeed(t), 0)), kills(t)
	b := bob.mount("b")
	saved := newSaves(random)
	saved.again = later
	seen := func(prefix string) {
		t.Helper()
		missing := ""
		defer func() { t.Log("behind", prefix, "missing:", missing) }()
		proctest.Eventually(t, "the other account sees what was acknowledged", func() bool {
			for name := range saved.acknowledged {
				if _, err := os.Stat(b.path("team", name)); err != nil && strings.HasPrefix(name, prefix) {
					missing = name
					return false
				}
			}
			missing = "none"
			return true
		})
		saved.check(t, b, prefix)
	}
	for round := range kills {
		prefix := fmt.Sprintf("k%d-", round)
		a := alice.mount(fmt.Sprintf("a%d", round), flags...)
		enough := saved.count() + random.IntN(5)
		wait := saved.keep(a.path("team"), strings.TrimSuffix(prefix, "-"), round%largeEvery == 0)
		proctest.Eventually(t, "some uploads", func() bool { return saved.count() > enough })
		time.Sleep(time.Duration(random.IntN(int(killWithin))))
		_ = a.cmd.Process.Signal(syscall.SIGKILL)
		a.kill()
		wait()
		if !later {
			seen(prefix)
		}
	}
	if later {
		if out, code := alice.try("sync", alice.mount("last", flags...).dir); code != 0 {
			list, _ := alice.try("outbox", "list")
			t.Errorf("sync: %s\n%s", out, list)
		}
		b = bob.mount("after")
	}
	seen("")
	names, err := os.ReadDir(b.path("team"))
	ok(t, err)
	for _, n := range names { // also what was not acknowledged: it is absent or whole
		if _, err := os.ReadFile(b.path("team", n.Name())); err != nil {
			t.Errorf("%s: %v", n.Name(), err)
		}
		if strings.Contains(n.Name(), "(conflict") {
			t.Errorf("%s: nobody else saved it", n.Name())
		}
	}
	checkBooks(t.Context(), t, w.client(t, alice, nil), startTokens)
	if !t.Failed() {
		t.Logf("%d kills, %d saves acknowledged, 0 of them missing, 0 charged twice; %d files", kills, saved.count(),
			len(names))
	}
}
