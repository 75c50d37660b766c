package sdk

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/internal/nameroots"
	"github.com/svcfs/svcfs/sdk/proof"
	"github.com/svcfs/svcfs/sdk/trust"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// verifyNames verifies all records of a group as a list does, and that its entries give the root of names that the
// service signs, and those that it signed for earlier questions. It returns how many files the list has, and the root,
// "" = none was signed. It follows a share of the files at a time, and reads the records once for each share: the
// memory does not grow with the group. A group that fits is one share.
func (h *chains) verifyNames(ctx context.Context, g GroupID) (files int, root string, err error) {
	end, err := h.c.lists.begin(ctx, h.c.lists.paged)
	if err != nil {
		return 0, "", err
	}
	defer end()
	n := newNameCheck(h, g)
	defer n.close()
	for next := (share{0, allHashes}); next.from < allHashes && err == nil; {
		var used int64
		used, err = n.read(ctx, next)
		if errors.Is(err, errShareFull) {
			next, err = next.half(), nil
		} else {
			next = next.after(used, h.c.lists.share)
		}
	}
	if err == nil {
		err = n.compare(ctx)
	}
	return n.files, n.signed.Root, err
}

// share is the files whose references have hashes from one on, up to another one.
type share struct{ from, to int64 }

const (
	// allHashes is behind the hashes of references. A share of no more than leastShare is not made smaller: there are
	// some 2,000 at most.
	allHashes  = 1 << 62
	leastShare = allHashes >> 10
)

func (s share) isAll() bool { return s == share{0, allHashes} }

func (s share) half() share { return share{s.from, s.from + (s.to-s.from)/2} }

// after returns the next share, which nearly fills the memory for one, as this one used so many bytes of it.
func (s share) after(used, room int64) share {
	width := max(float64(s.to-s.from)*0.9*float64(room)/float64(used+1), leastShare/2)
	if width >= float64(allHashes-s.to) {
		return share{s.to, allHashes}
	}
	return share{s.to, s.to + int64(width)}
}

// errShareFull means that the files of a share take more memory than they may.
var errShareFull = errors.New("the files of a share fill their memory")

// nameCheck is what is verified of the names of a group.
type nameCheck struct {
	h     *chains
	group GroupID
	seed  maphash.Seed    // of shares: no service can fill one
	held  int64           // bytes
	moved map[int64]int64 // bytes of new names, by the sequence of the record that renamed a folder
	work  int64           // all of them
	files int

	stated []chain.Place // at which roots of names were signed before; a hash once its record was read
	at     map[int64]int // those, by number
	roots  *nameroots.Roots

	end        proof.Cursor // of the records; the zero value until the first share was read
	checkpoint proof.Checkpoint
	log        *proof.Log
	signed     wire.SignedNames // the root at the end; the zero value = none
	nonce      string
}

func newNameCheck(h *chains, g GroupID) *nameCheck {
	n := &nameCheck{h: h, group: g, seed: maphash.MakeSeed(), moved: map[int64]int64{}, at: map[int64]int{}}
	for _, names := range h.c.memory.Names(string(g)) {
		if _, twice := n.at[names.Number]; !twice {
			n.at[names.Number] = len(n.stated)
			n.stated = append(n.stated, chain.Place{Number: names.Number})
		}
	}
	n.roots = nameroots.New(len(n.stated)+1, h.c.cfg.SpoolDir)
	return n
}

func (n *nameCheck) close() {
	n.roots.Close()
	_ = n.h.c.lists.hold(-n.held)
}

// read reads one share, and returns how many bytes it used.
func (n *nameCheck) read(ctx context.Context, of share) (used int64, err error) {
	fold := newFolding(n.h.c.lists, n.group, verified{}, nil)
	fold.names = &nameShare{check: n, share: of}
	defer fold.release()
	if err := n.h.readChain(ctx, n.group, verified{}, fold); err != nil {
		return 0, err
	}
	used = fold.held
	return used, n.h.c.log.refusal(ctx, n.log, fold.names.end(fold))
}

