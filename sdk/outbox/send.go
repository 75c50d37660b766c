package outbox

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

const (
	// openers is how many keys are fetched at a time after a restart, and openedAtOnce how many
	// before the items that they belong to are sent.
	openers      = 8
	openedAtOnce = 64
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

// batch returns the first items of a lane that may be sent together, or when the first one may be. Needs mu.
func (o *Outbox) batch(l *lane, now time.Time) (batch []*item, due time.Time) {
	var bytes int64
	for _, i := range l.queue {
		if i.state == Parked {
			continue
		}
		i.follow()
		if !i.ready || i.changing > 0 || i.clear.Position >= o.horizon() || i.after != nil && i.after.state != Parked {
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

// horizon is the position of the first item of which nothing is known yet. Needs mu.
func (o *Outbox) horizon() int64 {
	if o.locked == 0 {
		return math.MaxInt64
	}
	return o.opened
}

// sendBatch sends items of one lane, and does what the answers ask for.
func (o *Outbox) sendBatch(l *lane, batch []*item) {
	ctx := o.life
	var send []*item
	var letters []Letter
	epochs := make(map[*item]int64)
	for _, i := range batch {
		if err := o.prepare(ctx, i); err != nil {
			o.answer(ctx, l, i, sdk.Sent{Err: err})
			continue
		}
		o.mu.Lock()
		i.tried = true
		o.mu.Unlock()
		send, letters, epochs[i] = append(send, i), append(letters, i.letter), i.letter.Epoch()
	}
	if err := o.store.settle(); err != nil {
		for _, i := range send {
			o.back(i, words(err))
		}
		send = nil
	}
	if len(send) > 0 {
		for n, answer := range o.cfg.Remote.Send(ctx, letters) {
			i := send[n]
			if answer.Err != nil && i.letter.Epoch() != epochs[i] {
				o.resave(ctx, i)
			}
			o.answer(ctx, l, i, answer)
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

// prepare proves that an item can be read, and gives it the base that became known since it was saved. The disk knows
// it from the end of what the item was saved upon.
func (o *Outbox) prepare(ctx context.Context, i *item) error {
	if err := o.store.check(i.clear.ID); err != nil {
		return err
	}
	o.mu.Lock()
	i.follow()
	rebase := i.rebase
	o.mu.Unlock()
	if rebase == nil {
		return nil
	}
	if base, set := i.letter.Base(); set && base == *rebase {
		return nil
	}
	if !i.letter.HasKey() {
		err := o.cfg.Remote.Open(ctx, i.letter, i.group)
		if codeOf(err) == wire.CodeSpent {
			return nil // sending it as it is brings the receipt
		}
		if err != nil {
			return err
		}
	}
	return i.letter.Readdress(i.group, i.name, rebase)
}

// resave writes an item that was sealed anew. The old form can be sealed anew once more.
func (o *Outbox) resave(ctx context.Context, i *item) {
	e, err := o.entryOf(kindAddress, i, i)
	if err == nil {
		err = o.store.add(ctx, e)
	}
	if err != nil {
		o.cfg.Logger.Warn("an item of the outbox that was sealed anew could not be written", "error", err)
	}
}

// answer does what the service's answer to an item asks for.
func (o *Outbox) answer(ctx context.Context, l *lane, i *item, a sdk.Sent) {
	err := a.Err
	if err == nil && (a.Receipt.Ref == "" || len(a.Receipt.Ref) > maxRef) {
		err = &sdk.Error{Op: "upload", Group: i.group, Kind: sdk.ErrCorrupt, Err: errors.New("the receipt names no record")}
	}
	if err == nil && o.isOfAnother(a.Receipt.Ref, i) {
		err = &sdk.Error{Op: "upload", Group: i.group, Kind: sdk.ErrCorrupt,
			Err: errors.New("the receipt is that of another save")}
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
	case code == wire.CodeEpoch && !i.letter.HasKey():
		if err = o.cfg.Remote.Open(ctx, i.letter, i.group); err == nil {
			o.back(i, "its key is sealed anew")
			return
		}
		if codeOf(err) == wire.CodeEpoch {
			err = errors.New("it waited longer than the service opens keys of its time: nobody can open it any more")
		}
	case code == wire.CodeEpoch:
		o.back(i, "its key is sealed anew")
		return
	}
	switch {
	case ctx.Err() != nil:
		o.back(i, "")
	case errors.Is(err, errDamaged), errors.Is(err, ErrGone):
		o.park(i, err)
	case isAway(err) && (sdk.KindOf(err) != sdk.ErrOther || isRemote(err)):
		if isDown(err) {
			o.isAway(i, err)
		} else {
			o.hold(i, err)
		}
	default:
		o.park(i, err)
	}
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
	o.away, o.pause, o.next = nil, 0, time.Time{}
	i.record = r.Ref
	o.end(i, Recorded)
	ended := i.clear
	o.mu.Unlock()
	o.store.end(ended, r.Ref)
}

// keptResults bounds what is remembered of items that were sent, and of names.
const keptResults = 100_000

// conflict gives an item a name of its own, because its name has another version than the save replaces.
func (o *Outbox) conflict(ctx context.Context, i *item) error {
	if !i.letter.HasKey() {
		if err := o.cfg.Remote.Open(ctx, i.letter, i.group); err != nil {
			return err
		}
	}
	o.mu.Lock()
	was, n := i.was, i.conflicts
	if was == "" {
		was = i.name
		if first, names, ok := conflictOf(i.name, i.letter.Account(), i.clear.Time); ok { // of an earlier process
			was, n = first, names
		}
	}
	o.mu.Unlock()
	name, none := ConflictName(was, i.letter.Account(), i.clear.Time, n), sdk.Ref("")
	if err := o.rewrite(ctx, i, &item{}, i.group, name, &none, true); err != nil {
		return err
	}
	o.mu.Lock()
	o.step(i, Conflict)
	i.was, i.name, i.conflicts, i.tried = was, name, n+1, false
	i.after, i.rebase = nil, nil
	i.again()
	i.reason = "somebody else saved " + was + " meanwhile"
	for _, other := range o.order { // what was saved upon it is no conflict of its own
		if other.after == i {
			other.after = nil
		}
	}
	shown := o.shown(i)
	o.mu.Unlock()
	if o.cfg.Told != nil {
		o.cfg.Told(shown, sdk.Receipt{})
	}
	return nil
}

// back has an item wait again.
func (o *Outbox) back(i *item, reason string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.step(i, Waiting)
	i.reason = reason
	if reason != "" {
		i.again()
	}
}

// again makes the pause before the item alone is sent again longer: a service that goes on asking
// for another form of it is not asked without end. Needs Outbox.mu.
func (i *item) again() {
	if i.pause > 0 {
		i.notBefore = time.Now().Add(i.pause)
	}
	i.pause = min(max(2*i.pause, shortestPause), longestPause)
}

// isAway has an item wait for the service.
func (o *Outbox) isAway(i *item, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.away = err
	o.step(i, Waiting)
	i.reason = words(err)
	o.delay()
}

// hold has an item, and with it its lane, wait for what only concerns its group.
func (o *Outbox) hold(i *item, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.step(i, Waiting)
	i.reason, i.held = words(err), err
	i.again()
}

// delay makes the pause before the next attempt longer. Needs mu.
func (o *Outbox) delay() {
	if time.Now().Before(o.next) {
		return // another item of the same attempt
	}
	o.pause = min(max(2*o.pause, shortestPause), longestPause)
	o.next = time.Now().Add(o.pause - time.Duration(rand.Int64N(int64(o.pause)/4))) //nolint:gosec // no secret: mounts shall not come all at once
}

// park has an item wait for its user. Of a group that the account lost, all items are parked, and
// the keys in memory are wiped.
func (o *Outbox) park(i *item, err error) {
	o.mu.Lock()
	list := []*item{i}
	if sdk.KindOf(err) == sdk.ErrNotAuthorized {
		for _, other := range o.lane(i.group).queue {
			if other != i && (other.state == Waiting || other.state == Conflict) {
				list = append(list, other)
			}
			if other.letter != nil {
				other.letter.Wipe()
			}
		}
	}
	for _, i := range list {
		o.step(i, Parked)
		i.reason = words(err)
	}
	told := o.shownAll(list)
	o.mu.Unlock()
	o.tell(told)
}

var errLost = errors.New("the account was revoked from the group")

// isLost reports whether the account lost the group of an item while the item was sent, once.
func (o *Outbox) isLost(i *item) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	lost := i.lost
	i.lost = false
	return lost
}

// Lost parks everything of a group that the account lost, and wipes its keys in memory. What is under way is
// parked when the attempt ends without a record.
func (o *Outbox) Lost(g sdk.GroupID) {
	var list []*item
	o.mu.Lock()
	for _, i := range o.order {
		if i.group != g {
			continue
		}
		if i.letter != nil {
			i.letter.Wipe()
		}
		i.lost = i.state == Sending // it may be recorded yet; else it is parked when that is known
		if i.state == Waiting || i.state == Conflict {
			o.step(i, Parked)
			i.reason = words(errLost)
			list = append(list, i)
		}
	}
	told := o.shownAll(list)
	o.mu.Unlock()
	o.tell(told)
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

// openAll reads the names of what an earlier process left, and fetches keys from the service, in
// the order of the saves.
func (o *Outbox) openAll(list []*item) {
	o.showNames(list)
	o.askBalance(o.life)
	var groups []sdk.Group
	for pause := shortestPause; len(list) > 0; {
		n := min(len(list), openedAtOnce)
		err := o.openSome(list[:n], &groups)
		if err == nil {
			list = list[n:]
			o.mu.Lock()
			if o.locked = len(list); len(list) > 0 {
				o.opened = list[0].clear.Position
			}
			o.mu.Unlock()
			o.Kick()
			pause = shortestPause
			continue
		}
		o.mu.Lock()
		o.away = err
		o.next = time.Now().Add(pause)
		o.mu.Unlock()
		groups = nil
		select {
		case <-time.After(pause):
		case <-o.life.Done():
			return
		}
		pause = min(2*pause, longestPause)
	}
}

// showNames tells of items whose names the key of the keyring opens, before their keys are fetched.
func (o *Outbox) showNames(list []*item) {
	if o.cfg.Keys.Names == nil {
		return
	}
	for _, i := range list {
		if err := o.readNames(i); err != nil || i.letter.Locked() || o.life.Err() != nil {
			continue
		}
		o.mu.Lock()
		i.group, i.name = i.letter.Group(), i.letter.Name()
		told := o.shownAll([]*item{i})
		o.mu.Unlock()
		o.tell(told)
	}
}

// openSome opens items. An error is one of a service that is away.
func (o *Outbox) openSome(list []*item, groups *[]sdk.Group) error {
	errs := make([]error, len(list))
	var workers sync.WaitGroup
	var once sync.Mutex
	for first := range openers {
		workers.Go(func() {
			for n := first; n < len(list); n += openers {
				errs[n] = o.openOne(list[n], &once, groups)
			}
		})
	}
	workers.Wait()
	for _, err := range errs {
		if err != nil && isRemote(err) && isAway(err) && sdk.KindOf(err) != sdk.ErrCorrupt {
			return err
		}
	}
	var told []Item
	var recorded []int
	o.mu.Lock()
	for n, i := range list {
		if o.items[i.clear.ID] != i || i.opened {
			continue // discarded meanwhile
		}
		i.opened = true
		var found foundRecord
		if errors.As(errs[n], &found) {
			i.group, i.name = found.entry.Group, found.entry.Name
			o.step(i, Sending)
			recorded = append(recorded, n)
			continue
		}
		if i.letter != nil && !i.letter.Locked() {
			i.group, i.name = i.letter.Group(), i.letter.Name()
			l := o.lane(i.group)
			at, _ := slices.BinarySearchFunc(l.queue, i.clear.Position,
				func(a *item, p int64) int { return int(a.clear.Position - p) })
			l.queue = slices.Insert(l.queue, at, i)
		}
		if errs[n] != nil {
			o.step(i, Parked)
			i.reason = words(errs[n])
		}
		told = append(told, o.shown(i))
	}
	o.mu.Unlock()
	for _, n := range recorded {
		var found foundRecord
		errors.As(errs[n], &found)
		e := found.entry
		o.recorded(o.laneOf(e.Group), list[n],
			sdk.Receipt{Ref: e.Ref, Tx: e.Tx, Hash: e.Hash, Size: e.Size, Seq: e.Seq, Time: e.Time})
	}
	o.tell(told)
	return nil
}

func (o *Outbox) laneOf(g sdk.GroupID) *lane {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lane(g)
}

// readNames reads an item from the disk, without its content.
func (o *Outbox) readNames(i *item) error {
	if i.letter != nil {
		return nil
	}
	raw, err := o.store.readMeta(i.clear.ID)
	if err != nil {
		return err
	}
	l, err := o.cfg.Remote.Decode(raw, o.cfg.Keys)
	if err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	if l.ID() != i.clear.ID || string(l.Account()) != i.clear.Account {
		return errDamaged
	}
	l.KeepIn(stored{o.store, i.clear.ID})
	o.mu.Lock()
	i.letter = l
	o.mu.Unlock()
	return nil
}

// foundRecord is not an error: the item is recorded.
type foundRecord struct{ entry sdk.Entry }

func (foundRecord) Error() string { return "it is recorded" }

// findRecord looks in the ledger for the record of an item that the service says is recorded. It is not
// believed without: neither the record of another file with the same content counts, nor one that was
// there when the item was saved. Of several the newest counts.
func (o *Outbox) findRecord(i *item, g sdk.GroupID, said error) error {
	entries, err := o.cfg.Remote.Entries(o.life, g)
	if err != nil {
		return err
	}
	var after sdk.Seq // of the record that the item replaces
	if base, _ := i.letter.Base(); base != "" {
		for _, e := range entries {
			if e.Ref == base {
				after = e.Seq
			}
		}
	}
	for _, e := range slices.Backward(entries) { // they ascend
		if e.Uploader == o.cfg.Remote.Account() && e.Seq > after &&
			hmac.Equal(o.checkOf(i.clear.ID, g, e.Name, e.Hash), i.clear.Check) {
			return foundRecord{e}
		}
	}
	return fmt.Errorf("the ledger has no record of it: %w", said)
}

// openOne reads the names of an item, and fetches its key.
func (o *Outbox) openOne(i *item, once *sync.Mutex, groups *[]sdk.Group) error {
	if err := o.readNames(i); err != nil {
		return err
	}
	if i.letter.HasKey() {
		return nil
	}
	if !i.letter.Locked() {
		err := o.cfg.Remote.Open(o.life, i.letter, i.letter.Group())
		if codeOf(err) == wire.CodeSpent {
			return nil // sending it again brings the receipt
		}
		return err
	}
	once.Lock()
	if *groups == nil {
		list, err := o.cfg.Remote.Groups(o.life)
		if err != nil {
			once.Unlock()
			return err
		}
		*groups = list
	}
	all := *groups
	once.Unlock()
	var err error = errors.New("it is of none of the groups of the account: the account was revoked, or the group is another now")
	for _, likely := range []bool{true, false} {
		for _, g := range all {
			if i.letter.IsIn(o.cfg.Keys, g.ID) != likely {
				continue
			}
			switch openErr := o.cfg.Remote.Open(o.life, i.letter, g.ID); {
			case openErr == nil:
				return nil
			case codeOf(openErr) == wire.CodeSpent:
				return o.findRecord(i, g.ID, openErr)
			case isAway(openErr) && sdk.KindOf(openErr) != sdk.ErrCorrupt:
				return openErr
			case likely:
				err = openErr
			}
		}
	}
	return err
}
