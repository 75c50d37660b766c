// Package trust remembers what an account has seen of a service, so that every
// mount and every command holds the service to it: the key of its log, the newest
// signed checkpoint, what it offered, and how far each group had come. It is one
// small file for each service and account. Groups are in it as keyed hashes, never
// by name, and nothing of any file.
package trust

import (
	"bytes"
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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

const (
	version   = 1
	saltBytes = 32
	// maxFileBytes bounds the file; a group takes some 150 bytes.
	maxFileBytes = 64 << 20
	// saveDelay is how long what was learned waits to be written with what follows.
	saveDelay = 5 * time.Second
)

// ErrDamaged means that the file cannot be read. Nothing is believed without it.
var ErrDamaged = errors.New("what was seen of the service before cannot be read")

// ErrContradiction means that another command of this machine was shown another
// history.
var ErrContradiction = errors.New("the service showed this machine two histories")

// contents are what is in the file.
type contents struct {
	Version    int             `json:"version"`
	Salt       []byte          `json:"salt"`
	Key        string          `json:"key,omitempty"`        // verifier key of the log
	Earlier    []string        `json:"earlier,omitempty"`    // keys that it replaced, as both said, the oldest first
	Checkpoint string          `json:"checkpoint,omitempty"` // newest that was verified, as signed
	Size       int64           `json:"size,omitempty"`       // records in it
	Offered    []string        `json:"offered,omitempty"`    // extensions the service must go on offering, ascending
	Epoch      int64           `json:"epoch,omitempty"`      // how often what was seen was given up
	Next       int64           `json:"next,omitempty"`       // order of the next group
	Groups     map[string]seen `json:"groups,omitempty"`     // by keyed hash
}

// seen is how far a group had come.
type seen struct {
	Number int64  `json:"number,omitempty"` // of its newest record in its chain
	Hash   string `json:"hash,omitempty"`   // hex
	Proven int64  `json:"proven,omitempty"` // up to which number a checkpoint held it
	Since  int64  `json:"since,omitempty"`  // when a later record was first seen, in s since the epoch; 0 = there is none
	Order  int64  `json:"order,omitempty"`  // the how many-th group it was that this machine saw
}

// Memory is what is remembered. It is safe for concurrent use.
type Memory struct {
	path string // "" = nothing is written

	mu      sync.Mutex
	now     contents
	changed bool
	timer   *time.Timer
	failed  error // of the last save
	closed  bool
}

// Open reads a file, or makes it. With path "" everything is forgotten at
// [Memory.Close]. Errors: [ErrDamaged]. A file that cannot be made is an error of
// [Memory.Save].
func Open(path string) (*Memory, error) {
	m := &Memory{path: path}
	found, isNew, err := read(path)
	if err != nil {
		return nil, err
	}
	m.now = found
	if isNew && path != "" { // others that begin at the same time must find one salt
		_ = m.begin()
		if found, isNew, err = read(path); err == nil && !isNew {
			m.now = found
		}
	}
	return m, nil
}

// read returns what is in a file, and whether there was none.
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
		return empty, false, fmt.Errorf("%w: %s is not what svcfs wrote", ErrDamaged, path)
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

// Adopt takes key and checkpoint from the file that svcfs 0.x kept of a service for
// 'ledger --verify', where there is one and no key is pinned yet. Errors:
// [ErrDamaged].
func (m *Memory) Adopt(path string) error {
	if key, _ := m.Log(); key != "" || m.path == "" {
		return nil
	}
	raw, err := ownfile.Read(path, ownfile.Secret, maxFileBytes)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	var old struct{ Key, Checkpoint string }
	if err == nil {
		err = json.Unmarshal(raw, &old)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	// The size is the second line of a checkpoint; who uses it verifies all of it.
	size := int64(0)
	if lines := strings.SplitN(old.Checkpoint, "\n", 3); len(lines) == 3 {
		size, _ = strconv.ParseInt(lines[1], 10, 64)
	}
	m.Pin(old.Key)
	if size > 0 {
		m.Checkpoint(old.Checkpoint, size)
	}
	return nil
}

// Log returns the verifier key of the service's log, "" when none is pinned, and
// the newest checkpoint that was verified, "" for none.
func (m *Memory) Log() (key, checkpoint string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.Key, m.now.Checkpoint
}

// Size returns how many records the newest checkpoint has.
func (m *Memory) Size() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.Size
}

// Problem returns why the last save failed, or nil.
func (m *Memory) Problem() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
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

// Succeed remembers that key replaced the one that was pinned.
func (m *Memory) Succeed(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now.Key != key {
		m.now.Earlier = append(slices.Clone(m.now.Earlier), m.now.Key)
		m.now.Key = key
		m.touch()
	}
}

// Earlier returns the keys that the pinned one replaced, the oldest first.
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

// Offer compares what a service offers with what it offered before, of the names
// in lasting, and remembers it. It returns what is missing.
func (m *Memory) Offer(features, lasting []string) (missing []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range lasting {
		offers, offered := slices.Contains(features, name), slices.Contains(m.now.Offered, name)
		if offered && !offers {
			missing = append(missing, name)
		}
		if offers && !offered {
			m.now.Offered = append(m.now.Offered, name)
			slices.Sort(m.now.Offered)
			m.touch()
		}
	}
	return missing
}

// IsHeldTo tells whether the service offered an extension that it must go on
// offering.
func (m *Memory) IsHeldTo(feature string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.now.Offered, feature)
}

