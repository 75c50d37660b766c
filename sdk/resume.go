package sdk

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire"
)

const (
	resumeVersion = 1
	// maxResumeBytes bounds a state file, in bytes: a part takes about 100, one whose connection
	// was cut up to 1.5 KiB.
	maxResumeBytes = 64 << 20
	// saveEvery is how often a state is saved at most.
	saveEvery = 300 * time.Millisecond
	// keptResumes is how many state files stay, and resumeLife for how long: a service keeps an
	// upload for seven days.
	keptResumes = 100
	resumeLife  = 8 * 24 * time.Hour

	resumePrefix = "upload-"
	resumeSuffix = ".json"
	lockSuffix   = ".lock"
)

// resume is the option [Resume].
type resume struct {
	dir  string
	stem string // names the state; "" = service, account, group, name and file do
	told func(kept int64, why error)
}

// blockSource is the content of a [Group.Put].
type blockSource struct {
	io.Reader
	at        io.ReaderAt // nil: it can be read only once
	from      int64       // where it begins in at
	stat      func() (fs.FileInfo, error)
	before    fileStamp
	isResumed bool // blocks of an earlier process are used
}

// fileStamp tells whether a file changed.
type fileStamp struct {
	Size  int64  `json:"size"`
	Mtime int64  `json:"mtime_ns"`
	Ctime int64  `json:"ctime_ns"`
	Dev   uint64 `json:"dev"`
	Inode uint64 `json:"inode"`
}

// openSource returns the content of head, if it is not nil, and r.
func openSource(r io.Reader, head *mem.Buffer, size int64) *blockSource {
	s := &blockSource{Reader: r}
	if head != nil {
		s.Reader = io.MultiReader(bytes.NewReader(head.Bytes()), r)
		return s
	}
	f, ok := r.(interface {
		io.Seeker
		io.ReaderAt
		Stat() (fs.FileInfo, error)
	})
	if !ok || size <= 0 {
		return s
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return s
	}
	s.at, s.from, s.stat = f, at, f.Stat
	s.before, _ = s.stamp()
	return s
}

