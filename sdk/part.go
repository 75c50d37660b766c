package sdk

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/proof"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// DefaultSmallGroup is the longest chain of a group that is read as a whole, in records, where [Config].SmallGroup is
// 0: that takes one request, too, and proves that the names are those of the records.
const DefaultSmallGroup = 1000

// wholeList is the error where a group is read as a whole.
func wholeList(why string) error {
	return &Error{Op: "prove a name", Kind: ErrUnsupported, Err: errors.New(why + ": list the group")}
}

// Child is what a folder of a group has under one name.
type Child struct {
	Name string // the last part of the path: as [Group.Files] shows it, and as it is recorded
	// File is the newest version of the file, nil = it is a folder. It does not tell which record was the newest about
	// the file: ChangedSeq and Number are those of the upload.
	File   *Entry
	Older  bool  // older versions of the file live, too
	Number int64 // of the newest record of the group where it was so
}

// Children lists what lies directly in a folder, "" = the top of the group, in no order: each file, and each folder in
// which something lives, or which is recorded. It asks for this folder alone, some 1,000 names with each request,
// however large the group is.
//
// What it returns is proven against the names that the service signed as the living ones. Unlike a list it does not
// prove that these are the names that the records of the group give: [Group.Verify] does, also for what the service
// signed for the last questions of this account and StateDir.
//
// Children is free. It needs the API key, and membership or an open group. Errors: [ErrUnsupported] where
// [Group.Entries] is to be read instead: at the hosted service, for a group of at most 1,000 records, and where a
// name is not shown as it is recorded; [ErrNotFound] for a folder that is not there, [ErrUnavailable] while the service
// reads the names of a large group for the first time, [ErrCorrupt], and those of [Group.List]. The slice belongs to
// the caller.
func (g Group) Children(ctx context.Context, folder string) ([]Child, error) {
	p, err := g.PartOfFolder(ctx, folder)
	for tries := 1; err == nil && p.mixed; tries++ {
		if tries == folderTries {
			return nil, g.wrap("list a folder", errFolderChanged)
		}
		p, err = g.PartOfFolder(ctx, folder)
	}
	if err == nil && p.Missing {
		err = g.wrap("list a folder", g.absent("folder "+quote(folder)))
	}
	return p.Children, err
}

// Child is [Group.Children] for one file or folder, by its path. It is one request, however many lie beside it. Unlike
// [Group.Stat] it does not prove that the log holds the record of the file.
func (g Group) Child(ctx context.Context, path string) (Child, error) {
	p, err := g.PartOfName(ctx, path)
	if err != nil {
		return Child{}, err
	}
	if p.Missing {
		return Child{}, g.wrap("find", g.absent("name "+quote(path)))
	}
	return p.Children[0], nil
}

// Part is what a group had at a place of its chain, under one name or in one folder. A long folder that changes between
// its pages is of several places: then the changes since the first one tell what it had at the last one.
type Part struct {
	Children  []Child // of a name at most one; the slice belongs to the caller
	Missing   bool    // proven: there is nothing under the name, or no such folder
	At, Until Cursor  // the first and the last place
	mixed     bool    // they are not of one state
}

// Cursor is a place in the chain of a group, for [Group.Changes]. The zero value is none.
type Cursor struct{ at verified }

// Number is that of the newest record there.
func (c Cursor) Number() int64 { return c.at.Number }

// Seq is the ledger sequence of that record, as the service says.
func (c Cursor) Seq() Seq { return Seq(c.at.Seq) }

// PartOfFolder is [Group.Children] that says where in the chain it was true. A folder that is not there is no error,
// and one that changes between its pages is not read again.
func (g Group) PartOfFolder(ctx context.Context, folder string) (Part, error) {
	p, err := g.c.chains.children(ctx, g.ID, folder)
	return p, g.wrap("list a folder", err)
}

// PartOfName is [Group.Child] that says where in the chain it was true. A name that is not there is no error.
func (g Group) PartOfName(ctx context.Context, path string) (Part, error) {
	p, _, err := g.c.chains.child(ctx, g.ID, path)
	return p, g.wrap("find", err)
}

// FolderMove is a renamed folder.
type FolderMove struct {
	From, To string    // recorded, without a slash at the end
	By       AccountID // who renamed it
	Number   int64     // of the record
}

// Changes is what changed in a group after a place of its chain.
type Changes struct {
	// Entries are the files and folders that records are about, as they are now, in the order of their first record,
	// and those that the caller knows beneath a renamed folder. Of others beneath it there are none.
	Entries []Entry
	Renamed []FolderMove // in their order
	Left    []string     // the names that files had before their new ones, but for those of renamed folders
	At      Cursor       // of the newest record: the place to go on from
}

