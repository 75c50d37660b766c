package tree

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk"
)

// File is a file inode: content that was committed, or a staged copy of it, or
// both. See the package comment. There is one for every name of a group that was
// listed, so fields that most files never need are made on demand, and the order
// of the fields leaves no gaps.
type File struct {
	t        *Tree
	ino, gen uint64
	group    *group                    // nil for control files
	show     func() []byte             // content of a control file, else nil
	target   string                    // of what is shown as a symbolic link, else ""
	maker    uint32                    // the process that made the file anew in this mount; 0 = not known, or none
	entry    atomic.Pointer[sdk.Entry] // committed content; nil while never uploaded
	ahead    atomic.Pointer[sdk.Entry] // has the appends of f on what others saved, see append.go; nil = none
	sqlite   atomic.Bool               // the last save began as an SQLite database does

	// By Tree.mu.
	kind  atomic.Uint32 // a [fileKind], changed by [File.become] only
	dir   *Dir          // nil once the name points elsewhere
	name  string        // as shown
	raw   string        // as recorded, or to be recorded
	links []link        // further names, always scratch names (N5)

	copier atomic.Uint32 // thread that asked for the attributes last; see crawlers.go
	body
	naming atomic.Pointer[policy.Gate] // see nameGate; nil until it is wanted
	attributes
}

// fileKind is the kind of a file. It decides whether a save is recorded.
type fileKind uint32

const (
	// fileReal: a save is recorded under File.raw. dir is nil once the name shows a newer
	// upload; the next save is then a version after that upload.
	fileReal fileKind = iota
	// fileScratch: the content lives in memory only (W6). entry is set in a backup (W8).
	fileScratch
	// fileRemoved: this mount removed the file, or replaced it by a rename. dir is nil and
	// links is empty; content that is written belongs to no name and is never recorded.
	fileRemoved
	// fileVersion: an old version in a history directory. It never changes.
	fileVersion
	// fileControl: a control file. It has no content but the text that show makes.
	fileControl
)

func (k fileKind) String() string {
	return [...]string{"real", "scratch", "removed", "version", "control"}[k]
}

// isKind reports the kind. Without Tree.mu the answer may be out of date at once.
func (f *File) isKind(k fileKind) bool { return fileKind(f.kind.Load()) == k }

// become changes the kind. A removed file, a version and a control file stay what they
// are. Needs Tree.mu, except for a file that no other goroutine has yet.
func (f *File) become(to fileKind) {
	from := fileKind(f.kind.Swap(uint32(to)))
	if from != to && from > fileScratch {
		f.t.mistake("a file that is " + from.String() + " cannot become " + to.String())
	}
}

// link is one more name of a file.
type link struct {
	dir  *Dir
	name string // as shown
}

// newFile makes a file that is not yet in the directory where it belongs. Needs Tree.mu.
func (d *Dir) newFile(name string) *File {
	t := d.t
	f := &File{t: t, name: name, attributes: attributes{mtime: t.now()}, gen: t.gens.Add(1)}
	f.ino = t.freeInode(join(d.path(), name), f.gen)
	return f
}

// nameGate lets one commit, rename, link or unlink of the file through at a time: the
// record and the name it is made under belong together.
func (f *File) nameGate() policy.Gate {
	if f.naming.Load() == nil {
		g := policy.NewGate(1)
		f.naming.CompareAndSwap(nil, &g)
	}
	return *f.naming.Load()
}

func (f *File) setEntry(e *sdk.Entry) {
	f.entry.Store(e)
	f.ahead.Store(nil)
	f.setRecorded(e)
}

// Path returns the file's place below the mount; for a file whose name points
// elsewhere by now, its last name.
func (f *File) Path() string {
	f.t.mu.RLock()
	defer f.t.mu.RUnlock()
	if f.dir == nil {
		return f.name
	}
	return join(f.dir.path(), f.name)
}

// Attr returns the attributes that stat shows. It never waits for the service.
func (f *File) Attr() Attr {
	if f.show != nil {
		size := int64(len(f.show()))
		return Attr{Ino: f.ino, Gen: f.gen, ReadOnly: true, Control: true, Size: size, Nlink: 1, Mtime: f.t.now(),
			Ctime: f.t.now()}
	}
	f.t.mu.RLock()
	names := uint32(len(f.links))
	if f.dir != nil {
		names++
	}
	readOnly := f.isKind(fileVersion) || f.group.isReader()
	f.t.mu.RUnlock()
	e := f.entry.Load()
	var recorded time.Time
	if e != nil {
		recorded = e.Time
	}
	return f.fill(Attr{Ino: f.ino, Gen: f.gen, Link: f.IsLink(), Foreign: f.t.isForeign(e), ReadOnly: readOnly,
		Control: f.isKind(fileVersion), Nlink: names,
		Unsure: f.isKind(fileReal) && f.isChanging()}, recorded)
}

