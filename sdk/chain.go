package sdk

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/proof"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// layouts is the layout of ledger records that this client understands. It also applies
// records of renamed folders, and of made and removed ones.
var layouts = []string{chain.Layout2, chain.ReadsFolders, chain.ReadsMadeFolders}

// verified says how far the chain of a group was verified.
type verified struct {
	proof.Cursor
	newest Seq // of the records about files and folders
}

// chainEntries lists the file records of g with a ChangedSeq above that of a list, from proven records. Where the
// list is the newest of this client, only what came since is read.
func (c *Client) chainEntries(ctx context.Context, g GroupID, o listing) ([]Entry, error) {
	return retryWithNewKey(ctx, c, func() ([]Entry, error) { return c.readEntries(ctx, g, o) })
}

func (c *Client) readEntries(ctx context.Context, g GroupID, o listing) ([]Entry, error) {
	end, err := c.lists.begin(ctx, c.lists.paged)
	if err != nil {
		return nil, err
	}
	defer end()
	c.mu.Lock()
	from := c.chains[g]
	c.mu.Unlock()
	if o.since == 0 || o.since != from.newest {
		from, o.known = verified{}, nil
	}
	fold := newFolding(c.lists, g, from, o.known)
	err = c.readChain(ctx, g, from, fold)
	if errors.Is(err, errNeedsAll) {
		fold.release()
		fold = newFolding(c.lists, g, verified{}, nil)
		err = c.readChain(ctx, g, verified{}, fold)
	}
	fold.release()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(fold.entries, func(e Entry) bool { return e.ChangedSeq <= o.since }), nil
}