// Changes is [Group.News] for a program that knows a part of the group: it lists what changed after a place at which a
// part was proven, however much the group has, and proves that these records follow that place. known is what the
// program knows; it may know less than all beneath a folder. Price, needs and errors are like those of [Group.List],
// and [ErrUnsupported] at a service without parts.
func (g Group) Changes(ctx context.Context, at Cursor, known interface {
	Entry(ref Ref) *Entry
	Beneath(folder string) (list []*Entry, all bool)
}) (Changes, error) {
	list := func() (Changes, error) { return g.c.chains.changes(ctx, g.ID, at, known) }
	changes, err := retryWithNewKey(ctx, g.c, list)
	return changes, g.wrap("list", err)
}

func (h *chains) changes(ctx context.Context, g GroupID, at Cursor, known knownPart) (Changes, error) {
	if err := h.c.caps.offers(ctx, wire.OpGetNames); err != nil {
		return Changes{}, err
	}
	end, err := h.c.lists.begin(ctx, h.c.lists.paged)
	if err != nil {
		return Changes{}, err
	}
	defer end()
	fold := newFolding(h.c.lists, g, at.at, known)
	fold.isPart, fold.partly = true, true
	err = h.readChain(ctx, g, at.at, fold)
	fold.release()
	if err != nil {
		return Changes{}, err
	}
	return Changes{fold.entries, fold.renamed, fold.left, Cursor{fold.end}}, nil
}

// part is a proven answer about names.
type part struct {
	at   Cursor
	root chain.Hash
	raw  []byte // the proof of names
	rows []wire.TransactionRow
	last chain.Row // that take had
}

// part asks about names, and proves what the service signed. Nothing proves raw and rows yet: open does.
func (h *chains) part(ctx context.Context, g GroupID, request wire.LivingRequest, open func(part) error) error {
	end, err := h.c.lists.begin(ctx, h.c.lists.whole)
	if err != nil {
		return err
	}
	defer end()
	_, err = retryWithNewKey(ctx, h.c, func() (struct{}, error) {
		return struct{}{}, h.readPart(ctx, g, request, open)
	})
	return err
}

func (h *chains) readPart(ctx context.Context, g GroupID, request wire.LivingRequest, open func(part) error) error {
	if err := h.c.caps.offers(ctx, wire.OpGetNames); err != nil {
		return err
	}
	past := h.past(g)
	if 0 < past.Number && past.Number <= h.c.cfg.SmallGroup { // it may have grown since: then the next time
		return wholeList(isSmall)
	}
	log, before, err := h.c.log.open(ctx)
	if err != nil {
		return err
	}
	request.GroupID, request.Beyond = string(g), h.c.cfg.SmallGroup
	request.Nonce, request.KnownSize = rand.Text(), before.N
	answer, err := h.askPart(ctx, request)
	var refused *call.Refusal
	switch {
	case !errors.As(err, &refused):
	case refused.Code == wire.CodeUnsupported:
		return wholeList("the service cannot read its names")
	case refused.Status == http.StatusNotFound && refused.Code != wire.CodeGroupNotFound: // or it could hide a file
		return h.c.log.refusal(ctx, log, notProven("that nothing is there: the service says so alone"))
	}
	if err != nil {
		return err
	}
	if answer.Proof == nil {
		return wholeList(isSmall)
	}
	signed, err := proof.OpenPart(log, chain.OfGroup(string(g)), before, past, *answer.Proof, request.Nonce, time.Now())
	if err == nil {
		end := Cursor{verified{Cursor: signed.Cursor(answer.Seq)}}
		err = open(part{at: end, root: signed.Names, raw: answer.Names, rows: answer.Rows})
	}
	if kind := KindOf(err); err != nil && kind != ErrNotFound && kind != ErrUnsupported { // those are proven
		return h.c.log.refusal(ctx, log, err)
	}
	h.c.memory.Checkpoint(signed.Checkpoint.Note, signed.Checkpoint.N)
	return cmp.Or(h.c.log.saw(g, signed.Place, signed.Proven),
		h.sawNames(ctx, log, g, answer.Proof.Names, request.Nonce), err)
}

func (h *chains) askPart(ctx context.Context, request wire.LivingRequest) (answer wire.LivingResult, err error) {
	t := h.c.tools.call(wire.OpGetNames, request, nil)
	t.Header, t.Kind = h.packed(), call.Soon // nobody waits until the service has read the names of a group
	t.Answer = func(resp *http.Response) error {
		raw, err := call.ReadUnpacked(resp, h.c.tools.limit(wire.OpGetNames))
		if err != nil {
			return err
		}
		return h.c.tools.decode(raw, &answer)
	}
	err = h.c.calls.Do(ctx, t)
	return answer, err
}

