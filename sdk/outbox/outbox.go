package outbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
)

// Defaults of [Config].
const (
	// DefaultBytes is how much disk an outbox takes, at most.
	DefaultBytes int64 = 10 << 30
	// DefaultCoalesce is how often a file that is saved again and again is sent, at most.
	DefaultCoalesce = 10 * time.Second
	// DefaultGather is how close together saves come that are sent together.
	DefaultGather = 20 * time.Millisecond
	// DefaultDrain is how long an unmount sends what waits.
	DefaultDrain = time.Minute
)

const (
	// shareOfFree: an outbox takes one of so many bytes that are free without it, at most.
	shareOfFree = 2
	// shortestPause and longestPause are between attempts to reach a service that is away.
	shortestPause = time.Second
	longestPause  = 5 * time.Minute
	// lanesAtATime is how many groups are sent at a time.
	lanesAtATime = 4
	// slowest is how long a save waits when the outbox is all but full.
	slowest = time.Second
	// maxWords bounds a reason, in bytes.
	maxWords = 300
)

// Config configures an [Outbox]. Zero values mean the defaults above.
type Config struct {
	Remote   Remote
	Keys     Keys
	Bytes    int64         // most disk
	Coalesce time.Duration // negative = none
	// Gather is how close together saves come for which sending waits: a program that saves many small files has the
	// machine for itself. Sending begins after such a pause, and after five seconds in any case. Negative = at once.
	Gather time.Duration
	// Balance returns what the account has; nil, or an error, where it is not known. Price is the fee of
	// a save, where it is known.
	Balance func(context.Context) (sdk.Amount, error)
	Price   func() (sdk.Amount, bool)
	// Told is called after each step of an item, with no lock held, in the order of the steps of
	// each item. It may be nil.
	Told   func(Item, sdk.Receipt)
	Logger *slog.Logger
}

// Keys are keys of the caller for what lies on the disk.
type Keys struct {
	// Group is the key of the keyed hash of the group, 32 random bytes. Whoever has it can try names of groups. Without
	// it, the hash serves this process alone.
	Group []byte
	// Names is the key in the user's keyring, under which the names of what waits are kept, beside the key of the
	// journal. nil = there is none: then they are not known after a restart until the service gave that key.
	Names *format.Key
}

// Item is what is known of something that waits.
type Item struct {
	ID       string      `json:"id"`
	Group    sdk.GroupID `json:"group,omitempty"` // "" while its key is not known
	Name     string      `json:"name,omitempty"`
	Size     int64       `json:"size"` // of the content, in bytes
	Time     time.Time   `json:"time"` // of the save
	State    string      `json:"state"`
	Reason   string      `json:"reason,omitempty"` // why it is parked, or still waits
	Next     *time.Time  `json:"next,omitempty"`   // the next attempt, if there was one
	Position int64       `json:"position"`

	Attributes sdk.Attributes `json:"-"`
	Hash       sdk.Digest     `json:"-"`
	Temporary  bool           `json:"temporary,omitempty"` // see [Save]
	Locked     bool           `json:"locked,omitempty"`    // its key was not fetched since the restart
	Was        string         `json:"was,omitempty"`       // the name that it was saved under, of a conflict
	BlockBytes int64          `json:"-"`                   // of a large save, see [Outbox.OpenBlocks]; else 0
	Changed    format.Extents `json:"-"`                   // of a large save: the blocks that wait
	From       From           `json:"-"`                   // of a large save: what has the others
	// Tried: the service may have it. Then [Outbox.Remove] and [Outbox.Rename] are ErrTried.
	Tried bool `json:"-"`
}

