package tree

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/look"
	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/fs/tree/save"
	"github.com/svcfs/svcfs/fs/tree/staging"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/network"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Defaults of [Config].
const (
	DefaultCacheBytes      int64 = 512 << 20
	DefaultStagingBytes    int64 = 2 << 30
	DefaultMaxFileBytes    int64 = 1 << 30
	DefaultMetadataTimeout       = 5 * time.Second
	DefaultRefreshInterval       = 2 * time.Second
	DefaultEmptyDelay            = 2 * time.Second
	DefaultAttributesDelay       = 2 * time.Second
)

const (
	// roomPatience is how long an open waits for memory for its content.
	roomPatience = time.Minute
)

// Config configures a [Tree]. Zero values mean the defaults above.
type Config struct {
	Remote         Remote
	Pool           *mem.Pool // memory of staged and cached content
	CacheBytes     int64     // budget of decrypted content
	StagingBytes   int64     // memory for staged content
	MaxFileBytes   int64     // largest file that is opened or made, in plaintext bytes
	MaxUploadBytes int64     // largest file that can be uploaded, see [sdk.Client.MaxUpload]; 0 = MaxFileBytes
	// longer files are saved in blocks (format version 2); 0 = none is, the service cannot
	WholeBytes     int64
	MaxBlocksBytes int64 // largest file that is saved in blocks; 0 = what the format allows
	BlockBytes     int64 // of new files in blocks; 0 = [format.BlockBytes]
	// takes blocks of files being written that memory does not hold, and outlives the tree; nil = none
	Spool      *staging.Spool
	ReadOnly   bool // every change is refused
	AllowMkdir bool // mkdir in the root registers a group, which costs
	// the service renames uploads (W8) and folders (N5), has a trash (W9) and records attributes (W16)
	Ours            bool
	AllowDelete     bool          // with Ours: unlink of an uploaded file destroys its key (W9)
	MetadataTimeout time.Duration // for a listing to begin or to move on
	RefreshInterval time.Duration // between looks at the ledger
	EmptyDelay      time.Duration // before an empty file is uploaded (W5)
	AttributesDelay time.Duration // before attributes are recorded that changed without the content (W16)
	Scratch         []string      // more names that live in memory only, path.Match patterns
	Budget          sdk.Amount    // most to spend while mounted; zero = no limit
	BudgetPerHour   sdk.Amount    // most to spend in any hour; zero = no limit
	AllowCrawlers   bool          // thumbnailers and indexers may spend (R5)
	// Price returns the price of an action ("upload", "retrieve") where it is known; may be nil.
	Price func(action string) (sdk.Amount, bool)
	// ReadPrice returns the price of one look at the records of a group, or with "" at the
	// list of groups, see [Client.ReadPrice]; nil = looks are free.
	ReadPrice func(ctx context.Context, g sdk.GroupID) (sdk.Amount, error)
	// Watch delivers events, see [sdk.Client.Watch]; may be nil, and fail where the
	// service does not offer it.
	Watch func(ctx context.Context, from sdk.Seq) (iter.Seq2[sdk.Event, error], error)
	// Watching reports whether they arrive now, see [sdk.Client.Watching]; nil = as long as Watch delivers them.
	Watching func() bool
	Known    GroupMemory // which of groups that look alike keeps its name; nil = the one this mount sees first
	Kernel   Kernel      // may be nil, and set later
	// Storage returns the bytes that are stored and may be stored, of a group or with "" of
	// the account, see [Client.Storage]; nil where the service does not offer it.
	Storage    func(ctx context.Context, g sdk.GroupID) (sdk.Storage, error)
	Logger     *slog.Logger
	Version    string // shown in /.svcfs/version
	Left       string // see [report.Status]
	Mountpoint string // shown in /.svcfs/status
	Address    string // shown there too: of the service
	Files      string // shown there too: how large files may be, in words
	Confined   string // shown there too: how the process is confined
	// Connection tells how it stands with the connections to the service, for
	// /.svcfs/status; nil = not known.
	Connection func() network.Connection
	// Traffic tells what moves, for /.svcfs/status and for what is fetched ahead, see [sdk.Client.Traffic]; nil =
	// not known.
	Traffic func() network.Traffic
	// Limit tells how fast it may move, for /.svcfs/status; nil = not known.
	Limit func() network.Limit
	// Outbox keeps saves of files that are not saved in blocks until they are recorded; nil =
	// a save waits for its record. The caller closes it, after the tree. FsyncRecord: fsync waits all the same.
	Outbox      Outbox
	FsyncRecord bool
	// Proofs describes the proofs of the service for its lists, for /.svcfs/status; may be
	// nil.
	Proofs func() string
	// Hint returns the next step of a user after an error of the service; may be nil.
	Hint func(err error) string

	clock      func() time.Time // of tests, which then also call tick themselves
	reopen     time.Duration    // of tests; 0 = reopenTime, negative = none
	stageBytes int64            // of tests: memory for the blocks of one stage
	partBlocks int64            // of tests: blocks that are sent together
}