const (
	isSmall    = "the group has few records"
	isNotPlain = "not every name is shown as it is recorded"
)

func notProven(what string) error {
	return &proof.Refusal{Text: "the signed root of names does not prove " + what}
}

// mustBePlain refuses a path that may be shown otherwise than it is recorded, or be that of something else.
func mustBePlain(path string) error {
	for part := range strings.SplitSeq(path, "/") {
		if !names.IsPlain(part) {
			return wholeList(isNotPlain)
		}
	}
	return nil
}

// mustLeadAlone refuses a way through a folder that has the name of a file, too.
func mustLeadAlone(way []chain.Step) error {
	for _, step := range way {
		if step.Files != (chain.Hash{}) {
			return wholeList(isNotPlain)
		}
	}
	return nil
}

// errNoPlace: a record is so new that it has no place in the log yet.
var errNoPlace = errors.New("its newest version is in no signed checkpoint yet: ask again in a moment")

// recorded is child for a file whose record the log holds. It waits for a record that is too new.
func (h *chains) recorded(ctx context.Context, g GroupID, path string) (Child, error) {
	for deadline := time.Now().Add(mergePatience); ; {
		p, record, err := h.child(ctx, g, path)
		if err == nil && p.Missing {
			err = h.c.Group(g).absent("name " + quote(path))
		}
		if err != nil {
			return Child{}, err
		}
		c := p.Children[0]
		if c.File == nil {
			return c, nil
		}
		if record.Place >= 0 {
			held := func() (Child, error) { return c, h.c.log.holds(ctx, record) }
			return retryWithNewKey(ctx, h.c, held)
		}
		if !time.Now().Before(deadline) {
			return Child{}, &Error{Op: "find", Kind: ErrUnavailable, Err: errNoPlace}
		}
		select {
		case <-time.After(proof.LagPause):
		case <-ctx.Done():
			return Child{}, call.Ended(ctx)
		}
	}
}

// holds verifies that the log holds a record.
func (l *signedLog) holds(ctx context.Context, record chain.Row) error {
	log, before, err := l.open(ctx)
	if err != nil {
		return err
	}
	now, err := proof.Checker{Fetch: l.fetch, Log: log, Patience: mergePatience}.Holds(ctx, before, record)
	if errors.Is(err, proof.ErrUnsigned) {
		return &Error{Op: "find", Kind: ErrUnavailable, Err: errNoPlace}
	}
	if err == nil {
		l.c.memory.Checkpoint(now.Note, now.N)
	}
	return l.refusal(ctx, log, err)
}

// child returns what is under a path, and the record of the file.
func (h *chains) child(ctx context.Context, g GroupID, path string) (under Part, record chain.Row, err error) {
	if err := mustBePlain(path); err != nil {
		return under, record, err
	}
	if names.IsHash(path) { // as that of a file without a name
		return under, record, wholeList(isNotPlain)
	}
	err = h.part(ctx, g, wire.LivingRequest{Name: path}, func(p part) (err error) {
		found, err := openName(p, path)
		if err != nil {
			return err
		}
		c, err := p.child(g, found, path)
		record = p.last
		under = Part{At: p.at, Until: p.at, Missing: c == (Child{})}
		if !under.Missing {
			c.Number = p.at.Number()
			under.Children = []Child{c}
		}
		return err
	})
	return under, record, err
}

func openName(p part, path string) (chain.Component, error) {
	proof, err := chain.ParseNameProof(p.raw)
	if err != nil {
		return chain.Component{}, call.Malformed(err)
	}
	found, ok := proof.Open(p.root, path)
	if !ok {
		return found, notProven("the name, nor that it is not there: the answer hides it, or shows one of before")
	}
	return found, mustLeadAlone(proof.Way)
}

// child returns what is under a component, the zero value if nothing is. It takes its row.
func (p *part) child(g GroupID, c chain.Component, path string) (Child, error) {
	isFolder := c.Folder != chain.Hash{}
	child := Child{Name: path[strings.LastIndexByte(path, '/')+1:]}
	switch {
	case len(c.Versions) > 0:
		e, err := p.take(g, c.Versions[0], path)
		if err == nil && isFolder {
			err = wholeList(isNotPlain)
		}
		child.File, child.Older = &e, c.Older != chain.Hash{}
		return child, err
	case isFolder:
		return child, nil
	}
	return Child{}, nil
}