// The errors of an outbox.
var (
	// ErrFull: no room. The save is not in the outbox.
	ErrFull = errors.New("the outbox is full")
	// ErrMoney: the balance does not pay for what waits and this save.
	ErrMoney = errors.New("the balance of the account does not pay for what waits to be sent and this save")
	// ErrLocked: the key of the content was not fetched since the restart.
	ErrLocked = errors.New("it waits to be sent, and its key was not fetched from the service yet")
	// ErrGone: the item was recorded, discarded, or never there.
	ErrGone = errors.New("the outbox has no such item")
	// ErrTried: the item was sent, and it is not known what became of it.
	ErrTried = errors.New("it was sent, and the service has not answered yet")
	// ErrTemporary: the item has a temporary name, see [Save].
	ErrTemporary = errors.New("it has a temporary name, and nothing is uploaded under such a name")
	// ErrAway: the service does not answer.
	ErrAway = errors.New("the service does not answer, and earlier saves wait to be sent")
)

// RefPrefix begins the references of what waits, see [Item.Ref].
const RefPrefix = "outbox:"

// Ref stands for the record that the item will have.
func (i Item) Ref() sdk.Ref { return sdk.Ref(RefPrefix + i.ID) }

// IDOf returns the id of the item that a reference stands for, "" for any other.
func IDOf(ref sdk.Ref) string {
	id, ok := strings.CutPrefix(string(ref), RefPrefix)
	if !ok {
		return ""
	}
	return id
}

// Outbox sends what was saved. Its methods are safe for concurrent use.
type Outbox struct {
	cfg   Config
	store *store
	life  context.Context
	stop  context.CancelFunc
	done  sync.WaitGroup
	wake  chan struct{} // something may be due
	pool  *mem.Pool

	beginning chan struct{} // one journal at a time
	ending    sync.Mutex    // one call of endJournals at a time
	emptied   chan struct{} // nothing of a journal waits any more

	mu       sync.Mutex
	journals map[string]*journal
	current  map[sdk.GroupID]*journal // that take more
	unopened []*item                  // of earlier processes, by position; some may be opened, or gone
	renewAt  time.Time                // when journals are to be renewed
	wipes    int                      // how often keys were wiped because a group was lost
	items    map[string]*item
	order    []*item // by position
	lanes    map[sdk.GroupID]*lane
	results  map[string]sdk.Ref // of items that were recorded
	owners   map[sdk.Ref]string // the same the other way round
	changed  chan struct{}      // closed at the next step of any item
	away     error              // the last attempt; nil = the service answered
	pause    time.Duration
	next     time.Time // of an attempt while the service is away
	flush    int       // who waits for everything at once
	sending  int
	funds    funds
	// bytes that were recorded in a second, of which at is the Unix time
	sent    [rateSeconds]struct{ at, bytes int64 }
	started time.Time
}

// funds are the balance as it was last told, and what waits to be paid from it.
type funds struct {
	at       time.Time // when it was asked for
	known    bool
	balance  sdk.Amount
	reserved sdk.Amount
}

// item is something that waits. By Outbox.mu; what meta points to never changes.
type item struct {
	clear     Clear
	journal   *journal // nil = the disk has none of it any more
	meta      *meta    // nil = not known yet
	openBase  OpenBase // see Large; nil after a restart
	release   func()   // of openBase
	group     sdk.GroupID
	name      string
	was       string // of a conflict
	state     State
	reason    string
	ready     bool    // the caller of Put has taken note of it
	changing  int     // who gives it up or another address now: it is not sent meanwhile
	moving    bool    // it is encrypted anew now
	tried     bool    // the service may have it
	after     *item   // what it was saved upon, see follow
	record    sdk.Ref // of it, once it is Recorded
	urgent    bool    // it waits for no pause of a file that is saved again and again
	fee       sdk.Amount
	rebase    *sdk.Ref      // the record that it replaces, once that is known
	pause     time.Duration // before the item alone is sent once more
	notBefore time.Time     // until when it is over
	lost      bool          // the account lost its group while it was sent
	held      error         // why it, and what follows it in its lane, is not recorded yet
	opened    bool          // its journal was looked for since the restart
	conflicts int           // names that it had because of conflicts
}

