package treetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/view"
	"github.com/svcfs/svcfs/sdk/wire"
)

// World is a service in memory that several mounts share. Every charge is
// counted, and tests can make operations fail.
type World struct {
	mu      sync.Mutex
	seq     sdk.Seq
	numbers map[sdk.GroupID]int64 // of the newest record
	rows    map[sdk.GroupID][]sdk.Entry
	content map[sdk.Ref][]byte
	members map[sdk.GroupID]map[sdk.AccountID]bool
	readers map[sdk.GroupID]map[sdk.AccountID]bool // of the members
	owners  map[sdk.GroupID]sdk.AccountID

	renamed map[sdk.Ref]sdk.Seq // the newest new name, or attributes
	folders []folderRename
	made    map[sdk.GroupID][]sdk.Entry // recorded folders, also removed ones

	// Merges: the owners of all groups want appends to be made on what others saved.
	Merges bool

	// RenamePrice is the fee of a renamed folder for each upload.
	RenamePrice sdk.Amount
	// Clock gives the times of records; nil = seconds from 1_700_000_000.
	Clock func() time.Time

	// EveryWriterRemoves what others uploaded, too.
	EveryWriterRemoves bool

	// ListMemory is how many bytes of lists a mount may hold; 0 = any number.
	ListMemory int64
	held       int64

	// BlocksAbove is the largest file that has no blocks, in bytes; 0 = no file has any.
	BlocksAbove int64
	// BlockBytes is the plaintext of a block; 0 = DefaultBlock. It may be smaller than that of
	// any service.
	BlockBytes int64

	unsure map[string]unsure // uploads whose answer was lost, by who made them and their names
	blocks blocksOf
	cut    map[sdk.Ref]int64 // bytes of a block, of files that have blocks

	retrieves, uploads, hanging int
	begun                       map[string]int   // by operation, also those under way
	fail                        map[string]error // by operation
	hold                        map[string]chan struct{}
	pause                       map[string]time.Duration // before an operation is done
}

// folderRename is a record of a renamed folder.
type folderRename struct {
	by       sdk.AccountID
	group    sdk.GroupID
	from, to string
	seq      sdk.Seq
}

// NewWorld returns a service without groups.
func NewWorld() *World {
	return &World{numbers: map[sdk.GroupID]int64{}, rows: map[sdk.GroupID][]sdk.Entry{},
		made: map[sdk.GroupID][]sdk.Entry{}, content: map[sdk.Ref][]byte{}, cut: map[sdk.Ref]int64{},
		unsure: map[string]unsure{}, renamed: map[sdk.Ref]sdk.Seq{}, fail: map[string]error{}, begun: map[string]int{},
		pause: map[string]time.Duration{}, hold: map[string]chan struct{}{}, members: map[sdk.GroupID]map[sdk.AccountID]bool{}, readers: map[sdk.GroupID]map[sdk.AccountID]bool{}, owners: map[sdk.GroupID]sdk.AccountID{}}
}

// begin applies a scripted failure or delay to an operation.
func (w *World) begin(ctx context.Context, op string) error {
	w.mu.Lock()
	w.begun[op]++
	err, hold, pause := w.fail[op], w.hold[op], w.pause[op]
	w.mu.Unlock()
	if p, is := err.(Panic); is {
		panic(p)
	}
	if pause > 0 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if hold == nil {
		return err
	}
	w.count(1)
	defer w.count(-1)
	select {
	case <-hold:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Panic is an error that [World.Fail] makes a panic of, as if its caller had a mistake.
type Panic string

func (p Panic) Error() string { return string(p) }

// Fail makes an operation fail, or with nil succeed again.
func (w *World) Fail(op string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail[op] = err
}

// Slow delays an operation.
func (w *World) Slow(op string, pause time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pause[op] = pause
}

// Stall makes an operation wait until release.
func (w *World) Stall(op string) (release func()) {
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

// Member adds accounts to a group; the first one ever owns it.
func (w *World) Member(g sdk.GroupID, accounts ...sdk.AccountID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.members[g] == nil {
		w.members[g], w.owners[g] = map[sdk.AccountID]bool{}, accounts[0]
	}
	for _, a := range accounts {
		w.members[g][a] = true
	}
}

// Revoke takes an account from a group.
func (w *World) Revoke(g sdk.GroupID, a sdk.AccountID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.members[g], a)
}

// Role makes a member a reader, or a writer again.
func (w *World) Role(g sdk.GroupID, a sdk.AccountID, role sdk.Role) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readers[g] = map[sdk.AccountID]bool{a: role == sdk.RoleReader}
}

// mayWrite is allowed for operations that readers may not do.
func (p Person) mayWrite(g sdk.GroupID) error {
	if err := p.allowed(g); err != nil || !p.readers[g][p.id] {
		return err
	}
	return &sdk.Error{Op: "fake", Group: g, Kind: sdk.ErrNotAuthorized, Err: fmt.Errorf("user not authorized: a reader")}
}

// Put records an upload, as [Person.Upload] does.
func (w *World) Put(g sdk.GroupID, by sdk.AccountID, name string, data []byte) sdk.Entry {
	return w.PutWith(g, by, name, data, sdk.Attributes{})
}

// PutWith is [World.Put] with attributes.
func (w *World) PutWith(g sdk.GroupID, by sdk.AccountID, name string, data []byte, a sdk.Attributes) sdk.Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	block := int64(0)
	if w.isLarge(int64(len(data))) && a.Target == "" {
		block = w.blockBytes()
	}
	return w.put(g, by, name, data, a, block)
}

