package tree

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

// world is a service in memory that several trees share. Every charge is
// counted, and it can be told to fail.
type world struct {
	mu      sync.Mutex
	seq     sdk.Seq
	rows    map[sdk.GroupID][]sdk.Entry
	content map[sdk.Ref][]byte
	members map[sdk.GroupID]map[sdk.AccountID]bool
	readers map[sdk.GroupID]map[sdk.AccountID]bool // of the members
	owners  map[sdk.GroupID]sdk.AccountID

	retrieves, uploads, listings int
	begun                        map[string]int   // by operation, also those under way
	fail                         map[string]error // by operation
	hold                         map[string]chan struct{}
	pause                        map[string]time.Duration // before an operation is done
}

func newWorld() *world {
	return &world{rows: map[sdk.GroupID][]sdk.Entry{}, content: map[sdk.Ref][]byte{}, fail: map[string]error{}, begun: map[string]int{},
		pause: map[string]time.Duration{}, hold: map[string]chan struct{}{}, members: map[sdk.GroupID]map[sdk.AccountID]bool{}, readers: map[sdk.GroupID]map[sdk.AccountID]bool{}, owners: map[sdk.GroupID]sdk.AccountID{}}
}

// begin applies a scripted failure or delay to an operation.
func (w *world) begin(ctx context.Context, op string) error {
	w.mu.Lock()
	w.begun[op]++
	err, hold, pause := w.fail[op], w.hold[op], w.pause[op]
	w.mu.Unlock()
	if pause > 0 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return err
}

func (w *world) set(op string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail[op] = err
}

// slow lets an operation take a while.
func (w *world) slow(op string, pause time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pause[op] = pause
}

func (w *world) stall(op string) (release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ch := make(chan struct{})
	w.hold[op] = ch
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.hold, op)
		close(ch)
	})
}

func (w *world) member(g sdk.GroupID, accounts ...sdk.AccountID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.members[g] == nil {
		w.members[g], w.owners[g] = map[sdk.AccountID]bool{}, accounts[0]
	}
	for _, a := range accounts {
		w.members[g][a] = true
	}
}

func (w *world) lastSeq() sdk.Seq {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seq
}

func (w *world) revoke(g sdk.GroupID, a sdk.AccountID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.members[g], a)
}

// role makes a member a reader, or a writer again.
func (w *world) role(g sdk.GroupID, a sdk.AccountID, role sdk.Role) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readers[g] = map[sdk.AccountID]bool{a: role == sdk.RoleReader}
}

// mayWrite is allowed for what readers may not.
func (p person) mayWrite(g sdk.GroupID) error {
	if err := p.allowed(g); err != nil || !p.readers[g][p.id] {
		return err
	}
	return &sdk.Error{Op: "fake", Group: g, Kind: sdk.KindNotAuthorized, Err: fmt.Errorf("user not authorized: a reader")}
}

func (w *world) put(g sdk.GroupID, by sdk.AccountID, name string, data []byte) sdk.Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seq++
	e := sdk.Entry{Group: g, Ref: sdk.Ref(fmt.Sprintf("ref/%d", w.seq)), Tx: sdk.TxID(fmt.Sprintf("tx%d", w.seq)),
		Hash: sdk.ComputeHash(data), Uploader: by, Time: time.Unix(1700000000+int64(w.seq), 0), Seq: w.seq, ChangedSeq: w.seq,
		Name: name, Size: int64(len(data))}
	w.rows[g] = append(w.rows[g], e)
	w.content[e.Ref] = append([]byte(nil), data...)
	return e
}

func (w *world) shred(g sdk.GroupID, ref sdk.Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seq++
	for i := range w.rows[g] {
		if w.rows[g][i].Ref == ref {
			w.rows[g][i].Deleted = &sdk.Deletion{Reason: "OwnerRequest"}
			w.rows[g][i].ChangedSeq = w.seq
		}
	}
	delete(w.content, ref)
}

func (w *world) last() sdk.Seq {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seq
}

func (w *world) hasBegun(op string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun[op]
}

func (w *world) counts() (retrieves, uploads int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.retrieves, w.uploads
}

// person is one account's view of the world: a Remote.
type person struct {
	*world
	id sdk.AccountID
}

