// Package outboxtest has a service in memory for tests of what uses an outbox.
package outboxtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Service records what an outbox sends. Its letters are not encrypted.
type Service struct {
	ID sdk.AccountID
	// Record makes the record of a letter that was not recorded before; nil records everything.
	Record func(l *Letter, content []byte) sdk.Sent
	// Refuse answers a request to open or send a letter; nil = it may be done.
	Refuse func(op string, l *Letter) error
	Mine   []sdk.Group
	Spent  bool // what is recorded is not opened any more, as a real service does

	// OnRecord is called after each record, while no other is made. It may be nil.
	OnRecord func()

	rows map[sdk.GroupID][]sdk.Entry

	mu       sync.Mutex
	next     int
	log      []logged
	recorded map[string]sdk.Sent
	heads    map[string]sdk.Ref
	Requests [][]string // names that were sent together
	Contents map[string]string
	Opened   int
}

// logged is a record. Those of others have no id.
type logged struct {
	id, key, content string
	sent             sdk.Sent
	entry            sdk.Entry
}

// note makes a record. Needs Service.mu.
func (s *Service) note(r logged) {
	if s.recorded == nil {
		s.recorded, s.heads, s.Contents, s.rows = map[string]sdk.Sent{}, map[string]sdk.Ref{}, map[string]string{}, map[sdk.GroupID][]sdk.Entry{}
	}
	s.log = append(s.log, r)
	s.heads[r.key] = r.entry.Ref
	s.rows[r.entry.Group] = append(s.rows[r.entry.Group], r.entry)
	if r.id != "" {
		s.recorded[r.id], s.Contents[r.key] = r.sent, r.content
	}
	if s.OnRecord != nil {
		s.OnRecord()
	}
}

// Recorded returns how many letters were recorded.
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
	then := &Service{ID: s.ID, Mine: s.Mine, Spent: s.Spent, next: s.next}
	for _, r := range s.log[:n] {
		then.note(r)
	}
	return then
}

// Account is ID.
func (s *Service) Account() sdk.AccountID { return s.ID }

// Groups is Mine.
func (s *Service) Groups(context.Context) ([]sdk.Group, error) {
	if s.Refuse != nil {
		if err := s.Refuse("groups", nil); err != nil {
			return nil, err
		}
	}
	return s.Mine, nil
}

// Letter is an [outbox.Letter].
type Letter struct {
	mu sync.Mutex
	f  letterFile
	// from a disk
	locked, keyless bool
	cipher          io.ReaderAt
}

type letterFile struct {
	Id, Acc, G, N string
	Sum           sdk.Digest
	Bytes         int64
	Cut           int64 `json:",omitempty"` // bytes of a block; 0 = whole
	At            time.Time
	Ep            int64
	B             sdk.Ref
	HasB          bool
	A             sdk.Attributes
}

var errNoKey = &sdk.Error{Op: "check", Kind: sdk.ErrInvalid, Err: errors.New("no key")}

func get[T any](l *Letter, f func() T) T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return f()
}

// The methods of an [outbox.Letter].
func (l *Letter) ID() string             { return l.f.Id }
func (l *Letter) Account() sdk.AccountID { return sdk.AccountID(l.f.Acc) }
func (l *Letter) Group() sdk.GroupID {
	return get(l, func() sdk.GroupID {
		if l.locked {
			return ""
		}
		return sdk.GroupID(l.f.G)
	})
}
func (l *Letter) Name() string               { return get(l, func() string { return l.f.N }) }
func (l *Letter) Hash() sdk.Digest           { return l.f.Sum }
func (l *Letter) Attributes() sdk.Attributes { return l.f.A }
func (l *Letter) Size() int64                { return l.f.Bytes }
func (l *Letter) Time() time.Time            { return l.f.At }
func (l *Letter) Epoch() int64               { return get(l, func() int64 { return l.f.Ep }) }
func (l *Letter) Base() (ref sdk.Ref, set bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.B, l.f.HasB
}
func (l *Letter) Locked() bool            { return get(l, func() bool { return l.locked }) }
func (l *Letter) HasKey() bool            { return get(l, func() bool { return !l.keyless }) }
func (l *Letter) BlobSize() int64         { return l.f.Bytes + format.Overhead }
func (l *Letter) Ciphertext() io.ReaderAt { return get(l, func() io.ReaderAt { return l.cipher }) }
func (l *Letter) KeepIn(r io.ReaderAt)    { l.mu.Lock(); defer l.mu.Unlock(); l.cipher = r }
func (l *Letter) Wipe()                   { l.mu.Lock(); defer l.mu.Unlock(); l.keyless = true }
func (l *Letter) IsIn(_ sdk.DiskKeys, g sdk.GroupID) bool {
	return get(l, func() bool { return l.f.G == string(g) })
}
func (l *Letter) Encode(sdk.DiskKeys) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return json.Marshal(l.f)
}

