package vault

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/svcfs/svcfs/sdk/locked"
	"github.com/svcfs/svcfs/service/vaultwire"
)

const (
	// maxKeys bounds the keys of a service: with a new one of each purpose a week they last for ten years.
	maxKeys = 4096
	// maxEpochs bounds those for uploads, which are destroyed after [vaultwire.EpochLife]. The secret of one takes
	// 32 KiB.
	maxEpochs = 128
	// maxMade bounds those that are made at once: each has pages of its own.
	maxMade = 16
)

var errManyKeys = fmt.Errorf("these are more keys than a service has: at most %d, %d of them for uploads, %d at once",
	maxKeys, maxEpochs, maxMade)

// serviceKey is a key of the service.
type serviceKey struct {
	vaultwire.Key
	raw locked.Bytes
}

// newServiceKey makes a random key.
func newServiceKey(k vaultwire.Key) serviceKey {
	made := serviceKey{k, locked.New(keyBytes)}
	_, _ = rand.Read(made.raw.Slice()) // never fails
	return made
}

func nameOf(k vaultwire.Key) []byte {
	return fmt.Appendf(nil, "svc-service-key-1 %s %d", k.Purpose, k.Version)
}

// wrap returns a key as the database has it.
func (m Master) wrap(k serviceKey) (row vaultwire.Row, err error) {
	aead, err := m.aead()
	if err != nil {
		return row, err
	}
	row.Key = k.Key
	row.Wrapped = aead.Seal(nil, nil, k.raw.Slice(), nameOf(k.Key))
	row.Master, err = m.Name()
	return row, err
}

func (m Master) wrapAll(list []serviceKey) (rows []vaultwire.Row, err error) {
	for _, k := range list {
		row, err := m.wrap(k)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// unwrap opens a key.
func (m Master) unwrap(row vaultwire.Row) (k serviceKey, err error) {
	if !slices.Contains(vaultwire.Purposes(), row.Purpose) {
		return k, fmt.Errorf("unwrap a key: there is no purpose %.40q", row.Purpose)
	}
	row.Public = nil // the vault knows it by itself
	aead, err := m.aead()
	if err != nil {
		return k, err
	}
	raw, err := aead.Open(nil, nil, row.Wrapped, nameOf(row.Key))
	if err != nil || len(raw) != keyBytes {
		return k, fmt.Errorf("unwrap key for %s: the record was changed", row.Purpose)
	}
	defer clear(raw)
	return serviceKey{row.Key, locked.Copy(raw)}, nil
}

// open opens the rows that a master key wraps. Without any it returns [vaultwire.ErrOtherMaster], or
// [vaultwire.ErrNoKeys] when there are no rows at all.
func (m Master) open(rows []vaultwire.Row) (list []serviceKey, err error) {
	name, err := m.Name()
	if err == nil && len(rows) > maxKeys {
		err = errManyKeys
	}
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row.Master != name {
			continue
		}
		k, err := m.unwrap(row)
		if err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	switch {
	case len(list) > 0:
		return list, nil
	case len(rows) > 0:
		return nil, vaultwire.ErrOtherMaster
	default:
		return nil, vaultwire.ErrNoKeys
	}
}

// Keep implements [vaultwire.Vault]. A root that is gone from the database stays: keys that were read before may be
// wrapped by it.
func (v *Vault) Keep(ctx context.Context, q vaultwire.Keep) (a vaultwire.Kept, err error) {
	master := v.inUseNow()
	list, err := master.open(q.Rows)
	if errors.Is(err, vaultwire.ErrOtherMaster) && (v.source.Command == "" || q.Again) {
		from := v.source
		from.Make = false
		again, other := ReadMaster(ctx, from)
		if other != nil {
			return a, errors.Join(err, other)
		}
		if list, err = again.open(q.Rows); err == nil {
			master = again
		}
	}
	if errors.Is(err, vaultwire.ErrNoKeys) && v.hasKeys() {
		err = vaultwire.ErrOtherKeys // and none are made for a database that this vault does not serve
	}
	if err != nil {
		return a, err
	}
	if err := v.keep(master, list, q); err != nil {
		return a, err
	}
	return v.kept(master)
}

func (v *Vault) keep(master Master, list []serviceKey, q vaultwire.Keep) error {
	// An import is into an empty service. Later, other credentials would have the vault forget the newest of each
	// account.
	imports := q.Replace && v.newestTree().Records == 0
	v.mu.Lock()
	defer v.mu.Unlock()
	hasCredentials := slices.ContainsFunc(v.keys, isOfCredentials)
	var others []serviceKey
	for _, k := range list {
		have, ok := v.at(k.Key)
		if ok && bytes.Equal(v.keys[have].raw.Slice(), k.raw.Slice()) {
			continue
		}
		if (ok || hasCredentials && isOfCredentials(k)) && !imports {
			return vaultwire.ErrOtherKeys // or what was wrapped would never open again
		}
		others = append(others, k)
	}
	if err := v.mayHave(others); err != nil {
		return err
	}
	v.master = master
	clear(v.secrets) // an import brings others of the same versions
	clear(v.signers)
	for _, k := range others {
		if isOfCredentials(k) {
			v.credentials.Purge() // those of another database
		}
		if have, ok := v.at(k.Key); ok {
			v.keys[have] = k
			continue
		}
		v.keys = append(v.keys, k)
	}
	if len(v.inUse) > 0 && !q.Begins {
		return nil
	}
	v.sessions.Purge()
	for _, k := range v.keys {
		v.inUse[k.Purpose] = max(v.inUse[k.Purpose], k.Version)
	}
	return nil
}

// mayHave refuses more keys than a service has. Needs mu.
func (v *Vault) mayHave(others []serviceKey) error {
	all := slices.Concat(v.keys, others)
	epochs := 0
	for _, k := range all {
		if k.Purpose == vaultwire.PurposeUploads {
			epochs++
		}
	}
	if len(all) > maxKeys || epochs > maxEpochs {
		return errManyKeys
	}
	return nil
}

func isOfCredentials(k serviceKey) bool { return k.Purpose == vaultwire.PurposeCredentials }

func (v *Vault) hasKeys() bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.keys) > 0
}

