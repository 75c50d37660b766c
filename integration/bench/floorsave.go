package main

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/svcfs/svcfs/format"
)

// The bare pipeline of one save of a small file. The client takes the SHA-256 of the content,
// makes a key, seals the content, takes the SHA-256 of the ciphertext, and seals the key to the
// server (HPKE). One request brings both. The server takes the SHA-256 of the ciphertext, opens
// the key, and commits one row to SQLite, by the driver and with the durability of svcd. No file
// system, no ledger, no proofs, no token, no JSON.

// pathFloorSave is where saves are PUT.
const pathFloorSave = "/save/"

func floorVault() (*format.VaultSecret, error) {
	return format.NewVaultSecret(bytes.Repeat([]byte{2}, format.KeyBytes)) // protects nothing
}

func floorSealedFor(id string) format.SealedFor {
	return format.SealedFor{Service: "floor", Account: "floor", Upload: id, Epoch: 1}
}

// floorSaves is the server.
type floorSaves struct {
	vault  *format.VaultSecret
	insert *sql.Stmt
}

func newFloorSaves(dir string) (*floorSaves, error) {
	vault, err := floorVault()
	if err != nil {
		return nil, err
	}
	db, err := openFloorDatabase(filepath.Join(dir, "saves.sqlite"))
	if err != nil {
		return nil, err
	}
	if _, err := db.Exec("CREATE TABLE saves (id TEXT PRIMARY KEY, key BLOB, content BLOB) WITHOUT ROWID"); err != nil {
		return nil, err
	}
	insert, err := db.Prepare("INSERT OR REPLACE INTO saves (id, key, content) VALUES (?, ?, ?)")
	return &floorSaves{vault, insert}, err
}

// openFloorDatabase opens SQLite with the durability of svcd.
func openFloorDatabase(file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite",
		"file:"+file+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)")
	if err == nil {
		db.SetMaxOpenConns(1) // it has one writer
	}
	return db, err
}

// ServeHTTP records one save.
func (s *floorSaves) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if err := s.record(r); err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
	}
}

func (s *floorSaves) record(r *http.Request) error {
	if r.ContentLength < format.SealedKeyBytes {
		return fmt.Errorf("a save of %d bytes", r.ContentLength)
	}
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return err
	}
	id, content := r.PathValue("id"), body[format.SealedKeyBytes:]
	key, err := s.vault.OpenKey(floorSealedFor(id), sha256.Sum256(content), body[:format.SealedKeyBytes])
	if err != nil {
		return err
	}
	_, err = s.insert.Exec(id, key.Bytes(), content)
	return err
}

func (c *floorClient) save(name string) error {
	_ = sha256.Sum256(c.mem[:c.size])
	key, err := format.RandomKey()
	if err != nil {
		return err
	}
	content, err := format.SealBlob(key, c.mem[:c.size])
	if err != nil {
		return err
	}
	sealed, err := c.vault.SealKey(floorSealedFor(name), sha256.Sum256(content), key)
	if err != nil {
		return err
	}
	return c.put(strings.TrimPrefix(pathFloorSave, "/")+name, sealed, content)
}