// take returns the entry of a version of a name, by its row, which must be the first one, and drops the row.
func (p *part) take(g GroupID, v chain.Living, name string) (Entry, error) {
	if len(p.rows) == 0 {
		return Entry{}, call.Malformed(errors.New("a record of a file is missing"))
	}
	l, err := listedOf(&p.rows[0], g)
	if err != nil {
		return Entry{}, call.Malformed(err)
	}
	p.last = chain.Row{Record: l.Record, Hash: v.Hash, Place: p.rows[0].Place}
	p.rows = p.rows[1:]
	if l.Kind != EventUploaded || l.Group != string(g) || l.Ref != v.Ref || chain.PlaceOf(&l.Record) != v.Place {
		return Entry{}, notProven("the record that uploaded a file: a version, a time, an uploader or a hash " +
			"was changed")
	}
	e := uploadEntry(&l.Record, l.opening)
	e.Name, e.Attributes = name, attributesOf(v.Attributes, &e)
	return e, nil
}

// folderTries is how often a folder is read that changes between its pages.
const folderTries = 3

// errNoFolder: it is proven that there is no such folder.
var errNoFolder error = &Error{Op: "list", Kind: ErrNotFound, Code: wire.CodeFileNotFound}

// errFolderChanged: the pages are of several states of the folder.
var errFolderChanged error = &Error{Op: "list", Kind: ErrUnavailable,
	Err: errors.New("the folder changes while it is listed")}

// maxEmptyPages is how many pages of a folder may follow one another without a name. A service that is honest sends an
// empty page only beside names whose hashes begin alike.
const maxEmptyPages = 256

// children reads a folder once. What it holds bounds the pages with names. A name that comes again, because a page grew
// towards those before it, is as it came last.
func (h *chains) children(ctx context.Context, g GroupID, folder string) (in Part, err error) {
	if folder != "" {
		if err := mustBePlain(folder); err != nil {
			return in, err
		}
	}
	var page, first chain.Page
	held, empty := int64(0), 0
	places := map[string]int{} // in in.Children
	defer func() { _ = h.c.lists.hold(-held) }()
	for isFirst := true; isFirst || page.Next != (chain.Hash{}); isFirst = false {
		from := page.Next
		request := wire.LivingRequest{Folder: folder}
		if !isFirst {
			request.From = hex.EncodeToString(from[:])
		}
		var more []Child
		err := h.part(ctx, g, request, func(p part) (err error) {
			if in.Until = p.at; isFirst {
				in.At = p.at
			}
			more, page, err = h.openPage(g, folder, from, p)
			return err
		})
		if errors.Is(err, errNoFolder) {
			in.Missing, in.mixed = isFirst, !isFirst
			return in, nil // it is there no more, which the changes since the first page tell
		}
		if err != nil {
			return Part{}, err
		}
		if isFirst {
			first = page
		}
		in.mixed = in.mixed || page.Folder != first.Folder || !page.IsNext
		if empty++; len(more) > 0 {
			empty = 0
		}
		if empty > maxEmptyPages {
			return Part{}, call.Malformed(errors.New("the pages of a folder have no end"))
		}
		size := int64(0)
		for _, c := range more {
			c.Number = in.Until.Number()
			size += childBytes + int64(len(c.Name))
			if c.File != nil {
				size += c.File.Footprint()
			}
			if at, is := places[c.Name]; is {
				in.Children[at] = c
				continue
			}
			places[c.Name] = len(in.Children)
			in.Children = append(in.Children, c)
		}
		held += size
		if err := h.c.lists.hold(size); err != nil {
			return Part{}, err
		}
	}
	if !in.mixed { // as the folder did not change between its pages, all of it was so at the last one, too
		in.At = in.Until
		for i := range in.Children {
			in.Children[i].Number = in.Until.Number()
		}
	}
	return in, nil
}

// childBytes is the memory of a [Child] beside its texts and its entry, in bytes.
const childBytes = 64

// openPage verifies a page of a folder.
func (h *chains) openPage(g GroupID, folder string, from chain.Hash, p part) (list []Child, page chain.Page,
	err error) {
	opened, err := chain.ParseFolderProof(p.raw)
	if err != nil {
		found, err := openName(p, folder)
		switch {
		case err != nil:
			return nil, page, err
		case folder == "" || found.Folder != chain.Hash{}:
			return nil, page, notProven("what is in the folder, which is there")
		}
		return nil, page, errNoFolder
	}
	page, ok := opened.Open(p.root, folder, from)
	if !ok {
		return nil, page, notProven("what is in the folder: the page lacks a name, has one that does not live, " +
			"or is of another folder")
	}
	err = mustLeadAlone(opened.Way)
	for i := 0; i < len(opened.Inside) && err == nil; i++ {
		c, path := opened.Inside[i], opened.Inside[i].Name
		if folder != "" {
			path = chain.FolderName(folder) + path
		}
		if err = mustBePlain(c.Name); err == nil {
			var child Child
			child, err = p.child(g, c, path)
			list = append(list, child)
		}
	}
	return list, page, err
}
