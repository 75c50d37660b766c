package outbox

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/saving"
	"github.com/svcfs/svcfs/sdk/wire"
)

// A journal is a key, for saves of one group by one process. The key is sealed to the vault of the service, lies so on
// the disk, and ends when all its saves have ended.

const (
	// journalSaves, journalBytes and journalAge are after how many saves, bytes of content, and how long, the next save
	// begins another journal.
	journalSaves = 64
	journalBytes = 4 << 20
	journalAge   = time.Hour
	// journalIdle is how long a journal in which nothing waits is kept for the next save.
	journalIdle = time.Minute
	// renewEvery is how often it is asked whether the vault of the service has another key.
	renewEvery = 6 * time.Hour
	// endPatience is how long ending journals may take: who unmounts waits for it, and the next process does it, too.
	endPatience = 5 * time.Second
	// openers is how many journals are opened at a time after a restart.
	openers = 8
)

// sealedKey is a journal on the disk.
type sealedKey struct {
	Sealed saving.SealedJournalKey `json:"sealed"`
	Group  []byte                  `json:"group"`           // keyed hash
	Named  []byte                  `json:"named,omitempty"` // the group, under the key of the keyring
}

// journal is by Outbox.mu.
type journal struct {
	id    string
	group sdk.GroupID // "" = not known yet
	key   Key         // nil = not fetched since the restart, or wiped
	disk  sealedKey
	begun time.Time
	idle  time.Time // since when nothing of it waits
	saves int       // so many were encrypted with it
	bytes int64
	list  []*item // that wait
	users int     // calls that encrypt with it
}

// derive is that of the key. It takes Outbox.mu.
func (o *Outbox) derive(j *journal) derive {
	return func(domain string, salt []byte) (*format.Key, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if j == nil || j.key == nil {
			return nil, ErrLocked
		}
		return j.key.Derive(domain, salt)
	}
}

// hasKey needs Outbox.mu. nil is no journal.
func (j *journal) hasKey() bool { return j != nil && j.key != nil }

// wipe needs Outbox.mu. nil is no journal.
func (j *journal) wipe() {
	if j.hasKey() {
		j.key.Wipe()
		j.key = nil
	}
}

// isFull reports whether the journal takes no more. Needs Outbox.mu.
func (j *journal) isFull() bool {
	return j.key == nil || j.saves >= journalSaves || j.bytes >= journalBytes || time.Since(j.begun) >= journalAge
}

// journalFor returns a journal for a save of n bytes, durable. The caller ends the use.
func (o *Outbox) journalFor(ctx context.Context, g sdk.GroupID, n int64) (*journal, error) {
	select {
	case o.beginning <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-o.beginning }()
	o.mu.Lock()
	j := o.current[g]
	if j == nil || j.isFull() {
		j = nil
	} else {
		j.use(n)
	}
	o.mu.Unlock()
	if j != nil {
		return j, nil
	}
	key, sealed, err := o.cfg.Remote.NewJournal(ctx, g)
	if err != nil {
		return nil, err
	}
	j = &journal{id: sealed.Journal, group: g, key: key, begun: time.Now()}
	if j.disk, err = o.diskKey(g, sealed); err == nil {
		err = o.store.add(ctx, o.journalEntry(j, j.disk))
	}
	if err != nil {
		key.Wipe()
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.journals[j.id], o.current[g] = j, j
	j.use(n)
	return j, nil
}

// use needs Outbox.mu.
func (j *journal) use(n int64) {
	j.saves++
	j.bytes += n
	j.users++
}

// unuse ends what journalFor began.
func (o *Outbox) unuse(j *journal) {
	o.mu.Lock()
	defer o.mu.Unlock()
	j.users--
	j.idle = time.Now()
}

// diskKey is what the disk shows of a journal.
func (o *Outbox) diskKey(g sdk.GroupID, sealed saving.SealedJournalKey) (k sealedKey, err error) {
	k = sealedKey{Sealed: sealed, Group: groupHash(o.cfg.Keys.Group, g)}
	if o.cfg.Keys.Names != nil {
		k.Named, err = from(o.cfg.Keys.Names).seal(groupDomain+sealed.Journal, []byte(g))
	}
	return k, err
}

func (o *Outbox) journalEntry(j *journal, disk sealedKey) *entry {
	return &entry{kind: kindJournal, head: head{Key: &disk,
		Clear: &Clear{ID: j.id, Account: string(o.cfg.Remote.Account()), Time: j.begun}}}
}

// groupHash is a keyed hash.
func groupHash(key []byte, g sdk.GroupID) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte("svc-journal-hash-1\x00" + string(g))) // never fails
	return mac.Sum(nil)
}