// stamp returns how the file is now; ok is false for anything but a file.
func (s *blockSource) stamp() (stamp fileStamp, ok bool) {
	if s.stat == nil {
		return stamp, false
	}
	info, err := s.stat()
	if err != nil {
		return stamp, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() {
		return stamp, false
	}
	return fileStamp{Size: info.Size(), Mtime: info.ModTime().UnixNano(), Ctime: changeTime(st), Dev: uint64(st.Dev), Inode: st.Ino}, true
}

// changed reports whether the file changed since it was opened.
func (s *blockSource) changed() bool {
	now, ok := s.stamp()
	return !ok || now != s.before
}

// again reports whether the content can be read again, and is the same.
func (s *blockSource) again() bool { return s.at != nil && !s.changed() }

// block returns a source of blocks.
func (s *blockSource) block(blockBytes int64) func(int64) ([]byte, error) {
	buf := make([]byte, blockBytes)
	return func(i int64) ([]byte, error) {
		n, err := s.at.ReadAt(buf, s.from+i*blockBytes)
		if err == io.EOF && n > 0 {
			err = nil
		}
		return buf[:n], err
	}
}

// savedParts is the content of a state file.
type savedParts struct {
	Version   int         `json:"version"`
	Upload    string      `json:"upload_id"`
	BlockSize int64       `json:"block_size"`
	Source    fileStamp   `json:"source"`
	Parts     []savedPart `json:"parts"`
	Sending   []savedPart `json:"sending,omitempty"` // parts that were under way
	// Content is set before the first finalize: a record with it is that of this upload.
	Content string `json:"content,omitempty"`
}

// savedPart is a part that this account sent. The service says the rest when it is asked.
type savedPart struct {
	Number int64 `json:"number"`
	// Sum is the hash over blocks, ETag and wrapped key: what was sent is not what the service says it was.
	Sum string `json:"sum"`
	// Leaves are those of a part whose root is no node of the tree of the file, or that was under way:
	// then the service may have the first of its blocks, and Sum is that over Blocks and wrapped key.
	Leaves []byte `json:"leaves,omitempty"`
	Blocks string `json:"blocks,omitempty"`
}

// arrived returns the part with what the service has of it, if all of that was sent.
func (p savedPart) arrived(at wire.Part, key []byte, most int64) (savedPart, bool) {
	all, badAll := format.ParseExtents(p.Blocks, most)
	blocks, badBlocks := format.ParseExtents(at.Blocks, most)
	if badAll != nil || badBlocks != nil || p.Sum != sumOfPart(p.Blocks, "", key) || !slices.Equal(blocks, firstBlocks(all, blocks.Blocks())) {
		return p, false
	}
	bytes := blocks.Blocks() * int64(len(format.Hash{}))
	if bytes > int64(len(p.Leaves)) {
		return p, false
	}
	return savedPart{Number: p.Number, Sum: sumOfPart(at.Blocks, at.ETag, key), Leaves: p.Leaves[:bytes]}, true
}

func sumOfPart(blocks, etag string, key []byte) string {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%s\n%s\n", blocks, etag)
	_, _ = sum.Write(key)
	return hex.EncodeToString(sum.Sum(nil))
}

// resuming is the state file of one Put. The zero value has none.
type resuming struct {
	path    string // "" = nothing is saved
	lock    *os.File
	source  *blockSource
	told    func(int64, error)
	resumed bool

	u     *BlockUpload
	mu    sync.Mutex
	saved time.Time
	gone  bool // nothing is saved any more
}

// open finds the state file of a Put, and takes the lock on it.
func (r resume) open(g Group, name string, source *blockSource) *resuming {
	s := &resuming{source: source, told: r.told}
	if s.told == nil {
		s.told = func(int64, error) {}
	}
	if r.dir == "" || source.before == (fileStamp{}) || source.from != 0 {
		return s
	}
	what := strings.Join([]string{g.c.cfg.MCPURL, g.c.cfg.ContractID, string(g.c.account), string(g.ID), name}, "\n")
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d %d", what, source.before.Dev, source.before.Inode))
	path := filepath.Join(r.dir, resumePrefix+cmp.Or(r.stem, hex.EncodeToString(sum[:16]))+resumeSuffix)
	err := ownfile.MakeFolder(r.dir)
	if err == nil {
		cleanResumes(r.dir, path)
		s.lock, err = lockFile(path + lockSuffix)
	}
	if err != nil {
		s.told(0, fmt.Errorf("the upload cannot be resumed later: %w", err))
		return s
	}
	s.path = path
	return s
}

var errLocked = errors.New("another process is sending the same file")

// lockFile opens a file for this process alone.
func lockFile(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			_ = f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				err = errLocked
			}
			return nil, err
		}
		mine, err := f.Stat()
		if err == nil {
			if there, statErr := os.Lstat(path); statErr == nil && os.SameFile(mine, there) {
				return f, nil
			}
		}
		_ = f.Close() // another process removed it meanwhile
		if err != nil {
			return nil, err
		}
	}
}

// cleanResumes removes old state files, and the oldest if there are too many, but for one.
func cleanResumes(dir, but string) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	type old struct {
		path string
		at   time.Time
	}
	var files []old
	for _, entry := range list {
		name := entry.Name()
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() || !strings.HasPrefix(name, resumePrefix) {
			continue
		}
		if path, isLock := strings.CutSuffix(filepath.Join(dir, name), lockSuffix); strings.HasSuffix(path, resumeSuffix) && path != but {
			if _, err := os.Lstat(path); !isLock || errors.Is(err, fs.ErrNotExist) {
				files = append(files, old{path, info.ModTime()})
			}
		}
	}
	slices.SortFunc(files, func(a, b old) int { return b.at.Compare(a.at) })
	for i, f := range files {
		if i < keptResumes-1 && time.Since(f.at) < resumeLife {
			continue
		}
		if lock, err := lockFile(f.path + lockSuffix); err == nil {
			_ = os.Remove(f.path)
			_ = os.Remove(lock.Name())
			_ = lock.Close()
		}
	}
}

