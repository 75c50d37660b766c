package fs

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/sdk"
)

// world is a service in memory: one account, its groups, and whatever a test
// makes it suffer. It counts what it would charge for.
type world struct {
	mu      sync.Mutex
	seq     sdk.Seq
	groups  []sdk.GroupID
	rows    map[sdk.GroupID][]sdk.Entry
	content map[sdk.Ref][]byte
	fail    map[string]sdk.Kind
	hold    map[string]chan struct{}
	counts  counts
	events  chan sdk.Event // of a watch; nil without one
}

type counts struct{ Retrieves, Uploads, Waiting int }

var _ tree.Remote = (*world)(nil)

func newWorld() *world {
	return &world{groups: []sdk.GroupID{"team"}, rows: map[sdk.GroupID][]sdk.Entry{}, content: map[sdk.Ref][]byte{},
		fail: map[string]sdk.Kind{}, hold: map[string]chan struct{}{}}
}

// begin applies what the test ordered for an operation: to hang or to fail.
func (w *world) begin(ctx context.Context, op string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if hold := w.hold[op]; hold != nil {
		w.counts.Waiting++
		w.mu.Unlock()
		select {
		case <-hold:
		case <-ctx.Done():
		}
		w.mu.Lock()
		w.counts.Waiting--
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if kind, ok := w.fail[op]; ok {
		return &sdk.Error{Op: op, Kind: kind, Err: fmt.Errorf("%s was told to fail", op)}
	}
	return nil
}

func (w *world) stall(op string, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if hold := w.hold[op]; hold != nil {
		close(hold)
		delete(w.hold, op)
	}
	if on {
		w.hold[op] = make(chan struct{})
	}
}

func (w *world) failWith(op string, kind *sdk.Kind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.fail, op)
	if kind != nil {
		w.fail[op] = *kind
	}
}

// watch is what a mount watches; told sends on it.
func (w *world) watch(context.Context, sdk.Seq) (<-chan sdk.Event, error) { return w.events, nil }

// told tells a mount that watches what another account did, and returns once the
// mount has acted on that: then it takes the next event.
func (w *world) told(kind string, g sdk.GroupID) {
	if w.events == nil {
		return
	}
	w.mu.Lock()
	seq := w.seq
	w.mu.Unlock()
	w.events <- sdk.Event{Kind: kind, Group: g, Account: w.Account(), Seq: seq}
	w.events <- sdk.Event{Kind: "of no concern"}
}

// put records an upload that somebody else made.
func (w *world) put(g sdk.GroupID, name string, data []byte, size int64) sdk.Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.record(g, "bob.svc.testnet", name, data, size)
}

func (w *world) record(g sdk.GroupID, by sdk.AccountID, name string, data []byte, size int64) sdk.Entry {
	w.seq++
	e := sdk.Entry{Group: g, Ref: sdk.Ref(fmt.Sprintf("ref/%d", w.seq)), Tx: sdk.TxID(fmt.Sprintf("tx%d", w.seq)),
		Hash: sdk.ComputeHash(data), Uploader: by, Time: time.Unix(1_700_000_000+int64(w.seq), 0),
		Seq: w.seq, ChangedSeq: w.seq, Name: name, Size: size}
	w.rows[g] = append(w.rows[g], e)
	w.content[e.Ref] = slices.Clone(data)
	return e
}

// shred deletes the nth upload of a group.
func (w *world) shred(g sdk.GroupID, nth int) error {
	w.mu.Lock()
	ref := w.rows[g][nth].Ref
	w.mu.Unlock()
	return w.DeleteFile(context.Background(), g, ref)
}

// rollback makes the service forget all but the first records of a group.
func (w *world) rollback(g sdk.GroupID, records int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rows[g] = w.rows[g][:records]
}

// rename gives the nth upload of a group another name.
func (w *world) rename(g sdk.GroupID, nth int, name string) error {
	w.mu.Lock()
	ref := w.rows[g][nth].Ref
	w.mu.Unlock()
	return w.RenameFile(context.Background(), g, ref, name)
}

func (w *world) join(g sdk.GroupID, member bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.groups = slices.DeleteFunc(w.groups, func(other sdk.GroupID) bool { return other == g })
	if member {
		w.groups = append(w.groups, g)
	}
}

func (w *world) charged() counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts
}

