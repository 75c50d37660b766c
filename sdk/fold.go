package sdk

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/proof"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

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
	known   knownPart           // what the caller has of them; nil = nothing
	partly  bool                // the caller knows some of the files alone, and is told of renamed folders
	renamed []FolderMove        // where partly
	left    []string            // where partly: names of files before they were renamed
	folders *chain.Folders[int] // of those that live; nil = no folder was renamed so far
	newest  Seq                 // of the records about files and folders
	records int64               // that were applied
	end     verified            // of the records, once they are proven
	moved   int64               // bytes of new names by folders
	names   *nameShare          // what the entries are verified for; nil = for a list
}

// newFolding goes on after what was verified.
func newFolding(lists *listMemory, g GroupID, from verified, known knownPart) *folding {
	return &folding{lists: lists, group: g, at: map[Ref]int{}, isPart: from.Seq > 0, newest: from.newest, known: known}
}

// release says that nobody holds the entries here any more.
func (f *folding) release() {
	_ = f.lists.hold(-f.held)
	f.held = 0
}

// isEndless reports whether new names by folders take more bytes than they may after so many records.
func (f *folding) isEndless(bytes, most int64) bool { return bytes > most+f.records*movedByRecord }

// errNoEnd is a history of records that rename ever more.
var errNoEnd = call.Malformed(errors.New("its renamed folders have no end"))

// hold counts that so many bytes are held.
func (f *folding) hold(size int64) error {
	more := size - f.held
	if more == 0 {
		return nil
	}
	f.held += more
	return f.lists.hold(more)
}

// movedByRecord is by how much each record of a list raises the bound of new names by folders, in bytes. A history with
// many renames has many files or many records, so that an honest one is listed: a group of 100,000 files may have
// renamed all of them some 800 times in one list, and a folder of 1,000 files any number of times.
const movedByRecord = 256 << 10

// apply applies proven records. moved bounds what new names by folders take, beside [movedByRecord].
func (f *folding) apply(ctx context.Context, records []listedRecord, moved int64) error {
	for i := range records {
		if ctx.Err() != nil {
			return call.Ended(ctx)
		}
		if f.names.ends(&records[i].Record) {
			return nil
		}
		if err := f.take(&records[i]); err != nil {
			return err
		}
		if f.records++; f.isEndless(f.moved, moved) {
			return errNoEnd
		}
		size := f.bytes
		if f.names != nil {
			if err := f.names.take(f, &records[i].Record); err != nil {
				return err
			}
			size += f.names.bytes
		}
		if err := f.hold(size); err != nil { // at each record: one that renames a folder may change many entries
			return err
		}
		if f.names.isFull(size) {
			return errShareFull
		}
	}
	return nil
}

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
	f.bytes += names.FoldersFootprint(f.name, name)
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

// lacks reports whether no record before is about a file or folder: the list began with the first record, or the caller
// knows all that lists told, and not this one.
func (f *folding) lacks(ref Ref) bool {
	return !f.isPart || f.known != nil && !f.partly && f.known.Entry(ref) == nil
}

// isBefore reports whether a row is of the records before one: the answer to a change may tell of later ones.
func (e *Entry) isBefore(number int64) bool { return 0 < e.Number && e.Number < number }

// take applies the next record. Only records about files change entries.
func (f *folding) take(l *listedRecord) error {
	r := &l.Record
	if !f.names.has(r) {
		return nil
	}
	before := f.newest
	f.newest = Seq(r.Seq)
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
			if f.lacks(Ref(r.Ref)) {
				return &proof.Refusal{Row: r.Seq, Text: "nobody uploaded the file that it is about"}
			}
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
		if f.partly && r.Kind == EventRenamed {
			f.left = append(f.left, r.Tag(chain.TagName))
			f.bytes += int64(len(f.left[len(f.left)-1])) + textHead
		}
		f.bytes -= f.entries[i].Footprint()
		f.entries[i].change(r)
		f.bytes += f.entries[i].Footprint()
		f.named(f.entries[i].Name)
		f.enterFolder(i)
	default: // about no file
		f.newest = before
	}
	return nil
}

// renameFolder gives the files beneath a folder their new names.
func (f *folding) renameFolder(r *chain.Record) error {
	before, after, ok := chain.FolderOf(r)
	if !ok {
		return &proof.Refusal{Row: r.Seq, Text: "it does not say which folder has which name now"}
	}
	if f.isPart && !f.addBeneath(r, before, after) && !f.partly {
		return errNeedsAll
	}
	if f.partly {
		f.renamed = append(f.renamed, FolderMove{before, after, AccountID(r.Account), r.Number})
		f.bytes += int64(len(before)+len(after)+len(r.Account)) + textHead
	}
	if f.folders == nil {
		f.folders = &chain.Folders[int]{}
		for i := range f.entries {
			f.enterFolder(i)
		}
	}
	earlier := f.moved
	few := f.folders.Rename(before, after, chain.MaxMoveBytes, func(i int, name string) {
		f.bytes -= f.entries[i].Footprint()
		if f.entries[i].Folder {
			name = strings.TrimSuffix(name, "/")
		}
		f.entries[i].Name, f.entries[i].ChangedSeq, f.entries[i].Number, f.entries[i].NamedNumber = name, f.newest,
			r.Number, 0
		f.bytes += f.entries[i].Footprint()
		f.named(name)
		f.moved += chain.MoveBytes(name)
	})
	if !few {
		return refuseMove(r.Seq)
	}
	f.names.moves(r.Seq, f.moved-earlier)
	return nil
}

func refuseMove(seq int64) error {
	return &proof.Refusal{Row: seq, Text: "it renames more than one record may: update svcfs"}
}

// addBeneath adds what the caller knows beneath a folder before the record of its rename, and what it has beneath the
// new name already because the rename is its own. It reports whether the caller knows all.
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
	case r.Kind == EventFolderMade, !known && !f.lacks(Ref(r.Ref)):
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
	e.Upon = versionOf(r.Tag(chain.TagUpon))
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