// readJournals takes in the journals of earlier processes.
func (o *Outbox) readJournals() {
	for id, h := range o.store.journals {
		j := &journal{id: id, disk: *h.Key, begun: h.Time}
		if o.cfg.Keys.Names != nil && h.Key.Named != nil {
			if g, err := from(o.cfg.Keys.Names).open(groupDomain+id, h.Key.Named); err == nil {
				j.group = sdk.GroupID(g)
			}
		}
		o.journals[id] = j
	}
}

// openAll opens journals, in the order of their first saves, and reads what they hold. Those that do not open are tried
// again, together, after a pause.
func (o *Outbox) openAll(list []*journal) {
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		var groups []sdk.Group
		var away error
		for part := range slices.Chunk(list, openers) {
			if away = o.openPart(part, &groups, pause); away != nil {
				break
			}
			o.isBack()
			o.Kick()
		}
		if list = slices.DeleteFunc(list, o.isOpened); len(list) == 0 {
			return
		}
		if away != nil {
			o.mu.Lock()
			o.away, o.next = away, time.Now().Add(pause)
			o.mu.Unlock()
		}
		select {
		case <-time.After(pause):
		case <-o.life.Done():
			return
		}
	}
}

// openPart opens some journals at a time. What does not open waits for pause; away is why the service is away.
func (o *Outbox) openPart(part []*journal, groups *[]sdk.Group, pause time.Duration) (away error) {
	for k, err := range o.openSome(part, groups) {
		if !opensLater(err) {
			err = o.opened(part[k], err)
		}
		switch {
		case err == nil:
		case isDown(err):
			away = err
		default:
			o.holdUnopened(part[k], err, time.Now().Add(pause))
		}
	}
	return away
}

// holdUnopened has what a journal holds wait for its key alone: other groups do not wait for it.
func (o *Outbox) holdUnopened(j *journal, err error, next time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, i := range j.list {
		if !i.opened && i.state != Parked {
			i.held, i.reason, i.notBefore = err, words(err), next
		}
	}
}

// isDownNow reports whether the service is away, or is to be asked again.
func isDownNow(err error) bool {
	return err != nil && isRemote(err) && isAway(err) && sdk.KindOf(err) != sdk.ErrCorrupt
}

// opensLater reports whether a journal is to be opened later: the service does not open it now, or this machine cannot
// read its files now.
func opensLater(err error) bool {
	return isDownNow(err) || err != nil && !isRemote(err) && !isFinal(err) && !errors.Is(err, fs.ErrNotExist)
}

func (o *Outbox) isOpened(j *journal) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !slices.ContainsFunc(j.list, func(i *item) bool { return !i.opened })
}

func (o *Outbox) openSome(list []*journal, groups *[]sdk.Group) []error {
	errs := make([]error, len(list))
	var once sync.Mutex
	var workers sync.WaitGroup
	for k, j := range list {
		workers.Go(func() { errs[k] = o.openJournal(j, &once, groups) })
	}
	workers.Wait()
	return errs
}

