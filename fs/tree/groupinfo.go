package tree

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/svcfs/svcfs/fs/tree/look"
	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/network"
)

// infoInterval is how long the answers about a group are shown before the service
// is asked again.
const infoInterval = 5 * time.Second

// groupInfo holds the contents of GROUP/.svcfs: facts about a group beside its files. The
// service is asked when a program looks one of the names up.
type groupInfo struct {
	asking policy.Gate

	mu      sync.Mutex
	texts   map[string][]byte // by file name
	askedAt map[string]time.Time

	ledger     []byte // rows as JSON lines
	ledgerSeen int    // group.changes when ledger was made
}

// addControl attaches GROUP/.svcfs to a group: found by name, not listed, all
// read-only, and reading it never spends (N4). Needs Tree.mu.
func (g *group) addControl() {
	t := g.dir.t
	g.info.asking = policy.NewGate(1)
	g.info.texts, g.info.askedAt = make(map[string][]byte), make(map[string]time.Time)
	dir := t.newDir(g.dir, names.Control, dirControl)
	g.dir.hidden = map[string]Node{names.Control: dir}
	for _, name := range []string{infoMembers, infoOwner, infoChecksum} {
		dir.addControlFile(name, func() []byte { return g.info.text(name) })
	}
	dir.addControlFile(ledgerName, func() []byte { return g.ledgerText() })
	g.history = &past{}
	g.history.dir = t.newDir(dir, historyName, dirHistory)
	g.history.dir.past = g.history
	dir.attach(historyName, g.history.dir)
	g.trash = &past{trash: true}
	if t.cfg.Ours {
		g.trash.dir = t.newDir(dir, trashName, dirHistory)
		g.trash.dir.past = g.trash
		dir.attach(trashName, g.trash.dir)
	}
}

// addControlFile needs Tree.mu.
func (d *Dir) addControlFile(name string, show func() []byte) {
	f := d.newFile(name)
	f.group, f.show = d.group, show
	f.become(fileControl)
	d.attach(name, f)
}

const (
	infoMembers  = "members"
	infoOwner    = "owner"
	infoChecksum = "checksum"
	ledgerName   = "ledger.jsonl"
	trashName    = "trash"
)

func (i *groupInfo) text(name string) []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.texts[name]
}

func (i *groupInfo) isFresh(name string, now time.Time, age time.Duration) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return now.Sub(i.askedAt[name]) < age
}

// infoAge is infoInterval, or longer where asking costs.
func (g *group) infoAge(name string) time.Duration {
	if name == infoMembers && !g.list.Price().IsZero() {
		return look.LongestPause
	}
	return infoInterval
}

// ask brings the control file of that name up to date.
func (g *group) ask(ctx context.Context, name string) error {
	if name != infoMembers && name != infoOwner && name != infoChecksum {
		return nil
	}
	t := g.dir.t
	ctx, cancel := network.WithPatience(ctx, t.cfg.MetadataTimeout)
	defer cancel()
	if err := g.info.asking.Enter(ctx); err != nil {
		return err
	}
	defer g.info.asking.Leave()
	if g.info.isFresh(name, t.now(), g.infoAge(name)) || !t.look.Reached() && g.info.text(name) != nil {
		return nil
	}
	var list []string
	var err error
	switch name {
	case infoMembers:
		var members []sdk.AccountID
		err = g.list.Pay(ctx, func() (err error) {
			members, err = t.remote.GroupMembers(ctx, g.id)
			return err
		})
		for _, m := range members {
			list = append(list, string(m))
		}
		slices.Sort(list)
	case infoOwner:
		var owner sdk.AccountID
		owner, err = t.remote.GroupOwner(ctx, g.id)
		list = []string{string(owner)}
	case infoChecksum:
		var sum string
		sum, err = t.remote.GroupChecksum(ctx, g.id)
		list = []string{sum}
	}
	if err != nil {
		return err
	}
	var text []byte
	for _, line := range list {
		text = append(append(text, report.OneLine(line)...), '\n')
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	g.info.mu.Lock()
	defer g.info.mu.Unlock()
	more := int64(cap(text) - cap(g.info.texts[name]))
	if err := t.hasRoom(g.owned, more); err != nil {
		return err
	}
	t.texts.Add(more)
	g.info.texts[name], g.info.askedAt[name] = text, t.now()
	return nil
}

// ledgerText shows the records of g in order, as far as they were listed.
func (g *group) ledgerText() []byte {
	t := g.dir.t
	t.mu.RLock()
	defer t.mu.RUnlock()
	g.info.mu.Lock()
	defer g.info.mu.Unlock()
	if g.info.ledger != nil && g.info.ledgerSeen == g.changes {
		return g.info.ledger
	}
	text := report.Ledger(slices.Values(g.view.Files()))
	t.texts.Add(int64(cap(text) - cap(g.info.ledger)))
	g.info.ledger, g.info.ledgerSeen = text, g.changes
	return g.info.ledger
}

// forget frees the texts of a group that is gone.
func (i *groupInfo) forget(t *Tree) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, text := range i.texts {
		t.texts.Add(-int64(cap(text)))
	}
	t.texts.Add(-int64(cap(i.ledger)))
	i.ledger = nil
	clear(i.texts)
}