// Group returns how far a group had come.
func (m *Memory) Group(name string) chain.Place {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.Groups[m.now.keyed(name)].place()
}

// SawGroup remembers how far a group has come, and up to which number a checkpoint
// held it at that time, now.
func (m *Memory) SawGroup(name string, p chain.Place, proven int64, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := m.now.keyed(name)
	s := m.now.Groups[id]
	before := s
	if p.Number == s.Number && p != s.place() {
		m.failed = fmt.Errorf("%w: two different records as number %d of one group", ErrContradiction, p.Number)
		return
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
}

// Waiting tells since when a group has a record that no checkpoint held, and up to
// which number one did; the zero time when there is none.
func (m *Memory) Waiting(name string) (proven int64, since time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.now.Groups[m.now.keyed(name)]
	if s.Since == 0 {
		return s.Proven, time.Time{}
	}
	return s.Proven, time.Unix(s.Since, 0)
}

// Order returns the how many-th group of this machine and account a group was, and
// counts it when it is new.
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

// Forget gives up what was seen of the service's history, as after an honest
// restore of a backup; the order of groups stays, and with keepKey the key of the
// log.
func (m *Memory) Forget(keepKey bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !keepKey {
		m.now.Key, m.now.Earlier = "", nil
	}
	m.now.Checkpoint, m.now.Size, m.now.Offered = "", 0, nil
	for id, s := range m.now.Groups {
		s.Number, s.Hash, s.Proven, s.Since = 0, "", 0, 0
		m.now.Groups[id] = s
	}
	m.now.Epoch++
	m.touch()
}

func (s seen) place() (p chain.Place) {
	if raw, err := hex.DecodeString(s.Hash); err == nil && len(raw) == len(p.Hash) {
		p.Number, p.Hash = s.Number, chain.Hash(raw)
	}
	return p
}

// keyed hides a name from who reads the file and guesses.
func (c contents) keyed(name string) string {
	h := hmac.New(sha256.New, c.Salt)
	h.Write([]byte(name))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// touch has the file written soon. Needs mu.
func (m *Memory) touch() {
	m.changed = true
	if m.path != "" && m.timer == nil && !m.closed {
		m.timer = time.AfterFunc(saveDelay, func() { _ = m.Save() })
	}
}

// Save writes what was learned, together with what other programs wrote
// meanwhile. Errors: [ErrDamaged], [ErrContradiction], and those of writing the
// file; what was learned is then kept for the next time.
func (m *Memory) Save() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
	if !m.changed || m.path == "" {
		return m.failed
	}
	m.failed = m.save()
	return m.failed
}

// Close saves.
func (m *Memory) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	return m.Save()
}

