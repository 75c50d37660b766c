// Package trust remembers what an account has seen of a service: the key of its
// log, the newest signed checkpoint, that it proves what it lists, and how far each
// group had come. Every mount and every command of the account holds the service
// to that. There is one small file for each service and account. The file holds
// groups as keyed hashes, never by name, and nothing of any file.
package trust

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

const (
	version   = 1
	saltBytes = 32
	// maxFileBytes bounds the file, in bytes. A group takes about 150.
	maxFileBytes = 64 << 20
	// saveDelay is how long a change waits, so that later changes are written with it.
	saveDelay = 5 * time.Second
)

// ErrDamaged means that the file cannot be read. Without it no service is believed.
var ErrDamaged = errors.New("the remembered history of the service cannot be read")

// ErrContradiction means that the service showed another program of this account another
// history.
var ErrContradiction = errors.New("the service showed this machine two histories")

// contents is the content of the file.
type contents struct {
	Version int `json:"version"`
	Of
	Salt []byte `json:"salt"`
	Key  string `json:"key,omitempty"` // verifier key of the log
	// keys that Key replaced by signed statements, the oldest first
	Earlier    []string        `json:"earlier,omitempty"`
	Checkpoint string          `json:"checkpoint,omitempty"` // newest verified checkpoint, as signed
	Size       int64           `json:"size,omitempty"`       // records in Checkpoint
	Held       bool            `json:"held,omitempty"`       // the service proved what it lists, and must go on
	Sealed     bool            `json:"sealed,omitempty"`     // it takes the API key sealed, and must go on
	Epoch      int64           `json:"epoch,omitempty"`      // how often the history was forgotten
	Vault      int64           `json:"vault,omitempty"`      // newest number of a key of the vault that was verified
	Next       int64           `json:"next,omitempty"`       // number of groups that have an Order
	Groups     map[string]seen `json:"groups,omitempty"`     // by keyed hash
	// roots of names of groups, by keyed hash, and by place
	Names  map[string][]Names `json:"names,omitempty"`
	Forked int64              `json:"forked,omitempty"` // number of a record with two of them in Names; 0 = none has
	Twice  int64              `json:"twice,omitempty"`  // number that two different records of a group had; 0 = none
}

// Of says which account a file is of, and at which service.
type Of struct {
	Service string `json:"service"` // its address
	Account string `json:"account"`
}

// seen says how far a group had come.
type seen struct {
	Number int64  `json:"number,omitempty"` // of its newest record, in its chain
	Hash   string `json:"hash,omitempty"`   // hex
	Proven int64  `json:"proven,omitempty"` // number of the last record that a checkpoint held
	// when a later record was first seen, in s since the epoch; 0 = there is none
	Since int64 `json:"since,omitempty"`
	Order int64 `json:"order,omitempty"` // see [Memory.Order]
}

// Memory is the content of one file. It is safe for concurrent use.
type Memory struct {
	path string // "" = nothing is saved

	mu      sync.Mutex
	now     contents
	changed bool
	timer   *time.Timer
	failed  error // error of the last save
	closed  bool
}

// Open reads the file of an account at path, or creates it. With path "" the memory lasts until
// [Memory.Close]. Errors: [ErrDamaged]. If the file cannot be created, [Memory.Save]
// returns the error.
func Open(path string, of Of) (*Memory, error) {
	m := &Memory{path: path}
	found, isNew, err := read(path)
	if err != nil {
		return nil, err
	}
	m.now = found
	m.now.Of = of
	if isNew && path != "" { // programs that start at the same time must find one salt
		_ = m.begin()
		if found, isNew, err = read(path); err == nil && !isNew {
			m.now = found
		}
	}
	return m, nil
}

// FileName is how the file of an account at a service is called.
func (of Of) FileName(contract string) string {
	sum := sha256.Sum256([]byte(of.Service + "\n" + contract + "\n" + of.Account))
	return fmt.Sprintf(filePattern, hex.EncodeToString(sum[:8]))
}

// filePattern is the name of a file, with a mark of its own.
const filePattern = "trust-%s.json"

// Remove removes the files of every account at a service in a folder, and returns the accounts: for a service that is
// gone, or that begins anew at its old address. A client that runs meanwhile remembers again what it saw. The lock
// files stay, because another program may hold one. Errors: those of the folder and of removing. A
// file that svcfs did not write stays.
func Remove(dir, service string) (accounts []string, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf(filePattern, "*")))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		found, isNew, err := read(path)
		if err != nil || isNew || found.Service != service {
			continue
		}
		if err := remove(path); err != nil {
			return accounts, fmt.Errorf("forget the history of the service: %w", err)
		}
		accounts = append(accounts, found.Account)
	}
	return accounts, nil
}

func remove(path string) error {
	unlock, err := ownfile.Lock(path + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	return os.Remove(path)
}

// read returns the content of a file. isNew means that there was no file.
func read(path string) (c contents, isNew bool, err error) {
	empty := contents{Version: version, Groups: map[string]seen{}}
	if path == "" {
		return empty.salted(), true, nil
	}
	raw, err := ownfile.Read(path, ownfile.Secret, maxFileBytes)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return empty.salted(), true, nil
	}
	if err != nil {
		return empty, false, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	c = empty
	if err := json.Unmarshal(raw, &c); err != nil || c.Version != version || len(c.Salt) != saltBytes {
		return empty, false, fmt.Errorf("%w: svcfs did not write %s", ErrDamaged, path)
	}
	if c.Groups == nil {
		c.Groups = map[string]seen{}
	}
	return c, false, nil
}

func (c contents) salted() contents {
	c.Salt = make([]byte, saltBytes)
	_, _ = rand.Read(c.Salt) // never fails
	return c
}

// Log returns the verifier key of the service's log, "" if none is pinned, and the newest
// verified checkpoint, "" for none.
func (m *Memory) Log() (key, checkpoint string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.Key, m.now.Checkpoint
}

// Size returns the number of records in the newest checkpoint.
func (m *Memory) Size() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.Size
}

