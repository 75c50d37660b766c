package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/store/pgtest"
)

// namesWorld is group g, changed as the service changes it, and what its records give.
type namesWorld struct {
	t      *testing.T
	store  *store.Store
	ledger *Ledger
	rand   *rand.Rand
	replay chain.Replay
	files  map[string]*worldFile
	made   map[string]string // recorded folders: reference by name
	next   int
}

type worldFile struct {
	name    string
	inTrash bool
}

func newNamesWorld(t *testing.T, s *store.Store, seed uint64) *namesWorld {
	t.Helper()
	w := &namesWorld{t: t, store: s, ledger: New(nil, Bounds{}, time.Now), rand: rand.New(rand.NewPCG(seed, 7)),
		files: map[string]*worldFile{}, made: map[string]string{}}
	w.write(func(tx *store.Tx) error {
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO accounts (id, credential, key_generation, balance, "+
			"created_ns) VALUES ('alice', ?, 1, '0', 1)", []byte{1}); err != nil {
			return err
		}
		_, err := tx.ExecContext(t.Context(), "INSERT INTO groups (id, owner, key_version, joinable) VALUES "+
			"('g', 'alice', 1, ?)", false)
		return err
	})
	w.record(chain.KindRegister, "", "", "")
	return w
}

func (w *namesWorld) write(f func(*store.Tx) error) {
	w.t.Helper()
	if err := w.store.Write(w.t.Context(), store.Everything(), f); err != nil {
		w.t.Fatal(err)
	}
}

// record appends a record, and changes the tables with it.
func (w *namesWorld) record(kind, ref, detail, change string, args ...any) {
	w.t.Helper()
	var tags []chain.Tag
	switch f := w.files[ref]; {
	case kind == chain.KindRenameFolder:
		tags = []chain.Tag{{Name: chain.TagFolder, Value: args[0].(string)}}
		args = args[1:]
	case f != nil && kind != chain.KindRecord && f.name != "":
		tags = []chain.Tag{{Name: chain.TagName, Value: f.name}}
	}
	if kind == chain.KindAttributes {
		tags = WithTags(tags, chain.Tag{Name: chain.TagAttributes, Value: args[0].(string)})
	}
	w.write(func(tx *store.Tx) error {
		r, err := w.ledger.Append(w.t.Context(), tx, chain.Record{Kind: kind, Account: "alice", Group: "g", Ref: ref,
			Detail: detail, Tags: tags})
		if err != nil {
			return err
		}
		for i := range args {
			if args[i] == nil {
				args[i] = r.Seq
			}
		}
		if change != "" {
			_, err = tx.ExecContext(w.t.Context(), store.Query(change), args...)
		}
		w.replay.Apply(&r)
		return err
	})
}

func (w *namesWorld) aName() string {
	parts := []string{"a", "b", "c", "deep"}[:1+w.rand.IntN(4)]
	return strings.Join(parts[w.rand.IntN(len(parts)):], "/") + fmt.Sprint("/", w.rand.IntN(30))
}

func (w *namesWorld) some(inTrash bool) string {
	var refs []string
	for _, ref := range slices.Sorted(maps.Keys(w.files)) {
		if w.files[ref].inTrash == inTrash {
			refs = append(refs, ref)
		}
	}
	if len(refs) == 0 {
		return ""
	}
	return refs[w.rand.IntN(len(refs))]
}

func (w *namesWorld) upload(name string) {
	w.next++
	ref := fmt.Sprint("ref", w.next)
	w.files[ref] = &worldFile{name: name}
	w.record(chain.KindRecord, ref, name, `INSERT INTO files (ref, group_id, seq, changed_seq, named_seq, tx_id,
		uploader, file_hash, time_ns, filename, content_type, format, blob_id, blob_size, blob_sum, key_version) VALUES
		(?, 'g', ?, 0, 0, '', 'alice', '', 1, ?, '', '', ?, 1, ?, 1)`, ref, nil, name, ref, []byte{1})
}

// change makes one change, as far as it is one that the service would make.
func (w *namesWorld) change() {
	living, gone := w.some(false), w.some(true)
	switch k := w.rand.IntN(12); {
	case k < 3 || living == "":
		w.upload(w.aName())
	case k == 3:
		w.upload("")
	case k == 4:
		name := w.aName()
		w.record(chain.KindRename, living, name, "UPDATE files SET filename = ? WHERE ref = ?", name, living)
		w.files[living].name = name
	case k == 5:
		w.record(chain.KindRemove, living, "", "UPDATE files SET trash_ns = 1 WHERE ref = ?", living)
		w.files[living].inTrash = true
	case k == 6 && gone != "":
		w.record(chain.KindRestore, gone, "", "UPDATE files SET trash_ns = NULL WHERE ref = ?", gone)
		w.files[gone].inTrash = false
	case k == 7:
		w.record(chain.KindTombstone, living, "", "UPDATE files SET deleted_ns = 1 WHERE ref = ?", living)
		delete(w.files, living)
	case k == 8:
		w.record(chain.KindAttributes, living, "", "UPDATE files SET attributes = ? WHERE ref = ?",
			fmt.Sprint(w.next), living)
	case k == 9:
		w.changeFolder(w.aName())
	case k > 9:
		w.moveFolder([]string{"a", "b", "c/deep", "z", "a/y"}[w.rand.IntN(5)],
			[]string{"a/y", "z", "b", "x/c"}[w.rand.IntN(4)])
	}
}

