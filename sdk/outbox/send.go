package outbox

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/wire"
)

const (
	// gatherMost is how long a save waits for others, see [Config].Gather.
	gatherMost = 5 * time.Second
	// balanceAge is how long a balance is believed.
	balanceAge = time.Minute
	// maxRef bounds a reference, in bytes: the head of an entry has two, each byte of which may take six.
	maxRef = maxHead / 16
)

// run sends until Close.
func (o *Outbox) run() {
	for {
		o.store.tidy()
		timer := time.NewTimer(time.Until(o.dispatch()))
		select {
		case <-timer.C:
		case <-o.wake:
		case <-o.life.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// dispatch begins to send what is due, and returns when something else will be.
func (o *Outbox) dispatch() (next time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	next = now.Add(longestPause)
	if o.away != nil {
		if now.Before(o.next) {
			return o.next
		}
		if o.sending > 0 {
			return next
		}
	}
	lanes := make([]*lane, 0, len(o.lanes))
	for _, l := range o.lanes {
		if !l.busy && len(l.queue) > 0 {
			lanes = append(lanes, l)
		}
	}
	slices.SortFunc(lanes, func(a, b *lane) int { return int(a.queue[0].clear.Position - b.queue[0].clear.Position) })
	for _, l := range lanes {
		if o.sending >= lanesAtATime || o.away != nil && o.sending > 0 {
			return next
		}
		batch, due := o.batch(l, now)
		if len(batch) == 0 {
			if due.After(now) && due.Before(next) {
				next = due
			}
			continue
		}
		if o.away != nil {
			batch = batch[:1] // is it back?
		}
		for _, i := range batch {
			i.held = nil
			o.step(i, Sending)
		}
		l.busy = true
		o.sending++
		o.done.Go(func() { o.sendBatch(l, batch) })
	}
	return next
}

// batch returns the first items of a lane that are sent together now, or when the first one may be. Needs mu.
func (o *Outbox) batch(l *lane, now time.Time) (batch []*item, due time.Time) {
	batch, due = o.mayBeSent(l, now)
	if len(batch) == 0 || o.flush > 0 || o.cfg.Gather < 0 ||
		slices.ContainsFunc(batch, func(i *item) bool { return i.urgent }) {
		return batch, due
	}
	due = l.queue[len(l.queue)-1].clear.Time.Add(o.cfg.Gather)
	if most := batch[0].clear.Time.Add(gatherMost); most.Before(due) {
		due = most
	}
	if due.After(now) && due.Before(now.Add(gatherMost)) { // else the clock was set
		return nil, due
	}
	return batch, time.Time{}
}

// mayBeSent returns the first items of a lane that may be sent together, or when the first one may be sent. Needs mu.
func (o *Outbox) mayBeSent(l *lane, now time.Time) (batch []*item, due time.Time) {
	var bytes int64
	horizon := o.horizon(l.queue[0].group)
	for _, i := range l.queue {
		if i.state == Parked {
			continue
		}
		i.follow()
		if !i.ready || i.changing > 0 || i.clear.Position >= horizon || i.after != nil && i.after.state != Parked {
			return batch, due
		}
		if i.notBefore.After(now) {
			return batch, i.notBefore
		}
		if due := l.sentAt[i.name].Add(max(o.cfg.Coalesce, 0)); due.After(now) && o.flush == 0 && !i.urgent {
			return batch, due
		}
		if bytes += i.clear.Size; len(batch) > 0 && (bytes > maxBatchBytes || len(batch) == maxBatch) {
			return batch, due
		}
		batch = append(batch, i)
	}
	return batch, due
}

// horizon is the position of the first item that may be of a group and was not opened yet. Needs mu.
func (o *Outbox) horizon(g sdk.GroupID) int64 {
	if i := o.firstUnopened(g); i != nil {
		return i.clear.Position
	}
	return math.MaxInt64
}

// firstUnopened needs mu. nil = all that may be of the group are opened.
func (o *Outbox) firstUnopened(g sdk.GroupID) *item {
	isOver := func(i *item) bool { return i.opened || o.items[i.clear.ID] != i }
	for len(o.unopened) > 0 && isOver(o.unopened[0]) {
		o.unopened = o.unopened[1:]
	}
	for _, i := range o.unopened {
		if !isOver(i) && i.mayBeOf(g) {
			return i
		}
	}
	return nil
}

// mayBeOf reports whether an item is of a group, or of one that is not known yet. Needs Outbox.mu.
func (i *item) mayBeOf(g sdk.GroupID) bool {
	known := i.group
	if known == "" && i.journal != nil {
		known = i.journal.group
	}
	return known == "" || known == g
}

// sendBatch sends items of one lane, and does what the answers ask for.
func (o *Outbox) sendBatch(l *lane, batch []*item) {
	ctx := o.life
	var send []*item
	var uploads []*Upload
	for _, i := range batch {
		u, end, err := o.prepare(i)
		if err != nil {
			o.answer(ctx, l, i, Sent{Err: err})
			continue
		}
		defer end()
		o.mu.Lock()
		i.tried = true
		o.mu.Unlock()
		send, uploads = append(send, i), append(uploads, u)
	}
	if err := o.store.settle(); err != nil {
		for _, i := range send {
			o.back(i, words(err))
		}
		send = nil
	}
	if len(send) > 0 {
		for n, answer := range o.cfg.Remote.Send(ctx, uploads) {
			o.answer(ctx, l, send[n], answer)
		}
	}
	o.askBalance(ctx)
	o.mu.Lock()
	l.busy = false
	o.sending--
	close(o.changed)
	o.changed = make(chan struct{})
	o.mu.Unlock()
	o.Kick()
}

// prepare decrypts an item that nothing damaged, with the base that became known since it was saved. The disk knows it
// from the end of what the item was saved upon. The caller calls end after the upload.
func (o *Outbox) prepare(i *item) (u *Upload, end func(), err error) {
	o.mu.Lock()
	id := i.clear.ID
	i.follow()
	rebase, openBase := i.rebase, i.openBase
	o.mu.Unlock()
	e, err := o.store.whole(id)
	if err != nil {
		return nil, nil, err
	}
	c, m, d, err := o.sealed(id)
	if err != nil {
		return nil, nil, err
	}
	if m.Temporary {
		return nil, nil, ErrTemporary
	}
	base := m.Base
	if rebase != nil {
		base = rebase
	}
	u = &Upload{Group: m.Group, Name: m.Name, Base: base, Upon: m.Upon, Attributes: m.Attributes,
		Size: c.Size, Hash: sdk.Digest(m.Hash)}
	if u.Save, err = m.saveID(&c, d); err != nil {
		return nil, nil, err
	}
	var done func()
	if m.Block > 0 {
		u.Large, done, err = o.prepareLarge(&c, m, d, openBase)
	} else {
		u.Content, done, err = o.prepareSmall(&c, m, d, e.body)
	}
	if err != nil {
		u.Save.Key.Wipe()
		return nil, nil, err
	}
	return u, func() {
		u.Save.Key.Wipe()
		done()
	}, nil
}

func (o *Outbox) prepareSmall(c *Clear, m *meta, d derive, sealed []byte) (content *mem.Buffer, end func(), err error) {
	if content, err = o.pool.Get(0); err != nil {
		return nil, nil, err
	}
	if err := m.openContent(c, d, sealed, content); err != nil {
		content.Release()
		return nil, nil, err
	}
	return content, content.Release, nil
}

// answer does what the service's answer to an item asks for.
func (o *Outbox) answer(ctx context.Context, l *lane, i *item, a Sent) {
	err := a.Err
	if err == nil && (a.Receipt.Ref == "" || len(a.Receipt.Ref) > maxRef) {
		err = &sdk.Error{Op: "upload", Group: i.group, Kind: sdk.ErrCorrupt,
			Err: errors.New("the receipt names no record")}
	}
	if err == nil && o.isOfAnother(a.Receipt.Ref, i) {
		err = &sdk.Error{Op: "upload", Group: i.group, Kind: sdk.ErrCorrupt,
			Err: errors.New("the receipt is that of another save")}
	}
	if err == nil || isRemote(err) && !isDown(err) {
		o.isBack()
	}
	switch code := codeOf(err); {
	case err == nil:
		o.recorded(l, i, a.Receipt)
		return
	case o.isLost(i):
		o.park(i, errLost)
		return
	case code == wire.CodeHead:
		err = o.conflict(ctx, i)
		if err == nil {
			return
		}
	}
	switch {
	case ctx.Err() != nil:
		o.back(i, "")
	case isFinal(err):
		o.park(i, err)
	case !isRemote(err): // of this machine, such as a full disk: it passes
		o.back(i, words(err))
	case isDown(err):
		o.isAway(i, err)
	case isAway(err):
		o.hold(i, err)
	default:
		o.park(i, err)
	}
}

// isFinal reports whether an error of this machine does not pass by itself.
func isFinal(err error) bool {
	return errors.Is(err, errDamaged) || errors.Is(err, ErrGone) || errors.Is(err, ErrTemporary) ||
		errors.Is(err, ErrLocked) || errors.Is(err, errTooLarge) || errors.Is(err, errNoGroup)
}

// isOfAnother reports whether a record was told as that of another item. Two saves of the same content
// under the same name would fit the same record.
func (o *Outbox) isOfAnother(ref sdk.Ref, i *item) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	owner, ok := o.owners[ref]
	return ok && owner != i.clear.ID
}

// isRemote reports whether an error is one of the service.
func isRemote(err error) bool {
	var e *sdk.Error
	return errors.As(err, &e)
}

func (o *Outbox) recorded(l *lane, i *item, r sdk.Receipt) {
	o.mu.Lock()
	if len(o.results) >= keptResults {
		clear(o.results)
		clear(o.owners)
	}
	o.results[i.clear.ID], o.owners[r.Ref] = r.Ref, i.clear.ID
	shown := o.shown(i)
	shown.State = Recorded.String()
	o.mu.Unlock()
	if o.cfg.Told != nil { // whoever waits for the item finds it told
		o.cfg.Told(shown, r)
	}
	o.mu.Lock()
	if len(l.sentAt) >= keptResults {
		clear(l.sentAt)
	}
	l.sentAt[i.name] = time.Now()
	o.arrived(time.Now(), i.clear.Size)
	if left, ok := o.funds.balance.Sub(r.Fee); ok {
		o.funds.balance = left
	}
	i.record = r.Ref
	o.end(i, Recorded)
	o.store.end(i.clear, r.Ref) // before anybody sees that nothing of its journal waits
	o.mu.Unlock()
}

// askBalance asks for the balance, now and then.
func (o *Outbox) askBalance(ctx context.Context) {
	if o.cfg.Balance == nil {
		return
	}
	o.mu.Lock()
	due := time.Since(o.funds.at) >= balanceAge && o.away == nil
	if due {
		o.funds.at = time.Now()
	}
	o.mu.Unlock()
	if !due {
		return
	}
	balance, err := o.cfg.Balance(ctx)
	if err != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.funds.known, o.funds.balance = true, balance
}

// showNames tells of items whose names the key of the keyring opens, before their keys are fetched.
func (o *Outbox) showNames(list []*item) {
	if o.cfg.Keys.Names == nil {
		return
	}
	for _, i := range list {
		if o.life.Err() != nil {
			return
		}
		if err := o.readMeta(i, nil); err != nil {
			continue
		}
		o.mu.Lock()
		told := o.shownAll([]*item{i})
		o.mu.Unlock()
		o.tell(told)
	}
}
