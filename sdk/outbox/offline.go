package outbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
)

// List reads what waits in a folder, without a lock, for a user whose mount has ended. A folder that is not
// there holds nothing. Names are known as far as keys has the key of the keyring.
func List(dir string, keys Keys) (items []Item, err error) {
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
	for _, c := range list {
		i := Item{ID: c.ID, Size: c.Size, Time: c.Time, Position: c.Position, State: Waiting.String(), Locked: true}
		raw, err := s.readMeta(c.ID)
		if err == nil {
			if m, err := openMeta(&c, raw, nil, keys.Names); err == nil {
				i.Group, i.Name = m.Group, m.Name
			}
		}
		items = append(items, i)
	}
	return items, nil
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
