package tree

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

var errSoon = errors.New("being written")

type Config struct {
	Remote                           Remote
	Pool                             *sdk.Pool
	CacheBytes                       int64 // budget of decrypted content; 0 = default
	StagingBytes                     int64 // budget of staged content; 0 = default
	MaxFileBytes                     int64 // 0 = default
	Kernel                           Kernel
	Logger                           *slog.Logger
	ReadOnly, AllowMkdir             bool
	MetadataTimeout, TransferTimeout time.Duration // 0 = 5 s, 60 s
	RefreshInterval                  time.Duration // 0 = 2 s
	Scratch                          []string      // extra scratch patterns
	Budget                           sdk.Amount    // most to spend while mounted; zero = no limit
	Version                          string        // shown in /.svcfs/version
	Mountpoint                       string        // shown in status
}

type Tree struct{}
type Dir struct{}
type File struct{}
type Handle struct{}

type Pending struct {
	Path  string    `json:"path"`
	Size  int64     `json:"size"`
	Since time.Time `json:"since"`
	Error string    `json:"error,omitempty"`
}
type Status struct {
	PID        int    `json:"pid"`
	Mountpoint string `json:"mountpoint"`
}
type StatFS struct{ TotalBytes, FreeBytes, Files, FreeFiles int64 }

// New lists the groups once and fails when the service cannot be reached.
func New(ctx context.Context, cfg Config) (*Tree, error) { return nil, errSoon }
func (t *Tree) SetKernel(k Kernel)                       {}
func (t *Tree) Root() *Dir                               { return nil }
func (t *Tree) Close() error                             { return errSoon }
func (t *Tree) Drain(ctx context.Context) []Pending      { return nil }
func (t *Tree) Pending() []Pending                       { return nil }
func (t *Tree) Status() Status                           { return Status{} }
func (t *Tree) Refresh(ctx context.Context) error        { return errSoon }
func (t *Tree) StatFS() StatFS                           { return StatFS{} }

// Note records a refusal that the kernel adapter made itself, as the tree does
// with its own: a line in /.svcfs/errors and in the log.
func (t *Tree) Note(err *Error) {}

func (d *Dir) Attr() Attr                                            { return Attr{} }
func (d *Dir) Lookup(ctx context.Context, name string) (Node, error) { return nil, errSoon }
func (d *Dir) Entries(ctx context.Context) ([]DirEntry, error)       { return nil, errSoon }
func (d *Dir) Create(ctx context.Context, name string, exclusive bool, flags OpenFlags) (*File, *Handle, error) {
	return nil, nil, errSoon
}
func (d *Dir) Mkdir(ctx context.Context, name string) (*Dir, error) { return nil, errSoon }
func (d *Dir) Rmdir(ctx context.Context, name string) error         { return errSoon }
func (d *Dir) Unlink(ctx context.Context, name string) error        { return errSoon }
func (d *Dir) Rename(ctx context.Context, name string, to *Dir, newName string, noReplace bool) error {
	return errSoon
}
func (d *Dir) Link(ctx context.Context, f *File, name string) error { return errSoon }
func (d *Dir) SetMode(mode uint32)                                  {}
func (d *Dir) SetTimes(mtime time.Time)                             {}
func (d *Dir) Path() string                                         { return "" }

func (f *File) Attr() Attr                                                 { return Attr{} }
func (f *File) Open(ctx context.Context, flags OpenFlags) (*Handle, error) { return nil, errSoon }
func (f *File) Truncate(ctx context.Context, size int64, h *Handle) error  { return errSoon }
func (f *File) SetMode(mode uint32)                                        {}
func (f *File) SetTimes(mtime time.Time)                                   {}
func (f *File) Xattrs() map[string]string                                  { return nil }
func (f *File) Path() string                                               { return "" }

func (h *Handle) File() *File          { return nil }
func (h *Handle) CacheMode() CacheMode { return CacheKeep }

// ReadAt fills p from off; n < len(p) only at the end of the file, with err nil.
func (h *Handle) ReadAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	return 0, errSoon
}
func (h *Handle) WriteAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	return 0, errSoon
}
func (h *Handle) Flush(ctx context.Context) error { return errSoon }
func (h *Handle) Fsync(ctx context.Context) error { return errSoon }
func (h *Handle) Release()                        {}
