package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/blocks"
	"github.com/svcfs/svcfs/sdk/saving"
	"github.com/svcfs/svcfs/sdk/wire"
)

const (
	// partsAtATime is how many parts of a large save are on their way at a time: each is in memory.
	partsAtATime = 3
	// baseMemory is the memory for unchanged blocks of a large save that are read, in bytes.
	baseMemory = 32 << 20
	// mostRecent is how many files stay open when they are recorded.
	mostRecent = 16
	// mostMissing is how often blocks are sent again that the service says it has no more.
	mostMissing = 3
)

// Service is a client as a [Remote].
type Service struct {
	*sdk.Client
	recent *recentFiles
}

// NewService returns a client as a [Remote].
func NewService(c *sdk.Client) Service { return Service{c, new(recentFiles)} }

var _ Remote = Service{}

// recentFiles are large files that were recorded a moment ago, open: the next change of one takes its unchanged blocks
// over without a claim. It is safe for concurrent use.
type recentFiles struct {
	mu   sync.Mutex
	list []*sdk.Blocks // oldest first
}

// add takes an open file; nil is none.
func (r *recentFiles) add(b *sdk.Blocks) {
	if b == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.list = append(r.list, b); len(r.list) > mostRecent {
		_ = r.list[0].Close() // it only wipes
		r.list = slices.Delete(r.list, 0, 1)
	}
}

// take returns an open file, which is the caller's; nil = it is not open.
func (r *recentFiles) take(ref sdk.Ref) *sdk.Blocks {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(r.list, func(b *sdk.Blocks) bool { return b.Entry().Ref == ref })
	if at < 0 {
		return nil
	}
	b := r.list[at]
	r.list = slices.Delete(r.list, at, at+1)
	return b
}

// Forget closes the files of a group that were recorded a moment ago.
func (s Service) Forget(g sdk.GroupID) {
	s.recent.mu.Lock()
	defer s.recent.mu.Unlock()
	s.recent.list = slices.DeleteFunc(s.recent.list, func(b *sdk.Blocks) bool {
		ends := g == "" || b.Entry().Group == g
		if ends {
			_ = b.Close() // it only wipes
		}
		return ends
	})
}

// NewJournal is [sdk.Group.NewJournalKey].
func (s Service) NewJournal(ctx context.Context, g sdk.GroupID) (Key, saving.SealedJournalKey, error) {
	k, sealed, err := s.Group(g).NewJournalKey(ctx)
	if err != nil {
		return nil, sealed, err
	}
	return k, sealed, nil
}

// OpenJournal is [sdk.Group.OpenJournalKey].
func (s Service) OpenJournal(ctx context.Context, g sdk.GroupID, sealed saving.SealedJournalKey) (Key, error) {
	k, err := s.Group(g).OpenJournalKey(ctx, sealed)
	if err != nil {
		return nil, err
	}
	return k, nil
}

// SealJournal is [sdk.Group.SealJournalKey].
func (s Service) SealJournal(ctx context.Context, g sdk.GroupID, k Key) (saving.SealedJournalKey, error) {
	return s.Group(g).SealJournalKey(ctx, k.(*saving.JournalKey)) // there is no other
}

// NewSave is [sdk.Group.NewSave].
func (s Service) NewSave(g sdk.GroupID) (saving.Save, error) { return s.Group(g).NewSave() }

// Send has small saves recorded together, and each large one for itself.
func (s Service) Send(ctx context.Context, list []*Upload) []Sent {
	out := make([]Sent, len(list))
	for from := 0; from < len(list); {
		to := from
		for to < len(list) && list[to].Large == nil {
			to++
		}
		s.sendSmall(ctx, list[from:to], out[from:to])
		if to < len(list) {
			out[to].Receipt, out[to].Err = s.sendLarge(ctx, list[to])
			to++
		}
		from = to
	}
	return out
}

func (s Service) sendSmall(ctx context.Context, list []*Upload, out []Sent) {
	var sealed []*sdk.Sealed
	var at []int
	for n, u := range list {
		l, err := s.Group(u.Group).Seal(ctx, u.Name, u.Content.Bytes(), &u.Save,
			u.options())
		if err != nil {
			out[n].Err = err
			continue
		}
		defer l.Wipe()
		sealed, at = append(sealed, l), append(at, n)
	}
	for n, sent := range s.SendSealed(ctx, sealed...) {
		out[at[n]] = sent
	}
}

