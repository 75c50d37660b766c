// Package outboxtest has a service in memory for tests of what uses an outbox.
package outboxtest

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/saving"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Service records what an outbox sends. Its vault seals nothing: a sealed key is the key.
type Service struct {
	ID sdk.AccountID
	// Record makes the record of a save that was not recorded before; nil records everything.
	Record func(u *outbox.Upload, content []byte) outbox.Sent
	// Refuse answers a request, which is groups, open, seal, end or send; nil = it may be done. Only a request to send
	// is about a save; of the others about a journal, u has the group alone.
	Refuse func(op string, u *outbox.Upload) error
	Mine   []sdk.Group
	// Version returns the content of a recorded version; nil = of those that were recorded here.
	Version func(f outbox.From) ([]byte, error)
	// OnRecord is called after each record, while no other is made. It may be nil.
	OnRecord func()

	rows map[sdk.GroupID][]sdk.Entry

	mu       sync.Mutex
	next     int
	epoch    int64
	log      []logged
	recorded map[string]recorded
	heads    map[string]sdk.Ref
	versions map[sdk.Ref]string
	ended    map[string]int // journals, and how many records there were when they ended
	Requests [][]string     // names that were sent together
	Contents map[string]string
	Opened   int   // journals that were opened
	Lies     bool  // another key is given than a journal has
	Blocks   int64 // of large saves, that were sent
}

// recorded is what is known of a spent id.
type recorded struct {
	sent outbox.Sent
	tag  sdk.Digest
}

// logged is a record. Those of others have no id.
type logged struct {
	id, key, content string
	recorded         recorded
	entry            sdk.Entry
}

// note makes a record. Needs Service.mu.
func (s *Service) note(r logged) {
	s.begin()
	s.log = append(s.log, r)
	s.heads[r.key] = r.entry.Ref
	s.versions[r.entry.Ref] = r.content
	s.rows[r.entry.Group] = append(s.rows[r.entry.Group], r.entry)
	if r.id != "" {
		s.recorded[r.id], s.Contents[r.key] = r.recorded, r.content
	}
	if s.OnRecord != nil {
		s.OnRecord()
	}
}

// begin needs Service.mu.
func (s *Service) begin() {
	if s.recorded == nil {
		s.recorded, s.heads, s.versions = map[string]recorded{}, map[string]sdk.Ref{}, map[sdk.Ref]string{}
		s.Contents, s.rows, s.ended = map[string]string{}, map[sdk.GroupID][]sdk.Entry{}, map[string]int{}
	}
}

// Recorded returns how many saves were recorded.
func (s *Service) Recorded() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.log {
		if r.id != "" {
			n++
		}
	}
	return n
}

// At returns the service as it was after its first n records.
func (s *Service) At(n int) *Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	then := &Service{ID: s.ID, Mine: s.Mine, next: s.next, epoch: s.epoch}
	then.begin()
	for _, r := range s.log[:n] {
		then.note(r)
	}
	for id, records := range s.ended {
		if records < n {
			then.ended[id] = records
		}
	}
	return then
}

// Account is ID.
func (s *Service) Account() sdk.AccountID { return s.ID }

func (s *Service) refused(op string, g sdk.GroupID) error {
	if s.Refuse == nil {
		return nil
	}
	return s.Refuse(op, &outbox.Upload{Group: g})
}

// Groups is Mine.
func (s *Service) Groups(context.Context) ([]sdk.Group, error) {
	if err := s.refused("groups", ""); err != nil {
		return nil, err
	}
	return s.Mine, nil
}

// key is the key of a journal.
type key struct {
	id string

	mu  sync.Mutex
	raw []byte // nil = wiped
}

// Derive derives a key.
func (k *key) Derive(domain string, salt []byte) (*format.Key, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.raw == nil {
		return nil, errors.New("the key was wiped")
	}
	raw, err := hkdf.Key(sha256.New, k.raw, salt, domain, format.KeyBytes)
	if err != nil {
		return nil, err
	}
	return format.NewKey(raw)
}

