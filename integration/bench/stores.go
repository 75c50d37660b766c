package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/minio/minio-go/v7"
	_ "modernc.org/sqlite" // the driver "sqlite", for the floor

	"github.com/svcfs/svcfs/service/store/pgtest"
)

// backing is where svcd keeps its records and its ciphertext.
type backing struct {
	name   string
	env    []string
	stores func() ([]string, error) // flags of svcd for stores that are empty
	floors func() ([]figure, error)
	hosts  []string // host and port of PostgreSQL, and of S3
	// used returns the size of the database, and how much was written so far, in
	// bytes.
	used func(s *service) (size, written int64, err error)
}

func (w *world) onSQLite() (backing, error) {
	b := backing{name: "SQLite and a folder", stores: func() ([]string, error) { return nil, nil }, used: usedOfSQLite}
	b.floors = func() ([]figure, error) {
		db, err := openFloorDatabase(w.path("floor.sqlite"))
		if err != nil {
			return nil, err
		}
		defer db.Close()
		commits, err := commitsOf(db, "?")
		if err != nil {
			return nil, err
		}
		list := []figure{{name: "floor: SQLite commits", rate: commits}}
		for _, size := range []int64{smallBytes, 16 << 20} {
			dir := w.path("floor-files")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return nil, err
			}
			data := make([]byte, size)
			var n atomic.Int64
			r, err := repeat(func(context.Context, int) error {
				return storeDurably(dir, filepath.Join(dir, fmt.Sprint(n.Add(1))), bytes.NewReader(data))
			})
			if err != nil {
				return nil, err
			}
			list = append(list, figure{name: "floor: files of " + sizeText(size) + " synced", rate: r})
			if err := os.RemoveAll(dir); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return b, nil
}

func (w *world) onPostgres(helper *tester) (backing, error) {
	b := backing{name: "PostgreSQL and S3", used: usedOfPostgres}
	gateway, missing := findVersity()
	if missing != "" {
		return b, errors.New("versitygw is " + missing)
	}
	var server *pgtest.Server
	if err := helper.try(func() { server = pgtest.StartSyncing(helper) }); err != nil {
		return b, err
	}
	addr, _, err := w.versity(gateway)
	if err != nil {
		return b, err
	}
	database, err := url.Parse(server.URL())
	if err != nil {
		return b, err
	}
	b.hosts = []string{database.Host, addr}
	b.env = []string{"AWS_ACCESS_KEY_ID=" + s3Key, "AWS_SECRET_ACCESS_KEY=" + s3Secret}
	prefix := 0
	b.stores = func() ([]string, error) {
		var database string
		err := helper.try(func() { database = server.NewDatabase(helper) })
		prefix++
		return []string{"--db", database, "--blobs",
			fmt.Sprintf("s3://%s/store%d?endpoint=http://%s&path-style=true", s3Bucket, prefix, addr)}, err
	}
	b.floors = func() ([]figure, error) {
		var floors string
		if err := helper.try(func() { floors = server.NewDatabase(helper) }); err != nil {
			return nil, err
		}
		db, err := sql.Open("pgx", floors)
		if err != nil {
			return nil, err
		}
		defer db.Close()
		db.SetMaxOpenConns(senders)
		db.SetMaxIdleConns(senders)
		commits, err := commitsOf(db, "$1")
		if err != nil {
			return nil, err
		}
		list := []figure{{name: "floor: PostgreSQL commits", rate: commits}}
		c, err := newS3(addr)
		if err != nil {
			return nil, err
		}
		for _, size := range []int64{smallBytes, 16 << 20} {
			data := make([]byte, size)
			var n atomic.Int64
			r, err := repeat(func(ctx context.Context, _ int) error {
				_, err := c.PutObject(ctx, s3Bucket, fmt.Sprintf("floor-%d-%d", size, n.Add(1)), bytes.NewReader(data),
					size, minio.PutObjectOptions{DisableMultipart: true})
				return err
			})
			if err != nil {
				return nil, err
			}
			list = append(list, figure{name: "floor: S3 puts of " + sizeText(size), rate: r})
		}
		return list, nil
	}
	return b, nil
}

// usedOfSQLite counts what svcd wrote to the disk: the write-ahead log, the
// database, and ciphertext.
func usedOfSQLite(s *service) (size, written int64, err error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.data, "svc.db")+"?mode=ro")
	if err != nil {
		return 0, 0, err
	}
	defer db.Close()
	if err := db.QueryRow("SELECT page_count * page_size FROM pragma_page_count, " +
		"pragma_page_size").Scan(&size); err != nil {
		return 0, 0, err
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", s.process.cmd.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	_, rest, _ := strings.Cut(string(raw), "\nwrite_bytes: ")
	_, err = fmt.Sscan(rest, &written)
	return size, written, err
}

// usedOfPostgres counts the write-ahead log of the whole server.
func usedOfPostgres(s *service) (size, written int64, err error) {
	db, err := sql.Open("pgx", s.stores[1])
	if err != nil {
		return 0, 0, err
	}
	defer db.Close()
	return size, written, db.QueryRow("SELECT pg_database_size(current_database()), "+
		"pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint").Scan(&size, &written)
}

// tester lets helpers that were made for tests run outside of one.
type tester struct {
	testing.TB
	ends []func()
}

// failure is how a helper gives up.
type failure struct{ text string }

func (t *tester) Helper()                        {}
func (t *tester) Cleanup(end func())             { t.ends = append(t.ends, end) }
func (t *tester) Error(args ...any)              { progress("%s", fmt.Sprint(args...)) }
func (t *tester) Fatal(args ...any)              { panic(failure{fmt.Sprint(args...)}) }
func (t *tester) Fatalf(format string, a ...any) { panic(failure{fmt.Sprintf(format, a...)}) }
func (t *tester) Skip(args ...any)               { t.Fatal(args...) }

// try runs a helper.
func (t *tester) try(helper func()) (err error) {
	defer func() {
		if f, ok := recover().(failure); ok {
			err = errors.New(f.text)
		}
	}()
	helper()
	return nil
}

func (t *tester) end() {
	for i := len(t.ends) - 1; i >= 0; i-- {
		t.ends[i]()
	}
}