// put records an upload; block is 0, or the bytes of its blocks. Needs World.mu.
func (w *World) put(g sdk.GroupID, by sdk.AccountID, name string, data []byte, a sdk.Attributes, block int64) sdk.Entry {
	w.next(g)
	e := sdk.Entry{Group: g, Ref: sdk.Ref(fmt.Sprintf("ref/%d", w.seq)), Tx: fmt.Sprintf("tx%d", w.seq),
		Hash: sdk.ComputeHash(data), Uploader: by, Time: time.Unix(1700000000+int64(w.seq), 0), Seq: w.seq, ChangedSeq: w.seq, Number: w.numbers[g],
		Name: name, Size: int64(len(data))}
	if block > 0 {
		w.cut[e.Ref] = block
		e.Content = sdk.ComputeHash([]byte("blocks of " + e.Ref))
	}
	if !a.IsZero() {
		e.Attributes = &a
	}
	if w.Clock != nil {
		e.Time = w.Clock()
	}
	w.rows[g] = append(w.rows[g], e)
	w.content[e.Ref] = append([]byte(nil), data...)
	return e
}

// next begins another record. Needs World.mu.
func (w *World) next(g sdk.GroupID) {
	w.seq++
	w.numbers[g]++
}

// Shred deletes an upload, as its owner would.
func (w *World) Shred(g sdk.GroupID, ref sdk.Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next(g)
	for i := range w.rows[g] {
		if w.rows[g][i].Ref == ref {
			w.rows[g][i].Deleted = &sdk.Deletion{Reason: "OwnerRequest"}
			w.rows[g][i].ChangedSeq, w.rows[g][i].Number = w.seq, w.numbers[g]
		}
	}
	delete(w.content, ref)
}

// Seq returns the number of the newest record.
func (w *World) Seq() sdk.Seq {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seq
}

// Begun returns how often an operation was begun.
func (w *World) Begun(op string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun[op]
}

// Charged returns the numbers of charged operations.
func (w *World) Charged() (retrieves, uploads int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.retrieves, w.uploads
}

// Person is one account's view of the world: a [tree.Remote].
type Person struct {
	*World
	id sdk.AccountID
}

func (p Person) Account() sdk.AccountID { return p.id }

func (p Person) Groups(ctx context.Context) ([]sdk.Group, error) {
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

func (p Person) allowed(g sdk.GroupID) error {
	if !p.members[g][p.id] {
		return &sdk.Error{Op: "fake", Group: g, Kind: sdk.ErrNotAuthorized, Err: fmt.Errorf("user not authorized")}
	}
	return nil
}

func (p Person) IsAuthorized(ctx context.Context, g sdk.GroupID, a sdk.AccountID) (bool, error) {
	if err := p.begin(ctx, "authorized"); err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.members[g][a], nil
}

func (p Person) Entries(ctx context.Context, g sdk.GroupID, since *view.View) ([]sdk.Entry, error) {
	if err := p.begin(ctx, "entries"); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.allowed(g); err != nil {
		return nil, err
	}
	var list []sdk.Entry
	for _, e := range slices.Concat(p.rows[g], p.made[g]) {
		if e.ChangedSeq > since.After() {
			list = append(list, e)
		}
	}
	return list, nil
}

// HoldList counts for all mounts of the world together.
func (p Person) HoldList(bytes int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held += bytes
	if bytes <= 0 || p.ListMemory == 0 || p.held <= p.ListMemory {
		return nil
	}
	return &sdk.Error{Op: "fake", Kind: sdk.ErrTooLarge, Code: wire.CodeListMemory, Err: fmt.Errorf("more than %d bytes", p.ListMemory)}
}

// Held returns how many bytes of lists mounts hold.
func (w *World) Held() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held
}

