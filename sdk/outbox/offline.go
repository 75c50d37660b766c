package outbox

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/svcfs/svcfs/sdk"
)

// List reads what waits in a folder, without a lock, for a user whose mount has ended. A folder that is not
// there holds nothing. Names are known as far as keys has the key of the keyring; the others of groups that keys knows
// by their hash are asked of the service, unless remote is nil. Then err may be that of the service, beside the items.
func List(ctx context.Context, dir string, keys Keys, remote Remote) (items []Item, err error) {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	f, err := openFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("open the outbox: %w", err)
	}
	defer f.close()
	s, list, err := openStore(f, true)
	if err != nil {
		return nil, err
	}
	names := namer{store: s, keys: keys, remote: remote, opened: make(map[string]Key)}
	defer names.wipe()
	for _, c := range list {
		i := Item{ID: c.ID, Size: c.Size, Time: c.Time, Position: c.Position, State: Waiting.String(), Locked: true}
		if raw, err := s.readMeta(c.ID); err == nil {
			if m := names.of(ctx, &c, raw); m != nil {
				i.Group, i.Name = m.Group, m.Name
			}
		}
		items = append(items, i)
	}
	return items, names.failed
}

// namer finds the names of what waits where no mount has the folder.
type namer struct {
	store  *store
	keys   Keys
	remote Remote         // nil = is not asked
	groups []sdk.Group    // of the account, once they were needed
	opened map[string]Key // by journal; nil = it does not open
	failed error          // of a service that is away: it is asked no more
}

// of returns what is known of an item; nil = nothing.
func (n *namer) of(ctx context.Context, c *Clear, raw []byte) *meta {
	if m, err := openMeta(c, raw, nil, n.keys.Names); err == nil {
		return m
	}
	key, asked := n.opened[c.Journal]
	if !asked && n.remote != nil && n.failed == nil {
		key, n.failed = n.open(ctx, c.Journal)
		n.opened[c.Journal] = key
	}
	if key == nil {
		return nil
	}
	m, err := openMeta(c, raw, key.Derive, nil)
	if err != nil {
		return nil
	}
	return m
}

// open has the service open a journal, as one of the group that its hash is of. Both results are nil where it does not.
func (n *namer) open(ctx context.Context, id string) (Key, error) {
	h, is := n.store.journals[id]
	if !is || h.Key == nil {
		return nil, nil
	}
	if n.groups == nil {
		var err error
		if n.groups, err = n.remote.Groups(ctx); err != nil {
			return nil, err
		}
	}
	for _, g := range n.groups {
		if !hmac.Equal(h.Key.Group, groupHash(n.keys.Group, g.ID)) {
			continue
		}
		key, err := n.remote.OpenJournal(ctx, g.ID, h.Key.Sealed)
		if err == nil {
			return key, nil
		}
		if isDownNow(err) {
			return nil, err
		}
	}
	return nil, nil
}

func (n *namer) wipe() {
	for _, key := range n.opened {
		if key != nil {
			key.Wipe()
		}
	}
}

// Discard gives an item in a folder up, for good, when no mount has the folder. Errors: [ErrTaken],
// [ErrGone], and those of the disk.
func Discard(ctx context.Context, dir, id string) error {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return ErrGone
	}
	f, err := openFolder(dir)
	if err != nil {
		return fmt.Errorf("open the outbox: %w", err)
	}
	defer f.close()
	if err := f.lock(); err != nil {
		return err
	}
	s, list, err := openStore(f, false)
	if err != nil {
		return err
	}
	err = ErrGone
	if i := slices.IndexFunc(list, func(c Clear) bool { return c.ID == id }); i >= 0 {
		err = s.forget(ctx, list[i])
	}
	return errors.Join(err, s.close())
}

// Flush has everything that waits sent now, also what was held back because its file is saved
// again and again.
func (o *Outbox) Flush() {
	o.mu.Lock()
	for _, i := range o.order {
		i.urgent = true
	}
	o.mu.Unlock()
	o.Again()
}