// Wipe forgets it.
func (k *key) Wipe() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.raw = nil
}

// sealed is what the vault of a real service encrypts.
type sealed struct {
	Group sdk.GroupID
	Raw   []byte
}

func (s *Service) seal(k *key, g sdk.GroupID) saving.SealedJournalKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	text, _ := json.Marshal(sealed{g, k.raw})
	return saving.SealedJournalKey{Journal: k.id, Epoch: s.epoch, Key: text}
}

// Forget has nothing to close.
func (s *Service) Forget(sdk.GroupID) {}

// NewSave makes an id.
func (s *Service) NewSave(sdk.GroupID) (saving.Save, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return saving.Save{ID: fmt.Sprintf("%032x", time.Now().UnixNano()<<8+int64(s.next))}, nil
}

// NewJournal makes a key.
func (s *Service) NewJournal(_ context.Context, g sdk.GroupID) (outbox.Key, saving.SealedJournalKey, error) {
	var id [16]byte
	k := &key{raw: make([]byte, 32)}
	_, _ = rand.Read(id[:])
	_, _ = rand.Read(k.raw)
	k.id = hex.EncodeToString(id[:])
	return k, s.seal(k, g), nil
}

// SealJournal seals a key to the epoch of now.
func (s *Service) SealJournal(_ context.Context, g sdk.GroupID, k outbox.Key) (saving.SealedJournalKey, error) {
	if err := s.refused("seal", g); err != nil {
		return saving.SealedJournalKey{}, err
	}
	return s.seal(k.(*key), g), nil
}

// OpenJournal opens a key for a member of its group, unless its journal has ended, or its epoch.
func (s *Service) OpenJournal(_ context.Context, g sdk.GroupID, at saving.SealedJournalKey) (outbox.Key, error) {
	if err := s.refused("open", g); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Opened++
	var in sealed
	if json.Unmarshal(at.Key, &in) != nil || in.Group != g {
		return nil, &sdk.Error{Op: "open", Kind: sdk.ErrInvalid, Err: errors.New("it is of another group")}
	}
	if at.Epoch < s.epoch-1 {
		return nil, refused(wire.CodeEpoch, "its epoch has ended")
	}
	if _, ended := s.ended[at.Journal]; ended {
		return nil, refused(wire.CodeJournalEnded, "the journal has ended")
	}
	if s.Lies {
		in.Raw[0] ^= 1
	}
	return &key{id: at.Journal, raw: in.Raw}, nil
}

func refused(code, why string) error {
	return &sdk.Error{Op: "open", Kind: sdk.ErrConflict, Code: code, Err: errors.New(why)}
}

// EndJournal opens a journal no more.
func (s *Service) EndJournal(_ context.Context, sealed saving.SealedJournalKey) error {
	if err := s.refused("end", ""); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin()
	if sealed.Epoch > s.epoch {
		return refused(wire.CodeEpoch, "there is no such epoch")
	}
	if _, ended := s.ended[sealed.Journal]; !ended {
		s.ended[sealed.Journal] = len(s.log)
	}
	return nil
}

// Ended returns how many journals have ended.
func (s *Service) Ended() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ended)
}

// NextEpoch begins another epoch of the vault. It opens keys of that and of the one before.
func (s *Service) NextEpoch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
}

// Tell ends lies, or with false begins them.
func (s *Service) Tell(truth bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Lies = !truth
}

// ForgetEpoch has the vault not have its newest epoch, as a service that was restored from a copy.
func (s *Service) ForgetEpoch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch--
}

// Entries are the records of a group.
func (s *Service) Entries(_ context.Context, g sdk.GroupID) ([]sdk.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]sdk.Entry{}, s.rows[g]...), nil
}