func (p Person) Retrieve(ctx context.Context, e sdk.Entry, into *mem.Buffer) (sdk.Amount, error) {
	if err := p.begin(ctx, "retrieve"); err != nil {
		return sdk.Amount{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.allowed(e.Group); err != nil {
		return sdk.Amount{}, err
	}
	data, ok := p.content[e.Ref]
	if !ok {
		return sdk.Amount{}, &sdk.Error{Op: "retrieve", Kind: sdk.ErrDeleted}
	}
	if e.Content != (sdk.Digest{}) {
		return sdk.Amount{}, &sdk.Error{Op: "retrieve", Kind: sdk.ErrUnsupported, Err: fmt.Errorf("the file has blocks")}
	}
	p.retrieves++
	if err := into.Resize(int64(len(data))); err != nil {
		return sdk.Amount{}, err
	}
	copy(into.Bytes(), data)
	return sdk.Amount{}, nil
}

func (p Person) Upload(ctx context.Context, g sdk.GroupID, name string, b *mem.Buffer,
	o sdk.PutOptions) (sdk.Receipt, error) {
	place, again := fmt.Sprint(p.id, g, name), fmt.Sprint(b.Hash())
	if o.Base != nil {
		again += fmt.Sprintf(" upon %q", *o.Base)
	}
	err := p.begin(ctx, "upload")
	p.mu.Lock()
	if was, ok := p.unsure[place]; ok && was.again == again { // it is the same upload
		defer p.mu.Unlock()
		if err != nil {
			return sdk.Receipt{}, mayBeRecorded(err)
		}
		delete(p.unsure, place)
		return was.Receipt, nil
	}
	if err = cmp.Or(err, p.mayWrite(g), p.isBase(g, name, o.Base)); err == nil {
		p.uploads++
	}
	p.mu.Unlock()
	if err != nil {
		return sdk.Receipt{}, err
	}
	e := p.PutWith(g, p.id, name, b.Bytes(), o.Attributes)
	p.setUpon(&e, o.Upon)
	r := sdk.Receipt{Entry: e}
	err = p.begin(ctx, "uploaded") // the record is there, the answer is on its way
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.unsure[place] = unsure{r, again}
		return sdk.Receipt{}, mayBeRecorded(err)
	}
	delete(p.unsure, place)
	return r, nil
}

// unsure is an upload whose answer was lost.
type unsure struct {
	sdk.Receipt
	again string // what the same upload has
}

// mayBeRecorded returns the error of an upload as package sdk does where it may be recorded.
func mayBeRecorded(err error) error {
	e := sdk.Error{Op: "upload", Kind: sdk.KindOf(err), Unsure: true, Err: err}
	if own := (*sdk.Error)(nil); errors.As(err, &own) {
		e.Code = own.Code
	}
	return &e
}

// setUpon records which version an upload was made upon.
func (w *World) setUpon(e *sdk.Entry, upon *sdk.Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.Upon = upon
	for i := range w.rows[e.Group] {
		if row := &w.rows[e.Group][i]; row.Ref == e.Ref {
			row.Upon = upon
		}
	}
}

// isBase compares the newest version of a name with the one that a save replaces, as the service does. Needs World.mu.
func (w *World) isBase(g sdk.GroupID, name string, base *sdk.Ref) error {
	if base == nil {
		return nil
	}
	var newest sdk.Ref
	for _, e := range w.rows[g] {
		if e.Name == name && e.Deleted == nil {
			newest = e.Ref
		}
	}
	if newest == *base {
		return nil
	}
	return &sdk.Error{Op: "upload", Group: g, Kind: sdk.ErrConflict, Code: wire.CodeHead, Err: fmt.Errorf("the newest version is %q", newest)}
}

// answered is an upload as the answer to a change has it.
func answered(e *sdk.Entry) sdk.Entry {
	changed := *e
	changed.Tx = ""
	return changed
}

// change finds an upload that p may rename or delete.
func (p Person) change(ctx context.Context, op string, g sdk.GroupID, ref sdk.Ref, do func(e *sdk.Entry)) (sdk.Entry, error) {
	if err := p.begin(ctx, op); err != nil {
		return sdk.Entry{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.rows[g] {
		if e := &p.rows[g][i]; e.Ref == ref && p.mayWrite(g) == nil && (e.Uploader == p.id || p.owners[g] == p.id) {
			p.next(g)
			named := cmp.Or(e.NamedNumber, e.Number)
			e.ChangedSeq, e.Number, e.NamedNumber = p.seq, p.numbers[g], 0
			if op == setAttributes {
				e.NamedNumber = named
			}
			do(e)
			return answered(e), nil
		}
	}
	return sdk.Entry{}, &sdk.Error{Op: op, Group: g, Kind: sdk.ErrNotAuthorized, Err: fmt.Errorf("only the uploader and the owner can")}
}

func (p Person) RenameFile(ctx context.Context, g sdk.GroupID, ref sdk.Ref, name string) (sdk.Entry, error) {
	return p.change(ctx, "rename", g, ref, func(e *sdk.Entry) { e.Name, p.renamed[ref] = name, e.ChangedSeq })
}

// RenameFolder renames all uploads beneath a folder, or none, as the service does.
func (p Person) RenameFolder(ctx context.Context, g sdk.GroupID, folder, to string, seen sdk.Seq) (done sdk.FolderRename, err error) {
	if err := p.begin(ctx, "rename folder"); err != nil {
		return done, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	refuse := func(kind sdk.Kind) (sdk.FolderRename, error) {
		return sdk.FolderRename{}, &sdk.Error{Op: "rename folder", Group: g, Kind: kind, Err: fmt.Errorf("%s to %s", folder, to)}
	}
	var list []*sdk.Entry
	taken := map[string]bool{}
	for i := range p.rows[g] {
		e := &p.rows[g][i]
		switch {
		case e.Deleted != nil:
		case !strings.HasPrefix(e.Name, folder+"/"):
			taken[e.Name] = true
		case p.mayWrite(g) != nil || e.Uploader != p.id && p.owners[g] != p.id:
			return refuse(sdk.ErrNotAuthorized)
		default:
			list = append(list, e)
		}
	}
	for i := range p.made[g] {
		e := &p.made[g][i]
		switch {
		case e.Deleted != nil:
		case e.Name != folder && !strings.HasPrefix(e.Name, folder+"/"):
			taken[e.Name+"/"] = true
		case p.mayWrite(g) != nil || e.Uploader != p.id && p.owners[g] != p.id:
			return refuse(sdk.ErrNotAuthorized)
		default:
			list = append(list, e)
		}
	}
	rename := func(name string) string { return to + strings.TrimPrefix(name, folder) }
	switch {
	case slices.ContainsFunc(p.folders, func(r folderRename) bool {
		return r.by == p.id && r.group == g && r.from == folder && r.to == to && r.seq > seen
	}): // it would be the answer to a repetition
		return refuse(sdk.ErrConflict)
	case len(list) == 0:
		return refuse(sdk.ErrNotFound)
	case slices.ContainsFunc(list, func(e *sdk.Entry) bool { return taken[rename(e.Name)+map[bool]string{true: "/"}[e.Folder]] }):
		return refuse(sdk.ErrConflict)
	}
	p.next(g)
	p.folders = append(p.folders, folderRename{p.id, g, folder, to, p.seq})
	done = sdk.FolderRename{Versions: int64(len(list)), Seq: p.seq, Number: p.numbers[g]}
	for _, e := range list {
		e.Name, e.ChangedSeq, e.Number, e.NamedNumber, p.renamed[e.Ref] = rename(e.Name), p.seq, p.numbers[g], 0, p.seq
		done.Fee, _ = done.Fee.Add(p.RenamePrice)
	}
	return done, nil
}

// MakeFolder records a folder, unless it is recorded.
func (p Person) MakeFolder(ctx context.Context, g sdk.GroupID, folder string) (sdk.Entry, error) {
	if err := p.begin(ctx, "make folder"); err != nil {
		return sdk.Entry{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.mayWrite(g); err != nil {
		return sdk.Entry{}, err
	}
	switch {
	case slices.ContainsFunc(p.rows[g], func(e sdk.Entry) bool { return e.Deleted == nil && e.Name == folder }):
		return sdk.Entry{}, &sdk.Error{Op: "make folder", Group: g, Kind: sdk.ErrConflict, Err: fmt.Errorf("%s is a file", folder)}
	case p.recorded(g, folder) != nil:
		return sdk.Entry{}, nil
	}
	p.next(g)
	e := sdk.Entry{Group: g, Ref: sdk.Ref(fmt.Sprintf("folder/%d", p.seq)), Uploader: p.id, Time: time.Unix(1700000000+int64(p.seq), 0), Seq: p.seq, ChangedSeq: p.seq, Number: p.numbers[g],
		Name: folder, Folder: true}
	p.made[g] = append(p.made[g], e)
	return e, nil
}

// RemoveFolder removes the record of a folder with nothing beneath it.
func (p Person) RemoveFolder(ctx context.Context, g sdk.GroupID, folder string) (sdk.Entry, error) {
	if err := p.begin(ctx, "remove folder"); err != nil {
		return sdk.Entry{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	refuse := func(kind sdk.Kind) (sdk.Entry, error) {
		return sdk.Entry{}, &sdk.Error{Op: "remove folder", Group: g, Kind: kind, Err: fmt.Errorf("of %s", folder)}
	}
	there := p.recorded(g, folder)
	isBeneath := func(e sdk.Entry) bool { return e.Deleted == nil && strings.HasPrefix(e.Name, folder+"/") }
	switch {
	case p.mayWrite(g) != nil:
		return refuse(sdk.ErrNotAuthorized)
	case there == nil:
		return refuse(sdk.ErrNotFound)
	case there.Uploader != p.id && p.owners[g] != p.id:
		return refuse(sdk.ErrNotAuthorized)
	case slices.ContainsFunc(p.rows[g], isBeneath), slices.ContainsFunc(p.made[g], isBeneath):
		return refuse(sdk.ErrConflict)
	}
	p.next(g)
	there.ChangedSeq, there.Number, there.Deleted = p.seq, p.numbers[g], &sdk.Deletion{By: p.id, Reason: wire.ReasonOwnerRequest}
	e := *there
	e.Seq, e.Tx = 0, ""
	return e, nil
}

// recorded returns a folder that is recorded, or nil. Needs World.mu.
func (w *World) recorded(g sdk.GroupID, folder string) *sdk.Entry {
	i := slices.IndexFunc(w.made[g], func(e sdk.Entry) bool { return e.Deleted == nil && e.Name == folder })
	if i < 0 {
		return nil
	}
	return &w.made[g][i]
}

// Folders returns the names of the recorded folders of a group, in order.
func (w *World) Folders(g sdk.GroupID) (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.made[g] {
		if e.Deleted == nil {
			list = append(list, e.Name)
		}
	}
	slices.Sort(list)
	return list
}

const setAttributes = "set attributes"

func (p Person) SetAttributes(ctx context.Context, g sdk.GroupID, ref sdk.Ref, a sdk.Attributes) (sdk.Entry, error) {
	return p.change(ctx, setAttributes, g, ref, func(e *sdk.Entry) { e.Attributes, p.renamed[ref] = &a, e.ChangedSeq })
}

func (p Person) DeleteFile(ctx context.Context, g sdk.GroupID, ref sdk.Ref) (sdk.Entry, error) {
	return p.change(ctx, "delete", g, ref, func(e *sdk.Entry) {
		e.Deleted = &sdk.Deletion{By: p.id, Reason: "OwnerRequest"}
		delete(p.content, ref)
	})
}

// RemoveVersions puts versions into the trash, unless they changed since they were seen.
func (p Person) RemoveVersions(ctx context.Context, g sdk.GroupID, versions []sdk.Entry) ([]sdk.Entry, error) {
	return p.changeName(ctx, "remove", g, versions, func(e *sdk.Entry) bool { return e.Deleted == nil }, func() *sdk.Deletion {
		return &sdk.Deletion{By: p.id, Reason: "OwnerRequest", InTrash: true}
	})
}

// RestoreVersions takes versions out of the trash, unless they changed since they were seen.
func (p Person) RestoreVersions(ctx context.Context, g sdk.GroupID, versions []sdk.Entry) ([]sdk.Entry, error) {
	return p.changeName(ctx, "restore", g, versions, func(e *sdk.Entry) bool { return e.Deleted != nil && e.Deleted.InTrash }, func() *sdk.Deletion { return nil })
}

// Named returns the records of a name.
func (w *World) Named(g sdk.GroupID, name string) []sdk.Entry {
	return slices.DeleteFunc(w.Rows(g), func(e sdk.Entry) bool { return e.Name != name })
}

func (p Person) changeName(ctx context.Context, op string, g sdk.GroupID, versions []sdk.Entry, is func(*sdk.Entry) bool,
	becomes func() *sdk.Deletion) (done []sdk.Entry, err error) {
	if err := p.begin(ctx, op); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var chosen []*sdk.Entry
	for i := range p.rows[g] {
		e := &p.rows[g][i]
		seen := slices.ContainsFunc(versions, func(v sdk.Entry) bool {
			return v.Name == e.Name && (v.ChangedSeq >= e.ChangedSeq || v.Seq >= e.Seq && p.renamed[e.Ref] == e.ChangedSeq)
		})
		if !seen || !is(e) {
			continue
		}
		if p.mayWrite(g) != nil || e.Uploader != p.id && p.owners[g] != p.id && !p.EveryWriterRemoves {
			return nil, &sdk.Error{Op: op, Group: g, Kind: sdk.ErrNotAuthorized, Err: fmt.Errorf("only the uploader and the owner can")}
		}
		chosen = append(chosen, e)
	}
	for _, e := range chosen {
		p.next(g)
		e.ChangedSeq, e.Number, e.NamedNumber, e.Deleted = p.seq, p.numbers[g], 0, becomes()
		done = append(done, answered(e))
	}
	return done, nil
}

func (p Person) GroupMembers(ctx context.Context, g sdk.GroupID) ([]sdk.AccountID, error) {
	if err := p.begin(ctx, "members"); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.members[g])), p.allowed(g)
}

func (p Person) GroupOwner(ctx context.Context, g sdk.GroupID) (sdk.AccountID, error) {
	if err := p.begin(ctx, "members"); err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.owners[g], nil
}

func (p Person) GroupChecksum(ctx context.Context, g sdk.GroupID) (string, error) {
	return "c0ffee", p.begin(ctx, "members")
}

// GroupAppends is apart, unless World.Merges.
func (p Person) GroupAppends(ctx context.Context, g sdk.GroupID) (string, error) {
	if err := p.begin(ctx, "appends"); err != nil {
		return "", err
	}
	if p.Merges {
		return wire.AppendsMerge, nil
	}
	return wire.AppendsApart, nil
}

func (p Person) RegisterGroup(ctx context.Context, g sdk.GroupID) error {
	if err := p.begin(ctx, "register"); err != nil {
		return err
	}
	p.Member(g, p.id)
	return nil
}

// As returns the world as an account sees it.
func (w *World) As(id sdk.AccountID) Person { return Person{w, id} }

func (w *World) count(hanging int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hanging += hanging
}

// Hanging returns how many operations wait for [World.Stall] to end.
func (w *World) Hanging() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hanging
}

// Rows returns a copy of the records of a group.
func (w *World) Rows(g sdk.GroupID) []sdk.Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.rows[g])
}

// Rewrite replaces the history of a group.
func (w *World) Rewrite(g sdk.GroupID, rows []sdk.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rows[g] = rows
}

// Edit changes the record of an upload.
func (w *World) Edit(g sdk.GroupID, ref sdk.Ref, change func(e *sdk.Entry)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.rows[g] {
		if w.rows[g][i].Ref == ref {
			change(&w.rows[g][i])
		}
	}
}

// Content returns the bytes of an upload.
func (w *World) Content(ref sdk.Ref) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.content[ref])
}

// Owner returns the account that made a group.
func (w *World) Owner(g sdk.GroupID) sdk.AccountID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.owners[g]
}

// HasMember reports whether an account belongs to a group.
func (w *World) HasMember(g sdk.GroupID, a sdk.AccountID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.members[g][a]
}

// Events is a watch that yields the events of a channel, and ends with it.
func Events(told <-chan sdk.Event) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		for e := range told {
			if !yield(e, nil) {
				return
			}
		}
		yield(sdk.Event{}, sdk.ErrCanceled)
	}
}
