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
	File *Entry
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
// [Group.Entries] is to be read instead: at the hosted service, for a group of at most 1,000 records, for one whose
// names the service reads for the first time, and where a name is not shown as it is recorded;
// [ErrNotFound] for a folder that is not there, [ErrCorrupt], and those of [Group.List]. The slice belongs to the
// caller.
func (g Group) Children(ctx context.Context, folder string) ([]Child, error) {
	children, err := g.c.chains.children(ctx, g.ID, folder)
	return children, g.wrap("list a folder", err)
}

// Child is [Group.Children] for one file or folder, by its path. It is one request, however many lie beside it. Unlike
// [Group.Stat] it does not prove that the log holds the record of the file.
func (g Group) Child(ctx context.Context, path string) (Child, error) {
	child, _, err := g.c.chains.child(ctx, g.ID, path)
	return child, g.wrap("find", err)
}

// part is a proven answer about names.
type part struct {
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
		return wholeList("the service reads its names for the first time")
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
		err = open(part{root: signed.Names, raw: answer.Names, rows: answer.Rows})
	}
	if kind := KindOf(err); err != nil && kind != ErrNotFound && kind != ErrUnsupported { // those are proven
		return h.c.log.refusal(ctx, log, err)
	}
	h.c.memory.Checkpoint(signed.Checkpoint.Note, signed.Checkpoint.N)
	h.c.memory.SawGroup(string(g), signed.Place, signed.Proven, time.Now())
	return cmp.Or(h.sawNames(ctx, log, g, answer.Proof.Names, request.Nonce), err)
}

func (h *chains) askPart(ctx context.Context, request wire.LivingRequest) (answer wire.LivingResult, err error) {
	t := h.c.tools.call(wire.OpGetNames, request, nil)
	t.Header = h.packed()
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
		c, record, err := h.child(ctx, g, path)
		if err != nil || c.File == nil {
			return c, err
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
func (h *chains) child(ctx context.Context, g GroupID, path string) (c Child, record chain.Row, err error) {
	if err := mustBePlain(path); err != nil {
		return c, record, err
	}
	if names.IsHash(path) { // as that of a file without a name
		return c, record, wholeList(isNotPlain)
	}
	err = h.part(ctx, g, wire.LivingRequest{Name: path}, func(p part) (err error) {
		found, err := openName(p, path)
		if err != nil {
			return err
		}
		c, err = p.child(g, found, path)
		record = p.last
		return err
	})
	if err == nil && c == (Child{}) {
		err = h.c.Group(g).absent("name " + quote(path))
	}
	if err != nil {
		return Child{}, record, err
	}
	return c, record, nil
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
		child.File = &e
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

// errFolderChanged: a page is of another state of the folder than the one before.
var errFolderChanged = errors.New("the folder changed while it was listed")

func (h *chains) children(ctx context.Context, g GroupID, folder string) (list []Child, err error) {
	if folder != "" {
		if err := mustBePlain(folder); err != nil {
			return nil, err
		}
	}
	for range folderTries {
		if list, err = h.pages(ctx, g, folder); !errors.Is(err, errFolderChanged) {
			return list, err
		}
	}
	return nil, &Error{Op: "list", Kind: ErrUnavailable, Err: err}
}

// maxEmptyPages is how many pages of a folder may follow one another without a name. A service that is honest sends an
// empty page only beside names whose hashes begin alike.
const maxEmptyPages = 256

// pages reads a folder once. What it holds bounds the pages with names.
func (h *chains) pages(ctx context.Context, g GroupID, folder string) (list []Child, err error) {
	var page, first chain.Page
	held, empty := int64(0), 0
	defer func() { _ = h.c.lists.hold(-held) }()
	for isFirst := true; isFirst || page.Next != (chain.Hash{}); isFirst = false {
		from := page.Next
		request := wire.LivingRequest{Folder: folder}
		if !isFirst {
			request.From = hex.EncodeToString(from[:])
		}
		var more []Child
		err := h.part(ctx, g, request, func(p part) (err error) {
			more, page, err = h.openPage(g, folder, from, p)
			return err
		})
		if err != nil {
			return nil, err
		}
		if isFirst {
			first = page
		}
		if page.Folder != first.Folder || !page.IsNext {
			return nil, errFolderChanged
		}
		if empty++; len(more) > 0 {
			empty = 0
		}
		if empty > maxEmptyPages {
			return nil, call.Malformed(errors.New("the pages of a folder have no end"))
		}
		size := int64(0)
		for _, c := range more {
			size += childBytes + int64(len(c.Name))
			if c.File != nil {
				size += c.File.Footprint()
			}
		}
		held += size
		if err := h.c.lists.hold(size); err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
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
		return nil, page, h.c.Group(g).absent("folder " + quote(folder))
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