const (
	// stageShare is the part of the memory for staged content that the blocks of one file may take.
	stageShare = 4
	// fewestBlocks is how many they may be in any case: one request of a program needs five.
	fewestBlocks = 8
)

// memoryOfStage is how much memory the blocks of one stage take before they go to the spool, in
// bytes: no file leaves nothing for the others.
func (c *Config) memoryOfStage() int64 {
	share := max(c.StagingBytes/stageShare, fewestBlocks*cmp.Or(c.BlockBytes, format.BlockBytes))
	return cmp.Or(c.stageBytes, min(staging.DefaultFileBytes, share))
}

// line is what the line from the service holds, in bytes, see [network.Traffic]; 0 where the service is near.
func (c *Config) line() int64 {
	if c.Traffic == nil {
		return 0
	}
	return c.Traffic().Line
}

// reopenTime is how long a file stays open at the service after programs closed it: many
// open a file twice, and pay once.
const reopenTime = time.Minute

// Tree is the namespace of one account. Methods of Tree, Dir, File and Handle
// are safe for concurrent use.
//
// Gates are held while the service is asked; a caller that waits at one leaves with its
// context. Mutexes are held while memory is read or changed, never longer. Whoever takes
// several takes them in this order:
//
//  1. the gates of Tree.unrecorded, a few empty files, or attributes, at a time
//  2. File.nameGate, one save, rename, link or removal of a file; of two files the one
//     with the smaller generation first; a rename of a folder waits for those beneath it, and has none
//  3. the gate of group.list, and groupInfo.asking, one request for records, or for members, of a group
//  4. the gate of Tree.look.Groups, one request for the list of groups
//  5. body.mu, the bytes of a file, its state and its handles
//  6. Tree.mu, the names: every field that is marked so
//  7. attributes.lock, groupInfo.mu and the locks of packages look, save, content, report,
//     policy and cache, each on its own
//
// The state of a file that is being sealed and sent is sending: body.mu is free then,
// and callers wait for its end with their context.
type Tree struct {
	cfg    Config
	remote Remote
	blocks BlockRemote // nil where the service has no files of format version 2
	parts  PartRemote  // nil where it proves no parts of groups
	log    *slog.Logger
	errors report.Errors
	spent  policy.Budget
	saver  *save.Saver
	queue  *save.Queue // of saver: what waits in the outbox

	started  time.Time
	gens     atomic.Uint64  // the generation of the newest inode
	contents *content.Store // of all files
	counts   counters

	mu     sync.RWMutex // guards the namespace: every field below and those marked "Tree.mu"
	kernel Kernel
	root   *Dir
	groups map[sdk.GroupID]*group
	// given holds the inode numbers of paths whose file or folder lost the name, or took it
	// along: what gets such a name later is another file, with another number (A4).
	given map[uint64]struct{}
	// held is the memory of the names and uploads of all groups, and of given, in bytes; counted
	// is how much of it the client counts, see listmemory.go.
	held, counted int64
	texts         atomic.Int64     // memory of ledger.jsonl, members, and so on, of all groups, in bytes
	relink        []*group         // with links that may lead elsewhere by now, see noteLinks
	inDoubt       []recordedFolder // which may hold files of others since
	// moving are the folders that are being renamed, see enterNames: who waits here has no other gate but one of
	// unrecorded
	moving   map[*Dir]policy.Gate
	entering map[*File]*Dir // the folders that files with a held nameGate may go to

	unrecorded unrecorded
	opened     opened     // by which processes, lately
	look       *look.Look // at the ledger

	stop context.CancelFunc
	done sync.WaitGroup
	life context.Context
}