// lane is what waits of one group.
type lane struct {
	queue  []*item
	busy   bool
	sentAt map[string]time.Time // by name: when a save was sent last
}

// New reads what an earlier process left in the folder dir, which it makes, and begins to send. The
// folder belongs to one account at one service, and to one process: a second one is [ErrTaken].
func New(dir string, cfg Config) (*Outbox, error) {
	f, err := openFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("open the outbox: %w", err)
	}
	if err := f.lock(); err != nil {
		return nil, errors.Join(err, f.close())
	}
	o, err := open(f, cfg)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return o, nil
}

func open(d disk, cfg Config) (*Outbox, error) {
	cfg.Bytes, cfg.Coalesce = cmp.Or(cfg.Bytes, DefaultBytes), cmp.Or(cfg.Coalesce, DefaultCoalesce)
	cfg.Gather = cmp.Or(cfg.Gather, DefaultGather)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Keys.Group == nil {
		cfg.Keys.Group = make([]byte, 32)
		if _, err := rand.Read(cfg.Keys.Group); err != nil {
			return nil, err
		}
	}
	s, list, err := openStore(d, false)
	if err != nil {
		return nil, err
	}
	o := &Outbox{cfg: cfg, store: s, wake: make(chan struct{}, 1), pool: mem.NewPool(),
		beginning: make(chan struct{}, 1), emptied: make(chan struct{}, 1), journals: make(map[string]*journal),
		current: make(map[sdk.GroupID]*journal), items: make(map[string]*item, len(list)),
		lanes: make(map[sdk.GroupID]*lane), results: make(map[string]sdk.Ref), owners: make(map[sdk.Ref]string),
		changed: make(chan struct{}), started: time.Now()}
	o.life, o.stop = context.WithCancel(context.Background())
	s.now = o.upToDate
	left := o.takeIn(list)
	for _, name := range s.damaged {
		cfg.Logger.Error("the outbox has a file of which a part cannot be read; it stays", "file", name)
	}
	for _, name := range s.torn {
		cfg.Logger.Warn("the end of a file of the outbox, written when the machine stopped, cannot be read; the file "+
			"stays",
			"file", name)
	}
	unread := slices.Clone(o.unopened)
	o.done.Go(func() {
		o.showNames(unread)
		o.askBalance(o.life)
		o.openAll(left)
	})
	o.done.Go(o.run)
	o.done.Go(o.tend)
	return o, nil
}

// takeIn takes in what an earlier process left, and returns its journals, in the order of their first items.
func (o *Outbox) takeIn(list []Clear) (left []*journal) {
	o.readJournals()
	for _, c := range list {
		i := &item{clear: c, journal: o.journals[c.Journal], ready: true, tried: true, urgent: true}
		if c.Record != "" {
			i.rebase = &c.Record
		}
		o.items[c.ID] = i
		o.order = append(o.order, i)
		switch j := i.journal; {
		case j == nil:
			i.opened, i.state, i.reason = true, Parked, words(errDamaged)
		case len(j.list) == 0:
			left = append(left, j)
			fallthrough
		default:
			j.list = append(j.list, i)
			o.unopened = append(o.unopened, i)
		}
	}
	for _, i := range o.order {
		// What is not earlier somebody else wrote: nothing would be sent.
		if after := o.items[i.clear.After]; after != nil && after.clear.Position < i.clear.Position {
			i.after = after
		}
	}
	return left
}

// Close ends sending. What waits stays on the disk.
func (o *Outbox) Close() error {
	o.stop()
	o.done.Wait()
	o.mu.Lock()
	for _, j := range o.journals {
		j.wipe()
	}
	for _, i := range o.items {
		i.forgetBase()
	}
	o.mu.Unlock()
	o.cfg.Remote.Forget("")
	err := errors.Join(o.store.close(), o.pool.Close())
	if f, ok := o.store.disk.(folder); ok {
		err = errors.Join(err, f.close())
	}
	return err
}

