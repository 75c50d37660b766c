package tree

import (
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

// attributes are the size, time and mode that stat shows of an inode. They have a lock
// of their own, which is held for a few assignments only: stat must not wait while
// content is copied, nor hold up look-ups with every write.
type attributes struct {
	lock  sync.Mutex // guards the fields below; no other lock is taken under it
	size  int64      // of a file; [sdk.SizeUnknown] while neither the ledger nor a retrieval has shown it
	mtime time.Time
	ctime time.Time // of the last change in this mount; zero = none
	mode  uint32    // where moded
	moded bool      // a program set the mode
	timed bool      // a program set mtime, and the content is as it was then
}

// SetMode keeps permission bits for this mount only (W10).
func (a *attributes) SetMode(mode uint32) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.mode, a.moded, a.ctime = mode, true, time.Now()
}

// SetTimes keeps a modification time for this mount only, until the content
// changes (W10): copying tools compare it the next time.
func (a *attributes) SetTimes(mtime time.Time) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.mtime, a.timed, a.ctime = mtime, true, time.Now()
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

// setRecorded takes size and time from a record.
func (a *attributes) setRecorded(e *sdk.Entry) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.size = e.Size
	if !a.timed {
		a.mtime = e.Time
	}
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

// fill writes the attributes into those of an inode.
func (a *attributes) fill(into Attr) Attr {
	a.lock.Lock()
	defer a.lock.Unlock()
	into.Unsized, into.Size = a.size == sdk.SizeUnknown, max(a.size, 0)
	into.Blocks = (into.Size + blockBytes - 1) / blockBytes
	into.Mtime, into.Ctime, into.Mode, into.HasMode = a.mtime, a.ctime, a.mode, a.moded
	if a.ctime.IsZero() || !a.timed && a.mtime.After(a.ctime) {
		into.Ctime = a.mtime // of the record
	}
	return into
}