// take takes the end of a list, which is proven. The first one says up to which record all are looked at.
func (n *nameCheck) take(log *proof.Log, checkpoint proof.Checkpoint, listing *proof.Listing,
	signed *wire.SignedNames, nonce string) (err error) {
	switch at := listing.Cursor().Number; {
	case at < n.end.Number:
		return &proof.Refusal{Text: fmt.Sprintf("%d records are listed, and a moment ago were %d", at, n.end.Number)}
	case n.end.Number > 0:
		return nil
	}
	n.log, n.checkpoint, n.end, n.nonce = log, checkpoint, listing.Cursor(), nonce
	if signed != nil {
		n.signed = *signed
		_, err = listing.Names(log, n.signed, nonce)
	}
	return err
}

// compare compares the roots that the entries give with those that the service signed, and remembers how far the group
// has come.
func (n *nameCheck) compare(ctx context.Context) error {
	roots, err := n.roots.Sum(ctx)
	switch {
	case ctx.Err() != nil:
		return call.Ended(ctx)
	case err != nil:
		return noSpool(err)
	}
	c, name := n.h.c, string(n.group)
	for i, at := range n.stated {
		if at.Hash == (chain.Hash{}) {
			continue
		}
		given := trust.Names{SignedNames: wire.SignedNames{Root: hex.EncodeToString(roots[i][:])}}
		given.Number, given.Hash = at.Number, hex.EncodeToString(at.Hash[:])
		if err := c.memory.SawNames(name, given); err != nil {
			return c.log.refusal(ctx, n.log, err)
		}
	}
	if n.signed.Root != "" {
		given := roots[len(n.stated)]
		if hex.EncodeToString(given[:]) != n.signed.Root {
			return c.log.refusal(ctx, n.log, proof.OtherNames(n.end.Number))
		}
		if err := n.h.sawNames(ctx, n.log, n.group, &n.signed, n.nonce); err != nil {
			return err
		}
	}
	return n.h.seen(n.group, n.checkpoint, verified{Cursor: n.end})
}

// nameShare follows the names of a share of the files. A nil one is of a list, which has all of them.
type nameShare struct {
	check   *nameCheck
	share   share
	files   []followed // by their places in the entries
	changes []nameroots.Change
	moved   map[int64]int64 // as in nameCheck
	bytes   int64
}

// followed is what an entry does not tell of a file or folder.
type followed struct {
	chain.Place        // of the record that uploaded the file or made the folder
	attributes  string // as recorded
	told        told
	isTold      bool // a change is about it
}

// told is what the changes tell of it.
type told struct {
	lives            bool
	name, attributes string
}

// followedBytes is the memory of a followed file, beside its entry, in bytes.
const followedBytes = 200

// bytesOfChange is the memory of a change of what has a name.
func bytesOfChange(name string) int64 {
	return 200 + int64(len(chain.Hash{})*(1+strings.Count(name, "/")))
}

// has reports whether a record is about a file of the share, or about all.
func (s *nameShare) has(r *chain.Record) bool {
	if s == nil || s.share.isAll() || r.Kind == EventFolderRenamed {
		return true
	}
	hash := int64(maphash.String(s.check.seed, r.Ref) % allHashes)
	return s.share.from <= hash && hash < s.share.to
}

// isFirst reports whether the end of the records is not known.
func (s *nameShare) isFirst() bool { return s != nil && s.check.end.Number == 0 }

// ends reports whether a record is behind the last one that is looked at.
func (s *nameShare) ends(r *chain.Record) bool {
	return s != nil && !s.isFirst() && r.Number > s.check.end.Number
}

// isFull reports whether so many bytes are more than a share may take.
func (s *nameShare) isFull(bytes int64) bool {
	return s != nil && bytes > s.check.h.c.lists.share && len(s.files) > 1 && s.share.to-s.share.from > leastShare
}

