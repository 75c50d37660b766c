package service

import (
	"context"
	"strings"
	"time"

	"github.com/svcfs/svcfs/service/space"
)

const (
	// bucketFullFor is how long uploads are refused after a bucket refused for want of
	// room, unless a file was deleted.
	bucketFullFor = 10 * time.Second
	// databaseFullFor is the same for a database server: a little longer than until the
	// next sweep.
	databaseFullFor = sweepInterval + 10*time.Second
)

// blobDisk is a directory on the disk of the file store, "" for a bucket.
func blobDisk(cfg Config) string {
	if strings.Contains(cfg.Blobs, "://") {
		return ""
	}
	return cfg.Blobs
}

// Space returns the room by place.
func (s *Service) Space() []space.Place { return s.space.Places() }

// storeWasFull notes that the file store refused for want of room. A local disk is
// looked at instead.
func (s *Service) storeWasFull() {
	if blobDisk(s.cfg) == "" {
		s.space.Refused(space.Files, bucketFullFor)
	}
}

// databaseWasFull notes that the reserve of the database is in use.
func (s *Service) databaseWasFull() {
	s.cfg.Logger.Error("the disk of the database is full: uploads are refused; reading and removing use the reserve: " +
		"make room")
	if s.cfg.Database != "" {
		s.space.Refused(space.Database, databaseFullFor)
	}
}

// holdBack holds back space on the disk of the data directory and in a database server, and
// notes whether the server has room for it.
func (s *Service) holdBack(ctx context.Context) error {
	if err := space.HoldBack(s.cfg.DataDir); err != nil {
		return err
	}
	room, err := s.store.HoldBack(ctx)
	switch {
	case err != nil:
		return err
	case room:
		s.space.Freed(space.Database)
	default:
		s.space.Refused(space.Database, databaseFullFor)
	}
	return nil
}
