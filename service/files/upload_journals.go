package files

import (
	"context"
	"errors"
	"fmt"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// A journal is what waits on a client's disk to be saved into one group. Its key is sealed to the vault; the service
// keeps nothing of it but the id of one that ended.

// OpenJournalKey returns the key of a journal that the account sealed for a group, of which it is a member now.
func (f *Files) OpenJournalKey(ctx context.Context, by *auth.Session,
	req wire.OpenJournalKeyRequest) (out wire.OpenJournalKeyResult, err error) {
	account := by.Account
	id, err := journalID(req.Journal)
	if err != nil {
		return out, err
	}
	sealed, err := sealedKey(req.SealedKey)
	if err != nil {
		return out, err
	}
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		if _, err := groups.RequireMember(ctx, tx, req.GroupID, account); err != nil {
			return err
		}
		var ended bool
		if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM ended_journals WHERE id = ?)",
			spentID(account, id)).Scan(&ended); err != nil {
			return fmt.Errorf("look for the end of a journal: %w", err)
		}
		if ended {
			return fault.New(wire.CodeJournalEnded,
				"the journal has ended: all that waited in it was recorded or dropped")
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	out.SealedKey, err = f.keys.OpenJournalKey(ctx, f.store, vaultwire.OpenJournal{Sealed: sealed, Token: by.Token(),
		For: format.JournalFor{Service: f.config.ContractID, Account: account, Group: req.GroupID, Journal: req.Journal,
			Epoch: req.Epoch}})
	switch {
	case errors.Is(err, vaultwire.ErrEpoch):
		return out, endedEpoch(req.Epoch)
	case errors.Is(err, vaultwire.ErrSealed):
		return out, fault.New(wire.CodeValidation,
			"sealed_key does not open: it was sealed for another account, group, journal or epoch, or for another "+
				"service")
	}
	return out, by.Refused(err)
}

// EndJournal notes that a journal of the account has ended. It counts as a free change, once for each
// journal and epoch of the vault.
func (f *Files) EndJournal(ctx context.Context, account string, req wire.EndJournalRequest) (text string, err error) {
	id, err := journalID(req.Journal)
	if err != nil {
		return "", err
	}
	err = f.store.Write(ctx, ledger.By(account), func(tx *store.Tx) error {
		newest, err := f.keys.Epoch(ctx, tx, f.ledger.Now())
		if err != nil {
			return err
		}
		if req.Epoch < 1 || req.Epoch > newest.Number {
			return endedEpoch(req.Epoch)
		}
		// The key may be sealed to a later epoch than this disk knows: another copy of it was sealed anew.
		n, err := tx.Count(ctx, "note the end of a journal", `INSERT INTO ended_journals (id, epoch) VALUES (?, ?)
			ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch WHERE excluded.epoch > ended_journals.epoch`,
			spentID(account, id), newest.Number)
		if err != nil || n == 0 {
			return err
		}
		return f.ledger.CountFree(ctx, tx, account)
	})
	if err != nil {
		return "", err
	}
	return "The journal has ended", nil
}

func journalID(text string) (id [wire.JournalIDBytes]byte, err error) {
	if id, err = uploadID(text); err != nil {
		err = fault.New(wire.CodeValidation, "journal: want %d bytes in lower-case hex", len(id))
	}
	return id, err
}
