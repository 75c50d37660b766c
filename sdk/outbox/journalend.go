package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// takeIdle returns the journals that can end now, whose keys are wiped, and when to look again. away is why the service
// is not asked now.
func (o *Outbox) takeIdle(all bool) (ends []*journal, next time.Time, away error) {
	next = time.Now().Add(longestPause)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, j := range o.journals {
		if len(j.list) > 0 || j.users > 0 {
			continue
		}
		if rest := j.idle.Add(journalIdle); o.current[j.group] == j && !all && !j.isFull() && rest.After(time.Now()) {
			next = earlier(next, rest)
			continue
		}
		if o.current[j.group] == j {
			delete(o.current, j.group)
		}
		j.wipe()
		ends = append(ends, j)
	}
	if o.away != nil && time.Now().Before(o.next) {
		return ends, earlier(next, o.next), o.away
	}
	return ends, next, nil
}

// endJournals ends the journals in which nothing waits, at the service and then here. all = also those that the next
// save could use. It returns when something more will be to do.
func (o *Outbox) endJournals(ctx context.Context, all bool) (next time.Time, err error) {
	o.ending.Lock()
	defer o.ending.Unlock()
	ends, next, away := o.takeIdle(all)
	if len(ends) == 0 || away != nil {
		return next, away
	}
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	// A save whose end the disk does not have comes back after a loss of power, and needs the key.
	if err := o.store.settleAll(); err != nil {
		return earlier(next, time.Now().Add(journalIdle)), err
	}
	defer o.Kick() // what the disk has of them goes
	for n, j := range ends {
		err := o.cfg.Remote.EndJournal(ctx, j.disk.Sealed)
		if err != nil && !opensNoMore(err) {
			if n > 0 { // it answers: the others are next
				next = time.Now().Add(shortestPause)
			}
			return next, err
		}
		o.store.end(Clear{ID: j.id}, "")
		o.mu.Lock()
		delete(o.journals, j.id)
		o.mu.Unlock()
	}
	return next, nil
}

// opensNoMore reports whether the service refused to end a journal that it could not open either: one of an epoch that
// it does not have, because it was restored from a copy, or none at all.
func opensNoMore(err error) bool {
	return codeOf(err) == wire.CodeEpoch || sdk.KindOf(err) == sdk.ErrInvalid
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// renew seals the keys of journals to the newest key of the vault, before the service destroys the one that they are
// sealed to.
func (o *Outbox) renew(ctx context.Context) {
	o.mu.Lock()
	var list []*journal
	if now := time.Now(); !now.Before(o.renewAt) {
		o.renewAt = now.Add(renewEvery)
		for _, j := range o.journals {
			if j.hasKey() && len(j.list) > 0 {
				j.users++
				list = append(list, j)
			}
		}
	}
	o.mu.Unlock()
	for _, j := range list {
		err := o.renewOne(ctx, j)
		if err != nil {
			o.mu.Lock()
			o.renewAt = time.Now().Add(longestPause)
			o.mu.Unlock()
		}
		if err != nil && !isDownNow(err) {
			o.cfg.Logger.Warn("the key of what waits in the outbox could not be sealed anew; it is tried again",
				"error", err)
		}
		o.unuse(j)
	}
}

// renewOne seals the key of a journal anew. What is known of the journal is what the disk has: what could not be
// written is sealed once more the next time.
func (o *Outbox) renewOne(ctx context.Context, j *journal) error {
	o.mu.Lock()
	key, group, epoch := j.key, j.group, j.disk.Sealed.Epoch
	o.mu.Unlock()
	if key == nil {
		return nil
	}
	sealed, err := o.cfg.Remote.SealJournal(ctx, group, key)
	if err != nil || sealed.Epoch == epoch {
		return err
	}
	disk, err := o.diskKey(group, sealed)
	if err != nil {
		return err
	}
	o.mu.Lock()
	wiped := j.key != key
	o.mu.Unlock()
	if wiped { // nobody knows what was sealed
		return nil
	}
	if err := o.store.add(ctx, o.journalEntry(j, disk)); err != nil {
		return fmt.Errorf("note the key: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	j.disk = disk
	return nil
}

// tend ends and renews journals until Close.
func (o *Outbox) tend() {
	for {
		next, err := o.endJournals(o.life, false)
		if err != nil && !isDownNow(err) && o.life.Err() == nil {
			o.cfg.Logger.Warn("the key of a journal of the outbox could not be ended; it is tried again", "error", err)
		}
		o.renew(o.life)
		timer := time.NewTimer(time.Until(next))
		select {
		case <-timer.C:
		case <-o.emptied:
		case <-o.life.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}
