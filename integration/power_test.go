package integration

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/powerfs"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/sdktest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

const (
	// powerVar is how many moments the long form tries, all = each of them.
	powerVar = "SVCFS_LOSSES"
	// shortLosses are the moments of the short form.
	shortLosses = 16
	// startTokens is what the account of these tests has in the beginning.
	startTokens = "1000"
	// repeatable is how long a finalize may be repeated at least; the service says 300 s from
	// the last bytes of the upload.
	repeatable = 4 * time.Minute
	// twiceEvery is every how many losses the power goes again at the next start.
	twiceEvery = 8
	// readNewest is how many of the newest files are read back whole.
	readNewest = 10
)

// powered is a service on a disk that loses its power, and what it promised.
type powered struct {
	*world
	t     *testing.T
	disk  *powerfs.Disk
	alice *person
	bob   *person

	mu     sync.Mutex
	events []event
	sent   []charging
}

// event is a change: subject has the state once it is made, "" = it is gone. It began behind the operation
// from of the disk, and was acknowledged before the operation to.
type event struct {
	subject, state string
	from, to       int
}

// never is the end of a change that nobody acknowledged.
const never = math.MaxInt

// charging is a request that may charge, and its answer.
type charging struct {
	method, path string
	header       http.Header
	body, answer []byte
	from, to     int
	at           time.Time
}

// Fault "power loss": behind each operation of its disk, with nothing there that was not
// synced, or any part of it, the service starts, finds no damage, and has every save,
// deletion, name and member that it acknowledged. What a client sends again is charged once.
func TestPowerLossOfTheService(t *testing.T) {
	proctest.Need(t, "mount")
	seed := testSeed(t)
	p := newPowered(t)
	p.load(seed)
	losses := p.moments(seed)
	t.Cleanup(func() {
		if !t.Failed() {
			t.Logf("%d operations, %d changes acknowledged, %d losses of power: 0 changes missing, 0 charged twice, "+
				"0 damaged", p.disk.Position(), p.acknowledged(), len(losses))
		}
	})
	for _, l := range losses {
		t.Run(fmt.Sprintf("behind %d with seed %d", l.position, l.seed), func(t *testing.T) {
			t.Parallel()
			p.check(t, l)
		})
	}
}

func newPowered(t *testing.T) *powered {
	t.Helper()
	bin := programs.Dir(t, "svcfs", "svcd")
	p := &powered{t: t, disk: powerfs.New(t)}
	p.world = &world{t: t, bin: bin, dir: t.TempDir(), log: &safeBuffer{}, addr: "127.0.0.1:0",
		data: filepath.Join(p.disk.Dir(), "var", "data")}
	p.mkdir("home")
	return p
}

// noted makes a change and notes when. A change that failed may have been made.
func (p *powered) noted(subject, state string, change func() error) error {
	e := event{subject: subject, state: state, from: p.disk.Position(), to: never}
	err := change()
	if err == nil {
		e.to = p.disk.Position()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
	return err
}

// RoundTrip sends a request and keeps it when it may charge.
func (p *powered) RoundTrip(r *http.Request) (*http.Response, error) {
	charges := r.URL.Path == wire.PathTools+wire.OpFinalizeUpload || strings.HasPrefix(r.URL.Path, wire.PathSealed) ||
		r.URL.Path == wire.PathTools+wire.OpFinalizeUploads
	if !charges || r.Body == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		return nil, err
	}
	kept := charging{method: r.Method, path: r.URL.RequestURI(), header: r.Header.Clone(), body: body,
		from: p.disk.Position(), to: never, at: time.Now()}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		kept.answer, err = io.ReadAll(resp.Body)
		err = errors.Join(err, resp.Body.Close())
		if resp.Body = io.NopCloser(bytes.NewReader(kept.answer)); err == nil && resp.StatusCode == http.StatusOK {
			kept.to = p.disk.Position()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, kept)
	return resp, err
}