// Content is the content.
func (l *Letter) Content(b *mem.Buffer) error {
	if !l.HasKey() {
		return errNoKey
	}
	text, err := l.content()
	if err == nil {
		err = b.Resize(int64(len(text)))
	}
	if err == nil {
		copy(b.Bytes(), text)
	}
	return err
}

func (l *Letter) content() ([]byte, error) {
	raw := make([]byte, l.BlobSize())
	if n, err := l.Ciphertext().ReadAt(raw, 0); n < len(raw) {
		return nil, err
	}
	return raw[format.Overhead:], nil
}

// Readdress changes group, name and base.
func (l *Letter) Readdress(g sdk.GroupID, name string, base *sdk.Ref) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keyless {
		return errNoKey
	}
	l.f.G, l.f.N, l.f.B, l.f.HasB = string(g), name, "", base != nil
	if base != nil {
		l.f.B = *base
	}
	return nil
}

// Seal makes a letter.
func (s *Service) Seal(_ context.Context, g sdk.GroupID, name string, content []byte, base *sdk.Ref, a sdk.Attributes) (outbox.Letter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	l := &Letter{f: letterFile{Id: fmt.Sprintf("%032x", time.Now().UnixNano()<<8+int64(s.next)), Acc: string(s.ID), G: string(g), N: name, Sum: sdk.ComputeHash(content), Bytes: int64(len(content)), At: time.Now(), Ep: 1, A: a}}
	if base != nil {
		l.f.B, l.f.HasB = *base, true
	}
	l.cipher = bytes.NewReader(append(make([]byte, format.Overhead), content...))
	return l, nil
}

// Layout is that of a letter of SealLarge.
func (l *Letter) Layout() (format.Layout, bool) {
	return format.Layout{Size: l.f.Bytes, BlockBytes: l.f.Cut}, l.f.Cut > 0
}

// SealLarge makes a letter in blocks.
func (s *Service) SealLarge(ctx context.Context, g sdk.GroupID, name string, content sdk.LargeContent, base *sdk.Ref, a sdk.Attributes) (outbox.LargeLetter, error) {
	var all []byte
	for i := range content.Layout.Blocks() {
		block := make([]byte, content.Layout.BlockBytes)
		n, err := content.Read(ctx, i, block)
		if err != nil {
			return nil, err
		}
		all = append(all, block[:n]...)
	}
	letter, err := s.Seal(ctx, g, name, all, base, a)
	if err != nil {
		return nil, err
	}
	l := letter.(*Letter)
	l.f.Cut = content.Layout.BlockBytes
	to, err := content.Body(l.ID())
	if err == nil {
		_, err = to.Write(append(make([]byte, format.Overhead), all...))
	}
	return l, err
}

type body struct {
	l *Letter
	io.ReaderAt
}

// OpenBody opens a letter of SealLarge.
func (s *Service) OpenBody(l outbox.Letter, at io.ReaderAt) (outbox.LargeBody, error) {
	return body{l.(*Letter), at}, nil
}

func (b body) Layout() format.Layout {
	l, _ := b.l.Layout()
	return l
}