// at finds a key by purpose and version.
func (v *Vault) at(k vaultwire.Key) (int, bool) {
	i := slices.IndexFunc(v.keys, func(have serviceKey) bool {
		return have.Purpose == k.Purpose && have.Version == k.Version
	})
	return i, i >= 0
}

// kept tells all keys.
func (v *Vault) kept(master Master) (a vaultwire.Kept, err error) {
	a.Measurement = v.measurement
	if a.Master, err = master.Name(); err != nil {
		return a, err
	}
	if tickets, err := v.lasting(vaultwire.PurposeTickets); err == nil {
		a.Tickets = slices.Clone(tickets.raw.Slice())
	}
	v.mu.RLock()
	list := slices.Clone(v.keys)
	v.mu.RUnlock()
	for _, k := range list {
		public, err := v.public(k)
		if err != nil {
			return a, err
		}
		k.Public = public
		a.Keys = append(a.Keys, k.Key)
	}
	return a, nil
}

// Make implements [vaultwire.Vault].
func (v *Vault) Make(_ context.Context, q vaultwire.Make) (a vaultwire.Made, err error) {
	if len(q.Keys) > maxMade {
		return a, errManyKeys
	}
	var list []serviceKey
	for _, k := range q.Keys {
		list = append(list, newServiceKey(k))
	}
	v.mu.RLock()
	err = v.mayHave(list) // before the database has them
	v.mu.RUnlock()
	if err != nil {
		return a, err
	}
	master := v.inUseNow()
	if a.Master, err = master.Name(); err == nil {
		a.Rows, err = master.wrapAll(list)
	}
	return a, err
}

// versions returns the keys of a purpose, the newest first.
func (v *Vault) versions(purpose string) (list []serviceKey) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, k := range v.keys {
		if k.Purpose == purpose {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b serviceKey) int { return int(b.Version - a.Version) })
	return list
}

func (v *Vault) key(purpose string, version int64) (serviceKey, bool) {
	list := v.versions(purpose)
	at := slices.IndexFunc(list, func(k serviceKey) bool { return k.Version == version })
	if at < 0 {
		return serviceKey{}, false
	}
	return list[at], true
}

func (v *Vault) newest(purpose string) (serviceKey, error) {
	list := v.versions(purpose)
	if len(list) == 0 {
		return serviceKey{}, fmt.Errorf("there is no key for %s", purpose)
	}
	return list[0], nil
}

// lasting is the key of a purpose that was the newest when the vault began: what it signs is good until the vault ends.
func (v *Vault) lasting(purpose string) (serviceKey, error) {
	v.mu.RLock()
	version := v.inUse[purpose]
	v.mu.RUnlock()
	k, ok := v.key(purpose, version)
	if !ok {
		return k, fmt.Errorf("there is no key for %s", purpose)
	}
	return k, nil
}

func (v *Vault) inUseNow() Master {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.master
}