func (w *namesWorld) changeFolder(name string) {
	if ref := w.made[name]; ref != "" {
		w.record(chain.KindRemoveFolder, ref, name, "DELETE FROM folders WHERE ref = ?", ref)
		delete(w.made, name)
		return
	}
	w.next++
	ref := fmt.Sprint("folder", w.next)
	w.made[name] = ref
	w.record(chain.KindMakeFolder, ref, name, "INSERT INTO folders (ref, group_id, account, seq, time_ns, path) "+
		"VALUES (?, 'g', 'alice', ?, 1, ?)", ref, nil, name+"/")
}

func (w *namesWorld) moveFolder(before, after string) {
	if !chain.IsFolderMove(before, after) {
		return
	}
	taken, files, folders := map[string]bool{}, map[string]string{}, map[string]string{}
	for ref, f := range w.files {
		if rest, is := strings.CutPrefix(f.name, before+"/"); is && !f.inTrash {
			files[ref] = after + "/" + rest
		} else if !f.inTrash {
			taken[f.name] = true
		}
	}
	for name, ref := range w.made {
		if rest, is := strings.CutPrefix(name+"/", before+"/"); is {
			folders[ref] = strings.TrimSuffix(after+"/"+rest, "/")
		} else {
			taken[name+"/"] = true
		}
	}
	for _, name := range files {
		if taken[name] {
			return
		}
	}
	for _, name := range folders {
		if taken[name+"/"] {
			return
		}
	}
	w.record(chain.KindRenameFolder, "", after, `UPDATE files SET filename = CAST(? AS TEXT) || substr(filename, ?)
		WHERE group_id = 'g' AND deleted_ns IS NULL AND trash_ns IS NULL AND substr(filename, 1, ?) = ?`, before, after,
		len(before)+1, len(before)+1, before+"/")
	w.write(func(tx *store.Tx) error {
		_, err := tx.ExecContext(w.t.Context(), "UPDATE folders SET path = CAST(? AS TEXT) || substr(path, ?) WHERE "+
			"substr(path, 1, ?) = ?", after, len(before)+1, len(before)+1, before+"/")
		return err
	})
	for ref, name := range files {
		w.files[ref].name = name
	}
	for ref, name := range folders {
		maps.DeleteFunc(w.made, func(_, other string) bool { return other == ref })
		w.made[name] = ref
	}
}

// follows brings the kept tree up in steps of so many records, and compares it with what the records give.
func (w *namesWorld) follows(most int, keeps bool) {
	w.t.Helper()
	for {
		var n *Names
		var tree *chain.Names
		var end chain.Place
		err := w.store.Read(w.t.Context(), func(tx *store.Tx) (err error) {
			if end, err = ChainEnd(w.t.Context(), tx, chain.OfGroup("g")); err != nil {
				return err
			}
			if n, err = KeptNames(w.t.Context(), tx, "g"); err == nil {
				tree, err = n.Follow(w.t.Context(), tx, most)
			}
			return err
		})
		if err != nil {
			w.t.Fatal(err)
		}
		isDone := n.Number == end.Number
		if isDone && tree.Root() != w.replay.Root() {
			w.t.Fatalf("the tree of record %d is another one", n.Number)
		}
		if keeps || !isDone {
			if err := n.Save(w.t.Context(), w.store, tree); err != nil {
				w.t.Fatal(err)
			}
		}
		if isDone {
			return
		}
	}
}

func (w *namesWorld) audits() {
	w.t.Helper()
	err := w.store.Read(w.t.Context(), func(tx *store.Tx) error { return CompareNames(w.t.Context(), tx) })
	if err != nil {
		w.t.Fatal(err)
	}
}

// onBoth runs a test on both engines.
func onBoth(t *testing.T, test func(*testing.T, *store.Store)) {
	for name, open := range map[string]func(*testing.T) (*store.Store, error){
		"sqlite": func(t *testing.T) (*store.Store, error) { return store.Open(t.Context(), t.TempDir(), "") },
		"postgres": func(t *testing.T) (*store.Store, error) {
			return store.Open(t.Context(), "", pgtest.Start(t).NewDatabase(t))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			test(t, s)
		})
	}
}

