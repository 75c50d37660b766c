package vault

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// keptName is how many digits of the name of a master key the file that keeps it has.
const keptName = 16

// Archive implements [vaultwire.Vault].
func (v *Vault) Archive(context.Context, vaultwire.Nothing) (a vaultwire.Archive, err error) {
	master := v.inUseNow()
	if a.Master, err = master.Name(); err != nil {
		return a, err
	}
	key, err := master.derive(purposeArchives)
	a.Key = key[:]
	return a, err
}

// ReadNext implements [vaultwire.Vault].
func (v *Vault) ReadNext(ctx context.Context, q vaultwire.ReadNext) (a vaultwire.Named, err error) {
	if v.other == (vaultwire.Source{}) {
		return a, vaultwire.ErrNoNext
	}
	from := v.other
	from.Make = q.Make
	next, err := ReadMaster(ctx, from)
	if err != nil {
		return a, err
	}
	v.mu.Lock()
	v.next = &next
	v.mu.Unlock()
	a.Master, err = next.Name()
	return a, err
}

func (v *Vault) nextMaster() (next Master, err error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.next == nil {
		return next, errors.New("no other master key was read")
	}
	return *v.next, nil
}

// WrapForNext implements [vaultwire.Vault].
func (v *Vault) WrapForNext(_ context.Context, q vaultwire.Keep) (a vaultwire.Made, err error) {
	next, err := v.nextMaster()
	if err != nil {
		return a, err
	}
	now := v.inUseNow()
	list, err := now.open(q.Rows)
	if err != nil {
		return a, err
	}
	root := vaultwire.Key{Purpose: vaultwire.PurposeFiles}
	for _, k := range list {
		if k.Purpose == root.Purpose {
			root.Version = max(root.Version, k.Version+1)
		}
	}
	made := newServiceKey(root)
	forNow, err := now.wrap(made)
	if err != nil {
		return a, err
	}
	forNext, err := next.wrapAll(append(list, made))
	if err != nil {
		return a, err
	}
	a.Rows = append(forNext, forNow)
	a.Master, err = next.Name()
	return a, err
}

// UseNext implements [vaultwire.Vault]. The earlier master key is kept beside it; its file is named after the name in
// archives.
func (v *Vault) UseNext(context.Context, vaultwire.Nothing) (a vaultwire.Replaced, err error) {
	next, err := v.nextMaster()
	if err == nil && !v.source.Make {
		err = errors.New("the vault does not replace this master key: bring the other one to its place")
	}
	if err != nil {
		return a, err
	}
	before := v.inUseNow()
	name, err := before.Name()
	if err != nil {
		return a, err
	}
	a.Kept = v.source.File + "." + name[:keptName]
	if err := ownfile.Replace(a.Kept, before.raw.Slice()); err != nil {
		return vaultwire.Replaced{}, fmt.Errorf("keep the earlier master key: %w", err)
	}
	if err := ownfile.Replace(v.source.File, next.raw.Slice()); err != nil {
		return a, fmt.Errorf("write the new master key: %w", err)
	}
	if err := os.Remove(v.other.File); err != nil {
		return a, fmt.Errorf("remove the prepared master key: %w", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.master, v.next = next, nil
	return a, nil
}
