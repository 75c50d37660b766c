package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
)

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
	// Temporary: the save is kept, and not sent before it has another name: it is parked with [ErrTemporary].
	Temporary bool
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
	m := &meta{Group: s.Group, Name: s.Name, Attributes: s.Attributes, After: id.After,
		Temporary: s.Temporary}
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
	if err := o.keep(ctx, n, m, j, room, s.source()); err != nil {
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

// source is where the content of a save is encrypted from.
type source struct {
	content func(encrypt func([]byte) error) error // of a small one
	read    ReadBlock                              // of a large one
}

func (s *Save) source() source {
	if s.Large != nil {
		return source{read: s.Large.Read}
	}
	return source{content: func(encrypt func([]byte) error) error { return encrypt(s.Content) }}
}

// keep encrypts an item as it shall be, under a journal, and takes it in once that is durable.
func (o *Outbox) keep(ctx context.Context, n *item, m *meta, j *journal, room *room, from source) (err error) {
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
		if err = m.writeBlocks(ctx, o.pool, &c, d, from.read, b); err == nil {
			err = b.keep()
		}
		c.Body, c.File = b.n, b.name
	}
	e := &entry{kind: kindSave, room: room, now: o.noteOf(n)}
	if err == nil && m.Block == 0 {
		err = from.content(func(content []byte) (err error) {
			e.body, err = m.sealContent(&c, d, content)
			return err
		})
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