// openJournal fetches the key of a journal.
func (o *Outbox) openJournal(j *journal, once *sync.Mutex, groups *[]sdk.Group) error {
	o.mu.Lock()
	known, has, sealed := j.group, j.hasKey(), j.disk.Sealed
	o.mu.Unlock()
	if has {
		return nil
	}
	if known != "" {
		return o.openAs(j, known, sealed)
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
	all := slices.Clone(*groups)
	once.Unlock()
	slices.SortStableFunc(all, func(a, b sdk.Group) int { // the likely ones first
		return cmp.Compare(o.likely(j, b.ID), o.likely(j, a.ID))
	})
	err := errNoGroup
	for _, g := range all {
		failed := o.openAs(j, g.ID, sealed)
		if failed == nil || opensLater(failed) {
			return failed
		}
		if o.likely(j, g.ID) > 0 || codeOf(failed) == wire.CodeEpoch || codeOf(failed) == wire.CodeJournalEnded {
			err = failed
		}
	}
	return err
}

// likely is 1 for the group that the keyed hash is of, else 0.
func (o *Outbox) likely(j *journal, g sdk.GroupID) int {
	if hmac.Equal(j.disk.Group, groupHash(o.cfg.Keys.Group, g)) {
		return 1
	}
	return 0
}

func (o *Outbox) openAs(j *journal, g sdk.GroupID, sealed saving.SealedJournalKey) error {
	for {
		o.mu.Lock()
		wipes := o.wipes
		o.mu.Unlock()
		key, err := o.cfg.Remote.OpenJournal(o.life, g, sealed)
		if err != nil {
			return err
		}
		if err := o.proveKey(j, g, key); err != nil {
			key.Wipe()
			return err
		}
		o.mu.Lock()
		if o.wipes == wipes {
			j.wipe()
			j.group, j.key = g, key
			o.mu.Unlock()
			return nil
		}
		o.mu.Unlock()
		key.Wipe() // it may be of a group that was lost meanwhile: then the service gives it no more
	}
}

var (
	errWrongKey = fmt.Errorf("%w, or the service gave another key", errDamaged)
	errNoGroup  = errors.New("it is of none of the groups of the account: the account was revoked, or the group is " +
		"another now")
)

// proveKey refuses a key that opens nothing of a journal of the group. A wrong one would be sealed anew some day, in
// the place of the right one.
func (o *Outbox) proveKey(j *journal, g sdk.GroupID, key Key) error {
	o.mu.Lock()
	list := make([]Clear, 0, len(j.list))
	for _, i := range j.list {
		list = append(list, i.clear)
	}
	o.mu.Unlock()
	for _, c := range list {
		raw, err := o.store.readMeta(c.ID)
		if opensLater(err) {
			return err
		}
		if err != nil {
			continue
		}
		if m, err := openMeta(&c, raw, key.Derive, nil); err == nil && m.Group == g {
			return nil
		}
	}
	if len(list) == 0 {
		return nil
	}
	return errWrongKey
}

// lostWith says what it means that a journal cannot be opened.
func lostWith(err error) error {
	switch codeOf(err) {
	case wire.CodeEpoch:
		return errors.New("it waited longer than the service opens keys of its time: nobody can open it any more")
	case wire.CodeJournalEnded:
		return errors.New("its key was ended, as if it were recorded: the files of the outbox are older than that, " +
			"and nobody can open it any more")
	}
	return err
}

// opened has the saves of a journal wait to be sent, or parks them, where it could not be opened. It returns why some
// cannot be read before later.
func (o *Outbox) opened(j *journal, why error) (later error) {
	o.mu.Lock()
	list := slices.DeleteFunc(slices.Clone(j.list), func(i *item) bool { return i.opened })
	o.mu.Unlock()
	var told []Item
	for _, i := range list {
		err := lostWith(why)
		if err == nil && !o.isNamed(i) {
			if err = o.readMeta(i, o.derive(j)); opensLater(err) {
				later = err
				continue
			}
		}
		o.mu.Lock()
		if o.items[i.clear.ID] == i && !i.opened { // else discarded meanwhile
			i.opened, i.held, i.notBefore = true, nil, time.Time{}
			o.enter(i)
			if err != nil && i.state != Parked {
				o.step(i, Parked)
				i.reason = words(err)
			}
			told = append(told, o.shown(i))
		}
		o.mu.Unlock()
	}
	o.tell(told)
	return later
}

// isNamed reports whether the key of the keyring told of an item, as one of its journal.
func (o *Outbox) isNamed(i *item) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return i.meta != nil && i.meta.Group == i.journal.group
}

// enter puts an item whose group is known into its lane. Needs mu.
func (o *Outbox) enter(i *item) {
	if i.group == "" {
		return
	}
	l := o.lane(i.group)
	if slices.Contains(l.queue, i) {
		return
	}
	at, _ := slices.BinarySearchFunc(l.queue, i.clear.Position,
		func(a *item, p int64) int { return cmp.Compare(a.clear.Position, p) })
	l.queue = slices.Insert(l.queue, at, i)
}

// readMeta reads the names of an item from the disk.
func (o *Outbox) readMeta(i *item, journal derive) error {
	o.mu.Lock()
	c := i.clear
	o.mu.Unlock()
	raw, err := o.store.readMeta(c.ID)
	if err != nil {
		return err
	}
	m, err := openMeta(&c, raw, journal, o.cfg.Keys.Names)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if i.journal == nil || i.journal.group != "" && i.journal.group != m.Group {
		return errDamaged
	}
	i.meta, i.group, i.name = m, m.Group, m.Name
	return nil
}