func (p person) Account() sdk.AccountID { return p.id }

func (p person) Groups(ctx context.Context) ([]sdk.Group, error) {
	if err := p.begin(ctx, "groups"); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []sdk.Group
	for g, members := range p.members {
		if members[p.id] {
			of := sdk.Group{ID: g, Owned: p.owners[g] == p.id}
			if p.readers[g][p.id] {
				of.Role = sdk.RoleReader
			}
			list = append(list, of)
		}
	}
	return list, nil
}

func (p person) allowed(g sdk.GroupID) error {
	if !p.members[g][p.id] {
		return &sdk.Error{Op: "fake", Group: g, Kind: sdk.KindNotAuthorized, Err: fmt.Errorf("user not authorized")}
	}
	return nil
}

func (p person) IsAuthorized(ctx context.Context, g sdk.GroupID, a sdk.AccountID) (bool, error) {
	if err := p.begin(ctx, "authorized"); err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.members[g][a], nil
}

func (p person) Entries(ctx context.Context, g sdk.GroupID, after sdk.Seq) ([]sdk.Entry, error) {
	if err := p.begin(ctx, "entries"); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listings++
	if err := p.allowed(g); err != nil {
		return nil, err
	}
	var list []sdk.Entry
	for _, e := range p.rows[g] {
		if e.ChangedSeq > after {
			list = append(list, e)
		}
	}
	return list, nil
}

func (p person) Retrieve(ctx context.Context, e sdk.Entry, into *sdk.Buffer) (sdk.Plain, error) {
	if err := p.begin(ctx, "retrieve"); err != nil {
		return sdk.Plain{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.allowed(e.Group); err != nil {
		return sdk.Plain{}, err
	}
	data, ok := p.content[e.Ref]
	if !ok {
		return sdk.Plain{}, &sdk.Error{Op: "retrieve", Kind: sdk.KindDeleted}
	}
	p.retrieves++
	if err := into.Resize(int64(len(data))); err != nil {
		return sdk.Plain{}, err
	}
	copy(into.Bytes(), data)
	return sdk.Plain{Size: int64(len(data)), Hash: e.Hash}, nil
}

func (p person) Upload(ctx context.Context, g sdk.GroupID, name string, b *sdk.Buffer) (sdk.Receipt, error) {
	if err := p.begin(ctx, "upload"); err != nil {
		return sdk.Receipt{}, err
	}
	p.mu.Lock()
	err := p.mayWrite(g)
	if err == nil {
		p.uploads++
	}
	p.mu.Unlock()
	if err != nil {
		return sdk.Receipt{}, err
	}
	e := p.put(g, p.id, name, b.Bytes())
	return sdk.Receipt{Ref: e.Ref, Tx: e.Tx, Hash: e.Hash, Size: e.Size, Seq: e.Seq, Time: e.Time}, nil
}

// change finds an upload that p may rename or delete.
func (p person) change(ctx context.Context, op string, g sdk.GroupID, ref sdk.Ref, do func(e *sdk.Entry)) error {
	if err := p.begin(ctx, op); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.rows[g] {
		if e := &p.rows[g][i]; e.Ref == ref && p.mayWrite(g) == nil && (e.Uploader == p.id || p.owners[g] == p.id) {
			p.seq++
			e.ChangedSeq = p.seq
			do(e)
			return nil
		}
	}
	return &sdk.Error{Op: op, Group: g, Kind: sdk.KindNotAuthorized, Err: fmt.Errorf("only the uploader and the owner can")}
}

func (p person) RenameFile(ctx context.Context, g sdk.GroupID, ref sdk.Ref, name string) error {
	return p.change(ctx, "rename", g, ref, func(e *sdk.Entry) { e.Name = name })
}

func (p person) DeleteFile(ctx context.Context, g sdk.GroupID, ref sdk.Ref) error {
	return p.change(ctx, "delete", g, ref, func(e *sdk.Entry) {
		e.Deleted = &sdk.Deletion{By: p.id, Reason: "OwnerRequest"}
		delete(p.content, ref)
	})
}

func (p person) GroupMembers(ctx context.Context, g sdk.GroupID) ([]sdk.AccountID, error) {
	if err := p.begin(ctx, "members"); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.members[g])), p.allowed(g)
}

