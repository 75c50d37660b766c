package outbox

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
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
	Keys     sdk.DiskKeys  // without Group, the keyed hash of the group serves this process alone
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
	// Tried: the service may have it. Then [Outbox.Remove] and [Outbox.Rename] are ErrTried.
	Tried bool `json:"-"`
}

// The errors of an outbox.
var (
	// ErrFull: no room. The save is not in the outbox.
	ErrFull = errors.New("the outbox is full")
	// ErrTooLarge: saves in blocks are not for this [Remote].
	ErrTooLarge = errors.New("the outbox takes no saves in blocks")
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

	mu      sync.Mutex
	items   map[string]*item
	order   []*item // by position
	lanes   map[sdk.GroupID]*lane
	results map[string]sdk.Ref // of items that were recorded
	owners  map[sdk.Ref]string // the same the other way round
	changed chan struct{}      // closed at the next step of any item
	away    error              // the last attempt; nil = the service answered
	pause   time.Duration
	next    time.Time // of an attempt while the service is away
	flush   int       // who waits for everything at once
	sending int
	locked  int   // items of an earlier process that were not opened yet
	opened  int64 // position of the first of them
	funds   funds
	sent    [rateSeconds]struct{ at, bytes int64 } // bytes that were recorded in a second, of which at is the Unix time
	started time.Time
}

// funds are the balance as it was last told, and what waits to be paid from it.
type funds struct {
	at       time.Time // when it was asked for
	known    bool
	balance  sdk.Amount
	reserved sdk.Amount
}

// item is something that waits. By Outbox.mu, but for letter, which guards itself.
type item struct {
	letter    Letter
	clear     Clear
	group     sdk.GroupID
	name      string
	was       string // of a conflict
	state     State
	reason    string
	ready     bool    // the caller of Put has taken note of it
	changing  int     // who gives it up or another address now: it is not sent meanwhile
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
	opened    bool          // its names and key were looked for since the restart
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
	o := &Outbox{cfg: cfg, store: s, wake: make(chan struct{}, 1), items: make(map[string]*item, len(list)),
		lanes: make(map[sdk.GroupID]*lane), results: make(map[string]sdk.Ref), owners: make(map[sdk.Ref]string),
		changed: make(chan struct{}), started: time.Now()}
	o.life, o.stop = context.WithCancel(context.Background())
	s.now = o.upToDate
	for _, c := range list {
		i := &item{clear: c, ready: true, tried: true, urgent: true}
		if c.Record != "" {
			i.rebase = &c.Record
		}
		o.items[c.ID] = i
		o.order = append(o.order, i)
	}
	for _, i := range o.order {
		i.after = o.items[i.clear.After]
	}
	if o.locked = len(list); len(list) > 0 {
		o.opened = list[0].Position
	}
	for _, name := range s.damaged {
		cfg.Logger.Error("the outbox has a file of which a part cannot be read; it stays", "file", name)
	}
	for _, name := range s.torn {
		cfg.Logger.Warn("the end of a file of the outbox, written when the machine stopped, cannot be read; the file stays",
			"file", name)
	}
	left := slices.Clone(o.order)
	o.done.Go(func() { o.openAll(left) })
	o.done.Go(o.run)
	return o, nil
}

// Close ends sending. What waits stays on the disk.
func (o *Outbox) Close() error {
	o.stop()
	o.done.Wait()
	o.mu.Lock()
	for _, i := range o.items {
		if i.letter != nil {
			i.letter.Wipe()
		}
	}
	o.mu.Unlock()
	err := o.store.close()
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

// Large is the content of a save in blocks.
type Large struct {
	Layout format.Layout
	// Read fills into with a block, and returns its length. It is called for each block once, in order.
	Read func(ctx context.Context, block int64, into []byte) (int, error)
}

// size returns how much disk the save takes, in bytes.
func (s *Save) size() int64 {
	if s.Large != nil {
		return s.Large.Layout.SealedBytes()
	}
	return int64(len(s.Content))
}

// seal encrypts a save; body is where that of a large one is, which takes from the room, nil for any other.
func (o *Outbox) seal(ctx context.Context, s Save, base *sdk.Ref, room *room) (l Letter, b *body, err error) {
	if s.Large == nil {
		l, err = o.cfg.Remote.Seal(ctx, s.Group, s.Name, s.Content, base, s.Attributes)
		return l, nil, err
	}
	remote, ok := o.cfg.Remote.(LargeRemote)
	if !ok {
		return nil, nil, ErrTooLarge
	}
	content := sdk.LargeContent{Layout: s.Large.Layout, Read: s.Large.Read, Body: func(id string) (io.Writer, error) {
		b, err = o.store.newBody(id, room)
		return b, err
	}}
	l, err = remote.SealLarge(ctx, s.Group, s.Name, content, base, s.Attributes)
	if err == nil {
		if err = b.keep(); err != nil {
			l.Wipe()
		}
	}
	if err != nil {
		if b != nil {
			b.drop()
		}
		return nil, nil, err
	}
	return l, b, nil
}

// Put encrypts a save and keeps it. When it returns nil, the save survives a loss of power, and
// is sent after the caller has called Ready. Errors: [ErrFull], [ErrMoney], those of [Remote].Seal and
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
	n := &item{group: s.Group, name: s.Name}
	var base *sdk.Ref
	n.after, base = o.baseOf(s.Base)
	return n, o.keep(ctx, n, s, base, room)
}