// begin makes the file unless another program just did.
func (m *Memory) begin() error {
	if err := os.MkdirAll(filepath.Dir(m.path), 0o700); err != nil {
		return err
	}
	unlock, err := lock(m.path + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if _, isNew, err := read(m.path); err != nil || !isNew {
		return err
	}
	return m.write(m.now)
}

func (m *Memory) write(c contents) error {
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return ownfile.Replace(m.path, append(raw, '\n'))
}

func (m *Memory) save() error {
	dir := filepath.Dir(m.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("remember what was seen: %w", err)
	}
	unlock, err := lock(m.path + ".lock")
	if err != nil {
		return fmt.Errorf("remember what was seen: %w", err)
	}
	defer unlock()
	others, isNew, err := read(m.path)
	if err != nil {
		return err
	}
	merged := m.now
	if !isNew {
		if merged, err = merge(m.now, others); err != nil {
			return err
		}
	}
	if err := m.write(merged); err != nil {
		return fmt.Errorf("remember what was seen: %w", err)
	}
	m.now, m.changed = merged, false
	return nil
}

// merge joins ours with what is in the file. A newer epoch replaces what was seen
// in an older one.
func merge(ours, file contents) (contents, error) {
	switch {
	case !bytes.Equal(ours.Salt, file.Salt):
		return ours, fmt.Errorf("%w: another file was put in its place", ErrDamaged)
	case ours.Epoch < file.Epoch:
		return file, nil // what we saw was given up meanwhile
	case ours.Epoch > file.Epoch:
		return ours, nil
	case ours.Key != "" && slices.Contains(file.Earlier, ours.Key): // the file knows what replaced ours
		ours.Key, ours.Earlier = file.Key, file.Earlier
	case file.Key != "" && slices.Contains(ours.Earlier, file.Key):
	case ours.Key != "" && file.Key != "" && ours.Key != file.Key:
		return ours, fmt.Errorf("%w: its log was signed with two keys", ErrContradiction)
	}
	out := ours
	if out.Key == "" {
		out.Key, out.Earlier = file.Key, file.Earlier
	}
	if file.Size > out.Size {
		out.Checkpoint, out.Size = file.Checkpoint, file.Size
	} else if file.Size == out.Size && out.Checkpoint == "" {
		out.Checkpoint = file.Checkpoint
	}
	out.Offered = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(ours.Offered), file.Offered...))))
	if out.Key == file.Key {
		for _, key := range file.Earlier {
			if !slices.Contains(out.Earlier, key) {
				out.Earlier = append(slices.Clone(out.Earlier), key)
			}
		}
	}
	out.Next = max(ours.Next, file.Next)
	out.Groups = make(map[string]seen, len(ours.Groups))
	for id, s := range ours.Groups {
		out.Groups[id] = s
	}
	for id, theirs := range file.Groups {
		s := out.Groups[id]
		if s.Number == theirs.Number && s.Hash != theirs.Hash {
			return ours, fmt.Errorf("%w: two different records as number %d of one group", ErrContradiction, s.Number)
		}
		if theirs.Number > s.Number {
			s.Number, s.Hash = theirs.Number, theirs.Hash
		}
		switch {
		case theirs.Proven > s.Proven:
			s.Proven, s.Since = theirs.Proven, theirs.Since
		case theirs.Proven == s.Proven && theirs.Since != 0 && (s.Since == 0 || theirs.Since < s.Since):
			s.Since = theirs.Since
		}
		if s.Number <= s.Proven {
			s.Since = 0
		}
		if theirs.Order != 0 { // the file was first
			s.Order = theirs.Order
		}
		out.Groups[id] = s
	}
	return out, nil
}

// lock keeps other programs from saving at the same time. The file stays: if it were
// removed, one program could hold it and another one a new file of that name.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}