type counters struct {
	retrieves, uploads, crawlers, sending, open atomic.Int64
}

// New lists the groups once, and fails when the service cannot be asked or does
// not know the account. Close stops the goroutines of the tree.
func New(ctx context.Context, cfg Config) (*Tree, error) {
	cfg = withDefaults(cfg)
	t := &Tree{
		cfg: cfg, remote: cfg.Remote, log: cfg.Logger, started: time.Now(), groups: make(map[sdk.GroupID]*group),
		spent: policy.Budget{Limit: cfg.Budget, Hourly: cfg.BudgetPerHour},
		given: make(map[uint64]struct{}), moving: make(map[*Dir]policy.Gate),
		entering: make(map[*File]*Dir),
	}
	t.unrecorded.t = t
	t.unrecorded.delayed = later{t, cfg.EmptyDelay, policy.NewGate(delayedUploads)}
	t.unrecorded.keeping = later{t, cfg.AttributesDelay, policy.NewGate(delayedRequests)}
	t.spent.Now, t.spent.Price = t.now, cfg.Price
	t.saver = save.New(save.Options{Remote: cfg.Remote, Outbox: cfg.Outbox, Budget: &t.spent, Pool: cfg.Pool,
		Ours: cfg.Ours, Claim: t.claimVersion, Guard: guard, IsAway: isAway, GoesOn: goesOn})
	t.queue = t.saver.Queue
	t.blocks, _ = cfg.Remote.(BlockRemote)
	t.parts, _ = cfg.Remote.(PartRemote)
	t.contents = content.NewStore(content.Options{CacheBytes: cfg.CacheBytes, Reopen: cfg.reopen, Line: cfg.line,
		Wait: await, Guard: guard, Staging: staging.Options{Pool: cfg.Pool, Bytes: cfg.StagingBytes,
			FileBytes: cfg.memoryOfStage(), WholeBytes: cmp.Or(cfg.WholeBytes, -1), BlockBytes: cfg.BlockBytes,
			PartBlocks: cfg.partBlocks, Spool: cfg.Spool}})
	t.SetKernel(cfg.Kernel)
	t.root = t.newDir(nil, "", dirRoot)
	t.root.ino = rootIno
	t.addControlDir()
	t.life, t.stop = context.WithCancel(context.Background())
	t.look = look.New(t.life, t.looks(), t.listGroups)
	if err := t.look.Groups.Refresh(ctx, 0); err != nil {
		t.stop()
		t.contents.Cache.Close()
		return nil, err
	}
	if cfg.clock == nil {
		t.done.Go(t.look.Poll)
	}
	if cfg.Watch != nil {
		t.done.Go(t.look.Watch)
	}
	return t, nil
}