// keep encrypts a save, and takes it in once it is durable.
func (o *Outbox) keep(ctx context.Context, n *item, s Save, base *sdk.Ref, room *room) error {
	l, b, err := o.seal(ctx, s, base, room)
	if err != nil {
		return err
	}
	n.letter = l
	n.clear = Clear{ID: l.ID(), Account: string(l.Account()), Size: l.Size(), Time: l.Time()}
	if b != nil {
		n.clear.Body = b.n
	}
	e, err := o.entryOf(kindSave, n, n)
	if err == nil {
		e.room = room
		err = o.fits(room, e.size()) // what it takes beside its content is known now
	}
	if err == nil {
		err = o.store.add(ctx, e)
	}
	if err != nil {
		l.Wipe()
		if b != nil {
			b.drop()
		}
		return err
	}
	n.clear = *e.Clear
	l.KeepIn(stored{o.store, l.ID()})
	o.mu.Lock()
	defer o.mu.Unlock()
	lane := o.lane(s.Group)
	o.items[l.ID()] = n
	o.order = append(o.order, n)
	lane.queue = append(lane.queue, n)
	return nil
}

// checkOf is a keyed hash of what the ledger will tell of an item: after a crash it finds the record
// of an item that the service has recorded already, and whose key it therefore does not open. The record of another
// file with the same content, such as that of a copy, is not the record of the item.
func (o *Outbox) checkOf(id string, g sdk.GroupID, name string, hash sdk.Digest) []byte {
	mac := hmac.New(sha256.New, o.cfg.Keys.Group)
	_, _ = fmt.Fprintf(mac, "svc-outbox-record-1\x00%s\x00%d\x00%s\x00%d\x00%s\x00", id, len(g), g, len(name), name)
	mac.Write(hash[:])
	return mac.Sum(nil)
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
	if base == nil || IDOf(*base) == "" {
		return nil, base
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	id := IDOf(*base)
	if ref, ok := o.results[id]; ok {
		return nil, &ref
	}
	if after = o.items[id]; after != nil {
		if after.letter != nil {
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
	if ref, ok := i.letter.Base(); ok {
		return &ref
	}
	return nil
}

// entryOf encodes an item for the disk. base is the item as it will be: it tells what the item stands upon.
func (o *Outbox) entryOf(k kind, i, base *item) (*entry, error) {
	meta, err := i.letter.Encode(o.cfg.Keys)
	if err != nil {
		return nil, err
	}
	clear := i.clear
	if !i.letter.Locked() {
		clear.Check = o.checkOf(clear.ID, i.letter.Group(), i.letter.Name(), i.letter.Hash())
	}
	e := &entry{kind: k, head: head{Clear: &clear}, meta: meta, now: func(c *Clear) {
		o.mu.Lock()
		defer o.mu.Unlock()
		base.note(c)
	}}
	if k == kindAddress || clear.Body > 0 {
		return e, nil
	}
	e.body = make([]byte, i.letter.BlobSize())
	if n, err := i.letter.Ciphertext().ReadAt(e.body, 0); n < len(e.body) {
		return nil, fmt.Errorf("read what was encrypted: %w", err)
	}
	return e, nil
}

// stored is the ciphertext of an item on the disk.
type stored struct {
	store *store
	id    string
}

func (s stored) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.store.readBody(s.id, p, off)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrGone
	}
	return n, err
}

// Stat is that of the file of a large save.
func (s stored) Stat() (fs.FileInfo, error) {
	if disk, ok := s.store.disk.(interface {
		stat(name string) (fs.FileInfo, error)
	}); ok {
		return disk.stat(s.id + bodySuffix)
	}
	return nil, errors.ErrUnsupported
}

// Blocks is the content of a large save, open for reading: also when it is recorded meanwhile. The
// caller closes it.
type Blocks struct {
	LargeBody
	body io.Closer
}

// Fee is nothing.
func (b *Blocks) Fee() sdk.Amount { return sdk.Amount{} }

// Close frees the disk, if the save is not in the outbox any more.
func (b *Blocks) Close() error { return b.body.Close() }

// OpenBlocks opens the content of a large save. Errors: [ErrLocked], [ErrGone], those of the disk.
func (o *Outbox) OpenBlocks(id string) (*Blocks, error) {
	l, err := o.letterOf(id)
	if err != nil {
		return nil, err
	}
	remote, ok := o.cfg.Remote.(LargeRemote)
	if !ok {
		return nil, ErrTooLarge
	}
	f, err := o.store.disk.open(id + bodySuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("open what waits: %w", err)
	}
	b, err := remote.OpenBody(l, f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Blocks{b, f}, nil
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
	if i.letter != nil {
		i.letter.Wipe()
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
	if i.letter != nil {
		if l, ok := layoutOf(i.letter); ok {
			s.BlockBytes = l.BlockBytes
		}
	}
	if i.letter != nil && !i.letter.Locked() {
		s.Attributes, s.Hash, s.Locked = i.letter.Attributes(), i.letter.Hash(), !i.letter.HasKey()
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
	l, err := o.letterOf(id)
	if err != nil {
		return err
	}
	return l.Content(b)
}

// letterOf returns the letter of an item that can be read.
func (o *Outbox) letterOf(id string) (Letter, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := o.items[id]
	switch {
	case i == nil:
		return nil, ErrGone
	case i.letter == nil || !i.letter.HasKey():
		return nil, ErrLocked
	}
	return i.letter, nil
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
	return o.Items()
}

// Retry tries a parked item again; "" = all.
func (o *Outbox) Retry(id string) error {
	o.mu.Lock()
	found := id == ""
	var closed []*item
	for _, i := range o.order {
		if i.clear.ID != id && id != "" {
			continue
		}
		found = true
		i.pause, i.notBefore, i.held = 0, time.Time{}, nil
		if i.state == Parked {
			o.step(i, Waiting)
			i.reason = ""
			if i.letter == nil || i.letter.Locked() {
				i.opened = false
				closed = append(closed, i)
			}
		}
	}
	o.mu.Unlock()
	if len(closed) > 0 {
		o.done.Go(func() { _ = o.openSome(closed, new([]sdk.Group)) })
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
	if i.state == Sending {
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

// Move gives a parked item another group, whose newest version of the name it replaces.
func (o *Outbox) Move(ctx context.Context, id string, g sdk.GroupID) error {
	o.mu.Lock()
	i := o.items[id]
	open := i != nil && i.state == Parked && i.letter != nil && !i.letter.HasKey()
	o.mu.Unlock()
	if open {
		if err := o.cfg.Remote.OpenFor(ctx, i.letter, g); err != nil {
			return err
		}
		o.mu.Lock()
		i.name = i.letter.Name()
		o.mu.Unlock()
	}
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
	case i.letter == nil || !i.letter.HasKey():
		o.mu.Unlock()
		return ErrLocked
	case parked && i.state != Parked, !parked && i.state != Parked && (i.tried || i.state != Waiting),
		n.after != nil && n.after.clear.Position > i.clear.Position, i.changing > 0:
		o.mu.Unlock()
		return ErrTried
	}
	i.changing++
	g, name, base := to(i)
	o.mu.Unlock()
	err := o.rewrite(ctx, i, n, g, name, base, false)
	o.mu.Lock()
	i.changing--
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

// rewrite gives the letter another address, durably. n tells what the item stands upon then; apart: what was saved
// upon it does not follow it. The letter has its old address after an error.
func (o *Outbox) rewrite(ctx context.Context, i, n *item, g sdk.GroupID, name string, base *sdk.Ref, apart bool) error {
	group, was := i.letter.Group(), i.letter.Name()
	before, had := i.letter.Base()
	if err := i.letter.Readdress(g, name, base); err != nil {
		return err
	}
	e, err := o.entryOf(kindAddress, i, n)
	if err == nil {
		e.Apart = apart
		err = o.store.add(ctx, e)
	}
	if err != nil {
		back := &before
		if !had {
			back = nil
		}
		return errors.Join(err, i.letter.Readdress(group, was, back))
	}
	o.mu.Lock()
	i.clear = *e.Clear
	o.mu.Unlock()
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
