// Package space reserves a part of the disks. Uploads may use the rest. When they have,
// reading, removing and administration continue, because they need little.
package space

import (
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
)

const (
	// MaxReserve is the largest reserve of a disk, in bytes, and ReserveShare the share
	// of a smaller disk, unless the operator sets a reserve.
	MaxReserve   = 1 << 30
	ReserveShare = 10
	// LowFactor times the reserve is the free space below which operators are warned.
	LowFactor = 3
	// lookEvery is how many bytes of an upload pass between two looks at the disk.
	lookEvery = 8 << 20
)

// State is how much room there is.
type State string

// States. Uploads are refused when one disk is full.
const (
	OK   State = "ok"
	Low  State = "low"
	Full State = "full"
)

// Place is where the service writes.
type Place struct {
	Name    string // "database" or "files"
	Dir     string // on the disk that it fills; "" where the disk is elsewhere: a bucket, a database server
	Free    int64  // bytes, -1 = not known
	Size    int64  // of the disk, bytes, -1 = not known
	Reserve int64  // bytes that uploads leave alone
	State   State
}

// Names of places.
const (
	Database = "database"
	Files    = "files"
)

// Keeper knows the room of all places. It is safe for concurrent use.
type Keeper struct {
	reserve int64
	dirs    map[string]string
	look    func(dir string) (free, size int64)

	mu      sync.Mutex
	coming  int64                // bytes of uploads under way that are not written yet
	refused map[string]time.Time // place to the end of its refusal
}

// New returns the keeper of the places in dirs, name to directory. reserve is held back of each
// disk, in bytes; 0 = MaxReserve, or a ReserveShare-th of the disk if that is less; negative = nothing.
func New(reserve int64, dirs map[string]string) *Keeper {
	return &Keeper{reserve: reserve, dirs: dirs, look: look, refused: make(map[string]time.Time)}
}

// look returns the bytes that an unprivileged user may still write to the disk of dir,
// and the size of that disk, -1 when unknown.
func look(dir string) (free, size int64) {
	var fs unix.Statfs_t
	if dir == "" || unix.Statfs(dir, &fs) != nil {
		return -1, -1
	}
	return int64(fs.Bavail) * int64(fs.Bsize), int64(fs.Blocks) * int64(fs.Bsize)
}

// Free is how many bytes may still be written to the disk of dir, -1 when unknown.
func Free(dir string) int64 {
	free, _ := look(dir)
	return free
}

// Size is the size of the disk of dir in bytes, -1 when unknown.
func Size(dir string) int64 {
	_, size := look(dir)
	return size
}

// Size is the size of the disk of a place in bytes, -1 when unknown.
func (k *Keeper) Size(name string) int64 {
	_, size := k.look(k.dirs[name])
	return size
}

// place returns one place with its free space.
func (k *Keeper) place(name string) Place {
	p := Place{Name: name, Dir: k.dirs[name], State: OK}
	p.Free, p.Size = k.look(p.Dir)
	switch {
	case k.reserve > 0:
		p.Reserve = k.reserve
	case k.reserve == 0 && p.Size >= 0:
		p.Reserve = min(MaxReserve, p.Size/ReserveShare)
	}
	switch {
	case p.Free >= 0 && p.Free < p.Reserve, p.Free == 0:
		p.State = Full
	case p.Free >= 0 && p.Free < LowFactor*p.Reserve:
		p.State = Low
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if until, ok := k.refused[name]; ok && time.Now().Before(until) {
		p.State = Full
	}
	return p
}

// Places returns all places with their free space.
func (k *Keeper) Places() []Place {
	return []Place{k.place(Database), k.place(Files)}
}

// State is the worst of all places.
func (k *Keeper) State() State {
	worst := OK
	for _, p := range k.Places() {
		if p.State == Full || worst == OK {
			worst = p.State
		}
	}
	return worst
}

// Refused notes that a place on a remote disk reported no room: uploads are refused
// there for a while.
func (k *Keeper) Refused(name string, wait time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refused[name] = time.Now().Add(wait)
}

// Freed notes that a place has room again, or may have.
func (k *Keeper) Freed(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.refused, name)
}

// Left is how many bytes uploads may still use, -1 when it is not known.
func (k *Keeper) Left() int64 {
	left := int64(-1)
	for _, p := range k.Places() {
		switch {
		case p.State == Full:
			return 0
		case p.Name == Files && p.Free >= 0:
			k.mu.Lock()
			left = max(0, p.Free-p.Reserve-k.coming)
			k.mu.Unlock()
		}
	}
	return left
}

// Room refuses an upload of so many bytes that would use the reserve.
func (k *Keeper) Room(bytes int64) error {
	if left := k.Left(); left == 0 || left > 0 && bytes > left {
		return errFull()
	}
	return nil
}

// RoomForRecord refuses bytes of the ledger that would use the reserve of the database's disk. What
// uploads were promised, and other disks, are no matter.
func (k *Keeper) RoomForRecord(bytes int64) error {
	p := k.place(Database)
	if p.State == Full || p.Free >= 0 && p.Free-p.Reserve < bytes {
		return errFull()
	}
	return nil
}

func errFull() error {
	return fault.New(wire.CodeStorageFull, "the service's storage is full: the rest is kept for reading and "+
		"removing; nothing was recorded or charged")
}

// Reserve is how many bytes are left to the database when its disk is full for uploads: at least what
// is held back of a disk, and no more than that where the disk is elsewhere.
func (k *Keeper) Reserve(elsewhere bool) int64 {
	p := k.place(Database)
	held := heldBytes(p.Size)
	if elsewhere {
		return held
	}
	return max(p.Reserve, held)
}

// Upload is room that was promised to one.
type Upload struct {
	k    *Keeper
	left int64 // promised and not used yet
}

// Begin promises room for an upload of so many bytes, or refuses it. The caller calls
// End.
func (k *Keeper) Begin(bytes int64) (*Upload, error) {
	if err := k.Room(bytes); err != nil {
		return nil, err
	}
	k.add(bytes)
	return &Upload{k, bytes}, nil
}

func (k *Keeper) add(bytes int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.coming += bytes
}

// End gives back the unused part of the promise.
func (u *Upload) End() {
	u.k.add(-u.left)
	u.left = 0
}

// Reader is r, but ends with a refusal when others have used the room meanwhile: other
// processes, or uploads of unknown length.
func (u *Upload) Reader(r io.Reader) io.Reader { return &reader{r: r, u: u} }

type reader struct {
	r    io.Reader
	u    *Upload
	took int64 // since the last look
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	used := min(int64(n), r.u.left)
	r.u.left -= used
	r.u.k.add(-used)
	if r.took += int64(n); r.took < lookEvery {
		return n, err
	}
	r.took = 0
	if full := r.u.k.Room(0); full != nil {
		return 0, full
	}
	return n, err
}