// IsSizeStated reports whether the size was known without the content.
func (f *File) IsSizeStated() bool {
	e := f.entry.Load()
	return e == nil || e.Size != sdk.SizeUnknown
}

// PriceAttribute is the extended attribute with the price of opening a file, or of a look
// at a group, in tokens.
const PriceAttribute = "user.svcfs.price"

// Xattrs returns the attributes that programs set, and the read-only ones (A2). Free.
func (f *File) Xattrs() map[string]string {
	if f.show != nil {
		return nil
	}
	x := f.OwnXattrs()
	f.lock.Lock()
	defer f.lock.Unlock()
	for name, value := range f.xattrs {
		if !strings.HasPrefix(name, format.ReservedPrefix) {
			x[name] = value
		}
	}
	return x
}

// OwnXattrs returns the read-only attributes alone.
func (f *File) OwnXattrs() map[string]string {
	if f.show != nil {
		return nil
	}
	x := map[string]string{"user.svcfs.group": string(f.groupNow().id), "user.svcfs.state": f.state()}
	if price, ok := f.openPrice(); ok {
		x[PriceAttribute] = price.Tokens()
	}
	e := f.entry.Load()
	if e == nil {
		return x
	}
	if isWaiting(e) {
		return x
	}
	x["user.svcfs.ref"] = string(e.Ref)
	x["user.svcfs.tx"] = string(e.Tx)
	if e.Hash != (sdk.Digest{}) {
		x["user.svcfs.sha256"] = e.Hash.String()
	}
	x["user.svcfs.uploader"] = string(e.Uploader)
	if fault := f.linkFault(); fault != "" {
		x[LinkAttribute] = "not shown as a link: " + fault
	}
	x["user.svcfs.seq"] = strconv.FormatInt(int64(e.Seq), 10)
	if !e.Time.IsZero() {
		x["user.svcfs.time"] = e.Time.UTC().Format(time.RFC3339Nano)
	}
	return x
}

// state returns where the content is: staged, pending, scratch, cached or remote; failed = staged,
// and not sent by itself.
func (f *File) state() string {
	switch {
	case f.isKind(fileScratch):
		return "scratch"
	case f.now.IsStaged():
		if s, _, ok := f.unsaved(); ok && (s.State == report.StagedHalf || s.State == report.StagedKilled ||
			s.State == report.StagedFailed) {
			return "failed"
		}
		return "staged"
	case isWaiting(f.entry.Load()):
		return "pending"
	case f.isCached():
		return "cached"
	default:
		return "remote"
	}
}

func (f *File) isCached() bool {
	e := f.entry.Load()
	return e != nil && (targetOf(e) != "" || f.known.IsCached(f.t.contents, e))
}

// openPrice returns the price of opening the file for reading now.
func (f *File) openPrice() (sdk.Amount, bool) {
	if f.now.IsStaged() || f.isCached() || isWaiting(f.entry.Load()) {
		return sdk.Amount{}, true
	}
	if e := f.entry.Load(); e != nil && (f.groupNow().knownWrong(e.Ref) != nil ||
		f.t.contents.Cache.Contains(content.KeyOf(e))) {
		return sdk.Amount{}, true
	}
	if f.t.cfg.Price == nil {
		return sdk.Amount{}, false
	}
	return f.t.cfg.Price("retrieve")
}

// Open opens the file. Opening for reading, or for modification without
// Truncate, retrieves and verifies the content unless it is cached or staged;
// that costs one retrieve claim (R1, W4). A handle that can only write retrieves with
// the first write: touch opens files and changes nothing in them. So does one that was opened without
// waiting with the first read: rsync opens files so to change their modes.
func (f *File) Open(ctx context.Context, flags OpenFlags) (*Handle, error) {
	if f.show != nil {
		return f.openControl(flags)
	}
	if flags.Write || flags.Truncate {
		if err := f.Changeable("open"); err != nil {
			return nil, err
		}
		if f.isKind(fileVersion) {
			return nil, f.failed("open", oldVersion())
		}
		if err := f.t.queue.Locked(f.entry.Load()); err != nil {
			return nil, f.failed("open", err)
		}
	}
	if f.isLost() {
		return nil, f.failed("open", outOfGroup())
	}
	if f.IsLink() {
		return nil, plain(ClassInvalid, "open", f.Path(), "it is a symbolic link")
	}
	if f.isBehind() {
		return nil, plain(ClassStale, "open", f.Path(), "its name shows a newer version")
	}
	f.noteOpened(flags.Caller)
	h := f.newHandle(flags)
	if flags.Truncate {
		if err := f.Truncate(ctx, 0, h); err != nil {
			h.Release()
			return nil, err
		}
		return h, nil
	}
	h.peeks = f.mayPeek(flags)
	if h.late = h.peeks || f.mayLoadLate(flags); h.late {
		return h, nil
	}
	if err := f.load(ctx, h); err != nil {
		h.Release()
		return nil, f.failed("open", err)
	}
	return h, nil
}