func (p person) GroupOwner(ctx context.Context, g sdk.GroupID) (sdk.AccountID, error) {
	if err := p.begin(ctx, "members"); err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.owners[g], nil
}

func (p person) GroupChecksum(ctx context.Context, g sdk.GroupID) (string, error) {
	return "c0ffee", p.begin(ctx, "members")
}

func (p person) RegisterGroup(ctx context.Context, g sdk.GroupID) (string, error) {
	if err := p.begin(ctx, "register"); err != nil {
		return "", err
	}
	p.member(g, p.id)
	return "registered", nil
}

// mounted is a tree with what tests do to it all the time.
type mounted struct {
	*Tree
	t testing.TB
	w *world
}

func mount(t testing.TB, w *world, who sdk.AccountID, change ...func(*Config)) *mounted {
	t.Helper()
	cfg := Config{Remote: person{w, who}, RefreshInterval: time.Hour, EmptyDelay: time.Hour, MaxFileBytes: 64 << 20}
	for _, c := range change {
		c(&cfg)
	}
	tree, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Close() })
	return &mounted{tree, t, w}
}

func (m *mounted) dir(p string) *Dir {
	m.t.Helper()
	d, ok := m.node(p).(*Dir)
	if !ok {
		m.t.Fatalf("%s is not a directory", p)
	}
	return d
}

func (m *mounted) node(p string) Node {
	m.t.Helper()
	n, err := m.lookup(p)
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}

func (m *mounted) lookup(p string) (Node, error) {
	var n Node = m.Root()
	for _, part := range split(p) {
		d, ok := n.(*Dir)
		if !ok {
			return nil, fmt.Errorf("%s: not a directory", p)
		}
		next, err := d.Lookup(m.t.Context(), part)
		if err != nil {
			return nil, err
		}
		n = next
	}
	return n, nil
}

func split(p string) []string {
	var parts []string
	for p = path.Clean(p); p != "/" && p != "."; p = path.Dir(p) {
		parts = append([]string{path.Base(p)}, parts...)
	}
	return parts
}

func (m *mounted) create(p string) *Handle {
	m.t.Helper()
	_, h, err := m.dir(path.Dir(p)).Create(m.t.Context(), path.Base(p), false, OpenFlags{Read: true, Write: true, Truncate: true})
	if err != nil {
		m.t.Fatal(err)
	}
	return h
}

// save writes a file as a program does: create, write, close.
func (m *mounted) save(p, content string) error {
	m.t.Helper()
	h := m.create(p)
	defer h.Release()
	if _, err := h.WriteAt(m.t.Context(), []byte(content), 0); err != nil {
		return err
	}
	return h.Flush(m.t.Context())
}

func (m *mounted) read(p string) (string, error) {
	m.t.Helper()
	n, err := m.lookup(p)
	if err != nil {
		return "", err
	}
	h, err := n.(*File).Open(m.t.Context(), OpenFlags{Read: true})
	if err != nil {
		return "", err
	}
	defer h.Release()
	return readAll(m.t, h)
}

func readAll(t testing.TB, h *Handle) (string, error) {
	buf := make([]byte, h.f.Attr().Size+1)
	n, err := h.ReadAt(t.Context(), buf, 0)
	return string(buf[:n]), err
}

func (m *mounted) wantContent(p, want string) {
	m.t.Helper()
	if got, err := m.read(p); err != nil || got != want {
		m.t.Errorf("%s holds %q, %v; want %q", p, got, err, want)
	}
}

func (m *mounted) wantCharges(retrieves, uploads int) {
	m.t.Helper()
	if r, u := m.w.counts(); r != retrieves || u != uploads {
		m.t.Errorf("charged %d retrievals and %d uploads, want %d and %d", r, u, retrieves, uploads)
	}
}

func (m *mounted) names(p string) []string {
	m.t.Helper()
	list, err := m.dir(p).Entries(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	names := []string{}
	for _, e := range list {
		names = append(names, e.Name)
	}
	return names
}

func wantClass(t *testing.T, err error, want Class) {
	t.Helper()
	var e *Error
	if err == nil || !asError(err, &e) || e.Class != want {
		t.Errorf("got error %v, want class %q", err, want)
	}
}