// OpenBlocks opens the content of a large save. Errors: [ErrLocked], [ErrGone], those of the disk.
func (o *Outbox) OpenBlocks(id string) (*WaitingBlocks, error) {
	c, m, d, err := o.sealed(id)
	if err != nil {
		return nil, err
	}
	return o.store.openLarge(&c, m, d)
}

// sealed returns what is needed to decrypt an item.
func (o *Outbox) sealed(id string) (c Clear, m *meta, d derive, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := o.items[id]
	switch {
	case i == nil:
		return c, nil, nil, ErrGone
	case i.meta == nil || !i.journal.hasKey():
		return c, nil, nil, ErrLocked
	}
	return i.clear, i.meta, o.derive(i.journal), nil
}

// end takes an item out. What was saved upon it follows it no more, see follow. Needs mu.
func (o *Outbox) end(i *item, to State) {
	o.step(i, to)
	j := i.journal
	i.moveTo(nil)
	i.forgetBase()
	if j != nil && len(j.list) == 0 {
		select {
		case o.emptied <- struct{}{}:
		default:
		}
	}
	delete(o.items, i.clear.ID)
	o.order = without(o.order, i)
	if l := o.lanes[i.group]; l != nil {
		l.queue = without(l.queue, i)
	}
	if left, ok := o.funds.reserved.Sub(i.fee); ok {
		o.funds.reserved = left
	}
	i.fee = sdk.Amount{}
}

// without takes an item from a list, at once if it is the first one.
func without(list []*item, i *item) []*item {
	switch at := slices.Index(list, i); at {
	case -1:
		return list
	case 0:
		list[0] = nil
		return list[1:]
	default:
		return slices.Delete(list, at, at+1)
	}
}

// step needs mu.
func (o *Outbox) step(i *item, to State) {
	if !i.state.leadsTo(to) {
		o.cfg.Logger.Error("please report this mistake of the program", "what",
			"an item that is "+i.state.String()+" cannot become "+to.String())
	}
	i.state = to
	close(o.changed)
	o.changed = make(chan struct{})
}

// lane needs mu.
func (o *Outbox) lane(g sdk.GroupID) *lane {
	l := o.lanes[g]
	if l == nil {
		l = &lane{sentAt: make(map[string]time.Time)}
		o.lanes[g] = l
	}
	return l
}

// Content decrypts the content of an item into b. Errors: [ErrLocked], [ErrGone], those of the disk.
func (o *Outbox) Content(id string, b *mem.Buffer) error {
	c, m, d, err := o.sealed(id)
	if err != nil {
		return err
	}
	e, err := o.store.read(id)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrGone
	}
	if err != nil {
		return err
	}
	return m.openContent(&c, d, e.body, b)
}

// isAway reports whether the service could not be asked, or is to be asked again.
func isAway(err error) bool {
	switch sdk.KindOf(err) {
	case sdk.ErrUnavailable, sdk.ErrTimeout, sdk.ErrRateLimited, sdk.ErrCanceled, sdk.ErrUnauthenticated,
		sdk.ErrAudience,
		sdk.ErrStorageFull, sdk.ErrPending, sdk.ErrCorrupt, sdk.ErrOther:
		return true
	}
	return false
}

// isDown reports whether an error that [isAway] reports is one of the whole service. Any other may be one of
// a group, whose storage is full, or whose records are not proven: other groups do not wait for it.
func isDown(err error) bool {
	switch sdk.KindOf(err) {
	case sdk.ErrUnavailable, sdk.ErrTimeout, sdk.ErrRateLimited, sdk.ErrCanceled, sdk.ErrUnauthenticated,
		sdk.ErrAudience:
		return true
	}
	return false
}

func codeOf(err error) string {
	var e *sdk.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
