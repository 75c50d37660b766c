package outbox

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
)

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
	parked = parked || i.meta.Temporary // it is sent now
	g, name, base := to(i)
	o.mu.Unlock()
	err := o.rewrite(ctx, i, n, false, func(m *meta) {
		if g != m.Group {
			m.Upon = nil // no version there
		}
		m.Group, m.Name, m.Base = g, name, base
	})
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
func (o *Outbox) rewrite(ctx context.Context, i, n *item, apart bool, change func(*meta)) error {
	o.mu.Lock()
	c, m, j, d := i.clear, *i.meta, i.journal, o.derive(i.journal)
	o.mu.Unlock()
	group, name := m.Group, m.Name
	change(&m)
	if m.Group != group {
		return o.sealAnew(ctx, i, n, &m)
	}
	m.Temporary = m.Temporary && m.Name == name
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
	from, done, err := o.sourceOf(old, was, d)
	if err != nil {
		return err
	}
	defer done()
	moved := &item{clear: old, after: n.after, rebase: n.rebase}
	if err := o.keep(ctx, moved, m, j, room, from); err != nil {
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

// sourceOf is the content of an item, to be encrypted anew. The caller calls done at the end.
func (o *Outbox) sourceOf(c Clear, m *meta, d derive) (from source, done func(), err error) {
	if m.Block > 0 {
		w, err := o.store.openLarge(&c, m, d)
		if err != nil {
			return from, nil, err
		}
		from.read = func(_ context.Context, block int64, into []byte) (int, error) { return w.Read(block, into) }
		return from, func() { _ = w.Close() }, nil // it was read only
	}
	from.content = func(encrypt func([]byte) error) error {
		buf, err := o.pool.Get(0)
		if err != nil {
			return err
		}
		defer buf.Release()
		if err := o.Content(c.ID, buf); err != nil {
			return err
		}
		return encrypt(buf.Bytes())
	}
	return from, func() {}, nil
}

// ConflictName is the name of a save whose name got another version meanwhile. n = 0 at first. The end of a name that
// would be longer than one that is recorded is left out.
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
	stem, mark := strings.TrimSuffix(file, ext), " (conflict "+string(account)+" "+stamp+")"+ext
	if over := len(dir) + len(stem) + len(mark) - names.MaxPathBytes; over > 0 {
		stem = strings.ToValidUTF8(stem[:max(0, len(stem)-over)], "")
	}
	return dir + stem + mark
}

// conflictForm is the form of the names that [ConflictName] makes.
var conflictForm = regexp.MustCompile(
	`(?s)^(.*) \(conflict ([^\s/]+) (\d{4}-\d\d-\d\d \d\d\.\d\d\.\d\d)(?: ([1-9]\d*))?\)(\.[^./]*)?$`)

// ConflictCopy is what a name of [ConflictName] tells.
type ConflictCopy struct {
	Name    string // that the save was meant for
	Account sdk.AccountID
	Stamp   string // when it was saved, by the clock of that machine
}

// ParseConflict reads a name that [ConflictName] made. ok = false: it is none.
func ParseConflict(name string) (c ConflictCopy, ok bool) {
	m := conflictForm.FindStringSubmatch(name)
	if m == nil {
		return c, false
	}
	return ConflictCopy{Name: m[1] + m[5], Account: sdk.AccountID(m[2]), Stamp: m[3]}, true
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
