package tree

import (
	"maps"
	"math"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

// attributes are what stat and the extended attributes show of an inode. They have a lock
// of their own, which is held for a few assignments only: stat must not wait while
// content is copied, nor hold up look-ups with every write.
//
// Of a file, the modification time, the execute bit and the extended attributes are recorded
// where the service can (W16): with the save, or by a request of their own, see keep.go.
// What is not recorded lasts as long as the mount.
type attributes struct {
	lock  sync.Mutex // guards the fields below; no other lock is taken under it
	size  int64      // of a file; [sdk.SizeUnknown] while neither the ledger nor a retrieval has shown it
	mtime time.Time
	ctime time.Time // of the last change in this mount that came after the record; zero = none
	mode  uint32    // where moded
	moded bool      // a program set the mode
	timed bool      // mtime is not that of the record, and the content is as it was then
	runs  bool      // a file may be executed; where moded, mode agrees

	xattrs   map[string]string // never changed in place
	recorded *sdk.Attributes   // what the record has; nil = nothing
	unkept   *unkept           // nil = nothing waits to be recorded
}

const (
	ownerRuns = 0o100
	anyReads  = 0o444
	anyRuns   = 0o111
)

// setMode keeps permission bits. Only the owner's execute bit is ever recorded.
func (a *attributes) setMode(mode uint32) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.mode, a.moded, a.runs, a.ctime = mode, true, mode&ownerRuns != 0, time.Now()
}

// setTimes keeps a modification time until the content changes: copying tools compare it
// the next time. A time that cannot be recorded becomes the nearest that can.
func (a *attributes) setTimes(mtime time.Time) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.mtime, a.timed, a.ctime = recordable(mtime), true, time.Now()
}

// SetAccessed notes that a program set the access time alone, which nothing keeps: the status
// changed (W10).
func (a *attributes) SetAccessed() { a.setMoved(time.Now()) }

// recordable returns the nearest time that a record can hold.
func recordable(t time.Time) time.Time {
	if first := time.Unix(0, math.MinInt64); t.Before(first) {
		return first
	}
	if last := time.Unix(0, math.MaxInt64); t.After(last) {
		return last
	}
	return t
}

// setChanged makes now the modification time.
func (a *attributes) setChanged(now time.Time) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.mtime, a.timed, a.ctime = now, false, now
}

// setMoved notes that a name of the inode came or went.
func (a *attributes) setMoved(now time.Time) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.ctime = now
}

// setClosed notes when the save was closed that is recorded now: that is when the status changed (W10), not when
// the record came.
func (a *attributes) setClosed(at time.Time) {
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.ctime.IsZero() {
		a.ctime = at
	}
}

// setRecorded takes size and attributes from a record.
func (a *attributes) setRecorded(e *sdk.Entry) {
	a.setSize(e.Size)
	a.learn(e)
}

// learn takes from a record the attributes that no program has changed here since the
// record before. It reports whether something else shows now.
func (a *attributes) learn(e *sdk.Entry) (changed bool) {
	a.lock.Lock()
	defer a.lock.Unlock()
	was, now := valueOf(a.recorded), valueOf(e.Attributes)
	a.recorded = e.Attributes
	if a.runs == was.Executable && a.runs != now.Executable {
		a.setRuns(now.Executable)
		changed = true
	}
	if maps.Equal(a.xattrs, was.XAttrs) {
		a.xattrs = now.XAttrs
	}
	mtime := now.ModTime
	if mtime.IsZero() {
		mtime = e.Time
	}
	if a.timed = a.timed && !a.mtime.Equal(mtime); !a.timed {
		changed = changed || !a.mtime.Equal(mtime)
		a.mtime = mtime
	}
	return changed
}

// setRuns changes the execute bits as the record says: everybody who may read may execute.
// Needs lock.
func (a *attributes) setRuns(runs bool) {
	a.runs = runs
	a.mode &^= anyRuns
	if runs {
		a.mode |= a.mode & anyReads >> 2
	}
}

// setSaved notes that a record has the attributes sent. With whole it has the content,
// too, and its time is that of the last change.
func (a *attributes) setSaved(sent *sdk.Attributes, whole bool) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.recorded = sent
	if whole {
		a.ctime = time.Time{}
	}
}

// setSavedBefore notes that the content equals that of the record, which is older than the
// change: mtime stays. With fresh the inode had no record before, and nothing of this one's
// attributes is its own.
func (a *attributes) setSavedBefore(e *sdk.Entry, fresh bool) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.timed = true
	if fresh {
		a.recorded = e.Attributes
	}
}

func valueOf(a *sdk.Attributes) sdk.Attributes {
	if a == nil {
		return sdk.Attributes{}
	}
	return *a
}

// wanted returns the attributes that the next record is to have, and whether the record
// differs. A save always records its time.
func (a *attributes) wanted(save bool) (want sdk.Attributes, differs bool) {
	a.lock.Lock()
	defer a.lock.Unlock()
	want = valueOf(a.recorded) // with the target of a link, which never changes
	want.Executable, want.XAttrs = a.runs, a.xattrs
	if save || a.timed || !want.ModTime.IsZero() {
		want.ModTime = a.mtime
	}
	return want, !want.Equal(valueOf(a.recorded))
}

// xattr returns an extended attribute that a program set.
func (a *attributes) xattr(name string) (value string, ok bool) {
	a.lock.Lock()
	defer a.lock.Unlock()
	value, ok = a.xattrs[name]
	return value, ok
}

// setXattrs replaces the extended attributes by what change makes of a copy of them.
func (a *attributes) setXattrs(change func(all map[string]string) *Error) *Error {
	a.lock.Lock()
	defer a.lock.Unlock()
	all := maps.Clone(a.xattrs)
	if all == nil {
		all = make(map[string]string)
	}
	if err := change(all); err != nil {
		return err
	}
	a.xattrs, a.ctime = all, time.Now()
	return nil
}

// xattrBytes is what extended attributes take of [format.MaxAttributeBytes].
func xattrBytes(all map[string]string) (n int) {
	for name, value := range all {
		n += len(name) + len(value)
	}
	return n
}

func (a *attributes) setSize(size int64) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.size = size
}

func (a *attributes) isSized() bool {
	a.lock.Lock()
	defer a.lock.Unlock()
	return a.size != sdk.SizeUnknown
}

const blockBytes = 512

// fill writes the attributes into those of an inode. recorded is when the record was made;
// zero = there is none.
func (a *attributes) fill(into Attr, recorded time.Time) Attr {
	a.lock.Lock()
	defer a.lock.Unlock()
	into.Unsized, into.Size = a.size == sdk.SizeUnknown, max(a.size, 0)
	into.Blocks = (into.Size + blockBytes - 1) / blockBytes
	into.Mtime, into.Ctime, into.Mode, into.HasMode, into.Executable = a.mtime, a.ctime, a.mode, a.moded, a.runs
	if into.Ctime.IsZero() {
		into.Ctime = recorded
	}
	if into.Ctime.IsZero() {
		into.Ctime = a.mtime
	}
	return into
}