// Send records saves.
func (s *Service) Send(_ context.Context, list []*outbox.Upload) []outbox.Sent {
	var names []string
	out := make([]outbox.Sent, len(list))
	for n, u := range list {
		names = append(names, u.Name)
		out[n] = s.send(u)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Requests = append(s.Requests, names)
	return out
}

// content returns the content of a save.
func (s *Service) content(u *outbox.Upload) ([]byte, error) {
	l := u.Large
	if l == nil {
		return bytes.Clone(u.Content.Bytes()), nil
	}
	var base []byte
	if l.From != (outbox.From{}) {
		version := s.Version
		if version == nil {
			version = func(f outbox.From) ([]byte, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				return []byte(s.versions[f.Ref]), nil
			}
		}
		var err error
		if base, err = version(l.From); err != nil {
			return nil, err
		}
	}
	all := make([]byte, l.Layout.Size)
	for i := range l.Layout.Blocks() {
		block := all[i*l.Layout.BlockBytes:][:l.Layout.Plain(i)]
		if _, changed := l.Changed.Index(i); !changed {
			if int64(len(base)) < i*l.Layout.BlockBytes+int64(len(block)) {
				return nil, errors.New("a block is neither in the save nor in the version that it was made from")
			}
			copy(block, base[i*l.Layout.BlockBytes:])
			continue
		}
		if n, err := l.Read(i, block); err != nil || n != len(block) {
			return nil, errors.Join(err, fmt.Errorf("block %d has %d bytes", i, n))
		}
	}
	s.mu.Lock()
	s.Blocks += l.Changed.Blocks()
	s.mu.Unlock()
	return all, nil
}

func (s *Service) send(u *outbox.Upload) outbox.Sent {
	if s.Refuse != nil {
		if err := s.Refuse("send", u); err != nil {
			return outbox.Sent{Err: err}
		}
	}
	content, err := s.content(u)
	if err != nil {
		return outbox.Sent{Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin()
	text, _ := json.Marshal([]any{u.Group, u.Name, u.Base, u.Save.Mark, u.Save.Key.Bytes()})
	tag := sdk.Digest(sha256.Sum256(text))
	if done, ok := s.recorded[u.Save.ID]; ok {
		if done.tag != tag {
			return outbox.Sent{Err: &sdk.Error{Op: "upload", Kind: sdk.ErrConflict, Code: wire.CodeSpent}}
		}
		return done.sent
	}
	if s.Record != nil {
		s.mu.Unlock()
		sent := s.Record(u, content)
		s.mu.Lock()
		if sent.Err == nil {
			s.recorded[u.Save.ID] = recorded{sent, tag}
		}
		return sent
	}
	key := string(u.Group) + "/" + u.Name
	if u.Base != nil && *u.Base != s.heads[key] {
		return outbox.Sent{Err: &sdk.Error{Op: "upload", Kind: sdk.ErrConflict, Code: wire.CodeHead}}
	}
	s.next++
	hash := sdk.ComputeHash(content)
	e := sdk.Entry{Group: u.Group, Ref: sdk.Ref(fmt.Sprint("ref", s.next)), Seq: sdk.Seq(s.next), Name: u.Name,
		Hash: hash, Uploader: s.ID, Size: u.Size, Time: time.Now(), Upon: u.Upon}
	r := sdk.Receipt{Entry: e}
	s.note(logged{u.Save.ID, key, string(content), recorded{outbox.Sent{Receipt: r}, tag}, e})
	return outbox.Sent{Receipt: r}
}

// Head returns the newest reference of a name.
func (s *Service) Head(g sdk.GroupID, name string) sdk.Ref {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heads[string(g)+"/"+name]
}

// Saved makes a record of somebody else.
func (s *Service) Saved(g sdk.GroupID, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	s.note(logged{key: string(g) + "/" + name, entry: sdk.Entry{Group: g, Ref: sdk.Ref(fmt.Sprint("theirs", s.next)),
		Seq: sdk.Seq(s.next), Name: name, Uploader: "others"}})
}

// Sent returns the names that were sent, request by request.
func (s *Service) Sent() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]string{}, s.Requests...)
}
