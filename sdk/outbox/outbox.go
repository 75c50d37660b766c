package outbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strconv"
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
	Locked     bool           `json:"locked,omitempty"` // its key was not fetched since the restart: it cannot be read
	Was        string         `json:"was,omitempty"`    // the name that it was saved under, of a conflict
	BlockBytes int64          `json:"-"`                // of a large save, see [Outbox.OpenBlocks]; else 0
	Changed    format.Extents `json:"-"`                // of a large save: the blocks that wait
	From       From           `json:"-"`                // of a large save: what has the others
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
	renewed  time.Time                // when journals were last renewed
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
	sent     [rateSeconds]struct{ at, bytes int64 } // bytes that were recorded in a second, of which at is the Unix time
	started  time.Time
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
	o.readJournals()
	var left []*journal // in the order of their first items
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
		i.after = o.items[i.clear.After]
	}
	for _, name := range s.damaged {
		cfg.Logger.Error("the outbox has a file of which a part cannot be read; it stays", "file", name)
	}
	for _, name := range s.torn {
		cfg.Logger.Warn("the end of a file of the outbox, written when the machine stopped, cannot be read; the file stays",
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

// Save is what a program closed.
type Save struct {
	Group   sdk.GroupID
	Name    string
	Content []byte // stays the caller's
	Large   *Large // in the place of Content: what is too large for one request
	// Base is the newest version of the name that the caller knows, "" for none; that of an item counts as its
	// record. nil = demand nothing.
	Base       *sdk.Ref
	Attributes sdk.Attributes
}

// ReadBlock fills into with a block, and returns its length.
type ReadBlock func(ctx context.Context, block int64, into []byte) (int, error)

// Large is the content of a save in blocks.
type Large struct {
	Layout format.Layout
	// Changed are the blocks that differ from From, which has the others. They are kept in the outbox.
	Changed format.Extents
	From    From
	// Read is called for each changed block once, in order.
	Read ReadBlock
	// Hash is the SHA-256 of the content, zero = not known; it is, if all blocks are changed.
	Hash sdk.Digest
	// Open opens From again while this process runs; nil = it is opened at the service. The outbox calls Release, which
	// may be nil, when it does so no more.
	Open    OpenBase
	Release func()
}

// size returns how much disk the save takes, in bytes.
func (s *Save) size() int64 {
	if s.Large != nil {
		return s.Large.Changed.Blocks() * (s.Large.Layout.BlockBytes + format.Overhead)
	}
	return int64(len(s.Content))
}

// Put encrypts a save and keeps it. When it returns nil, the save survives a loss of power, and
// is sent after the caller has called Ready. Errors: [ErrFull], [ErrMoney], those of [Remote].NewJournal and
// of the disk; then the outbox does not have the save.
func (o *Outbox) Put(ctx context.Context, s Save) (Item, error) {
	room := &room{s: o.store}
	defer room.end()
	if err := o.makeRoom(ctx, room, s.size()); err != nil {
		return Item{}, err
	}
	fee, err := o.reserve()
	if err != nil {
		return Item{}, err
	}
	n, err := o.put(ctx, s, room)
	if err != nil {
		o.giveBack(fee)
		return Item{}, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	n.fee = fee
	return o.shown(n), nil
}

func (o *Outbox) put(ctx context.Context, s Save, room *room) (*item, error) {
	id, err := o.cfg.Remote.NewSave(s.Group)
	if err != nil {
		return nil, err
	}
	n := &item{group: s.Group, name: s.Name, opened: true, clear: Clear{ID: id.ID, Time: time.Now(),
		Account: string(o.cfg.Remote.Account()), Size: int64(len(s.Content))}}
	m := &meta{Group: s.Group, Name: s.Name, Attributes: s.Attributes, After: id.After}
	n.after, m.Base = o.baseOf(s.Base)
	if s.Large != nil {
		n.clear.Size, m.Block, m.Hash = s.Large.Layout.Size, s.Large.Layout.BlockBytes, digest(s.Large.Hash)
		m.changed, m.From, n.openBase = s.Large.Changed, s.Large.From, s.Large.Open
		m.Changed = m.changed.String()
	} else {
		m.Hash = digest(sdk.ComputeHash(s.Content))
	}
	j, err := o.journalFor(ctx, s.Group, s.size())
	if err != nil {
		return nil, err
	}
	defer o.unuse(j)
	fill := func(c *Clear, m *meta, d derive) ([]byte, error) {
		if s.Large == nil {
			return m.sealContent(c, d, s.Content)
		}
		return nil, nil
	}
	var read ReadBlock
	if s.Large != nil {
		read = s.Large.Read
	}
	if err := o.keep(ctx, n, m, j, room, fill, read); err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.Large != nil {
		n.release = s.Large.Release
	}
	lane := o.lane(s.Group)
	o.items[n.clear.ID] = n
	o.order = append(o.order, n)
	lane.queue = append(lane.queue, n)
	return n, nil
}

// keep encrypts an item as it shall be, under a journal, and takes it in once that is durable. read returns the blocks
// of a large one, fill encrypts the content of any other.
func (o *Outbox) keep(ctx context.Context, n *item, m *meta, j *journal, room *room,
	fill func(*Clear, *meta, derive) ([]byte, error), read ReadBlock) (err error) {
	m.Salt = newSalt()
	c, d := n.clear, o.derive(j)
	c.Journal, c.Body, c.File = j.id, 0, ""
	var b *body
	defer func() {
		if err != nil {
			b.drop()
		}
	}()
	if len(m.changed) > 0 {
		if b, err = o.store.newBody(room); err != nil {
			return err
		}
		if err = m.writeBlocks(ctx, o.pool, &c, d, read, b); err == nil {
			err = b.keep()
		}
		c.Body, c.File = b.n, b.name
	}
	e := &entry{kind: kindSave, room: room, now: o.noteOf(n)}
	if err == nil {
		e.body, err = fill(&c, m, d)
	}
	if err == nil {
		e.meta, err = m.sealMeta(&c, d, o.cfg.Keys.Names)
	}
	if err != nil {
		return err
	}
	e.Clear = &c
	if err = o.fits(room, e.size()); err != nil { // what it takes beside its content is known now
		return err
	}
	if err = o.store.add(ctx, e); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	n.clear, n.meta = *e.Clear, m
	n.moveTo(j)
	return nil
}

// moveTo makes an item one of a journal, or with nil of none. Needs Outbox.mu.
func (i *item) moveTo(j *journal) {
	if old := i.journal; old != nil {
		old.list = without(old.list, i)
		old.idle = time.Now()
	}
	if i.journal = j; j != nil {
		j.list = append(j.list, i)
	}
}

// forgetBase needs Outbox.mu.
func (i *item) forgetBase() {
	if i.release != nil {
		i.release()
	}
	i.openBase, i.release = nil, nil
}

// noteOf brings what the disk is to say of an item up to date. base is the item as it will be.
func (o *Outbox) noteOf(base *item) func(*Clear) {
	return func(c *Clear) {
		o.mu.Lock()
		defer o.mu.Unlock()
		base.note(c)
	}
}

// inherit makes a save upon one that is discarded replace what that one would have. Needs Outbox.mu.
func (i *item) inherit(from *item) {
	i.after = from.after
	if from.rebase != nil {
		i.rebase = from.rebase
	}
	i.urgent = i.urgent || from.urgent
}

// follow finds what an item stands upon: what it was saved upon may have ended meanwhile. Needs Outbox.mu.
func (i *item) follow() {
	for i.after != nil && !i.after.state.isHere() {
		if i.after.state == Recorded {
			ref := i.after.record
			i.rebase, i.after = &ref, nil
			return
		}
		i.inherit(i.after)
	}
}

// upToDate has what the disk is to say of an item say what it stands upon now.
func (o *Outbox) upToDate(c *Clear) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := o.items[c.ID]; i != nil {
		i.note(c)
	}
}

// note is upToDate for a known item. Needs Outbox.mu.
func (i *item) note(c *Clear) {
	i.follow()
	c.After, c.Record = "", ""
	if i.after != nil {
		c.After = i.after.clear.ID
	}
	if i.rebase != nil {
		c.Record = *i.rebase
	}
}

// baseOf returns the item that a base stands for, if it waits, and the record to compare with.
func (o *Outbox) baseOf(base *sdk.Ref) (after *item, record *sdk.Ref) {
	if base == nil {
		return nil, nil
	}
	if known := *base; IDOf(known) == "" { // the caller may change its own
		return nil, &known
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	id := IDOf(*base)
	if ref, ok := o.results[id]; ok {
		return nil, &ref
	}
	if after = o.items[id]; after != nil {
		if after.meta != nil {
			after.follow()
			record = after.baseNow()
		}
	}
	return after, record
}

// baseNow is what a save before this one would be compared with. Needs Outbox.mu.
func (i *item) baseNow() *sdk.Ref {
	if i.rebase != nil {
		return i.rebase
	}
	return i.meta.Base
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

// Ready says that the caller knows of the item: it may be sent from now on, and Told tells of
// it. A save of the same name that waits and was not sent yet is discarded.
func (o *Outbox) Ready(id string) {
	o.mu.Lock()
	n := o.items[id]
	if n == nil {
		o.mu.Unlock()
		return
	}
	n.ready = true
	var old []*item
	for _, i := range o.lane(n.group).queue {
		replaced := i.state == Waiting && !i.tried || i.state == Parked
		if i != n && i.name == n.name && i.clear.Position < n.clear.Position && i.ready && i.changing == 0 && replaced {
			old = append(old, i)
		}
	}
	for _, i := range old {
		i.note(&i.clear)
		o.end(i, Discarded)
		o.store.end(i.clear, "")
	}
	told := o.shownAll(old)
	o.mu.Unlock()
	o.tell(told)
	o.Kick()
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

// makeRoom refuses a save that does not fit, and slows saves down once the outbox is half full.
func (o *Outbox) makeRoom(ctx context.Context, r *room, n int64) error {
	used := o.store.bytes()
	limit, err := o.limit()
	if err != nil {
		return err
	}
	if err := r.need(n, limit); err != nil {
		return err
	}
	if half := limit / 2; used > half {
		timer := time.NewTimer(time.Duration(float64(slowest) * float64(used-half) / float64(limit-half)))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// fits makes the room of a save n bytes, or refuses it.
func (o *Outbox) fits(r *room, n int64) error {
	limit, err := o.limit()
	if err != nil {
		return err
	}
	return r.need(n, limit)
}

// limit is how much disk the outbox may take now.
func (o *Outbox) limit() (int64, error) {
	free, err := o.store.disk.free()
	if err != nil {
		return 0, fmt.Errorf("ask for the free disk: %w", err)
	}
	return min(o.cfg.Bytes, (free+o.store.onDisk())/shareOfFree), nil
}

// reserve sets the fee of a save aside.
func (o *Outbox) reserve() (fee sdk.Amount, err error) {
	if o.cfg.Price != nil {
		fee, _ = o.cfg.Price()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	all, ok := o.funds.reserved.Add(fee)
	if !ok || o.funds.known && !fee.IsZero() && all.Cmp(o.funds.balance) > 0 {
		return sdk.Amount{}, ErrMoney
	}
	o.funds.reserved = all
	return fee, nil
}

func (o *Outbox) giveBack(fee sdk.Amount) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if left, ok := o.funds.reserved.Sub(fee); ok {
		o.funds.reserved = left
	}
}

// shown needs mu.
func (o *Outbox) shown(i *item) Item {
	s := Item{ID: i.clear.ID, Group: i.group, Name: i.name, Size: i.clear.Size, Time: i.clear.Time,
		State: i.state.String(), Reason: i.reason, Position: i.clear.Position, Was: i.was, Locked: true,
		Tried: i.wasTried()}
	if m := i.meta; m != nil {
		s.Attributes, s.Hash, s.Locked = m.Attributes, sdk.Digest(m.Hash), !i.journal.hasKey()
		s.BlockBytes, s.Changed, s.From = m.Block, m.changed, m.From
	}
	if i.state == Waiting && !o.next.IsZero() && o.away != nil {
		next := o.next
		s.Next = &next
	} else if i.held != nil && !i.notBefore.IsZero() {
		next := i.notBefore
		s.Next = &next
	}
	return s
}

func (o *Outbox) shownAll(list []*item) (items []Item) {
	for _, i := range list {
		items = append(items, o.shown(i))
	}
	return items
}

func (o *Outbox) tell(items []Item) {
	for _, i := range items {
		if o.cfg.Told != nil {
			o.cfg.Told(i, sdk.Receipt{})
		}
	}
}

// Items returns what waits, in the order of the saves.
func (o *Outbox) Items() []Item {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.shownAll(o.order)
}

// Item returns an item.
func (o *Outbox) Item(id string) (Item, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := o.items[id]
	if i == nil {
		return Item{}, false
	}
	return o.shown(i), true
}

// Recorded returns the reference of an item that was recorded since the start.
func (o *Outbox) Recorded(id string) (sdk.Ref, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ref, ok := o.results[id]
	return ref, ok
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

// Kick has what waits tried now, also while the service was away.
func (o *Outbox) Kick() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Again has the service asked at once: it may be back.
func (o *Outbox) Again() {
	o.mu.Lock()
	o.next, o.pause = time.Time{}, 0
	for _, i := range o.order {
		if i.held != nil {
			i.pause, i.notBefore = 0, time.Time{}
		}
	}
	o.mu.Unlock()
	o.Kick()
}

// Status is how it stands with the outbox.
type Status struct {
	Items   int        `json:"items"`
	Parked  int        `json:"parked"`
	Bytes   int64      `json:"bytes"`          // on the disk
	Limit   int64      `json:"limit_bytes"`    // most of them
	Oldest  *time.Time `json:"oldest"`         // save that waits
	Rate    int64      `json:"rate_bytes"`     // recorded a second, in the last minute
	Next    *time.Time `json:"next,omitempty"` // attempt, while the service is away
	Reason  string     `json:"reason,omitempty"`
	Sending int        `json:"sending"`
}

// Status returns how it stands.
func (o *Outbox) Status() Status {
	used := o.store.bytes()
	limit, err := o.limit()
	if err != nil {
		limit = o.cfg.Bytes
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s := Status{Items: len(o.order), Bytes: used, Limit: limit, Sending: o.sending}
	for _, i := range o.order {
		if i.state == Parked {
			s.Parked++
		}
	}
	if len(o.order) > 0 {
		oldest := o.order[0].clear.Time
		s.Oldest = &oldest
	}
	if o.away != nil {
		s.Reason = words(o.away)
		if !o.next.IsZero() {
			next := o.next
			s.Next = &next
		}
	}
	s.Rate = o.rate(time.Now())
	return s
}

// rateSeconds is over how many seconds [Status].Rate is taken: a large item is recorded once in a while.
const rateSeconds = 60

// rate is that of Status, in bytes a second. Needs mu.
func (o *Outbox) rate(now time.Time) (rate int64) {
	seconds := min(int64(now.Sub(o.started).Seconds()), rateSeconds)
	if seconds < 1 {
		return 0
	}
	for _, s := range o.sent {
		if now.Unix()-s.at < rateSeconds {
			rate += s.bytes
		}
	}
	return rate / seconds
}

// arrived counts bytes that were recorded. Needs mu.
func (o *Outbox) arrived(now time.Time, n int64) {
	s := &o.sent[now.Unix()%rateSeconds]
	if s.at != now.Unix() {
		s.at, s.bytes = now.Unix(), 0
	}
	s.bytes += n
}

// words is an error on one line.
func words(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > maxWords {
		text = text[:maxWords] + "…"
	}
	return text
}

// heldIn returns why the first item of a group that is to be sent is not recorded yet, nil if it may be at
// once. Needs mu.
func (o *Outbox) heldIn(g sdk.GroupID) error {
	for _, i := range o.lane(g).queue {
		if i.state != Parked {
			return i.held
		}
	}
	return nil
}

// wait waits until is reports true, with everything sent as soon as it can be. It ends early with
// ErrAway when the service does not answer, or held, which may be nil, has an error.
func (o *Outbox) wait(ctx context.Context, patient bool, held func() error, is func() bool) error {
	o.mu.Lock()
	o.flush++
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.flush--
		o.mu.Unlock()
	}()
	o.Kick()
	for {
		o.mu.Lock()
		done, away, changed := is(), o.away, o.changed
		if away == nil && held != nil {
			away = held()
		}
		o.mu.Unlock()
		if done {
			return nil
		}
		if away != nil && !patient {
			return fmt.Errorf("%w: %w", ErrAway, away)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Settle waits until an item is no longer on its way: recorded, parked or discarded. It gives up
// with [ErrAway].
func (o *Outbox) Settle(ctx context.Context, id string) error {
	held := func() error {
		if i := o.items[id]; i != nil {
			return o.heldIn(i.group)
		}
		return nil
	}
	return o.wait(ctx, false, held, func() bool { i := o.items[id]; return i == nil || i.state == Parked })
}

// Before waits until all of a group that was saved before is recorded, or parked: what is saved
// without the outbox comes after it. It gives up with [ErrAway].
func (o *Outbox) Before(ctx context.Context, g sdk.GroupID) error {
	o.mu.Lock()
	last := o.store.last()
	o.mu.Unlock()
	return o.wait(ctx, false, func() error { return o.heldIn(g) }, func() bool {
		return !slices.ContainsFunc(o.order, func(i *item) bool {
			return (i.group == g || i.group == "") && i.clear.Position <= last && i.state != Parked && i.ready
		})
	})
}

// Drain sends what it can until ctx ends, and returns what stays.
func (o *Outbox) Drain(ctx context.Context) []Item {
	o.Again()
	_ = o.wait(ctx, true, nil, func() bool {
		return !slices.ContainsFunc(o.order, func(i *item) bool { return i.state != Parked })
	})
	_, _ = o.endJournals(ctx, true) // else the next process does it
	return o.Items()
}

// Retry tries a parked item again; "" = all.
func (o *Outbox) Retry(id string) error {
	o.mu.Lock()
	found := id == ""
	var closed []*journal
	for _, i := range o.order {
		if i.clear.ID != id && id != "" {
			continue
		}
		found = true
		i.pause, i.notBefore, i.held = 0, time.Time{}, nil
		if i.state != Parked || i.journal == nil {
			continue
		}
		o.step(i, Waiting)
		i.reason = ""
		if !i.journal.hasKey() || i.meta == nil {
			i.opened = false
			at, _ := slices.BinarySearchFunc(o.unopened, i.clear.Position,
				func(a *item, p int64) int { return cmp.Compare(a.clear.Position, p) })
			o.unopened = slices.Insert(o.unopened, at, i)
			if !slices.Contains(closed, i.journal) {
				closed = append(closed, i.journal)
			}
		}
	}
	o.mu.Unlock()
	if len(closed) > 0 {
		o.done.Go(func() { o.openAll(closed) })
	}
	if !found {
		return ErrGone
	}
	o.Again()
	return nil
}

// Discard gives an item up, for good.
func (o *Outbox) Discard(ctx context.Context, id string) error {
	o.mu.Lock()
	i := o.items[id]
	if i == nil {
		o.mu.Unlock()
		return ErrGone
	}
	if i.state == Sending || i.moving {
		o.mu.Unlock()
		return ErrTried
	}
	i.changing++
	ended := i.clear
	o.mu.Unlock()
	err := o.store.forget(ctx, ended)
	o.mu.Lock()
	i.changing--
	if o.items[id] != i {
		err = ErrGone
	}
	if err != nil {
		o.mu.Unlock()
		o.Kick()
		return err
	}
	o.end(i, Discarded)
	told := o.shownAll([]*item{i})
	o.mu.Unlock()
	o.tell(told)
	return nil
}

// wasTried reports whether the service may have the item. Needs Outbox.mu.
func (i *item) wasTried() bool { return (i.tried || i.state == Sending) && i.state != Parked }

// Remove discards an item that was never sent; any other is [ErrTried].
func (o *Outbox) Remove(ctx context.Context, id string) error {
	o.mu.Lock()
	i := o.items[id]
	tried := i != nil && i.wasTried()
	o.mu.Unlock()
	if tried {
		return ErrTried
	}
	return o.Discard(ctx, id)
}

// Rename gives an item that was never sent another name; any other is [ErrTried], and so is one that would have to
// wait for a later item. It replaces base, the newest version of that name that the caller knows, see [Save].
func (o *Outbox) Rename(ctx context.Context, id, name string, base sdk.Ref) error {
	after, record := o.baseOf(&base)
	n := &item{after: after} // what the item becomes
	return o.address(ctx, id, false, n, func(i *item) (sdk.GroupID, string, *sdk.Ref) { return i.group, name, record })
}

// Move gives a parked item another group, whose newest version of the name it replaces. Its content is encrypted anew.
func (o *Outbox) Move(ctx context.Context, id string, g sdk.GroupID) error {
	return o.address(ctx, id, true, &item{}, func(i *item) (sdk.GroupID, string, *sdk.Ref) { return g, i.name, nil })
}

// address writes an item anew, with another group, name and base, to be sent behind n.after.
func (o *Outbox) address(ctx context.Context, id string, parked bool, n *item,
	to func(*item) (sdk.GroupID, string, *sdk.Ref)) error {
	o.mu.Lock()
	i := o.items[id]
	switch {
	case i == nil:
		o.mu.Unlock()
		return ErrGone
	case i.meta == nil || !i.journal.hasKey():
		o.mu.Unlock()
		return ErrLocked
	case parked && i.state != Parked, !parked && i.state != Parked && (i.tried || i.state != Waiting),
		n.after != nil && n.after.clear.Position > i.clear.Position, i.changing > 0:
		o.mu.Unlock()
		return ErrTried
	}
	i.changing++
	i.moving = parked
	g, name, base := to(i)
	o.mu.Unlock()
	err := o.rewrite(ctx, i, n, g, name, base, false)
	o.mu.Lock()
	i.changing--
	i.moving = false
	if o.items[id] != i {
		err = ErrGone
	}
	var told []Item
	if err == nil {
		if i.group != g {
			l := o.lane(i.group)
			l.queue = without(l.queue, i)
			o.lane(g).queue = append(o.lane(g).queue, i)
		}
		i.group, i.name, i.after, i.rebase = g, name, n.after, n.rebase
		if i.state == Parked && parked {
			o.step(i, Waiting)
			i.reason = ""
		}
		if parked { // who renames knows
			told = o.shownAll([]*item{i})
		}
	}
	o.mu.Unlock()
	o.tell(told)
	o.Kick()
	return err
}

// rewrite gives an item another address, durably. n tells what the item stands upon then; apart: what was saved
// upon it does not follow it. The item has its old address after an error.
func (o *Outbox) rewrite(ctx context.Context, i, n *item, g sdk.GroupID, name string, base *sdk.Ref, apart bool) error {
	o.mu.Lock()
	c, m, j, d := i.clear, *i.meta, i.journal, o.derive(i.journal)
	o.mu.Unlock()
	if g != m.Group {
		m.Group, m.Name, m.Base = g, name, base
		return o.sealAnew(ctx, i, n, &m)
	}
	m.Name, m.Base = name, base
	raw, err := m.sealMeta(&c, d, o.cfg.Keys.Names)
	if err != nil {
		return err
	}
	e := &entry{kind: kindAddress, head: head{Clear: &c, Apart: apart}, meta: raw, now: o.noteOf(n)}
	if err := o.store.add(ctx, e); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if i.journal == j { // else it has ended
		i.clear, i.meta = *e.Clear, &m
	}
	return nil
}

// sealAnew encrypts an item under a journal of another group.
func (o *Outbox) sealAnew(ctx context.Context, i, n *item, m *meta) error {
	o.mu.Lock()
	old, was, d := i.clear, i.meta, o.derive(i.journal)
	o.mu.Unlock()
	room := &room{s: o.store}
	defer room.end()
	if err := o.fits(room, old.Body+old.Size); err != nil {
		return err
	}
	id, err := o.cfg.Remote.NewSave(m.Group) // only what it knows of the group: the item keeps its id
	if err != nil {
		return err
	}
	m.After = id.After
	j, err := o.journalFor(ctx, m.Group, old.Size)
	if err != nil {
		return err
	}
	defer o.unuse(j)
	var read ReadBlock
	fill := func(c *Clear, m *meta, to derive) ([]byte, error) {
		if m.Block > 0 {
			return nil, nil
		}
		e, err := o.store.read(old.ID)
		if err != nil {
			return nil, err
		}
		buf, err := o.pool.Get(0)
		if err != nil {
			return nil, err
		}
		defer buf.Release()
		if err := was.openContent(&old, d, e.body, buf); err != nil {
			return nil, err
		}
		return m.sealContent(c, to, buf.Bytes())
	}
	if m.Block > 0 {
		w, err := o.store.openLarge(&old, was, d)
		if err != nil {
			return err
		}
		defer w.Close()
		read = func(_ context.Context, block int64, into []byte) (int, error) { return w.Read(block, into) }
	}
	moved := &item{clear: old, after: n.after, rebase: n.rebase}
	if err := o.keep(ctx, moved, m, j, room, fill, read); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	moved.moveTo(nil)
	i.clear, i.meta = moved.clear, m
	i.moveTo(j)
	if old.File != "" {
		o.store.mu.Lock()
		defer o.store.mu.Unlock()
		o.store.removeBody(old.File)
	}
	return nil
}

// ConflictName is the name of a save whose name got another version meanwhile. n = 0 at first.
func ConflictName(name string, account sdk.AccountID, at time.Time, n int) string {
	dir, file := path.Split(name)
	ext := path.Ext(file)
	if ext == file { // .profile
		ext = ""
	}
	stamp := at.Format("2006-01-02 15.04.05")
	if n > 0 {
		stamp += fmt.Sprintf(" %d", n+1)
	}
	return dir + strings.TrimSuffix(file, ext) + " (conflict " + string(account) + " " + stamp + ")" + ext
}

// conflictOf returns under which name an item of account, saved at a time, was saved, when its name is the n-th
// one that [ConflictName] made of that. ok = false: it is none.
func conflictOf(name string, account sdk.AccountID, at time.Time) (was string, n int, ok bool) {
	mark := strings.TrimSuffix(ConflictName("", account, at, 0), ")")
	before, after, found := cutLast(name, mark)
	if !found {
		return "", 0, false
	}
	number, ext, _ := strings.Cut(after, ")")
	n = 1
	if number != "" {
		n, _ = strconv.Atoi(strings.TrimPrefix(number, " "))
	}
	was = before + ext
	return was, n, n > 0 && ConflictName(was, account, at, n-1) == name
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// isAway reports whether the service could not be asked, or is to be asked again.
func isAway(err error) bool {
	switch sdk.KindOf(err) {
	case sdk.ErrUnavailable, sdk.ErrTimeout, sdk.ErrRateLimited, sdk.ErrCanceled, sdk.ErrUnauthenticated, sdk.ErrAudience,
		sdk.ErrStorageFull, sdk.ErrPending, sdk.ErrCorrupt, sdk.ErrOther:
		return true
	}
	return false
}

// isDown reports whether an error that [isAway] reports is one of the whole service. Any other may be one of
// a group, whose storage is full, or whose records are not proven: other groups do not wait for it.
func isDown(err error) bool {
	switch sdk.KindOf(err) {
	case sdk.ErrUnavailable, sdk.ErrTimeout, sdk.ErrRateLimited, sdk.ErrCanceled, sdk.ErrUnauthenticated, sdk.ErrAudience:
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
