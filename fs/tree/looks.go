package tree

import (
	"context"
	"errors"
	"time"

	"github.com/svcfs/svcfs/fs/tree/look"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk"
)

// missInterval is how often a look-up of an unknown name may ask the ledger.
const missInterval = 500 * time.Millisecond

// looks is what package look is given by the tree.
func (t *Tree) looks() look.Config {
	return look.Config{Service: t.remote, Interval: t.cfg.RefreshInterval, Patience: t.cfg.MetadataTimeout, Log: t.log,
		Now: t.now, Price: t.cfg.ReadPrice, Storage: t.cfg.Storage, Watch: t.cfg.Watch,
		Watching: t.cfg.Watching, Budget: &t.spent, Judge: t.judge, Note: func(err error) {
			var failed *Error
			if errors.As(err, &failed) {
				t.Note(failed)
			}
		},
		Alone: t.alone, Unsent: t.unrecorded.isAwaiting, Pending: t.warnPending, Setting: t.forgetSetting,
		Send: func(wasAway bool) {
			if wasAway {
				t.queue.Again()
			}
			t.unrecorded.retry(t.life)
		},
		Settle: func(ctx context.Context) { t.tell([]notice{func(k Kernel) { k.Settle(ctx) }}) },
	}
}

// judge says what the error of a look means.
func (t *Tree) judge(err error) *look.Failed {
	var failed *Error
	if !errors.As(err, &failed) || failed.Class == ClassInterrupted {
		return nil
	}
	return &look.Failed{Time: t.now().UTC(), Path: failed.Path, Class: failed.Class.String(),
		Error: report.OneLine(failed.Err.Error()), Hint: report.OneLine(t.hint(failed)), Away: failed.Class.isAway(),
		Dry: failed.Class == ClassBudget}
}

// Refresh looks at the ledger now: groups, and the records of groups in use. Files
// that held something else than was recorded may be tried again.
func (t *Tree) Refresh(ctx context.Context) error {
	t.mu.Lock()
	for _, g := range t.groups {
		g.wrong = nil
	}
	t.mu.Unlock()
	return t.look.Refresh(ctx)
}

// Wait waits until no look goes on in the background, as after an event of the service.
func (t *Tree) Wait() { t.look.Wait() }

// LookPrice returns the price of one look at the ledger for this directory, where it is
// known and not free.
func (d *Dir) LookPrice() (price sdk.Amount, ok bool) {
	switch d.kind {
	case dirRoot:
		price = d.t.look.Groups.Price()
	case dirGroup:
		price = d.group.list.Price()
	}
	return price, !price.IsZero()
}

// use makes sure that g was listed within maxAge; negative means ever.
func (g *group) use(ctx context.Context, maxAge time.Duration) error {
	switch {
	case g.waste:
		return nil
	case g.isGone():
		g.list.NoteUse()
		return plain(ClassNotExist, "look up", g.path, "the group is gone")
	default:
		return g.list.Use(ctx, maxAge)
	}
}

// stillMember checks that the account was not revoked, before content in memory is handed
// out, unless the service announces changes now (M5).
func (g *group) stillMember(ctx context.Context) error {
	if err := g.list.CheckMember(ctx); err != nil {
		return err
	}
	if g.isGone() {
		return outOfGroup()
	}
	return nil
}

// warnPending notes once that files of a group wait to be destroyed, until they are
// kept.
func (t *Tree) warnPending(e sdk.Event) {
	t.mu.Lock()
	g := t.groups[e.Group]
	warn := g != nil && !g.warned && e.Kind == sdk.EventPending
	if g != nil {
		g.warned = e.Kind == sdk.EventPending
	}
	t.mu.Unlock()
	if warn {
		_ = t.fail("destroy", g.dir.Path(), &Error{Class: ClassBusy,
			Err: errors.New(string(e.Account) + " asked to destroy files of this group; the service waits, and the " +
				"owner of the group can keep the files"),
			Hint: "List the files and their dates with: svcfs group pending GROUP"})
	}
}