func (w *world) Account() sdk.AccountID { return "alice.svc.testnet" }

func (w *world) Groups(ctx context.Context) ([]sdk.Group, error) {
	if err := w.begin(ctx, "groups"); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []sdk.Group
	for _, g := range w.groups {
		list = append(list, sdk.Group{ID: g, Owned: true})
	}
	return list, nil
}

func (w *world) allowed(g sdk.GroupID) error {
	if !slices.Contains(w.groups, g) {
		return &sdk.Error{Op: "fake", Group: g, Kind: sdk.KindNotAuthorized, Err: fmt.Errorf("user not authorized")}
	}
	return nil
}

func (w *world) IsAuthorized(_ context.Context, g sdk.GroupID, _ sdk.AccountID) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.groups, g), nil
}

func (w *world) Entries(ctx context.Context, g sdk.GroupID, after sdk.Seq) ([]sdk.Entry, error) {
	if err := w.begin(ctx, "entries"); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.allowed(g); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(w.rows[g]), func(e sdk.Entry) bool { return e.ChangedSeq <= after }), nil
}

func (w *world) Retrieve(ctx context.Context, e sdk.Entry, into *sdk.Buffer) (sdk.Plain, error) {
	if err := w.begin(ctx, "retrieve"); err != nil {
		return sdk.Plain{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.allowed(e.Group); err != nil {
		return sdk.Plain{}, err
	}
	data, ok := w.content[e.Ref]
	if !ok {
		return sdk.Plain{}, &sdk.Error{Op: "retrieve", Kind: sdk.KindDeleted}
	}
	w.counts.Retrieves++
	if err := into.Resize(int64(len(data))); err != nil {
		return sdk.Plain{}, err
	}
	copy(into.Bytes(), data)
	return sdk.Plain{Size: int64(len(data)), Hash: e.Hash}, nil
}

func (w *world) Upload(ctx context.Context, g sdk.GroupID, name string, b *sdk.Buffer) (sdk.Receipt, error) {
	if err := w.begin(ctx, "upload"); err != nil {
		return sdk.Receipt{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.allowed(g); err != nil {
		return sdk.Receipt{}, err
	}
	w.counts.Uploads++
	e := w.record(g, w.Account(), name, b.Bytes(), b.Len())
	return sdk.Receipt{Ref: e.Ref, Tx: e.Tx, Hash: e.Hash, Size: e.Size, Seq: e.Seq, Time: e.Time}, nil
}

func (w *world) RenameFile(ctx context.Context, g sdk.GroupID, ref sdk.Ref, name string) error {
	return w.change(ctx, g, ref, func(e *sdk.Entry) { e.Name = name })
}

func (w *world) DeleteFile(ctx context.Context, g sdk.GroupID, ref sdk.Ref) error {
	return w.change(ctx, g, ref, func(e *sdk.Entry) {
		e.Deleted = &sdk.Deletion{Reason: "OwnerRequest"}
		delete(w.content, ref)
	})
}

func (w *world) change(ctx context.Context, g sdk.GroupID, ref sdk.Ref, do func(*sdk.Entry)) error {
	if err := w.begin(ctx, "change"); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.rows[g], func(e sdk.Entry) bool { return e.Ref == ref })
	if i < 0 {
		return &sdk.Error{Op: "change", Group: g, Kind: sdk.KindNotFound}
	}
	w.seq++
	w.rows[g][i].ChangedSeq = w.seq
	do(&w.rows[g][i])
	return nil
}

func (w *world) GroupMembers(ctx context.Context, _ sdk.GroupID) ([]sdk.AccountID, error) {
	return []sdk.AccountID{w.Account(), "bob.svc.testnet"}, w.begin(ctx, "members")
}

func (w *world) GroupOwner(ctx context.Context, _ sdk.GroupID) (sdk.AccountID, error) {
	return w.Account(), w.begin(ctx, "members")
}

func (w *world) GroupChecksum(ctx context.Context, _ sdk.GroupID) (string, error) {
	return "c0ffee", w.begin(ctx, "members")
}

func (w *world) RegisterGroup(ctx context.Context, g sdk.GroupID) (string, error) {
	if err := w.begin(ctx, "register"); err != nil {
		return "", err
	}
	w.join(g, true)
	return "registered", nil
}
