package tree

import (
	"context"
	"errors"
	"iter"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/svcfs/svcfs/fs/tree/treetest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/outbox"
)

// Random operations, of this mount and of others, against a small model. The mount learns
// of the others' by looking at the ledger, or from events of the watch.
func TestModel(t *testing.T) {
	for _, tc := range []struct {
		name    string
		allows  treetest.Allows
		watches bool
		large   bool // files of more than a few bytes are cut into blocks
	}{
		{"hosted service", treetest.Allows{}, false, false},
		{"ours", treetest.Allows{Ours: true}, false, false},
		{"deletes", treetest.Allows{Ours: true, Delete: true}, false, false},
		{"watched", treetest.Allows{Ours: true}, true, false},
		{"deletes, watched", treetest.Allows{Ours: true, Delete: true}, true, false},
		{"outbox", treetest.Allows{Ours: true, Outbox: true}, false, false},
		{"outbox, deletes", treetest.Allows{Ours: true, Delete: true, Outbox: true}, false, false},
		{"outbox, large files", treetest.Allows{Ours: true, Outbox: true, Blocks: true}, false, true},
		{"large files", treetest.Allows{Ours: true, Blocks: true}, false, true},
		{"large files, watched", treetest.Allows{Ours: true, Blocks: true}, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.allows.Asides = true
			rapid.Check(t, func(rt *rapid.T) {
				w := treetest.NewWorld()
				w.Member("team", bob, alice) // bob owns it
				if tc.large {
					w.BlocksAbove, w.BlockBytes = treetest.BlocksAbove, 4
				}
				s := &modelSystem{w: w}
				change := func(c *Config) {
					c.MaxFileBytes, c.MaxBlocksBytes = treetest.MaxBytes, treetest.MaxBytes
					keeps(c)
					still(c)
					c.Ours, c.AllowDelete = tc.allows.Ours, tc.allows.Delete
					if tc.watches {
						s.events = make(chan sdk.Event)
						c.Watch = func(context.Context, sdk.Seq) (iter.Seq2[sdk.Event, error], error) {
							return treetest.Events(s.events), nil
						}
					}
				}
				if tc.allows.Outbox {
					b := mountBoxedAs(t, w, bob, "team", change)
					defer b.end()
					s.m = b.mounted
					treetest.Run(rt, &boxedSystem{s, b}, tc.allows)
					return
				}
				s.m = mount(t, w, bob, change)
				if tc.watches {
					defer close(s.events)
				}
				treetest.Run(rt, s, tc.allows)
			})
		})
	}
}

// boxedSystem is a tree with an outbox. Between two steps everything has been sent, or the first item was sent in
// vain.
type boxedSystem struct {
	*modelSystem
	box *boxed
}

func (s *boxedSystem) List() []string {
	switch {
	case len(s.box.box.Items()) == 0:
	case s.box.away.Load() == nil:
		s.box.drained()
	default:
		waitTried(s.box)
	}
	return s.modelSystem.List()
}

func (s *boxedSystem) Leave() {
	s.box.down()
	s.w.Fail("begin blocks", errAway)
}

func (s *boxedSystem) Return() {
	s.w.Fail("begin blocks", nil)
	s.box.up()
	s.box.drained()
}

func (s *boxedSystem) Restart() {
	s.w.Fail("begin blocks", nil)
	s.box.restart(func() { s.box.away.Store(nil) })
	s.box.drained()
	s.m, s.inodes = s.box.mounted, nil
}

// modelSystem is a tree as the model's machine drives it.
type modelSystem struct {
	m      *mounted
	w      *world
	events chan sdk.Event  // of the watch; nil without one
	inodes map[uint64]Node // that a listing ever showed
}

type modelHandle struct{ h *Handle }

// asides are the names of saves that others overtook, where the clock stands still.
var asides = regexp.MustCompile(` \(conflict bob\.svc\.testnet 2023-11-1\d \d\d\.\d\d\.20( \d+)?\)$`)

// modelName is the name that the model has for a save of its own name.
func modelName(name string) string {
	m := asides.FindStringSubmatchIndex(name)
	switch {
	case m == nil:
		return name
	case m[2] < 0:
		return name[:m[0]] + "!1"
	}
	return name[:m[0]] + "!" + strings.TrimSpace(name[m[2]:m[3]])
}

// asideOf is what modelName was made of.
func asideOf(name string) string {
	base, n, ok := strings.Cut(name, "!")
	if !ok {
		return name
	}
	k, _ := strconv.Atoi(n)
	return outbox.ConflictName(base, bob, time.Unix(1_700_000_000, 0), k-1)
}