// readChain gives the records of a group after from to fold, page by page: a page once the
// service has signed it. It returns once all of them are proven. After an error fold may lack some.
func (c *Client) readChain(ctx context.Context, g GroupID, from verified, fold *folding) error {
	log, before, err := c.trustedLog(ctx)
	if err != nil {
		return err
	}
	name := chain.OfGroup(string(g))
	listing := proof.NewListing(name, from.Cursor, c.past(g), time.Now())
	request := wire.TransactionsRequest{GroupID: string(g), Kinds: wire.KindsChain, Layouts: layouts,
		KnownSize: before.N, AfterSeq: from.Seq}
	var page pageOfChain
	marks := int64(0) // what listing holds, in bytes
	defer func() { _ = c.lists.hold(-marks) }()
	apply := func() error {
		more := markBytes * int64(len(page.records))
		marks += more
		if err := c.lists.hold(more); err != nil {
			return err
		}
		return fold.apply(page.take(), c.mostMoved())
	}
	rest, err := c.streamRows(ctx, &request, func(rows []wire.TransactionRow) error {
		for i := range rows {
			row := &rows[i]
			if err := page.add(row, g, listing); err != nil {
				return c.refusal(ctx, log, err)
			}
			if row.Page == nil {
				continue
			}
			if err := listing.Page(log, *row.Page, request.Nonce); err != nil {
				return c.refusal(ctx, log, err)
			}
			if err := apply(); err != nil {
				return c.refusal(ctx, log, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	checkpoint, err := listing.End(log, before, rest.proof, request.Nonce)
	if err != nil {
		return c.refusal(ctx, log, err)
	}
	if err := apply(); err != nil {
		return c.refusal(ctx, log, err)
	}
	c.learn(g, checkpoint, verified{listing.Cursor(), fold.newest})
	return nil
}

// mostMoved bounds the work of new names by folders, in bytes of names: short records could
// make that of very many.
func (c *Client) mostMoved() int64 { return max(maxListBytes, c.cfg.MaxFileBytes/2) }

// pageOfChain is the records of a list that nothing proves yet.
type pageOfChain struct {
	records []listedRecord
	bytes   int64
}

// listedRecord is a record with what it commits to, nil where the list does not tell, and with the
// sequence of the upload that a later record is about.
type listedRecord struct {
	chain.Record
	opening *chain.Opening
	upload  int64
}

// add verifies that a row goes on with the list, and keeps its record.
func (p *pageOfChain) add(row *wire.TransactionRow, g GroupID, listing *proof.Listing) error {
	if p.bytes += footprint(row); p.bytes > maxPageBytes {
		return call.Malformed(errNoPages)
	}
	r, err := listedOf(row, g)
	if err != nil {
		return call.Malformed(fmt.Errorf("row %d: %w", row.Seq, err))
	}
	if err := listing.Add(&r.Record); err != nil {
		return err
	}
	p.records = append(p.records, r)
	return nil
}

// take returns the records, until the next add.
func (p *pageOfChain) take() []listedRecord {
	records := p.records
	p.records, p.bytes = records[:0], 0
	return records
}

// streamRows asks for all records after request.AfterSeq with one request, and gives them to take
// as they arrive: a list has no round trip between its pages. After a lost connection it goes on
// behind the last record that take had. It returns what followed the rows, and sets AfterSeq and Nonce to
// those of the last request.
func (c *Client) streamRows(ctx context.Context, request *wire.TransactionsRequest,
	take func([]wire.TransactionRow) error) (rest page, err error) {
	last := request.AfterSeq
	header := http.Header{}
	if c.calls.IsApart() {
		header.Set("Accept-Encoding", wire.CodingZstd)
	}
	err = c.calls.Resume(ctx, call.Free, func() int64 { return last }, func(ctx context.Context) error {
		request.Nonce, request.AfterSeq = rand.Text(), last
		t := c.tool(wire.OpGetGroupTransactions, request, nil)
		t.Kind, t.Header = call.Once, header
		t.Answer = func(resp *http.Response) error {
			rest = page{}
			in, end, err := call.Unpacked(resp)
			if err != nil {
				return call.Malformed(err)
			}
			defer end()
			err = c.readRows(in, &last, take, &rest)
			if errors.Is(err, wire.ErrRows) || errors.Is(err, call.ErrPacked) {
				return call.Malformed(err)
			}
			return err
		}
		return c.calls.Do(ctx, t)
	})
	if err == nil && len(rest.rows) > 0 { // of a service that writes its answers in another way
		err = take(rest.rows)
	}
	return rest, err
}

// escaped is how many bytes of an answer a byte of a text may take, with room for what is around it.
const escaped = 8

// readRows reads an answer with records. It sets last to the Seq of the last one that take had, and
// rest to what follows them.
func (c *Client) readRows(in io.Reader, last *int64, take func([]wire.TransactionRow) error, rest *page) error {
	list := wire.NewRowReader(io.LimitReader(in, escaped*max(maxListBytes, c.cfg.MaxFileBytes/2)))
	for {
		rows, err := list.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = take(rows)
		}
		if err != nil {
			return err
		}
		*last = rows[len(rows)-1].Seq
	}
	raw, err := list.Rest(c.answerLimit(wire.OpGetGroupTransactions))
	if err != nil {
		return err
	}
	return c.decodeResult(raw, rest)
}

// past returns how far any client of this account has seen a group.
func (c *Client) past(g GroupID) proof.Past {
	p := proof.Past{Place: c.memory.Group(string(g))}
	p.Proven, p.Since = c.memory.Waiting(string(g))
	return p
}

// learn keeps the verified place of a chain, unless another call got further.
func (c *Client) learn(g GroupID, checkpoint proof.Checkpoint, now verified) {
	c.memory.Checkpoint(checkpoint.Note, checkpoint.N)
	c.mu.Lock()
	if now.Number >= c.chains[g].Number {
		c.chains[g] = now
	}
	c.mu.Unlock()
	c.memory.SawGroup(string(g), now.Place, now.Proven(), time.Now())
}

// folding builds entries from the records of a chain.
type folding struct {
	lists   *listMemory
	held    int64  // counted there, in bytes
	bytes   int64  // of entries, and of folders of their names
	name    string // of the last one that was counted
	group   GroupID
	entries []Entry // in the order of their first record
	at      map[Ref]int

	isPart  bool                // records before the first of these were verified earlier
	known   Known               // what the caller has of them; nil = nothing
	folders *chain.Folders[int] // of those that live; nil = no folder was renamed so far
	newest  Seq                 // of the records about files and folders
	moved   int64               // bytes of new names by folders
}

// newFolding goes on after what was verified.
func newFolding(lists *listMemory, g GroupID, from verified, known Known) *folding {
	return &folding{lists: lists, group: g, at: map[Ref]int{}, isPart: from.Seq > 0, newest: from.newest, known: known}
}

// release says that nobody holds the entries here any more.
func (f *folding) release() {
	_ = f.lists.hold(-f.held)
	f.held = 0
}

// apply applies proven records. moved bounds what new names by folders take.
func (f *folding) apply(records []listedRecord, moved int64) error {
	for i := range records {
		if err := f.take(&records[i]); err != nil {
			return err
		}
		if f.moved > moved {
			return call.Malformed(errors.New("its renamed folders have no end"))
		}
		// At each record: one that renames a folder may change many entries.
		if more := f.bytes - f.held; more != 0 {
			f.held += more
			if err := f.lists.hold(more); err != nil {
				return err
			}
		}
	}
	return nil
}

// movedBytes is what a file that gets a new name with its folder costs beside the name.
const movedBytes = 64

// errNeedsAll means that the records must be read from the first one on: a folder was
// renamed, and the files in it are not known.
var errNeedsAll = errors.New("a folder was renamed")

func (f *folding) add(e Entry) (i int) {
	f.bytes += e.Footprint()
	f.named(e.Name)
	i = len(f.entries)
	f.at[e.Ref] = i
	f.entries = append(f.entries, e)
	return i
}

// named counts the folders of a name.
func (f *folding) named(name string) {
	f.bytes += FoldersFootprint(f.name, name)
	f.name = name
}

// find returns the place of a file as the record with a number found it. ok is false if it is not known.
func (f *folding) find(ref Ref, number int64) (i int, ok bool) {
	if i, ok = f.at[ref]; ok || f.known == nil {
		return i, ok
	}
	e := f.known.Entry(ref)
	if e == nil || !e.isBefore(number) {
		return 0, false
	}
	return f.add(*e), true
}

// isBefore reports whether a row is of the records before one: the answer to a change may tell of later ones.
func (e *Entry) isBefore(number int64) bool { return 0 < e.Number && e.Number < number }

// take applies the next record. Only records about files change entries.
func (f *folding) take(l *listedRecord) error {
	r := &l.Record
	switch r.Kind {
	case EventFolderRenamed, EventFolderMade, EventFolderRemoved, EventUploaded, EventRenamed, EventDeleted,
		EventRemoved, EventRestored, EventAttributes:
		f.newest = Seq(r.Seq)
	}
	switch r.Kind {
	case EventFolderRenamed:
		return f.renameFolder(r)
	case EventFolderMade, EventFolderRemoved:
		return f.takeFolder(r)
	case EventUploaded:
		if _, known := f.find(Ref(r.Ref), r.Number); known || r.Ref == "" {
			return &proof.Refusal{Row: r.Seq, Text: "its reference was recorded before"}
		}
		f.enterFolder(f.add(uploadEntry(r, l.opening)))
	case EventRenamed, EventDeleted, EventRemoved, EventRestored, EventAttributes:
		i, known := f.find(Ref(r.Ref), r.Number)
		if !known {
			earlier, err := changedEntry(l)
			if err != nil {
				return &proof.Refusal{Row: r.Seq, Text: err.Error()}
			}
			earlier.Group = f.group
			i = f.add(earlier)
		}
		if err := f.mayFollow(r, f.entries[i].Deleted, known); err != nil {
			return err
		}
		if e := &f.entries[i]; e.Folder || r.FileHash != e.Commitment.String() ||
			r.Tag(chain.TagUploader) != string(e.Uploader) {
			return &proof.Refusal{Row: r.Seq, Text: "its content or uploader differs from the upload that it names"}
		}
		if f.folders != nil {
			f.folders.Drop(i, f.entries[i].Name)
		}
		f.bytes -= f.entries[i].Footprint()
		f.entries[i].change(r)
		f.bytes += f.entries[i].Footprint()
		f.named(f.entries[i].Name)
		f.enterFolder(i)
	}
	return nil
}

// renameFolder gives the files beneath a folder their new names.
func (f *folding) renameFolder(r *chain.Record) error {
	before, after, ok := chain.FolderOf(r)
	if !ok {
		return &proof.Refusal{Row: r.Seq, Text: "it does not say which folder has which name now"}
	}
	if f.isPart && !f.addBeneath(r, before, after) {
		return errNeedsAll
	}
	if f.folders == nil {
		f.folders = &chain.Folders[int]{}
		for i := range f.entries {
			f.enterFolder(i)
		}
	}
	few := f.folders.Rename(before, after, MaxFolderFiles, func(i int, name string) {
		f.bytes -= f.entries[i].Footprint()
		if f.entries[i].Folder {
			name = strings.TrimSuffix(name, "/")
		}
		f.entries[i].Name, f.entries[i].ChangedSeq, f.entries[i].Number, f.entries[i].NamedNumber = name, f.newest,
			r.Number, 0
		f.bytes += f.entries[i].Footprint()
		f.named(name)
		f.moved += movedBytes + int64(len(name))
	})
	if !few {
		return &proof.Refusal{Row: r.Seq, Text: fmt.Sprintf("it renames more than %d files", MaxFolderFiles)}
	}
	return nil
}

// addBeneath adds what the caller knows beneath a folder before the record of its rename, and what it has beneath the new
// name already because the rename is its own. It reports whether the caller knows all.
func (f *folding) addBeneath(r *chain.Record, before, after string) bool {
	if f.known == nil {
		return false
	}
	there, all := f.known.Beneath(before)
	moved, allToo := f.known.Beneath(after)
	for _, e := range slices.Concat(there, moved) {
		entry := *e
		if e.ChangedSeq == Seq(r.Seq) {
			entry.Name = before + strings.TrimPrefix(e.Name, after)
		} else if !e.isBefore(r.Number) || !strings.HasPrefix(inFolders(e), before+"/") {
			continue
		}
		if _, ok := f.at[e.Ref]; !ok {
			f.enterFolder(f.add(entry))
		}
	}
	return all && allToo
}

// enterFolder adds an entry to those that the rename of a folder may concern.
func (f *folding) enterFolder(i int) {
	if e := &f.entries[i]; f.folders != nil && e.Deleted == nil {
		f.folders.Put(i, inFolders(e))
	}
}

// inFolders is the name of an entry in [chain.Folders].
func inFolders(e *Entry) string {
	if e.Folder {
		return chain.FolderName(e.Name)
	}
	return e.Name
}

// takeFolder applies a record of a made or removed folder.
func (f *folding) takeFolder(r *chain.Record) error {
	i, known := f.find(Ref(r.Ref), r.Number)
	refuse := func(text string) error { return &proof.Refusal{Row: r.Seq, Text: text} }
	switch {
	case r.Ref == "" || !chain.IsFolder(r.Detail):
		return refuse("it names no folder")
	case r.Kind == EventFolderMade && known:
		return refuse("its reference was recorded before")
	case r.Kind == EventFolderMade, !known && f.isPart:
		f.enterFolder(f.add(folderEntry(r)))
		return nil
	case !known:
		return refuse("nobody made the folder that it removes")
	}
	e := &f.entries[i]
	if !e.Folder || e.Deleted != nil || e.Name != r.Detail || r.Tag(chain.TagUploader) != string(e.Uploader) {
		return refuse("it removes a folder that is not there")
	}
	if f.folders != nil {
		f.folders.Drop(i, inFolders(e))
	}
	f.bytes -= e.Footprint()
	e.ChangedSeq, e.Number, e.Deleted = Seq(r.Seq), r.Number, folderEntry(r).Deleted
	f.bytes += e.Footprint()
	return nil
}

// folderEntry returns the folder of a record that makes or removes one.
func folderEntry(r *chain.Record) Entry {
	e := Entry{Group: GroupID(r.Group), Ref: Ref(r.Ref), Tx: r.Tx, Uploader: AccountID(r.Account),
		Time: timeOf(r.TimeNS), Seq: Seq(r.Seq),
		ChangedSeq: Seq(r.Seq), Number: r.Number, Name: r.Detail, Folder: true}
	if r.Kind == EventFolderRemoved {
		e.Deleted = &Deletion{Time: e.Time, By: e.Uploader, Reason: wire.ReasonOwnerRequest}
		e.Tx, e.Seq, e.Uploader, e.Time = "", 0, AccountID(r.Tag(chain.TagUploader)),
			parseTime(r.Tag(chain.TagUploaded))
	}
	return e
}

// mayFollow refuses a record about a file that contradicts the records before it. Nothing
// may follow a deletion; only a deletion or a restore may follow a removal; and a restore
// needs a removal before it. known means that the records before are known.
func (f *folding) mayFollow(r *chain.Record, gone *Deletion, known bool) error {
	text := ""
	switch {
	case gone != nil && !gone.InTrash:
		text = "its file was deleted before"
	case gone != nil && r.Kind != EventDeleted && r.Kind != EventRestored:
		text = "its file was removed before"
	case gone == nil && known && r.Kind == EventRestored:
		text = "its file was not removed before"
	}
	if text != "" {
		return &proof.Refusal{Row: r.Seq, Text: text}
	}
	return nil
}

// change applies a record about the file, which is not the one of its upload.
func (e *Entry) change(r *chain.Record) {
	named := cmp.Or(e.NamedNumber, e.Number)
	e.ChangedSeq, e.Number, e.NamedNumber = Seq(r.Seq), r.Number, 0
	switch r.Kind {
	case EventAttributes:
		e.NamedNumber = named
		e.Attributes = attributesOf(r.Tag(chain.TagAttributes), e)
		return
	case EventRenamed:
		e.Name = r.Detail
		return
	case EventRestored:
		e.Deleted = nil
		return
	case EventRemoved:
		e.Deleted = &Deletion{Time: timeOf(r.TimeNS), By: AccountID(r.Account), Reason: wire.ReasonOwnerRequest,
			InTrash: true, Until: parseTime(r.Detail)}
		return
	}
	e.Deleted = &Deletion{Time: timeOf(r.TimeNS), By: AccountID(r.Account), Reason: r.Detail}
	e.Hash, e.Size = Digest{}, SizeUnknown // as in lists from now on
	e.Attributes = attributesOf(r.Tag(chain.TagAttributes), e)
	if e.Deleted.isPolicy() {
		e.NamedNumber = named
	}
}

// uploadEntry returns the file of an upload record.
func uploadEntry(r *chain.Record, opening *chain.Opening) Entry {
	e := Entry{Group: GroupID(r.Group), Ref: Ref(r.Ref), Tx: r.Tx, Uploader: AccountID(r.Account),
		Time: timeOf(r.TimeNS), Seq: Seq(r.Seq),
		ChangedSeq: Seq(r.Seq), Number: r.Number, Name: r.Detail, ContentType: r.Tag(chain.TagType)}
	e.open(r, opening)
	e.Content, _ = parseDigest(r.Tag(chain.TagContent))
	e.Attributes = attributesOf(r.Tag(chain.TagAttributes), &e)
	return e
}

// changedEntry returns the file of a later record of the new layout, as it was before that
// record.
func changedEntry(l *listedRecord) (Entry, error) {
	r := &l.Record
	upload, err := strconv.ParseInt(r.Tag(chain.TagUpload), 10, 64)
	if err != nil || upload <= 0 || upload >= r.Number || l.upload <= 0 || l.upload >= r.Seq {
		return Entry{}, errors.New("it does not name its upload")
	}
	uploaded, err := strconv.ParseInt(r.Tag(chain.TagUploaded), 10, 64)
	if err != nil {
		return Entry{}, errors.New("it lacks the time of its upload")
	}
	e := Entry{Ref: Ref(r.Ref), Uploader: AccountID(r.Tag(chain.TagUploader)), Time: timeOf(uploaded),
		Seq: Seq(l.upload), Name: r.Tag(chain.TagName),
		ContentType: r.Tag(chain.TagType)}
	e.open(r, l.opening)
	e.Content, _ = parseDigest(r.Tag(chain.TagContent))
	e.Attributes = attributesOf(r.Tag(chain.TagAttributes), &e)
	if text := r.Tag(chain.TagNamed); text != "" || r.Kind == EventAttributes {
		named, err := strconv.ParseInt(text, 10, 64)
		if err != nil || named < upload || named >= r.Number {
			return Entry{}, errors.New("it does not say which record gave the file its name")
		}
		e.NamedNumber = named
	}
	return e, nil
}

// open sets what the record of a file commits to. Without an opening hash and size are not known.
func (e *Entry) open(r *chain.Record, opening *chain.Opening) {
	e.Commitment, _ = parseDigest(r.FileHash)
	e.Size = SizeUnknown
	if opening != nil {
		e.Hash, e.Size = opening.Hash, max(opening.Size, SizeUnknown)
	}
}

func timeOf(ns int64) time.Time {
	if ns <= 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// listedOf converts a row to a record, with what the record commits to: then that gives the
// commitment, so that the hash of the record proves it.
func listedOf(row *wire.TransactionRow, g GroupID) (l listedRecord, err error) {
	if row.Opening != "" {
		o, err := chain.ParseOpening(row.Opening)
		if err != nil {
			return l, err
		}
		l.opening = &o
	}
	l.upload = row.UploadSeq
	if l.Record, err = chainRecord(row, g); err == nil && l.opening != nil {
		l.FileHash = l.opening.Commitment()
	}
	return l, err
}

// chainRecord converts a row without an opening to a record. The group is g if the row leaves the group out.
func chainRecord(row *wire.TransactionRow, g GroupID) (r chain.Record, err error) {
	r = chain.Record{Seq: row.Seq, Tx: row.TransID, Kind: row.Kind, Account: row.UserID, Group: row.GroupID,
		Ref:      row.IPFSHash,
		FileHash: row.FileHash, Detail: row.Detail, Fee: row.Fee, Request: row.Request, Chain: row.Chain,
		Number: row.Number}
	if r.Group == "" {
		r.Group = string(g)
	}
	if row.Timestamp == nil {
		return r, errors.New("it has no time")
	}
	if r.TimeNS, err = strconv.ParseInt(*row.Timestamp, 10, 64); err != nil {
		return r, errors.New("its time is not a number")
	}
	if r.Tags, err = chain.ParseTags(row.Tags); err != nil {
		return r, err
	}
	if row.PrevHash != "" {
		err = decodeHash(row.PrevHash, &r.Prev)
	}
	return r, err
}

// recordedHash parses the hash of a file in a record. A file of format version 2 may have
// none.
func recordedHash(text string) (Digest, error) {
	if text == "" {
		return Digest{}, nil
	}
	return parseDigest(text)
}

// hashText returns a hash in the form of a record, "" for none.
func hashText(h Digest) string {
	if h == (Digest{}) {
		return ""
	}
	return h.String()
}

func decodeHash(text string, into *chain.Hash) error {
	digest, err := parseDigest(text)
	if err != nil {
		return errors.New("its hash is not 64 hex digits")
	}
	*into = chain.Hash(digest)
	return nil
}

// checkReceipt verifies that the service recorded the upload, with the commitment of e, and that the record
// follows the first after records of the group. It remembers that the group has come that far. With
// nil attributes e may have any. It returns the file as it is recorded.
func (c *Client) checkReceipt(ctx context.Context, e Entry, after int64,
	a wire.FinalizeUploadResult) (recorded Entry, err error) {
	g := e.Group
	if a.Record == nil || a.Receipt == nil {
		return e, call.Malformed(errors.New("an upload without a receipt"))
	}
	r, err := chainRecord(a.Record, g)
	if err != nil {
		return e, call.Malformed(err)
	}
	if r.Kind != EventUploaded || r.Chain != chain.OfGroup(string(g)) || r.Group != string(g) ||
		r.Account != string(c.account) || r.Ref != string(e.Ref) ||
		r.FileHash != e.Commitment.String() || r.Detail != e.Name {
		return e, call.Malformed(errors.New("its receipt is for another record"))
	}
	recorded = uploadEntry(&r, &chain.Opening{Size: e.Size, Hash: chain.Hash(e.Hash)})
	if recorded.Content != e.Content {
		return e, call.Malformed(errors.New("its receipt is for other blocks than those sent"))
	}
	if e.Attributes != nil && !recorded.attributes().Equal(*e.Attributes) {
		return e, call.Malformed(errors.New("its receipt is for a file with other attributes"))
	}
	place, err := retryWithNewKey(ctx, c, func() (chain.Place, error) { return c.openReceipt(ctx, &r, *a.Receipt) })
	if err != nil {
		return e, err
	}
	if place.Number <= after {
		return e, c.distrust(fmt.Errorf("the receipt gives the record the number %d in its group, which had %d "+
			"records before", place.Number, after))
	}
	c.memory.SawGroup(string(g), place, 0, time.Now())
	return recorded, nil
}