// begin goes on with the upload of the state file, or begins another. earlier is the record of
// the upload, if it is recorded already.
func (s *resuming) begin(ctx context.Context, g Group) (u *BlockUpload, earlier *Receipt, err error) {
	if s.path != "" {
		kept, why := int64(0), error(nil)
		var found savedParts
		if found, why = s.read(); why == nil && found.Upload != "" {
			u, earlier, why = s.goOn(ctx, g, found)
			if u != nil {
				kept = min(u.sentBlocks()*u.blockBytes, s.source.before.Size)
			} else if earlier != nil {
				kept = earlier.Size
			}
		}
		if kind := KindOf(g.wrap("resume", why)); why != nil && kind != ErrNotFound && kind != ErrConflict && kind != ErrInvalid && kind != ErrCorrupt && kind != ErrOther {
			return nil, nil, why // such as a service that cannot be reached: the state stays
		}
		if why != nil || u != nil || earlier != nil {
			s.told(kept, g.wrap("resume", why))
		}
		if earlier != nil {
			return nil, earlier, nil
		}
	}
	if u == nil {
		if u, err = g.beginBlocks(ctx, nil, 0, ""); err != nil {
			return nil, nil, err
		}
	} else {
		s.resumed, s.source.isResumed = true, true
	}
	if s.path != "" {
		s.u = u
		u.changed = func() { s.save(false) }
		u.onFinish = func(Digest) { s.save(true) }
	}
	return u, nil, nil
}

// read reads the state file. Without one, the result is the zero value.
func (s *resuming) read() (found savedParts, err error) {
	raw, err := ownfile.Read(s.path, ownfile.Secret, maxResumeBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &found)
	}
	if err == nil && (found.Version != resumeVersion || found.Upload == "") {
		err = errors.New("svcfs did not write it")
	}
	if err != nil {
		return savedParts{}, &Error{Op: "read the state of the upload", Kind: ErrOther, Err: fmt.Errorf("%s: %w", s.path, err)}
	}
	if found.Source != s.source.before {
		return savedParts{}, &Error{Op: "check", Kind: ErrConflict, Err: errors.New("the file changed since the upload began: its size, a time or its inode differs")}
	}
	return found, nil
}

// goOn resumes an upload.
func (s *resuming) goOn(ctx context.Context, g Group, found savedParts) (*BlockUpload, *Receipt, error) {
	u, err := g.beginBlocks(ctx, nil, found.BlockSize, found.Upload)
	if kind := classify(err); err != nil && (kind == ErrNotFound || kind == ErrConflict) {
		if found.Content != "" {
			return s.recorded(ctx, g, found)
		}
		return nil, nil, &Error{Op: "check", Kind: ErrNotFound, Err: errors.New("the service has given the upload up")}
	}
	if err != nil {
		return nil, nil, err
	}
	list, err := s.listArrived(ctx, g, u, found)
	if err != nil {
		u.Abandon()
		return nil, nil, err
	}
	if err := u.adopt(list, found); err != nil {
		u.Abandon()
		return nil, nil, err
	}
	return u, nil, nil
}

// listArrived asks which parts the service has. What the earlier process had under way may still come:
// right after its end listArrived waits for that, for a fifth of [Config].Timeout.
func (s *resuming) listArrived(ctx context.Context, g Group, u *BlockUpload, found savedParts) (list []wire.Part, err error) {
	var until time.Time
	if info, err := os.Stat(s.path); err == nil {
		until = info.ModTime().Add(g.c.cfg.Timeout / 5)
	}
	for {
		if err := g.c.retry(ctx, func(ctx context.Context) (err error) {
			list, err = u.listParts(ctx)
			return err
		}); err != nil {
			return nil, err
		}
		comes := slices.ContainsFunc(found.Sending, func(p savedPart) bool {
			return len(p.Leaves) > 0 && !slices.ContainsFunc(list, func(at wire.Part) bool { return at.Number == p.Number })
		})
		if !comes || !time.Now().Before(until) {
			return list, nil
		}
		if err := rest(ctx, firstPause, errors.New("parts may still arrive")); err != nil {
			return nil, err
		}
	}
}

// recorded looks for the record of an upload that the service has finished.
func (s *resuming) recorded(ctx context.Context, g Group, found savedParts) (*BlockUpload, *Receipt, error) {
	content, err := parseDigest(found.Content)
	if err != nil {
		return nil, nil, &Error{Op: "check", Kind: ErrNotFound, Err: errors.New("the service has given the upload up")}
	}
	entries, err := g.c.entries(ctx, g.ID, 0)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range slices.Backward(entries) {
		if e.Content == content && e.Uploader == g.c.account && e.Deleted == nil {
			return nil, &Receipt{Ref: e.Ref, Tx: e.Tx, Hash: e.Hash, Size: e.Size, Seq: e.Seq, Time: e.Time, Content: e.Content}, nil
		}
	}
	return nil, nil, &Error{Op: "check", Kind: ErrNotFound, Err: errors.New("the service has given the upload up")}
}