func outcome(err error) string {
	var e *Error
	switch {
	case err == nil:
		return treetest.OK
	case !errors.As(err, &e):
		return err.Error()
	}
	switch e.Class {
	case ClassNotExist, ClassStale: // the kernel follows the link, which leads nowhere
		return treetest.NoEntry
	case ClassExist:
		return treetest.Exists
	case ClassNotEmpty:
		return treetest.Full
	case ClassByDesign:
		return treetest.Refused
	case ClassRevoked:
		return treetest.Revoked
	case ClassTooBig:
		return treetest.TooBig
	case ClassNoAttribute:
		return treetest.NoAttr
	case ClassUnreachable:
		return treetest.Away
	default:
		return err.Error()
	}
}

// in calls do with the folder that a name lies in, and its last component.
func (s *modelSystem) in(name string, do func(d *Dir, base string) error) string {
	n, err := s.m.lookup("/team/" + path.Dir(name))
	if err != nil {
		return outcome(err)
	}
	return outcome(do(n.(*Dir), path.Base(name)))
}

func (s *modelSystem) create(name string, flags OpenFlags) (h treetest.Handle, how string) {
	how = s.in(name, func(d *Dir, base string) error {
		_, made, err := d.Create(context.Background(), base, false, flags)
		h = modelHandle{made}
		return err
	})
	return h, how
}

func (s *modelSystem) Create(name string) (treetest.Handle, string) {
	return s.create(name, OpenFlags{Read: true, Write: true, Truncate: true})
}

func (s *modelSystem) Open(name string) (treetest.Handle, string) {
	n, err := s.follow(name)
	if err != nil {
		return nil, outcome(err)
	}
	h, err := n.Open(context.Background(), OpenFlags{Read: true, Write: true})
	return modelHandle{h}, outcome(err)
}

func (s *modelSystem) Touch(name string) string {
	h, how := s.create(name, OpenFlags{Write: true})
	if how != treetest.OK {
		return how
	}
	return h.Close()
}

func (s *modelSystem) Resize(name string, size int) string {
	n, err := s.follow(name)
	if err != nil {
		return outcome(err)
	}
	return outcome(n.Truncate(context.Background(), int64(size), nil))
}

func (s *modelSystem) Rename(from, to string) string {
	return s.in(from, func(d *Dir, base string) error {
		n, err := s.m.lookup("/team/" + path.Dir(to))
		if err != nil {
			return err
		}
		return d.Rename(context.Background(), base, n.(*Dir), path.Base(to), false)
	})
}

func (s *modelSystem) Unlink(name string) string {
	return s.in(name, func(d *Dir, base string) error { return d.Unlink(context.Background(), base) })
}

func (s *modelSystem) Link(from, to string) string {
	n, err := s.m.lookup("/team/" + from)
	if err != nil {
		return outcome(err)
	}
	return s.in(to, func(d *Dir, base string) error { return d.Link(context.Background(), n.(*File), base) })
}

func (s *modelSystem) Mkdir(name string) string {
	return s.in(name, func(d *Dir, base string) error {
		_, err := d.Mkdir(context.Background(), base)
		return err
	})
}

func (s *modelSystem) Rmdir(name string) string {
	return s.in(name, func(d *Dir, base string) error { return d.Rmdir(context.Background(), base) })
}

// follow finds a file as the kernel does: behind a link there is none.
func (s *modelSystem) follow(name string) (*File, error) {
	n, err := s.m.lookup("/team/" + asideOf(name))
	if err != nil {
		return nil, err
	}
	if n.Attr().Link {
		return nil, plain(ClassNotExist, "follow", name, "it leads nowhere")
	}
	return n.(*File), nil
}

func (s *modelSystem) Symlink(target, name string) string {
	return s.in(name, func(d *Dir, base string) error {
		_, err := d.Symlink(context.Background(), target, base)
		return err
	})
}

func (s *modelSystem) Readlink(name string) string {
	n, err := s.m.lookup("/team/" + asideOf(name))
	if err != nil || !n.Attr().Link {
		return ""
	}
	target, err := n.(*File).Readlink()
	return target + strings.TrimPrefix(outcome(err), treetest.OK)
}

func (s *modelSystem) Read(name string) (string, string) {
	if _, err := s.follow(name); err != nil {
		return "", outcome(err)
	}
	got, err := s.m.read("/team/" + asideOf(name))
	return got, outcome(err)
}

func (s *modelSystem) List() (list []string) {
	for _, name := range s.m.names("/team") {
		n := s.m.node("/team/" + name)
		list = append(list, s.shared(n)...)
		d, ok := n.(*Dir)
		if !ok {
			list = append(list, modelName(name))
			continue
		}
		list = append(list, name+"/")
		for _, beneath := range s.m.names(d.Path()) {
			list = append(list, name+"/"+modelName(beneath))
			list = append(list, s.shared(s.m.node(d.Path()+"/"+beneath))...)
		}
	}
	slices.Sort(list)
	return list
}

// shared is a name that no model has when another file ever had the inode number of n (A4).
func (s *modelSystem) shared(n Node) []string {
	ino := n.Attr().Ino
	if s.inodes == nil {
		s.inodes = make(map[uint64]Node)
	}
	other := s.inodes[ino]
	s.inodes[ino] = n
	if other == nil || other == n {
		return nil
	}
	return []string{n.Path() + " has the inode number of another file"}
}