// moves notes what the rename of a folder moved of the share.
func (s *nameShare) moves(seq, bytes int64) {
	if s == nil || s.share.isAll() || bytes == 0 {
		return
	}
	if s.moved == nil {
		s.moved = map[int64]int64{}
	}
	s.moved[seq] = bytes
	s.bytes += markBytes
}

// take takes the next record, which f has taken.
func (s *nameShare) take(f *folding, r *chain.Record) error {
	for len(s.files) < len(f.entries) {
		s.bytes += followedBytes + bytesOfChange(f.entries[len(s.files)].Name) // each is told once, at least
		s.files = append(s.files, followed{})
	}
	if i, known := f.at[Ref(r.Ref)]; known {
		switch file := &s.files[i]; r.Kind {
		case EventUploaded:
			file.Place, file.attributes = chain.PlaceOf(r), r.Tag(chain.TagAttributes)
		case EventFolderMade:
			file.Place = chain.PlaceOf(r)
		case EventAttributes:
			file.attributes = r.Tag(chain.TagAttributes)
		}
	}
	if i, stated := s.check.at[r.Number]; stated {
		s.check.stated[i].Hash = r.Sum()
		s.tell(f, i)
	}
	if end := s.check.end.Place; r.Number == end.Number && chain.PlaceOf(r) != end {
		return &proof.Refusal{Row: r.Seq, Text: "it, or one before it in its chain, is not the one that was listed a " +
			"moment ago"}
	}
	return nil
}

// tell tells what changed in the names up to a place.
func (s *nameShare) tell(f *folding, at int) {
	for i := range f.entries {
		e, file := &f.entries[i], &s.files[i]
		now := told{lives: e.Deleted == nil}
		if now.lives {
			now.name, now.attributes = e.Name, file.attributes
		}
		if now == file.told {
			continue
		}
		if file.told.lives {
			s.change(e, file, at, true)
		}
		if file.told = now; now.lives {
			s.change(e, file, at, false)
		}
	}
}

func (s *nameShare) change(e *Entry, file *followed, at int, gone bool) {
	v := chain.Living{Ref: string(e.Ref), Place: file.Place, Attributes: file.told.attributes}
	item := chain.NewItem(file.told.name, e.Folder, v)
	s.changes = append(s.changes, nameroots.Change{Item: item, At: at, Gone: gone})
	if file.isTold {
		s.bytes += bytesOfChange(file.told.name)
	}
	file.isTold = true
}

// end ends the share, whose records are all proven.
func (s *nameShare) end(f *folding) error {
	n, more := s.check, s.share.to < allHashes
	for i := range f.entries {
		if !f.entries[i].Folder {
			n.files++
		}
	}
	n.work += f.moved
	if f.isEndless(n.work, n.h.mostMoved()) {
		return errNoEnd
	}
	if err := n.addMoves(s.moved); err != nil {
		return err
	}
	s.tell(f, len(n.stated))
	if err := f.hold(f.bytes + s.bytes); err != nil {
		return err
	}
	if f.release(); !more { // what is told stays in memory
		if err := n.hold(s.bytes); err != nil {
			return err
		}
	}
	return noSpool(n.roots.Add(s.changes, more))
}

// noSpool is the error of a disk.
func noSpool(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: "keep names on disk", Kind: ErrOther, Code: wire.CodeSpool, Err: err}
}

// addMoves adds what renamed folders moved of a share: one record moves no more than it may of all.
func (n *nameCheck) addMoves(moved map[int64]int64) error {
	for seq, bytes := range moved {
		if n.moved[seq] == 0 {
			if err := n.hold(markBytes); err != nil {
				return err
			}
		}
		if n.moved[seq] += bytes; n.moved[seq] > chain.MaxMoveBytes {
			return refuseMove(seq)
		}
	}
	return nil
}

func (n *nameCheck) hold(bytes int64) error {
	n.held += bytes
	return n.h.c.lists.hold(bytes)
}
