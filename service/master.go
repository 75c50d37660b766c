package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// MasterKey is the place of the master key; see [vaultwire.Source].
type MasterKey = vaultwire.Source

// Rotation is the result of bringing in another master key.
type Rotation struct {
	Keys     int    // of files and lists, wrapped anew
	Bad      int    // that no root opens: svcd verify names them
	Before   string // file with the earlier master key; "" = it is where the operator keeps it
	Finished bool   // the earlier master key does not open the database any more
}

// RotateMasterKey brings in another master key while the service serves. Clients notice
// nothing. Where the data directory holds the key and SQLite, it does everything.
// Otherwise the earlier key still opens the database until [Service.FinishMasterKey], so
// that the operator can bring the new key to the place from which processes read it.
// [Config].NextMasterKey holds the new key, and is made if it is missing. An interrupted rotation is simply run again.
func (s *Service) RotateMasterKey(ctx context.Context) (r Rotation, err error) {
	source, next := s.cfg.MasterKey, s.cfg.NextMasterKey
	switch {
	case !source.Make && source.Vault == "" && next.File == "":
		return r, fault.New(wire.CodeValidation, "the master key is not in the data directory: say with "+
			"--new-master-key-file FILE where the new one goes, "+
			"and bring it from there to where this service reads it")
	case source.Vault != "" && next.File != "":
		return r, fault.New(wire.CodeValidation, "the vault at %s reads the new master key: start it with "+
			"--next-master-key-file, and leave --new-master-key-file out", source.Vault)
	case source.Make && next.File != source.Next().File:
		return r, fault.New(wire.CodeValidation, "--new-master-key-file is for a master key that a command or "+
			"systemd gives: the one in the data directory is replaced there")
	}
	now, pending, err := s.masterNames(ctx)
	if err != nil {
		return r, err
	}
	switch {
	case pending != now:
		if r.Before, err = s.bringIn(ctx, pending); err != nil {
			return r, err
		}
	case source.Make:
		_ = os.Remove(source.Next().File) // left by an interrupted attempt
	}
	if r.Keys, r.Bad, err = s.files.Rewrap(ctx); err != nil || !source.Make || s.cfg.Database != "" {
		return r, err
	}
	r.Finished = true
	return r, s.forgetMaster(ctx)
}

// masterNames returns the name of the master key of this process, and of the one that is
// being brought in, "" for none.
func (s *Service) masterNames(ctx context.Context) (now, pending string, err error) {
	now = s.keys.MasterName()
	err = s.store.Read(ctx, func(tx *store.Tx) error {
		pending, err = keys.NextMaster(ctx, tx)
		return err
	})
	return now, pending, err
}

// MasterKeyNextStep returns the next step of an unfinished rotation of the master key,
// "" when none was begun.
func (s *Service) MasterKeyNextStep(ctx context.Context) (string, error) {
	now, pending, err := s.masterNames(ctx)
	switch {
	case err != nil || pending == "":
		return "", err
	case pending == now:
		return "when every process over this database reads the new one: svcd rotate-master-key --finish", nil
	case s.cfg.MasterKey.Make:
		return "run it again: svcd rotate-master-key; if the new one is lost: svcd rotate-master-key --cancel", nil
	default:
		return "bring the new one to where this service reads its own, then run svcd rotate-master-key --finish; if " +
			"it is lost: svcd rotate-master-key --cancel", nil
	}
}

// bringIn lets the other master key open the database, and puts it into its place in
// the data directory. pending is the name of a master key whose rotation was begun.
func (s *Service) bringIn(ctx context.Context, pending string) (before string, err error) {
	read, err := s.keys.ReadNext(ctx, vaultwire.ReadNext{Make: pending == ""})
	if errors.Is(err, vaultwire.ErrNoNext) {
		return "", fault.New(wire.CodeValidation, "the vault at %s was not told of a new master key: start it with "+
			"--next-master-key-file FILE", s.cfg.MasterKey.Vault)
	}
	if err != nil && pending == "" {
		return "", err
	}
	name := read.Master
	if pending != "" && (err != nil || name != pending) {
		return "", fault.New(wire.CodeConflict, "another master key is being brought in already: bring it to where "+
			"this service reads its own, then run "+
			"svcd rotate-master-key --finish; if that key is lost, --cancel stays with the one in use")
	}
	if name == s.keys.MasterName() {
		return "", fault.New(wire.CodeConflict, "%s holds the master key in use: remove it, or name another file",
			cmp.Or(s.cfg.NextMasterKey.File, "the file of the new one"))
	}
	err = s.store.Write(ctx, store.Everything(), func(tx *store.Tx) error {
		other, err := keys.NextMaster(ctx, tx)
		switch {
		case err != nil || other == name:
			return err
		case other != "":
			return fault.New(wire.CodeConflict, "another master key is being brought in already, by another process")
		default:
			return s.keys.Begin(ctx, tx)
		}
	})
	if err != nil || !s.cfg.MasterKey.Make {
		return "", err
	}
	used, err := s.keys.UseNext(ctx, vaultwire.Nothing{})
	if err == nil {
		err = s.keys.Refresh(ctx, s.store)
	}
	return used.Kept, err
}

// FinishMasterKey ends a rotation: it removes the keys that the earlier master key
// wraps. The new master key must be where this service reads its own. With cancel, the
// service keeps the master key that is there, and the keys that the new one wraps are
// removed.
func (s *Service) FinishMasterKey(ctx context.Context, cancel bool) (r Rotation, err error) {
	now, pending, err := s.masterNames(ctx)
	switch {
	case err != nil:
		return r, err
	case pending == "":
		return r, fault.New(wire.CodeConflict, "no other master key is being brought in: svcd rotate-master-key "+
			"begins it")
	case pending != now && !cancel:
		return r, fault.New(wire.CodeConflict, "this service still reads the master key from before: bring the new "+
			"one to its place first")
	case pending == now && cancel:
		return r, fault.New(wire.CodeConflict, "this service reads the new master key already: put the earlier one "+
			"back first, or run --finish")
	}
	if r.Keys, r.Bad, err = s.files.Rewrap(ctx); err != nil {
		return r, err
	}
	r.Finished = true
	return r, s.forgetMaster(ctx)
}

// forgetMaster removes the keys that other master keys wrap, from the files of the
// database too.
func (s *Service) forgetMaster(ctx context.Context) error {
	err := s.store.Write(ctx, store.Everything(), func(tx *store.Tx) error { return s.keys.Finish(ctx, tx) })
	if err != nil {
		return err
	}
	if err := s.store.Scrub(ctx, store.ScrubLong); err != nil && !errors.Is(err, store.ErrUnavailable) {
		return fmt.Errorf("the new master key is in place, but until the next sweep old pages of the database may "+
			"hold keys that the earlier one opens: %w", err)
	}
	return nil
}