// mayLoadLate reports whether the content is not needed before the first write, or read.
// An appending open always writes, so it loads now and fails at open.
func (f *File) mayLoadLate(flags OpenFlags) bool {
	if !f.isSized() {
		return false
	}
	if !flags.Write {
		return flags.NoWait
	}
	return !flags.Read && !flags.Append
}

// isLost reports whether the group is no longer ours.
func (f *File) isLost() bool {
	f.t.mu.RLock()
	defer f.t.mu.RUnlock()
	return f.group != nil && f.group.gone
}

// groupNow returns the group that the file is in: a rename may take it to another.
func (f *File) groupNow() *group {
	f.t.mu.RLock()
	defer f.t.mu.RUnlock()
	return f.group
}

// isOf reports whether the file belongs to g.
func (f *File) isOf(g *group) bool {
	f.t.mu.RLock()
	defer f.t.mu.RUnlock()
	return f.group == g
}

// load makes the content readable through h: a stage does, else the lease that
// all handles of the file share.
func (f *File) load(ctx context.Context, h *Handle) error {
	f.mu.Lock()
	ready := f.stage != nil || f.held.IsReadable()
	f.mu.Unlock()
	e := f.entryNow()
	if e != nil && (ready && !f.now.IsStaged() || f.isCached() || f.t.contents.Cache.Contains(content.KeyOf(e))) {
		if err := f.groupNow().stillMember(ctx); err != nil {
			return err
		}
	}
	if e != nil && content.IsCut(e) && !f.now.IsStaged() {
		if err := f.groupNow().knownWrong(e.Ref); err != nil {
			return err
		}
		if ready {
			return f.refuseCrawler(h.flags)
		}
	}
	if ready {
		return nil
	}
	if e == nil { // a file without a record has a stage while a name or a program has it
		return removedUnsaved()
	}
	if err := f.refuseCrawler(h.flags); err != nil {
		return err
	}
	fetch := func(ctx context.Context, room *cache.Room) (cache.Buffer, error) {
		switch {
		case !content.IsCut(e):
			return f.retrieve(ctx, e, room)
		case h.flags.Write: // it may begin anywhere
			return f.t.contents.Open(ctx, e, &f.known, &origin{f, e})
		}
		return f.t.contents.Open(ctx, e, &f.known, &origin{f, e}, f.t.contents.StartAhead())
	}
	lease, err := f.t.contents.Cache.Get(ctx, content.KeyOf(e), guardedFetch(fetch))
	if errors.Is(err, cache.ErrPurged) { // deleted or revoked while it was on its way
		if f.isLost() {
			return content.ErrTaken
		}
		return &Error{Class: ClassNotExist, Err: errors.New("the file was deleted")}
	}
	if err != nil {
		if gone := f.groupNow(); wrapRemote("", "", err).Class == ClassAccess {
			return gone.failed(ctx, "open", f.Path(), err)
		}
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stage != nil || f.held.IsReadable() {
		lease.Release()
		return nil
	}
	f.held.Release()
	f.held = f.t.contents.Hold(lease, &f.known)
	f.setSize(f.length())
	return nil
}

// Changeable refuses to change anything of a file in a read-only mount, and where
// this account is a reader.
func (f *File) Changeable(op string) error {
	if refused := f.t.readOnlyIn(f.groupNow()); refused != nil {
		return f.failed(op, refused)
	}
	return nil
}

// failed notes why an operation on f failed.
func (f *File) failed(op string, err error) error {
	return f.t.fail(op, f.Path(), err)
}

func controlOnly() *Error {
	return &Error{Class: ClassByDesign, Err: errors.New("control files are read-only"),
		Hint: "Copy it to another place to change it."}
}

func oldVersion() *Error {
	return &Error{Class: ClassByDesign, Err: errors.New("an old version does not change"),
		Hint: "Copy it over the file itself to make it the newest."}
}

func (f *File) openControl(flags OpenFlags) (*Handle, error) {
	if flags.Write || flags.Truncate {
		return nil, f.failed("open", controlOnly())
	}
	return &Handle{f: f, flags: flags, control: f.show()}, nil
}