// happened makes the tree see a change by another account: it gets an event, and has applied
// that once it takes the next event; or it looks at the ledger.
func (s *modelSystem) happened(kind string) {
	if s.events == nil {
		_ = s.m.Refresh(context.Background())
		return
	}
	s.events <- sdk.Event{Kind: kind, Group: "team", Account: bob, ChangedSeq: s.w.Seq()}
	s.events <- sdk.Event{Kind: "of no concern"}
	s.m.look.Wait()
}

func (s *modelSystem) on(name string, do func(f *File) error) string {
	f, err := s.follow(name)
	if err != nil {
		return outcome(err)
	}
	return outcome(do(f))
}

func (s *modelSystem) Chmod(name string, runs bool) string {
	mode := map[bool]uint32{false: 0o600, true: 0o700}[runs]
	return s.on(name, func(f *File) error { f.SetMode(mode); return nil })
}

func (s *modelSystem) Times(name string, when int64) string {
	return s.on(name, func(f *File) error { f.SetTimes(time.Unix(when, 0)); return nil })
}

func (s *modelSystem) Note(name, value string) string {
	return s.on(name, func(f *File) error {
		if value == "" {
			return f.RemoveXattr("user.note")
		}
		return f.SetXattr("user.note", value, XattrSet)
	})
}

func (s *modelSystem) Shown(name string) treetest.Shown { return shown(s.m, name) }

func shown(m *mounted, name string) treetest.Shown {
	f := m.file("/team/" + asideOf(name))
	note, _ := f.Xattr("user.note")
	return treetest.Shown{Runs: f.Attr().Executable, Note: note, When: f.Attr().Mtime.Unix()}
}

func (s *modelSystem) Keep() { s.m.KeepAttributes(context.Background()) }

func (s *modelSystem) Recorded(name string) treetest.Shown {
	m := mount(s.m.t, s.w, alice, keeps)
	defer func() { _ = m.Close() }()
	return shown(m, name)
}

func (s *modelSystem) Put(name, data string) {
	s.w.Put("team", alice, name, []byte(data))
	s.happened(sdk.EventUploaded)
}

func (s *modelSystem) PutLink(name, target string) {
	putLink(s.w, alice, name, target)
	s.happened(sdk.EventUploaded)
}

func (s *modelSystem) Shred(nth int) {
	s.w.Shred("team", s.w.Rows("team")[nth].Ref)
	s.happened(sdk.EventDeleted)
}

func (s *modelSystem) Moved(nth int, name string) {
	_, _ = s.w.As(bob).RenameFile(context.Background(), "team", s.w.Rows("team")[nth].Ref, name)
	s.happened(sdk.EventRenamed)
}

func (s *modelSystem) MovedFolder(from, to string) {
	_, _ = s.w.As(bob).RenameFolder(context.Background(), "team", from, to, s.w.Seq()) // refused where a name is in use
	s.happened(sdk.EventFolderRenamed)
}

func (s *modelSystem) MadeFolder(name string) {
	_, _ = s.w.As(alice).MakeFolder(context.Background(), "team", name)
	s.happened(sdk.EventFolderMade)
}

func (s *modelSystem) RemovedFolder(name string) {
	_, _ = s.w.As(bob).RemoveFolder(context.Background(), "team", name) // refused where a file is in it
	s.happened(sdk.EventFolderRemoved)
}

func (s *modelSystem) Removed(name string) {
	_, _ = s.w.As(bob).RemoveVersions(context.Background(), "team", s.w.Named("team", name))
	s.happened(sdk.EventRemoved)
}

func (s *modelSystem) Restored(name string) {
	_, _ = s.w.As(bob).RestoreVersions(context.Background(), "team", s.w.Named("team", name))
	s.happened(sdk.EventRestored)
}

func (s *modelSystem) Member(on bool) {
	if on {
		s.w.Member("team", bob)
		s.happened(sdk.EventAdded)
		return
	}
	s.w.Revoke("team", bob)
	s.happened(sdk.EventRevoked)
}

func (s *modelSystem) Uploads() int {
	_, uploads := s.w.Charged()
	return uploads
}

func (h modelHandle) Read() (string, string) {
	p := make([]byte, 100)
	n, err := h.h.ReadAt(context.Background(), p, 0)
	return string(p[:n]), outcome(err)
}

func (h modelHandle) Write(data string, off int) string {
	_, err := h.h.WriteAt(context.Background(), []byte(data), int64(off))
	return outcome(err)
}

func (h modelHandle) Truncate(size int) string {
	return outcome(h.h.File().Truncate(context.Background(), int64(size), h.h))
}

func (h modelHandle) Sync() string { return outcome(h.h.Fsync(context.Background())) }

func (h modelHandle) Close() string {
	defer h.h.Release()
	return outcome(h.h.Flush(context.Background()))
}
