package outbox

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// keptResults bounds what is remembered of items that were sent, and of names.
const keptResults = 100_000

// conflict gives an item a name of its own, because its name has another version than the save replaces.
func (o *Outbox) conflict(ctx context.Context, i *item) error {
	account := o.cfg.Remote.Account()
	o.mu.Lock()
	was, n, upon := i.was, i.conflicts, i.meta.Upon
	if was == "" {
		was = i.name
		if first, names, ok := conflictOf(i.name, account, i.clear.Time); ok { // of an earlier process
			was, n = first, names
		} else {
			upon = i.baseNow()
		}
	}
	o.mu.Unlock()
	name, none := ConflictName(was, account, i.clear.Time, n), sdk.Ref("")
	err := o.rewrite(ctx, i, &item{}, true, func(m *meta) { m.Name, m.Base, m.Upon = name, &none, upon })
	if err != nil {
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

// isBack notes that the service answered, be it with a refusal.
func (o *Outbox) isBack() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.away, o.pause, o.next = nil, 0, time.Time{}
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
	less := rand.Int64N(int64(o.pause) / 4) //nolint:gosec // no secret: mounts shall not come all at once
	o.next = time.Now().Add(o.pause - time.Duration(less))
}

// park has an item wait for its user. Of a group that the account lost, all items are parked, and
// the keys in memory are wiped.
func (o *Outbox) park(i *item, err error) {
	o.mu.Lock()
	list := []*item{i}
	if losesGroup(err) {
		for _, other := range o.lane(i.group).queue {
			if other != i && (other.state == Waiting || other.state == Conflict) {
				list = append(list, other)
			}
		}
		o.wipe(i.group)
	}
	for _, i := range list {
		o.step(i, Parked)
		i.reason = words(err)
	}
	told := o.shownAll(list)
	o.mu.Unlock()
	o.tell(told)
}

// losesGroup reports whether a refusal says that the account has the group no more. Who may only not change it is a
// member, and can read and move what waits.
func losesGroup(err error) bool {
	switch codeOf(err) {
	case wire.CodeReadOnly, wire.CodeSealedOnly, wire.CodeInvite:
		return false
	}
	return sdk.KindOf(err) == sdk.ErrNotAuthorized
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
	o.wipe(g)
	for _, i := range o.order {
		if i.group != g {
			continue
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

// wipe wipes all keys of a group. Needs Outbox.mu.
func (o *Outbox) wipe(g sdk.GroupID) {
	o.cfg.Remote.Forget(g)
	o.wipes++
	for _, j := range o.journals {
		if j.group == g {
			j.wipe()
		}
	}
}
