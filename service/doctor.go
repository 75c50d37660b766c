package service

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// probeBytes is the size of the blob that CheckBlobs writes.
const probeBytes = 64 << 10

// CheckDatabase looks for damage and returns the engine and the schema. On SQLite it
// reads the whole database.
func (s *Service) CheckDatabase(ctx context.Context) (string, error) {
	if err := s.store.Check(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, schema %d", s.store.Engine(), s.store.SchemaVersion()), nil
}

// CheckBlobs writes, reads and deletes a blob.
func (s *Service) CheckBlobs(ctx context.Context) error {
	content := make([]byte, probeBytes)
	_, _ = rand.Read(content) // never fails
	info, err := s.blobs.Put(ctx, bytes.NewReader(content), probeBytes)
	if err != nil {
		return err
	}
	return errors.Join(s.compareBlob(ctx, info.ID, content), s.blobs.Delete(ctx, info.ID))
}

func (s *Service) compareBlob(ctx context.Context, id string, want []byte) error {
	r, _, err := s.blobs.Open(ctx, id)
	if err != nil {
		return err
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("read blob: %w", err)
	}
	if !bytes.Equal(got, want) {
		return errors.New("other bytes came back than were written")
	}
	return nil
}

// MayChangeLedger reports whether the database role may change ledger rows.
func (s *Service) MayChangeLedger(ctx context.Context) (bool, error) {
	return s.store.MayChangeLedger(ctx)
}

// LastRecord returns the time of the newest ledger record, zero without any.
func (s *Service) LastRecord(ctx context.Context) (at time.Time, err error) {
	err = s.store.Read(ctx, func(tx *store.Tx) error {
		at, _, err = ledger.Newest(ctx, tx)
		return err
	})
	return at, err
}