// adopt notes the parts that an earlier process sent, as far as the service has just those. It is an
// error if the file key is not the one that wraps their keys: nobody could open the file.
func (u *BlockUpload) adopt(list []wire.Part, found savedParts) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	known, sending := make(map[int64]savedPart, len(found.Parts)), make(map[int64]savedPart, len(found.Sending))
	for _, p := range found.Parts {
		known[p.Number] = p
	}
	for _, p := range found.Sending {
		sending[p.Number] = p
	}
	for _, p := range list {
		u.number = max(u.number, p.Number+1)
		was, ok := known[p.Number]
		key, isKey := decodePartKey(p.Key)
		if !ok {
			was, ok = sending[p.Number].arrived(p, key[:], u.partBlocks)
		}
		if !ok || !isKey || was.Sum != sumOfPart(p.Blocks, p.ETag, key[:]) {
			continue
		}
		partKey, err := format.UnwrapKey(u.ticket.key, key)
		if err != nil {
			return malformed(errors.New("it issued another key for the same upload"))
		}
		partKey.Wipe()
		id, badID := format.ParsePartID(p.ID)
		root, badTag := parseDigest(p.ETag)
		blocks, badBlocks := format.ParseExtents(p.Blocks, u.partBlocks)
		if badID != nil || badTag != nil || badBlocks != nil {
			continue
		}
		part := &sentPart{number: p.Number, id: id, key: key, blocks: blocks, root: format.Hash(root), order: u.order}
		for at := was.Leaves; len(at) >= len(format.Hash{}); at = at[len(format.Hash{}):] {
			part.leaves = append(part.leaves, format.Hash(at))
		}
		if part.leaves != nil && (int64(len(part.leaves)) != blocks.Blocks() || format.RootOf(part.leaves) != part.root) || part.leaves == nil && !part.isSubtree() {
			continue
		}
		u.enter(part)
	}
	u.order++
	return nil
}

func decodePartKey(text string) (key [format.WrappedKeyBytes]byte, ok bool) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != len(key) {
		return key, false
	}
	return [format.WrappedKeyBytes]byte(raw), true
}

// save writes the state file, unless that was done a moment ago and now is not set.
func (s *resuming) save(now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone || !now && time.Since(s.saved) < saveEvery {
		return
	}
	s.saved = time.Now()
	_ = ownfile.Replace(s.path, s.u.state(s.source.before)) // else less can be resumed
}

// state returns the content of the state file.
func (u *BlockUpload) state(source fileStamp) []byte {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := savedParts{Version: resumeVersion, Upload: u.ticket.id, BlockSize: u.blockBytes, Source: source, Parts: []savedPart{}}
	if u.content != (Digest{}) {
		now.Content = u.content.String()
	}
	for _, p := range u.parts {
		if p.live == 0 {
			continue
		}
		saved := savedPart{Number: p.number, Sum: sumOfPart(p.blocks.String(), p.etag(), p.key[:])}
		if !p.isSubtree() {
			for _, leaf := range p.leaves {
				saved.Leaves = append(saved.Leaves, leaf[:]...)
			}
		}
		now.Parts = append(now.Parts, saved)
	}
	for _, a := range u.attempts {
		blocks := a.blocks.String()
		saved := savedPart{Number: a.number, Sum: sumOfPart(blocks, "", a.key[:]), Blocks: blocks}
		for _, leaf := range a.leaves {
			saved.Leaves = append(saved.Leaves, leaf[:]...)
		}
		now.Sending = append(now.Sending, saved)
	}
	raw, err := json.Marshal(now)
	if err != nil {
		panic(err) // our own shape
	}
	return raw
}

// remove removes the state file: the upload has ended.
func (s *resuming) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	if s.path != "" {
		_ = os.Remove(s.path)
	}
}

// close saves what has come since, and gives the lock back.
func (s *resuming) close() {
	if s.u != nil {
		s.save(true)
	}
	if s.lock == nil {
		return
	}
	if s.gone {
		_ = os.Remove(s.lock.Name())
	}
	_ = s.lock.Close()
}