// Problem returns why the last save failed, or the contradiction that was found, or nil.
func (m *Memory) Problem() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return cmp.Or(m.failed, m.now.twice(), m.now.forked())
}

// Pin remembers the key of the log.
func (m *Memory) Pin(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now.Key != key {
		m.now.Key = key
		m.touch()
	}
}

// Succeed remembers that keys replaced the pinned key one after the other. All of them count: another program of
// this machine may have come to any of them.
func (m *Memory) Succeed(keys []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		if m.now.Key == key {
			continue
		}
		m.now.Earlier = append(slices.Clone(m.now.Earlier), m.now.Key)
		m.now.Key = key
		m.touch()
	}
}

// Earlier returns the keys that the pinned key replaced, the oldest first. The slice
// belongs to the caller.
func (m *Memory) Earlier() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.now.Earlier)
}

// Checkpoint remembers a verified checkpoint of size records, if it is the newest.
func (m *Memory) Checkpoint(note string, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if size > m.now.Size || m.now.Checkpoint == "" {
		m.now.Checkpoint, m.now.Size = note, size
		m.touch()
	}
}

// Hold remembers that the service proves what it lists.
func (m *Memory) Hold() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.now.Held {
		m.now.Held = true
		m.touch()
	}
}

// SawSealed remembers that the service takes the API key sealed.
func (m *Memory) SawSealed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.now.Sealed {
		m.now.Sealed = true
		m.touch()
	}
}

// IsSealed reports whether the service must take the API key sealed.
func (m *Memory) IsSealed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.Sealed
}

// SawVault remembers the number of a verified key of the service's vault.
func (m *Memory) SawVault(epoch int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if epoch > m.now.Vault {
		m.now.Vault = epoch
		m.touch()
	}
}

// Vault returns the newest number that [Memory.SawVault] remembers, 0 for none.
func (m *Memory) Vault() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.Vault
}

// IsHeld reports whether the service must prove what it lists.
func (m *Memory) IsHeld() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.Held
}

// Group returns how far a group had come.
func (m *Memory) Group(name string) chain.Place {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.Groups[m.now.keyed(name)].place()
}

// SawGroup remembers the place of a group. proven is the number of the last record that a
// checkpoint held at the time now. Errors: [ErrContradiction] if another record was seen at this place.
// [Memory.Problem] says so then until [Memory.Forget].
func (m *Memory) SawGroup(name string, p chain.Place, proven int64, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := m.now.keyed(name)
	s := m.now.Groups[id]
	before := s
	if p.Number == s.Number && p != s.place() {
		m.now.Twice = p.Number
		m.touch()
		return m.now.twice()
	}
	if p.Number > s.Number {
		s.Number, s.Hash = p.Number, hex.EncodeToString(p.Hash[:])
	}
	if proven > s.Proven {
		s.Proven, s.Since = proven, 0
	}
	if s.Since == 0 && s.Number > s.Proven {
		s.Since = now.Unix()
	}
	if s != before {
		m.now.Groups[id] = s
		m.touch()
	}
	return nil
}

// twice is the error of a service that showed two records of one number; nil = it did not.
func (c *contents) twice() error {
	if c.Twice == 0 {
		return nil
	}
	return fmt.Errorf("%w: two different records as number %d of one group", ErrContradiction, c.Twice)
}

// Waiting returns the number of the last record of a group that a checkpoint held, and
// since when a later record has been known. since is zero if there is no later record.
func (m *Memory) Waiting(name string) (proven int64, since time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.now.Groups[m.now.keyed(name)]
	if s.Since == 0 {
		return s.Proven, time.Time{}
	}
	return s.Proven, time.Unix(s.Since, 0)
}

// Order returns the number of a group in the order in which this account and machine asked
// for groups, from 1. It gives a new group the next number.
func (m *Memory) Order(name string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := m.now.keyed(name)
	s := m.now.Groups[id]
	if s.Order == 0 {
		m.now.Next++
		s.Order = m.now.Next
		m.now.Groups[id] = s
		m.touch()
	}
	return s.Order
}

// Forget forgets the history of the service, for example after the honest restore of a
// backup. The order of groups, the key of the log, and that the API key is sent sealed, stay; see [Remove].
func (m *Memory) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Checkpoint, m.now.Size, m.now.Held, m.now.Vault = "", 0, false, 0
	for id, s := range m.now.Groups {
		s.Number, s.Hash, s.Proven, s.Since = 0, "", 0, 0
		m.now.Groups[id] = s
	}
	m.now.Names, m.now.Forked, m.now.Twice = nil, 0, 0
	m.now.Epoch++
	m.touch()
}

func (s seen) place() (p chain.Place) {
	if raw, err := hex.DecodeString(s.Hash); err == nil && len(raw) == len(p.Hash) {
		p.Number, p.Hash = s.Number, chain.Hash(raw)
	}
	return p
}

// keyed returns the keyed hash of a name, which hides the name from readers of the file who
// guess names.
func (c contents) keyed(name string) string {
	h := hmac.New(sha256.New, c.Salt)
	h.Write([]byte(name))
	return hex.EncodeToString(h.Sum(nil)[:16])
}