// sendLarge sends a large save. Its unchanged blocks are taken over at the service, where that can be.
func (s Service) sendLarge(ctx context.Context, u *Upload) (r sdk.Receipt, err error) {
	base, done, err := s.openBase(ctx, u.Large)
	if err != nil {
		return r, err
	}
	defer done()
	r, err = s.sendUpon(ctx, u, base, true)
	if base != nil && codeOf(err) == wire.CodeBase {
		r, err = s.sendUpon(ctx, u, base, false)
	}
	if codeOf(err) == wire.CodeSpent { // it is recorded, and the answer was lost
		found, lookErr := s.Group(u.Group).FindSave(ctx, u.Save, u.Size, u.Hash)
		if lookErr != nil {
			return r, lookErr
		}
		if found != nil {
			return *found, nil
		}
	}
	return r, err
}

// openBase opens the version that a save takes blocks from; nil = it takes none.
func (s Service) openBase(ctx context.Context, l *LargeUpload) (base *sdk.Blocks, done func(), err error) {
	if l.From == (From{}) {
		return nil, func() {}, nil
	}
	if base = s.recent.take(l.From.Ref); base != nil {
		return base, func() { s.recent.add(base) }, nil
	}
	if l.Open != nil {
		opened, done, err := l.Open(ctx)
		if own, ok := opened.(*sdk.Blocks); err == nil && ok {
			return own, done, nil
		}
		if err == nil {
			done()
		}
	}
	entries, err := s.Group(l.From.Group).Entries(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		if e.Ref == l.From.Ref && e.Deleted == nil {
			if base, err = s.Group(l.From.Group).OpenBlocks(ctx, e); err != nil {
				return nil, nil, err
			}
			return base, func() { _ = base.Close() }, nil // it only wipes
		}
	}
	return nil, nil, &sdk.Error{Op: "upload", Group: l.From.Group, Kind: sdk.ErrNotFound,
		Err: fmt.Errorf("the version that it was made from, %s, is gone, and with it the blocks that were not changed",
			l.From.Ref)}
}

// sendUpon sends a large save whose unchanged blocks base has. takeOver: the service takes them from there itself, if
// it can.
func (s Service) sendUpon(ctx context.Context, u *Upload, base *sdk.Blocks, takeOver bool) (r sdk.Receipt, err error) {
	l := u.Large
	over := base
	if !takeOver {
		over = nil
	}
	up, err := s.Group(u.Group).BeginBlocks(ctx, over, l.Layout.BlockBytes,
		saving.Begun{Save: u.Save, Sent: l.Sent, Note: l.Keep})
	if err != nil {
		return r, err
	}
	defer up.Abandon()
	want, hash := l.Changed, u.Hash
	read, end := s.reader(base, l)
	defer end()
	if !up.TakesOver() {
		want = format.Extents{{First: 0, Count: l.Layout.Blocks()}}
		if hash == (sdk.Digest{}) {
			if hash, err = blocks.Hash(ctx, l.Layout, make([]byte, l.Layout.BlockBytes), read()); err != nil {
				return r, err
			}
		}
	}
	for range mostMissing {
		err = blocks.PutParts(ctx, want.Without(up.Sent(want)), up.PartBlocks(), partsAtATime,
			func(ctx context.Context, part format.Extents) error {
				read := read()
				return up.PutPart(ctx, part, func(i int64, into []byte) (int, error) { return read(ctx, i, into) })
			})
		if err != nil {
			return r, err
		}
		if r, err = up.Finish(ctx, u.Name, u.Size, hash, u.options()); codeOf(err) != wire.CodeMissing {
			s.recent.add(up.Opened())
			return r, err
		}
	}
	return r, err
}

// reader makes readers of the blocks of a large save, each for reads in order. Those that were not changed are
// fetched from base, ahead; end wipes them.
func (s Service) reader(base *sdk.Blocks, l *LargeUpload) (read func() blocks.ReadBlock, end func()) {
	store := cache.New(baseMemory)
	file := &blocks.File{Source: base, Memory: &blocks.Memory{Store: store, Ahead: baseMemory / 2,
		Line: func() int64 { return s.Traffic().Line }}}
	return func() blocks.ReadBlock {
		r := new(blocks.Reader)
		return func(ctx context.Context, i int64, into []byte) (int, error) {
			into = into[:l.Layout.Plain(i)]
			if _, changed := l.Changed.Index(i); changed {
				return l.Read(i, into)
			}
			if base == nil {
				return 0, errors.New("a block was not changed, and there is no version that has it")
			}
			v, err := file.View(ctx, r, into, i*l.Layout.BlockBytes)
			if err != nil {
				return 0, err
			}
			defer v.Done()
			return copy(into, v.Bytes), nil
		}
	}, store.Close
}