// Whatever changed in a group: the kept tree that follows, in steps of any length, is the one that the records give.
func TestThreat26KeptNamesFollowTheRecords(t *testing.T) {
	onBoth(t, func(t *testing.T, s *store.Store) {
		w := newNamesWorld(t, s, 3)
		build := func() {
			t.Helper()
			if err := BuildNames(t.Context(), s, "g", 1); err != nil {
				t.Fatal(err)
			}
		}
		build()
		for range 30 {
			for range w.rand.IntN(25) {
				w.change()
			}
			w.audits()
			w.follows(1+w.rand.IntN(12), w.rand.IntN(3) > 0)
			if w.rand.IntN(12) == 0 {
				build()
				w.follows(1, false)
			}
		}
		w.audits()
	})
}

// A tree that is built while files change has what they became, once it follows; it starts over where a folder was
// renamed; and of several builds one is kept, and no page of the others.
func TestNamesAreBuiltWhileFilesChange(t *testing.T) {
	onBoth(t, func(t *testing.T, s *store.Store) {
		w := newNamesWorld(t, s, 4)
		for range buildPiece + 100 {
			w.upload(w.aName())
		}
		changes := func() {
			for range 40 {
				if k := w.rand.IntN(2); k == 0 {
					w.upload(w.aName())
				} else if living := w.some(false); living != "" {
					name := w.aName()
					w.record(chain.KindRename, living, name, "UPDATE files SET filename = ? WHERE ref = ?", name,
						living)
					w.files[living].name = name
				}
			}
		}
		b := &builder{store: s, Names: Names{group: "g"}}
		must(t, b.begin(t.Context()))
		changes()
		list, err := b.next(t.Context(), place{}, 900)
		must(t, err)
		if !slices.IsSortedFunc(list, place.compare) || len(list) != 900 {
			t.Errorf("%d files in order", len(list))
		}
		must(t, b.fill(t.Context(), 700))
		changes()
		must(t, b.end(t.Context()))
		w.follows(300, true)
		late := &builder{store: s, Names: Names{group: "g"}}
		must(t, late.begin(t.Context()))
		must(t, late.fill(t.Context(), 1e6))
		w.moveFolder("a", "moved")
		if err := late.end(t.Context()); !errors.Is(err, ErrMoved) {
			t.Errorf("a folder was renamed: %v", err)
		}
		slow := &builder{store: s, Names: Names{group: "g"}}
		must(t, slow.begin(t.Context()))
		must(t, slow.fill(t.Context(), 1e6))
		must(t, BuildNames(t.Context(), s, "g", 1))
		if err := slow.end(t.Context()); !errors.Is(err, errOvertaken) {
			t.Errorf("another process was faster: %v", err)
		}
		must(t, BuildNames(t.Context(), s, "g", 1))
		var builds int
		must(t, s.Read(t.Context(), func(tx *store.Tx) error {
			return tx.QueryRowContext(t.Context(), "SELECT count(DISTINCT build) FROM name_pages").Scan(&builds)
		}))
		if builds != 1 {
			t.Errorf("the pages of %d builds are kept", builds)
		}
		w.follows(300, false)
		w.audits()
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Of two processes that bring up one tree at the same time, one keeps it.
func TestTreesAreKeptOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, s *store.Store) {
		w := newNamesWorld(t, s, 5)
		must(t, BuildNames(t.Context(), s, "g", 1))
		follow := func(most int) (n *Names, tree *chain.Names) {
			must(t, s.Read(t.Context(), func(tx *store.Tx) (err error) {
				if n, err = KeptNames(t.Context(), tx, "g"); err == nil {
					tree, err = n.Follow(t.Context(), tx, most)
				}
				return err
			}))
			return n, tree
		}
		for range 30 {
			w.upload(w.aName())
		}
		first, tree := follow(10)
		second, other := follow(20)
		must(t, first.Save(t.Context(), s, tree))
		must(t, second.Save(t.Context(), s, other))
		if n, _ := follow(1); n.Number-1 != first.Number {
			t.Errorf("the tree of record %d is kept, want %d", n.Number, first.Number)
		}
		w.follows(5, true)
		w.audits()
		must(t, s.Write(context.WithoutCancel(t.Context()), store.Everything(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(), "UPDATE name_pages SET data = ?", []byte("else"))
			return err
		}))
		err := s.Read(t.Context(), func(tx *store.Tx) error { return CompareNames(t.Context(), tx) })
		if !errors.Is(err, ErrBroken) || !errors.Is(err, chain.ErrPages) {
			t.Errorf("the audit of damaged pages: %v", err)
		}
	})
}