func (w *world) client(t *testing.T, who *person, transport http.RoundTripper) *sdk.Client {
	t.Helper()
	c, err := sdk.New(sdk.AccountID(who.id), sdk.Config{APIKey: sdk.NewSecret(who.key), URL: w.url,
		Network: sdk.Testnet, ContractID: "svc.testnet", Transport: transport})
	ok(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// load lets the service work from its first start on: small saves, saves in parts, new
// versions, names, deletions, groups and members, with a kill and a stop in between.
func (p *powered) load(seed uint64) {
	p.start()
	ok(p.t, p.noted("account alice", "there", func() error { p.alice = p.account("alice", startTokens); return nil }))
	p.bob = p.account("bob", "0")
	g := p.client(p.t, p.alice, p).Group("team")
	ok(p.t, p.noted("group team", "there", func() error { _, err := g.Register(p.t.Context()); return err }))
	for round := range 3 {
		g := p.client(p.t, p.alice, p).Group("team")
		var workers sync.WaitGroup
		for worker := range 3 {
			random := rand.New(rand.NewPCG(seed, uint64(round*10+worker)))
			workers.Go(func() { p.work(g, fmt.Sprintf("r%d-w%d", round, worker), random) })
		}
		workers.Go(func() { p.members(g, round) })
		if round == 1 {
			workers.Go(func() { p.large(g, "large", rand.New(rand.NewPCG(seed, 9))) })
			had := p.acknowledged()
			proctest.Eventually(p.t, "some saves", func() bool { return p.acknowledged() > had+10 })
			p.kill()
			p.start()
		}
		workers.Wait()
	}
	p.stop()
}

func (p *powered) acknowledged() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		if e.to != never {
			n++
		}
	}
	return n
}

// work saves small files, saves some again, renames some and deletes some.
func (p *powered) work(g sdk.Group, prefix string, random *rand.Rand) {
	ctx := p.t.Context()
	for i := range 6 {
		name := fmt.Sprintf("%s-%d", prefix, i)
		var ref sdk.Ref
		put := func() error {
			content := noise(random, 1+random.IntN(60_000)>>random.IntN(6))
			return p.noted("file "+name, stateOf(name, content), func() error {
				receipt, err := g.Put(ctx, name, bytes.NewReader(content))
				ref = receipt.Ref
				return err
			})
		}
		if put() != nil {
			continue
		}
		switch random.IntN(4) {
		case 0:
			_ = put()
		case 1:
			_ = p.noted("file "+name, "", func() error {
				_, err := g.Delete(ctx, ref)
				return err
			})
		case 2:
			now := p.stateNow("file " + name)
			_ = p.noted("file "+name, strings.Replace(now, name, name+".renamed", 1), func() error {
				_, err := g.Rename(ctx, ref, name+".renamed")
				return err
			})
		}
	}
}

// large saves a file in parts.
func (p *powered) large(g sdk.Group, name string, random *rand.Rand) {
	content := noise(random, wire.WholeFileBytes+100_000+random.IntN(500_000))
	_ = p.noted("file "+name, stateOf(name, content), func() error {
		_, err := g.Put(p.t.Context(), name, bytes.NewReader(content))
		return err
	})
}

// members adds an account to the group, removes it, and makes another group.
func (p *powered) members(g sdk.Group, round int) {
	ctx, bob := p.t.Context(), sdk.AccountID(p.bob.id)
	for range 2 {
		if p.noted("member bob", "in", func() error { _, err := g.Add(ctx, bob); return err }) != nil {
			return
		}
		if p.noted("member bob", "", func() error { _, err := g.Revoke(ctx, bob); return err }) != nil {
			return
		}
	}
	more := p.client(p.t, p.alice, p).Group(sdk.GroupID(fmt.Sprintf("group%d", round)))
	_ = p.noted("group "+string(more.ID), "there", func() error { _, err := more.Register(ctx); return err })
}

func (p *powered) stateNow(subject string) (state string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		if e.subject == subject {
			state = e.state
		}
	}
	return state
}