func (b body) Read(_ context.Context, first int64, into []*mem.Buffer) error {
	for n, buf := range into {
		i := first + int64(n)
		if err := buf.Resize(b.Layout().Plain(i)); err != nil {
			return err
		}
		if k, err := b.ReadAt(buf.Bytes(), format.Overhead+i*b.l.f.Cut); k < len(buf.Bytes()) {
			return err
		}
	}
	return nil
}

// Decode reads a letter, which is locked unless there is a key in the keyring.
func (s *Service) Decode(raw []byte, k sdk.DiskKeys) (outbox.Letter, error) {
	l := &Letter{locked: k.Names == nil, keyless: true}
	return l, json.Unmarshal(raw, &l.f)
}

// Open unlocks a letter.
func (s *Service) Open(_ context.Context, letter outbox.Letter, g sdk.GroupID) error {
	l := letter.(*Letter)
	if s.Refuse != nil {
		if err := s.Refuse("open", l); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.Opened++
	_, spent := s.recorded[l.ID()]
	s.mu.Unlock()
	if s.Spent && spent && l.f.G == string(g) {
		return &sdk.Error{Op: "open", Kind: sdk.ErrConflict, Code: wire.CodeSpent, Err: errors.New("it is recorded")}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if g != "" && l.f.G != string(g) {
		return &sdk.Error{Op: "open", Kind: sdk.ErrCorrupt, Err: errors.New("it is of another group")}
	}
	l.locked, l.keyless = false, false
	return nil
}

// OpenFor unlocks a letter that is to go to another group.
func (s *Service) OpenFor(ctx context.Context, letter outbox.Letter, _ sdk.GroupID) error {
	return s.Open(ctx, letter, "")
}

// Entries are the records of a group.
func (s *Service) Entries(_ context.Context, g sdk.GroupID) ([]sdk.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]sdk.Entry{}, s.rows[g]...), nil
}

// Send records letters.
func (s *Service) Send(_ context.Context, letters []outbox.Letter) []sdk.Sent {
	var names []string
	out := make([]sdk.Sent, len(letters))
	for n, letter := range letters {
		l := letter.(*Letter)
		names = append(names, l.Name())
		out[n] = s.send(l)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Requests = append(s.Requests, names)
	return out
}

func (s *Service) send(l *Letter) sdk.Sent {
	if s.Refuse != nil {
		if err := s.Refuse("send", l); err != nil {
			return sdk.Sent{Err: err}
		}
	}
	content, err := l.content()
	if err != nil {
		return sdk.Sent{Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if done, ok := s.recorded[l.ID()]; ok {
		return done
	}
	if s.Record != nil {
		s.mu.Unlock()
		sent := s.Record(l, content)
		s.mu.Lock()
		if sent.Err == nil {
			if s.recorded == nil {
				s.recorded = map[string]sdk.Sent{}
			}
			s.recorded[l.ID()] = sent
		}
		return sent
	}
	key := l.f.G + "/" + l.f.N
	if l.f.HasB && l.f.B != s.heads[key] {
		return sdk.Sent{Err: &sdk.Error{Op: "upload", Kind: sdk.ErrConflict, Code: wire.CodeHead}}
	}
	s.next++
	r := sdk.Receipt{Ref: sdk.Ref(fmt.Sprint("ref", s.next)), Seq: sdk.Seq(s.next), Size: l.f.Bytes, Hash: l.f.Sum, Time: time.Now()}
	e := sdk.Entry{Group: sdk.GroupID(l.f.G), Ref: r.Ref, Seq: r.Seq, Name: l.f.N, Hash: l.f.Sum, Uploader: s.ID, Size: l.f.Bytes, Time: r.Time}
	s.note(logged{l.ID(), key, string(content), sdk.Sent{Receipt: r}, e})
	return sdk.Sent{Receipt: r}
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
	s.note(logged{key: string(g) + "/" + name, entry: sdk.Entry{Group: g, Ref: sdk.Ref(fmt.Sprint("theirs", s.next)), Seq: sdk.Seq(s.next), Name: name, Uploader: "others"}})
}

// Sent returns the names that were sent, request by request.
func (s *Service) Sent() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]string{}, s.Requests...)
}
