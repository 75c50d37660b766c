package service

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/metrics"
	"github.com/svcfs/svcfs/service/space"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// stateWait bounds the reading of figures for one scrape.
const stateWait = time.Second

// observeStore measures the database. It is called before anything uses the database.
func (s *Service) observeStore() {
	s.store.Observe(func(call string, took time.Duration, err error) {
		s.metrics.Part("database", call, took, err)
		if call == "make room" {
			s.databaseWasFull()
		}
	})
}

// observeParts adds the database and the blob store to the health check.
func (s *Service) observeParts() {
	s.health = &health{log: s.cfg.Logger, parts: map[string]func(context.Context) error{
		"database": s.pingDatabase, "blobs": s.blobs.Check, "vault": s.pingVault}}
	s.metrics.Watch(s.state)
}

// MetricsHandler answers /metrics for Prometheus. It is not part of [Service.Handler],
// because it belongs on an address of its own.
func (s *Service) MetricsHandler() http.Handler { return s.metrics.Handler() }

func (s *Service) pingVault(ctx context.Context) error {
	_, err := s.keys.Forget(ctx, vaultwire.Forget{}) // nothing: it answers
	return err
}

func (s *Service) pingDatabase(ctx context.Context) error {
	return s.store.Look(ctx, func(tx *store.Tx) error {
		var one int
		return tx.QueryRowContext(ctx, "SELECT 1").Scan(&one)
	})
}

// state reads what takes no time. What the database does not say is unknown.
func (s *Service) state() metrics.State {
	ctx, cancel := context.WithTimeout(context.Background(), stateWait)
	defer cancel()
	state := metrics.State{FreeBytes: space.Free(s.cfg.DataDir), Opens: s.log.Opens(), LedgerSeq: -1, OpenUploads: -1,
		Accounts: -1, Stored: metrics.Stored{Files: -1, Bytes: -1}}
	if counted := s.counted.Load(); counted != nil {
		state.Stored = *counted
	}
	_ = s.store.Read(ctx, func(tx *store.Tx) error {
		seq, err := ledger.Size(ctx, tx)
		if err != nil {
			return err
		}
		state.LedgerSeq = seq
		return tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM uploads WHERE result IS NULL) +
			(SELECT count(*) FROM part_uploads), (SELECT count(*) FROM accounts WHERE deleted_ns IS NULL)`).
			Scan(&state.OpenUploads, &state.Accounts)
	})
	return state
}

// countFiles counts for [Service.state] what takes a look at every file. Where that fails, the last count stays.
func (s *Service) countFiles(ctx context.Context) {
	var n metrics.Stored
	err := s.store.Look(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(blob_size), 0) +
			(SELECT coalesce(sum(blob_size), 0) FROM parts WHERE upload_id IS NULL)
			FROM files WHERE deleted_ns IS NULL`).Scan(&n.Files, &n.Bytes)
	})
	if err == nil {
		s.counted.Store(&n)
	}
}

// measuredBlobs counts the calls of a blob store, and notes when it is full.
type measuredBlobs struct {
	files.Blobs
	s *Service
}

func (m measuredBlobs) Put(ctx context.Context, r io.Reader, limit int64) (info blob.Info, err error) {
	defer m.count("put", time.Now(), &err)
	info, err = m.Blobs.Put(ctx, r, limit)
	m.noteFull(err)
	return info, err
}

func (m measuredBlobs) PutProved(ctx context.Context, r io.Reader, limit int64) (info blob.Info, err error) {
	defer m.count("put", time.Now(), &err)
	info, err = m.Blobs.PutProved(ctx, r, limit)
	m.noteFull(err)
	return info, err
}

// noteFull notes an error that says that the store has no room.
func (m measuredBlobs) noteFull(err error) {
	if errors.Is(err, blob.ErrFull) {
		m.s.storeWasFull()
	}
}

func (m measuredBlobs) Open(ctx context.Context, id string) (r io.ReadSeekCloser, size int64, err error) {
	defer m.count("open", time.Now(), &err)
	return m.Blobs.Open(ctx, id)
}

func (m measuredBlobs) Read(ctx context.Context, id string, size int64) (data []byte, err error) {
	defer m.count("read", time.Now(), &err)
	return m.Blobs.Read(ctx, id, size)
}

func (m measuredBlobs) Delete(ctx context.Context, id string) (err error) {
	defer m.count("delete", time.Now(), &err)
	if err = m.Blobs.Delete(ctx, id); err == nil {
		m.s.space.Freed(space.Files)
	}
	return err
}

func (m measuredBlobs) count(call string, start time.Time, err *error) {
	m.s.metrics.Part("blobs", call, time.Since(start), *err)
}
