package sdk

import (
	"bytes"
	"context"
	"crypto/sha256"
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
	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/saving"
	"github.com/svcfs/svcfs/sdk/wire"
)

const (
	resumeVersion = 3
	// maxResumeBytes bounds a state file, in bytes: a part takes about 250, and one that is no subtree of the file up
	// to 1.7 KiB.
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

// resume is what [Group.Resume] is told.
type resume struct {
	dir  string
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
	return fileStamp{Size: info.Size(), Mtime: info.ModTime().UnixNano(), Ctime: changeTime(st), Dev: uint64(st.Dev),
		Inode: st.Ino}, true
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
	Version   int           `json:"version"`
	Upload    string        `json:"upload_id"`
	BlockSize int64         `json:"block_size"`
	Source    fileStamp     `json:"source"`
	Parts     []saving.Part `json:"parts"`
	// Key is that of the file: the upload is a journal of one save, with the same id.
	Key saving.SealedJournalKey `json:"key"`
	// Content is set before the upload is recorded: a record with it is that of this upload.
	Content string `json:"content,omitempty"`
}

// resuming is the state file of one Put. The zero value has none.
type resuming struct {
	name    string
	path    string // "" = nothing is saved
	lock    *os.File
	source  *blockSource
	told    func(int64, error)
	resumed bool

	u     *BlockUpload
	key   saving.SealedJournalKey // of u
	mu    sync.Mutex
	saved time.Time
	gone  bool // nothing is saved any more
}

// open finds the state file of a Put, and takes the lock on it.
func (r resume) open(g Group, name string, source *blockSource) *resuming {
	s := &resuming{name: name, source: source, told: r.told}
	if s.told == nil {
		s.told = func(int64, error) {}
	}
	if r.dir == "" || source.before == (fileStamp{}) || source.from != 0 {
		return s
	}
	what := strings.Join([]string{g.c.cfg.MCPURL, g.c.cfg.ContractID, string(g.c.account), string(g.ID), name}, "\n")
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d %d", what, source.before.Dev, source.before.Inode))
	path := filepath.Join(r.dir, resumePrefix+hex.EncodeToString(sum[:16])+resumeSuffix)
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
		if path, isLock := strings.CutSuffix(filepath.Join(dir, name), lockSuffix); strings.HasSuffix(path,
			resumeSuffix) && path != but {
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

// begin goes on with the upload of the state file, or begins one. earlier is the record of
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
		switch kind := KindOf(g.wrap("resume", why)); {
		case why == nil, kind == ErrNotFound, kind == ErrConflict:
		case found.Content == "" && (kind == ErrInvalid || kind == ErrCorrupt || kind == ErrOther):
		default: // such as a service that cannot be reached, or that does not say what it recorded: the state stays
			if found.Content != "" {
				why = unsure{why}
			}
			return nil, nil, why
		}
		if why != nil || u != nil || earlier != nil {
			s.told(kept, g.wrap("resume", why))
		}
		if earlier != nil {
			return nil, earlier, nil
		}
	}
	if u == nil {
		s.key = saving.SealedJournalKey{}
		if u, err = g.beginBlocks(ctx, nil, 0, ""); err != nil {
			return nil, nil, err
		}
		if s.path != "" {
			if s.key, err = g.sealJournalKey(ctx, saving.NewJournalKey(u.id, u.key)); err != nil {
				return nil, nil, err
			}
		}
	} else {
		s.resumed, s.source.isResumed = true, true
	}
	if s.path != "" {
		s.u = u
		u.changed = func() { s.save(false) }
		u.onFinish = func() { s.save(true) }
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
	if err == nil && (found.Version != resumeVersion || found.Upload == "" || found.Key.Journal != found.Upload) {
		err = errors.New("svcfs did not write it")
	}
	if err != nil {
		return savedParts{}, &Error{Op: "read the state of the upload", Kind: ErrOther,
			Err: fmt.Errorf("%s: %w", s.path, err)}
	}
	if found.Source != s.source.before {
		return savedParts{}, &Error{Op: "check", Kind: ErrConflict,
			Err: errors.New("the file changed since the upload began: its size, a time or its inode differs")}
	}
	return found, nil
}

// goOn resumes an upload.
func (s *resuming) goOn(ctx context.Context, g Group, found savedParts) (*BlockUpload, *Receipt, error) {
	s.key = found.Key
	k, err := g.openJournalKey(ctx, found.Key)
	if code := codeOf(err); code == wire.CodeJournalEnded || code == wire.CodeEpoch && found.Content != "" {
		return s.recorded(ctx, g, found)
	}
	if err != nil {
		return nil, nil, err
	}
	key := k.Take()
	if err := (format.Layout{Size: 1, BlockBytes: found.BlockSize}).Check(); err != nil {
		key.Wipe()
		return nil, nil, &Error{Op: "read the state of the upload", Kind: ErrOther, Err: err}
	}
	u := g.newBlockUpload(found.Upload, key, found.BlockSize)
	list, err := u.listParts(ctx, call.Free, "")
	if err == nil && len(list) == 0 { // it has ended
		u.Abandon()
		return s.recorded(ctx, g, found)
	}
	if err == nil {
		err = u.adopt(list, found.Parts)
	}
	if err != nil {
		u.Abandon()
		return nil, nil, err
	}
	return u, nil, nil
}

func errGivenUp() error {
	return &Error{Op: "check", Kind: ErrNotFound,
		Err: errors.New("the service has given the upload up, or the name has another version since")}
}

// recorded looks for the record of an upload that the service has finished. It counts while it is the newest version of
// its name.
func (s *resuming) recorded(ctx context.Context, g Group, found savedParts) (*BlockUpload, *Receipt, error) {
	content, err := parseDigest(found.Content)
	if err != nil {
		return nil, nil, errGivenUp()
	}
	e, err := g.Stat(ctx, s.name)
	if KindOf(err) == ErrNotFound || err == nil && (e.Content != content || e.Uploader != g.c.account) {
		err = errGivenUp()
	}
	if err != nil {
		return nil, nil, err
	}
	e.Number = 0
	return nil, &Receipt{Entry: e}, nil
}

// adopt notes the parts that an earlier process sent, as far as the service has just those. It is an
// error if the file key is not the one that wraps their keys: nobody could open the file.
func (u *BlockUpload) adopt(list []wire.Part, saved []saving.Part) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	known := make(map[string]saving.Part, len(saved))
	for _, p := range saved {
		known[p.ID] = p
	}
	for _, p := range list {
		was, ok := known[p.ID]
		if !ok || was.Blocks != p.Blocks || was.Root != p.ETag || len(was.Key) != format.WrappedKeyBytes {
			continue
		}
		part := &sentPart{key: [format.WrappedKeyBytes]byte(was.Key), order: u.order}
		partKey, err := format.UnwrapKey(u.key, part.key)
		if err != nil {
			return call.Malformed(errors.New("it gives another key for the same upload"))
		}
		partKey.Wipe()
		root, badRoot := parseDigest(was.Root)
		part.root = format.Hash(root)
		var badID, badBlocks error
		part.id, badID = format.ParsePartID(p.ID)
		part.blocks, badBlocks = format.ParseExtents(p.Blocks, u.partBlocks)
		if errors.Join(badRoot, badID, badBlocks) != nil {
			continue
		}
		for at := was.Leaves; len(at) >= len(format.Hash{}); at = at[len(format.Hash{}):] {
			part.leaves = append(part.leaves, format.Hash(at))
		}
		if part.leaves != nil && (int64(len(part.leaves)) != part.blocks.Blocks() ||
			format.RootOf(part.leaves) != part.root) || part.leaves == nil && !part.isSubtree() {
			continue
		}
		u.enter(part)
	}
	u.order++
	return nil
}

// save writes the state file, unless that was done a moment ago and now is not set.
func (s *resuming) save(now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone || !now && time.Since(s.saved) < saveEvery {
		return
	}
	s.saved = time.Now()
	_ = ownfile.Replace(s.path, s.u.state(s.key, s.source.before)) // else less can be resumed
}

// state returns the content of the state file. key has the sealed key.
func (u *BlockUpload) state(key saving.SealedJournalKey, source fileStamp) []byte {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := savedParts{Version: resumeVersion, Upload: u.id, BlockSize: u.blockBytes, Source: source,
		Parts: []saving.Part{},
		Key:   key}
	if u.content != (Digest{}) {
		now.Content = u.content.String()
	}
	for _, p := range u.parts {
		if p.live > 0 {
			now.Parts = append(now.Parts, p.saved())
		}
	}
	for _, a := range u.attempts {
		if a.isSealed() {
			p := sentPart{id: a.id, key: a.key, blocks: a.blocks, root: format.RootOf(a.leaves), leaves: a.leaves}
			now.Parts = append(now.Parts, p.saved())
		}
	}
	raw, err := json.Marshal(now)
	if err != nil {
		panic(err) // our own shape
	}
	return raw
}

func (p *sentPart) saved() saving.Part {
	s := saving.Part{ID: p.id.String(), Key: p.key[:], Blocks: p.blocks.String(), Root: p.etag()}
	if !p.isSubtree() {
		for _, leaf := range p.leaves {
			s.Leaves = append(s.Leaves, leaf[:]...)
		}
	}
	return s
}

// remove ends the journal and removes the state file: the upload has ended.
func (s *resuming) remove(ctx context.Context, c *Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	if s.path == "" {
		return
	}
	if s.key.Journal != "" {
		_ = c.EndJournal(ctx, s.key) // without it, the key opens for who has the account and a copy of the file
	}
	_ = os.Remove(s.path)
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