func withDefaults(cfg Config) Config {
	cfg.CacheBytes = cmp.Or(cfg.CacheBytes, DefaultCacheBytes)
	cfg.StagingBytes = cmp.Or(cfg.StagingBytes, DefaultStagingBytes)
	cfg.MaxFileBytes = cmp.Or(cfg.MaxFileBytes, DefaultMaxFileBytes)
	cfg.MaxUploadBytes = cmp.Or(cfg.MaxUploadBytes, cfg.MaxFileBytes)
	cfg.BlockBytes = cmp.Or(cfg.BlockBytes, format.BlockBytes)
	cfg.partBlocks = cmp.Or(cfg.partBlocks, max(1, wire.PartBytes/(cfg.BlockBytes+format.Overhead)))
	mostParts := int64(format.MaxManifestBytes / format.RunBytes)
	cfg.MaxBlocksBytes = min(cmp.Or(cfg.MaxBlocksBytes, math.MaxInt64), mostParts*cfg.partBlocks*cfg.BlockBytes)
	cfg.MetadataTimeout = cmp.Or(cfg.MetadataTimeout, DefaultMetadataTimeout)
	cfg.RefreshInterval = cmp.Or(cfg.RefreshInterval, DefaultRefreshInterval)
	cfg.EmptyDelay = cmp.Or(cfg.EmptyDelay, DefaultEmptyDelay)
	cfg.reopen = cmp.Or(cfg.reopen, reopenTime)
	cfg.AttributesDelay = cmp.Or(cfg.AttributesDelay, DefaultAttributesDelay)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Pool == nil {
		cfg.Pool = mem.NewPool()
	}
	if _, ok := cfg.Remote.(BlockRemote); !ok {
		cfg.WholeBytes = 0
	}
	if cfg.Known == nil {
		cfg.Known = make(thisMount)
	}
	cfg.Scratch = append(policy.ScratchNames(), cfg.Scratch...)
	return cfg
}

// SetKernel sets the kernel that is notified of changes. Call it before serving. nil = none,
// as after the mount is gone: what waits may still be sent then, and looks go on.
func (t *Tree) SetKernel(k Kernel) {
	if k == nil {
		k = noKernel{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kernel = k
}

// Root returns the root directory.
func (t *Tree) Root() *Dir { return t.root }

// Close stops looking at the ledger, and wipes cached and staged content. Drain first:
// content that is still staged is lost.
func (t *Tree) Close() error {
	t.stop()
	t.done.Wait()
	t.look.Wait() // nobody asks any more: Poll, which asks too, has ended
	for _, f := range t.unrecorded.staged.all() {
		f.discard()
	}
	t.done.Wait() // for uploads that are given up
	t.contents.Cache.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held = 0
	t.texts.Store(0)
	t.countHeld()
	return nil
}

// now is the local time; ledger times come from entries.
func (t *Tree) now() time.Time {
	if t.cfg.clock != nil {
		return t.cfg.clock()
	}
	return time.Now()
}

// notice is a change that the kernel, or /.svcfs/errors, is notified of once no lock is
// held.
type notice func(Kernel)

func entryChanged(d *Dir, name string) notice { return func(k Kernel) { k.EntryChanged(d, name) } }

func attributesChanged(d *Dir, name string) notice {
	return func(k Kernel) { k.AttributesChanged(d, name) }
}

func contentChanged(f *File) notice { return func(k Kernel) { k.ContentChanged(f) } }

func contentGone(match func(*File) bool) notice { return func(k Kernel) { k.ContentGone(match) } }

func ownerChanged(d *Dir) notice { return func(k Kernel) { k.OwnerChanged(d) } }

func (t *Tree) noted(err *Error) notice { return func(Kernel) { t.Note(err) } }

// change changes names under Tree.mu, and then delivers the notices to the kernel.
func (t *Tree) change(do func() []notice) { t.tell(t.changed(do)) }

func (t *Tree) changed(do func() []notice) []notice {
	t.mu.Lock()
	defer t.mu.Unlock()
	notices := append(do(), t.relinkAll()...)
	return append(notices, t.ownersInDoubt()...)
}

func (t *Tree) tell(notices []notice) {
	t.mu.RLock()
	kernel := t.kernel
	t.mu.RUnlock()
	for _, tell := range notices {
		tell(kernel)
	}
}

// noKernel is the kernel of a tree that is not mounted.
type noKernel struct{}

func (noKernel) EntryChanged(*Dir, string)      {}
func (noKernel) AttributesChanged(*Dir, string) {}
func (noKernel) ContentChanged(*File)           {}
func (noKernel) OwnerChanged(*Dir)              {}
func (noKernel) ChangedByOthers([]Change)       {}
func (noKernel) ContentGone(func(*File) bool)   {}
func (noKernel) Settle(context.Context)         {}
