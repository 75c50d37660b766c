package staging

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/locked"
	"github.com/svcfs/svcfs/sdk/ownfile"
)

// ErrSpool means that the disk of a spool failed: it neither took a block nor was full, or did not give one back.
var ErrSpool = errors.New("the spool")

// Spool is a file without a name that holds sealed blocks of contents larger than memory. The
// disk never sees plaintext, and the key is in memory alone, so nothing of the blocks is left
// when the process ends, however it ends. It is safe for concurrent use.
type Spool struct {
	limit int64

	mu      sync.Mutex
	file    *os.File
	key     locked.Bytes
	sealed  int64             // blocks under key
	used    int64             // bytes of blocks
	end     int64             // of the file
	free    map[int64][]int64 // places below end, by their length
	scratch [][]byte          // sealed blocks on their way; never plaintext
}

// OpenSpool makes a spool of at most limit bytes in a folder.
func OpenSpool(dir string, limit int64) (*Spool, error) {
	file, err := ownfile.Nameless(dir)
	if err != nil {
		return nil, fmt.Errorf("make a spool in %s: %w", dir, err)
	}
	s := &Spool{file: file, limit: limit, free: make(map[int64][]int64)}
	if err := s.renewKey(); err != nil {
		_ = file.Close()
		return nil, err
	}
	return s, nil
}

// Close gives the disk back. No content may use the spool any more.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.key.Slice())
	return s.file.Close()
}

// Used returns the disk in use, in bytes.
func (s *Spool) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// Limit returns how much disk may be used, in bytes.
func (s *Spool) Limit() int64 { return s.limit }

// place is where a block lies. The spool has the ciphertext alone: nonce and tag stay in
// memory, so that nobody can put back what the same place held before.
type place struct {
	at    int64 // from 1 on
	nonce [format.NonceBytes]byte
	tag   [format.TagBytes]byte
}

func (s *Spool) renewKey() error {
	s.key, s.sealed = locked.New(format.KeyBytes), 0
	if _, err := rand.Read(s.key.Slice()); err != nil {
		return fmt.Errorf("make the key of a spool: %w", err)
	}
	return nil
}

func (s *Spool) cipher() (*format.BlockCipher, error) {
	key, err := format.NewKey(s.key.Slice())
	if err != nil {
		return nil, err
	}
	defer key.Wipe()
	return format.NewBlockCipher(key)
}

// put seals a block into the place p, or into a new one if p has none.
func (s *Spool) put(p *place, plain []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed >= format.MaxBlocksPerKey {
		return &Full{Held: s.used, Limit: s.limit, Disk: true, Err: errors.New("its key has sealed too many blocks")}
	}
	n := int64(len(plain))
	at, fresh := p.at-1, p.at == 0
	if fresh {
		var err error
		if at, err = s.allot(n); err != nil {
			return err
		}
	}
	cipher, err := s.cipher()
	if err == nil {
		err = s.write(cipher, p, at, plain)
	}
	if err != nil && fresh {
		s.release(at, n)
	}
	if err == nil {
		p.at = at + 1
	}
	return err
}

func (s *Spool) write(cipher *format.BlockCipher, p *place, at int64, plain []byte) error {
	buf := s.borrow()
	defer s.giveBack(buf)
	sealed, err := cipher.Seal(buf[:0], at, plain)
	if err != nil {
		return err
	}
	s.sealed++
	end := len(sealed) - format.TagBytes
	if _, err := s.file.WriteAt(sealed[format.NonceBytes:end], at); err != nil {
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
			return &Full{Held: s.used, Limit: s.limit, Disk: true, Err: err}
		}
		return fmt.Errorf("write to %w: %w", ErrSpool, err)
	}
	copy(p.nonce[:], sealed)
	copy(p.tag[:], sealed[end:])
	return nil
}

// get opens the block of a place into a buffer of its length.
func (s *Spool) get(p place, into []byte) error {
	s.mu.Lock()
	buf := s.borrow()
	cipher, err := s.cipher()
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.giveBack(buf)
		s.mu.Unlock()
	}()
	if err != nil {
		return err
	}
	sealed := buf[:len(into)+format.Overhead]
	copy(sealed, p.nonce[:])
	if _, err := s.file.ReadAt(sealed[format.NonceBytes:format.NonceBytes+len(into)], p.at-1); err != nil {
		return fmt.Errorf("read %w: %w", ErrSpool, err)
	}
	copy(sealed[format.NonceBytes+len(into):], p.tag[:])
	if _, err := cipher.Open(into[:0], p.at-1, sealed); err != nil {
		return fmt.Errorf("read %w: %w", ErrSpool, err)
	}
	return nil
}

// drop frees a place that holds n bytes.
func (s *Spool) drop(p *place, n int64) {
	if p.at == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(p.at-1, n)
	*p = place{}
}

// allot finds room for n bytes.
func (s *Spool) allot(n int64) (at int64, err error) {
	if s.used+n > s.limit {
		return 0, &Full{Held: s.used, Limit: s.limit, Disk: true}
	}
	s.used += n
	if list := s.free[n]; len(list) > 0 {
		s.free[n] = list[:len(list)-1]
		return list[len(list)-1], nil
	}
	at = s.end
	s.end += n
	return at, nil
}

// release gives the disk behind a place back. An empty spool begins anew, with another key.
func (s *Spool) release(at, n int64) {
	s.used -= n
	if s.used == 0 && s.renewKey() == nil && s.file.Truncate(0) == nil {
		s.end = 0
		clear(s.free)
		return
	}
	s.free[n] = append(s.free[n], at)
	punch(s.file, at, n) // without holes in files the place is used again all the same
}

const spoolScratch = int(format.MaxBlockBytes) + format.Overhead

func (s *Spool) borrow() []byte {
	if n := len(s.scratch); n > 0 {
		buf := s.scratch[n-1]
		s.scratch = s.scratch[:n-1]
		return buf
	}
	return make([]byte, spoolScratch)
}

func (s *Spool) giveBack(buf []byte) {
	if len(s.scratch) < 2 {
		s.scratch = append(s.scratch, buf)
	}
}
