package view

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

// View is what is known of one group: the newest row of each file and recorded folder. It is safe for concurrent use.
// A row never changes: a newer one takes its place. So nobody changes what a View returns.
type View struct {
	mu    sync.RWMutex
	rows  map[sdk.Ref]placed
	came  int // rows that ever came
	after sdk.Seq
	seen  sdk.Seq // every change up to this one is known, as far as a row of it would be here

	upTo   int64               // every record up to this number is known; 0 = not known
	beyond map[int64]time.Time // known records after a gap, and when the changes began that made them
	whole  time.Time           // nothing was missing at this moment
}

// placed is a row, and which one it was to come.
type placed struct {
	*sdk.Entry
	at int
}

// New returns a View that knows nothing.
func New() *View { return &View{rows: make(map[sdk.Ref]placed)} }

// Change is what became of one row. Was is nil if the file was not known.
type Change struct{ Was, Now *sdk.Entry }

// Apply takes rows as lists and the answers to changes tell them, and returns what they changed. A row with a
// number below that of the known one changes nothing: the list that brings it was asked for before a change of this
// account. What a newer row does not tell is as it was. A row of another content or uploader than the known one changes
// nothing, and its record counts as not known: the next list reads it, and refuses it. The rows stay the caller's.
func (v *View) Apply(rows ...sdk.Entry) []Change {
	v.mu.Lock()
	defer v.mu.Unlock()
	changes := make([]Change, 0, len(rows))
	for i := range rows {
		row := rows[i] // of its own: one that stays does not keep the memory of the whole list
		known, ok := v.rows[row.Ref]
		if ok && contradicts(&row, known.Entry) {
			continue
		}
		v.note(row.Number, time.Time{})
		switch {
		case !ok:
			v.came++
			known.at = v.came
		case row.Number != 0 && row.Number < known.Number:
			continue
		default:
			learn(&row, known.Entry)
		}
		changes = append(changes, Change{known.Entry, &row})
		v.rows[row.Ref] = placed{&row, known.at}
	}
	return changes
}

// contradicts reports whether a row tells of a file what no record changes.
func contradicts(row, known *sdk.Entry) bool {
	return row.Commitment != (sdk.Digest{}) && known.Commitment != (sdk.Digest{}) &&
		(row.Commitment != known.Commitment || row.Content != known.Content || row.Uploader != known.Uploader)
}

// learn keeps the facts that a new row lacks, and an earlier one had. A row without the Tx of the upload was made of a
// later record, and nothing proves what that says of Seq.
func learn(row, known *sdk.Entry) {
	if row.Tx == "" {
		row.Seq = cmp.Or(known.Seq, row.Seq)
	}
	row.Name, row.Seq, row.Tx = cmp.Or(row.Name, known.Name), cmp.Or(row.Seq, known.Seq), cmp.Or(row.Tx, known.Tx)
	row.Upon = cmp.Or(row.Upon, known.Upon)
	if row.Size == sdk.SizeUnknown {
		row.Size = known.Size
	}
}

// Listed says that the rows that Apply has just taken are all that changed after [View.After].
func (v *View) Listed(rows []sdk.Entry) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range rows {
		v.after, v.upTo = max(v.after, rows[i].ChangedSeq), max(v.upTo, rows[i].Number)
	}
	v.seen = max(v.seen, v.after)
	for n := range v.beyond {
		if n <= v.upTo {
			delete(v.beyond, n)
		}
	}
	v.close()
}

// After returns the sequence of the newest change that was listed; 0 = nothing was.
func (v *View) After() sdk.Seq {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.after
}

// Seen returns the sequence of a change up to which nothing is missing here. In a [Partial] it may be larger than
// After.
func (v *View) Seen() sdk.Seq {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.seen
}

func (v *View) saw(seq sdk.Seq) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen = max(v.seen, seq)
}

// Made notes the number of a record of this account, and when the change began. If it follows what is known, then
// nobody else changed the group meanwhile, and a list would bring nothing.
func (v *View) Made(number int64, began time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.note(number, began)
}

// note needs mu.
func (v *View) note(number int64, began time.Time) {
	if v.upTo == 0 || number <= v.upTo {
		return
	}
	if v.beyond == nil {
		v.beyond = make(map[int64]time.Time)
	}
	if began.After(v.beyond[number]) || v.beyond[number].IsZero() {
		v.beyond[number] = began
	}
	v.close()
}

// close needs mu.
func (v *View) close() {
	for {
		began, ok := v.beyond[v.upTo+1]
		if !ok {
			return
		}
		v.upTo++
		delete(v.beyond, v.upTo)
		if began.After(v.whole) {
			v.whole = began
		}
	}
}

// KnowsUpTo reports whether every record up to a number is known.
func (v *View) KnowsUpTo(number int64) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.upTo >= number
}

// Whole returns a moment at which nothing was missing, as the answers to changes tell; zero = there is none.
func (v *View) Whole() time.Time {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.whole
}

// Entry returns the newest row of a file, nil if the file is not known.
func (v *View) Entry(ref sdk.Ref) *sdk.Entry {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.rows[ref].Entry
}

// All returns the newest row of each file and folder, removed and ended ones included, in no order. Nothing can be
// applied meanwhile.
func (v *View) All() iter.Seq[*sdk.Entry] {
	return func(yield func(*sdk.Entry) bool) {
		v.mu.RLock()
		defer v.mu.RUnlock()
		for _, row := range v.rows {
			if !yield(row.Entry) {
				return
			}
		}
	}
}

// Files returns the files of All, without folders, in the order of their uploads, or in which they came where the
// service does not tell.
func (v *View) Files() []*sdk.Entry {
	v.mu.RLock()
	files := slices.DeleteFunc(slices.Collect(maps.Values(v.rows)), func(row placed) bool { return row.Folder })
	v.mu.RUnlock()
	slices.SortFunc(files, func(a, b placed) int { return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.at, b.at)) })
	list := make([]*sdk.Entry, len(files))
	for i := range files {
		list[i] = files[i].Entry
	}
	return list
}

// Len is how many rows All has.
func (v *View) Len() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.rows)
}

// Beneath returns the living files beneath a folder, with the folders that are recorded there, and the folder itself.
// all is false if the view may lack others.
func (v *View) Beneath(folder string) (list []*sdk.Entry, all bool) {
	prefix := folder + "/"
	for e := range v.All() {
		if e.Deleted == nil && (strings.HasPrefix(e.Name, prefix) || e.Folder && e.Name == folder) {
			list = append(list, e)
		}
	}
	return list, true
}