func noise(random *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

func stateOf(name string, content []byte) string {
	return fmt.Sprintf("%s %x", name, sha256.Sum256(content))
}

// loss is a moment and a choice of what the disk has.
type loss struct {
	position int
	seed     uint64
	twice    bool // the power goes again while the service starts
}

// moments are those to try: in the short form some at random, and some right behind an
// acknowledgement, where seed 0 leaves nothing that was not synced.
func (p *powered) moments(seed uint64) (list []loss) {
	random := rand.New(rand.NewPCG(seed, 1<<32))
	n := shortLosses
	switch text := os.Getenv(powerVar); text {
	case "":
	case "all":
		for position := range p.disk.Position() + 1 {
			list = append(list, loss{position, uint64(position%2) * random.Uint64(), position%twiceEvery == 1})
		}
		return list
	default:
		if _, err := fmt.Sscan(text, &n); err != nil {
			p.t.Fatalf("%s: %v", powerVar, err)
		}
	}
	for i := range n {
		l := loss{random.IntN(p.disk.Position() + 1), random.Uint64(), i%twiceEvery == 3}
		if e := p.events[random.IntN(len(p.events))]; i%2 == 0 && e.to != never {
			l.position = e.to
		}
		if i%4 < 2 {
			l.seed = 0
		}
		list = append(list, l)
	}
	return list
}

// check starts the service on what the disk has after a loss of power.
func (p *powered) check(t *testing.T, l loss) {
	dir := t.TempDir()
	w := &world{t: t, bin: p.bin, dir: t.TempDir(), log: &safeBuffer{}, addr: "127.0.0.1:0",
		data: filepath.Join(dir, "var", "data")}
	w.mkdir("home")
	if l.twice {
		second := powerfs.New(t)
		ok(t, p.disk.Lose(l.position, l.seed, second.Dir()))
		second.SyncAll()
		before := second.Position()
		at := *w
		at.data = filepath.Join(second.Dir(), "var", "data")
		at.start()
		at.kill()
		ok(t, second.Lose(before+int(l.seed%uint64(second.Position()-before+1)), l.seed, dir))
	} else {
		ok(t, p.disk.Lose(l.position, l.seed, dir))
	}
	defer func() {
		if t.Failed() {
			t.Logf("the last operation: %s", p.disk.Op(l.position))
		}
	}()
	if _, err := os.Stat(w.data); errors.Is(err, fs.ErrNotExist) {
		p.compare(t, l.position, map[string]string{})
		return
	}
	if _, err := os.Stat(filepath.Join(w.data, "svc.db")); err == nil { // else the first start had made none yet
		if out, err := w.svcd("verify", "--read-data"); err != nil {
			t.Errorf("svcd verify: %v\n%s", err, out)
			return
		}
	}
	w.start()
	defer w.kill()
	c := w.client(t, p.alice, nil)
	if err := c.RefreshToken(t.Context()); errors.Is(err, sdk.ErrNotFound) { // there is no such account
		p.compare(t, l.position, map[string]string{})
		return
	}
	p.compare(t, l.position, p.states(t, c))
	p.again(t, l.position, w)
	checkBooks(t.Context(), t, c, startTokens)
}

// states returns what the service shows.
func (p *powered) states(t *testing.T, c *sdk.Client) map[string]string {
	t.Helper()
	ctx := t.Context()
	found := map[string]string{"account alice": "there"}
	groups, err := c.OwnedGroups(ctx)
	ok(t, err)
	for _, g := range groups {
		found["group "+string(g.ID)] = "there"
	}
	if found["group team"] == "" {
		return found
	}
	team := c.Group("team")
	if in, err := team.IsAuthorized(ctx, sdk.AccountID(p.bob.id)); err != nil {
		t.Error(err)
	} else if in {
		found["member bob"] = "in"
	}
	entries, err := team.Entries(ctx)
	ok(t, err)
	newest := map[string]sdk.Entry{}
	for _, e := range entries {
		subject := "file " + strings.TrimSuffix(e.Name, ".renamed")
		if newest[subject].Seq < e.Seq {
			newest[subject] = e
		}
	}
	for subject, e := range newest {
		switch found[subject] = fmt.Sprintf("%s %s", e.Name, e.Hash); {
		case e.Deleted != nil:
			delete(found, subject)
		case slices.Index(entries, e) >= len(entries)-readNewest: // of the others svcd verify has read the bytes
			if _, _, err := sdktest.Read(ctx, team, string(e.Ref)); err != nil {
				t.Errorf("%s is listed: %v", e.Name, err)
			}
		}
	}
	return found
}

// compare checks what was found against what may be there: the state that was acknowledged
// last, or a later one that was under way.
func (p *powered) compare(t *testing.T, position int, found map[string]string) {
	t.Helper()
	may := map[string][]string{}
	for _, e := range p.events { // of one subject, one after the other
		switch {
		case may[e.subject] == nil:
			may[e.subject] = []string{""}
		case e.from >= position:
			continue
		}
		if e.to <= position {
			may[e.subject] = nil
		}
		if e.from < position {
			may[e.subject] = append(may[e.subject], e.state)
		}
	}
	for subject, states := range may {
		if !slices.Contains(states, found[subject]) {
			t.Errorf("%s is %q, and may be %q", subject, found[subject], states)
		}
	}
	for subject := range found {
		if may[subject] == nil {
			t.Errorf("%s was never there", subject)
		}
	}
}

// again sends requests that may charge once more: those under way, as their client would,
// and the last that were answered, which get the same answer.
func (p *powered) again(t *testing.T, position int, w *world) {
	t.Helper()
	const last = 3
	var list []charging
	for _, e := range p.sent {
		if e.from < position && e.to > position {
			list = append(list, e)
		}
	}
	for i := len(p.sent) - 1; i >= 0 && len(list) < 2*last; i-- {
		if p.sent[i].to <= position {
			list = append(list, p.sent[i])
		}
	}
	records := regexp.MustCompile(`"trans_id":"[0-9a-f]+"`) // addresses in answers end with time
	c := &crashing{world: w, t: t, alice: p.alice}
	c.login()
	for _, e := range list {
		header := e.header.Clone()
		header.Set("Authorization", "Bearer "+c.token)
		status, answer := c.send(e.method, e.path, header, e.body)
		if e.to > position && status != http.StatusOK && strings.HasPrefix(e.path, wire.PathSealed) {
			t.Errorf("%s %s was under way, and again: %d %s", e.method, e.path, status, answer)
		}
		want, got := records.FindAllString(string(e.answer), -1), records.FindAllString(string(answer), -1)
		if status == http.StatusNotFound && time.Since(e.at) > repeatable &&
			!strings.HasPrefix(e.path, wire.PathSealed) {
			continue // the upload has ended meanwhile
		}
		if e.to <= position && (status != http.StatusOK || len(want) == 0 || !slices.Equal(got, want)) {
			t.Errorf("%s %s was answered %s, and again: %d %s", e.method, e.path, e.answer, status, answer)
		}
	}
}

// checkBooks checks that an account has what it began with but for its fees in the groups
// that it owns, and that no content was recorded twice. A mount may save meanwhile what waited.
func checkBooks(ctx context.Context, t *testing.T, c *sdk.Client, began string) {
	t.Helper()
	proctest.Eventually(t, "nobody pays while the books are read", func() bool {
		before, err := c.Balance(ctx, c.Account())
		ok(t, err)
		paid, twice := feesAndDoubles(ctx, t, c)
		after, err := c.Balance(ctx, c.Account())
		ok(t, err)
		if before != after {
			return false
		}
		if sum, _ := after.Add(paid); sum.Tokens() != began {
			t.Errorf("balance and fees make %s of %s tokens", sum.Tokens(), began)
		}
		if len(twice) > 0 {
			t.Errorf("these saves were recorded more than once: %v", twice)
		}
		return true
	})
}

// feesAndDoubles adds up what an account paid in the groups that it owns, and returns the hashes that were recorded
// more than once there.
func feesAndDoubles(ctx context.Context, t *testing.T, c *sdk.Client) (paid sdk.Amount, twice []string) {
	t.Helper()
	groups, err := c.OwnedGroups(ctx)
	ok(t, err)
	saves := map[string]int{}
	for _, g := range groups {
		rows, err := g.Records(ctx)
		ok(t, err)
		hashes := hashesOf(ctx, t, g)
		for _, r := range rows {
			if r.Account == string(c.Account()) { // others pay for what they read
				fee, err := wire.ParseAmount(r.Fee)
				ok(t, err)
				paid, _ = paid.Add(fee)
			}
			if r.Kind == chain.KindRecord {
				hash := hashes[sdk.Ref(r.Ref)]
				if saves[hash]++; saves[hash] == 2 {
					twice = append(twice, hash)
				}
			}
		}
	}
	return paid, twice
}

// hashesOf returns the hash of each file of a group whose key lives. Of the others nobody knows it: each has one of
// its own here.
func hashesOf(ctx context.Context, t *testing.T, g sdk.Group) map[sdk.Ref]string {
	t.Helper()
	entries, err := g.Entries(ctx)
	ok(t, err)
	hashes := map[sdk.Ref]string{}
	for _, e := range entries {
		if hashes[e.Ref] = e.Hash.String(); e.Hash == (sdk.Digest{}) {
			hashes[e.Ref] = string(e.Ref)
		}
	}
	return hashes
}
