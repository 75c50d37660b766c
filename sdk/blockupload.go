package sdk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/saving"
	"github.com/svcfs/svcfs/sdk/wire"
)

// BlockUpload is an upload of format version 2 in progress: parts are sent in any order, also at
// the same time, while the content is still being made. It is safe for concurrent use. For each
// block it holds about 40 bytes of memory, and for each part that is being sent 2 MiB.
type BlockUpload struct {
	c          *Client
	group      GroupID
	id         string
	time       time.Time
	after      int64       // known number of records of the group at the beginning
	key        *format.Key // of the file; wiped at the end
	base       *Blocks     // nil: nothing is taken over
	blockBytes int64
	partBlocks int64
	flow       flow
	meter      *partsMeter       // may be nil
	sealed     sync.Pool         // *[]byte, each for one sealed block
	changed    func()            // called when more could be resumed than before; may be nil
	save       *saving.Save      // nil = this upload alone
	note       func(saving.Part) // called with each part that arrives; may be nil

	mu       sync.Mutex
	parts    []*sentPart
	owners   map[int64]*[ownersTogether]int32 // by block / ownersTogether: 1 + index in parts; 0 = not sent
	attempts map[format.PartID]*attempt       // parts of which it is not known whether they arrived
	order    int64                            // of the next PutPart
	content  Digest                           // of the newest finish; zero = none was sent
	ended    error                            // why no more parts are taken; nil = they are

	finishing sync.Mutex // one Finish at a time, which has all below
	last      *finish    // the newest one that may have been recorded
	receipt   *Receipt   // once recorded
	opened    *Blocks    // the recorded file, until somebody takes it; nil = none, or taken
	onFinish  func()     // called before the upload is recorded; may be nil
}

// ownersTogether is how many blocks share an entry of BlockUpload.owners.
const ownersTogether = 256

// BeginBlocks begins an upload of format version 2. base, if it is not nil, is an open earlier
// version of the name; [BlockUpload.TakesOver] then tells whether blocks that are not sent are
// taken over from it. base must stay open until the upload ended. blockBytes is the plaintext of a
// block; 0 = that of base, or [format.BlockBytes]. The caller must call [BlockUpload.Abandon] at the
// end, also when the upload is recorded. begun is the save of which this is the upload, where a program keeps such: it
// is recorded and paid once, however often it is begun. Free; needs the API key and membership. Errors: those of
// [Group.Put]; [ErrUnsupported] where the service or the group has no format version 2.
func (g Group) BeginBlocks(ctx context.Context, base *Blocks, blockBytes int64,
	begun ...saving.Begun) (*BlockUpload, error) {
	u, err := g.beginSave(call.Bridging(ctx), base, blockBytes, begun)
	return u, g.wrap("begin upload", err)
}

func (g Group) beginSave(ctx context.Context, base *Blocks, blockBytes int64,
	begun []saving.Begun) (*BlockUpload, error) {
	if len(begun) == 0 {
		return g.beginBlocks(ctx, base, blockBytes, "")
	}
	of := last(begun)
	id, err := uploadID(&of.Save, time.Time{})
	if err != nil {
		return nil, err
	}
	u, err := g.beginBlocks(ctx, base, blockBytes, id)
	if err == nil {
		err = u.use(ctx, &of)
	}
	return u, err
}

// use goes on with a save. On error the upload has ended.
func (u *BlockUpload) use(ctx context.Context, of *saving.Begun) (err error) {
	defer func() {
		if err != nil {
			u.Abandon()
		}
	}()
	u.save, u.note = &of.Save, of.Note
	key, err := of.Save.FileKey()
	if err != nil {
		return err
	}
	u.key.Wipe()
	u.key, u.after = key, countBefore(u.save, u.after)
	if len(of.Sent) == 0 {
		return nil
	}
	list, err := u.listParts(ctx, call.Free, "")
	if err != nil {
		return err
	}
	return u.adopt(list, of.Sent)
}

// beginBlocks begins an upload under an id, "" = a new one.
func (g Group) beginBlocks(ctx context.Context, base *Blocks, blockBytes int64, id string) (*BlockUpload, error) {
	if blockBytes == 0 {
		blockBytes = format.BlockBytes
		if base != nil {
			blockBytes = base.Layout().BlockBytes
		}
	}
	if err := (format.Layout{Size: 1, BlockBytes: blockBytes}).Check(); err != nil {
		return nil, &Error{Op: "check", Kind: ErrInvalid, Err: err}
	}
	caps, err := g.c.Capabilities(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case !caps.Dialect.IsOurs():
		return nil, errNoBlocks
	case !caps.TakesSealed():
		return nil, &Error{Op: "begin upload", Kind: ErrUnavailable,
			Err: errors.New("the service has no key of its vault for uploads: try again later, and tell the operator " +
				"if it stays so")}
	}
	newest, err := g.Settings().Format(ctx)
	if err != nil {
		return nil, err
	}
	if newest < format.VersionBlocks {
		return nil, errNoBlocks
	}
	if id == "" {
		if id, err = saving.NewID(time.Now()); err != nil {
			return nil, err
		}
	}
	key, err := format.RandomKey()
	if err != nil {
		return nil, err
	}
	u := g.newBlockUpload(id, key, blockBytes)
	if base != nil && base.Layout().BlockBytes == blockBytes && base.Entry().Group == g.ID &&
		base.Entry().Uploader == g.c.account {
		u.base = base
	}
	return u, nil
}

// newBlockUpload returns an upload without parts. It owns the key.
func (g Group) newBlockUpload(id string, key *format.Key, blockBytes int64) *BlockUpload {
	sealedBytes := blockBytes + format.Overhead
	u := &BlockUpload{c: g.c, group: g.ID, id: id, time: time.Now(), after: g.c.memory.Group(string(g.ID)).Number,
		key:        key,
		blockBytes: blockBytes, partBlocks: 1, owners: make(map[int64]*[ownersTogether]int32)}
	for 2*u.partBlocks*sealedBytes <= wire.PartBytes { // a complete subtree
		u.partBlocks *= 2
	}
	u.flow.most = partsAtOnce * u.partBlocks
	u.flow.budget = u.flow.most
	u.sealed.New = func() any { buf := make([]byte, 0, sealedBytes); return &buf }
	return u
}

// TakesOver reports whether blocks that are not sent are those of the base. Local, free.
func (u *BlockUpload) TakesOver() bool { return u.base != nil }

// PartBlocks returns how many blocks one part may have. Local, free.
func (u *BlockUpload) PartBlocks() int64 { return u.partBlocks }

// BlockBytes returns the plaintext of a block, in bytes. Local, free.
func (u *BlockUpload) BlockBytes() int64 { return u.blockBytes }

// finish is the record of an upload that is sent.
type finish struct {
	sealed   *Sealed // its ciphertext is the manifest
	manifest format.Manifest
}

// is reports whether the record is that of a file.
func (f *finish) is(name string, size int64, hash Digest) bool {
	return f.sealed.Name() == name && f.sealed.Size() == size && f.sealed.Hash() == hash
}

// Finish records the upload as a new version of name. Every block of size bytes, at least one, must
// have been sent, or be taken over; no PutPart may be in progress. hash is the SHA-256 of the
// content, or zero where [BlockUpload.TakesOver] and it is not known. After a success, and after
// an error that leaves open whether the upload was recorded, call Finish again only with the same
// name, size and hash.
//
// Finish costs one upload; never twice, also if it is called again after an error. It needs the
// API key and membership. Errors: those of [Group.Put]; code [wire.CodeBase] if nothing can be
// taken over any more: begin again without a base; code [wire.CodeMissing] if blocks must be sent,
// see [BlockUpload.Missing]. base is that of [PutOptions].
func (u *BlockUpload) Finish(ctx context.Context, name string, size int64, hash Digest, base *Ref,
	a Attributes) (Receipt, error) {
	o := options{save: u.save, base: baseOf(base), attrs: a}
	r, err := u.finish(call.Bridging(ctx), name, size, hash, o)
	return r, u.c.wrap("upload "+quote(name), u.group, "", err)
}

func (u *BlockUpload) finish(ctx context.Context, name string, size int64, hash Digest, o options) (Receipt, error) {
	u.finishing.Lock()
	defer u.finishing.Unlock()
	if u.last != nil && !u.last.is(name, size, hash) {
		return Receipt{}, &Error{Op: "check", Kind: ErrInvalid, Err: errMayBeRecorded}
	}
	if u.receipt != nil {
		return *u.receipt, nil
	}
	repeated := u.last != nil
	if !repeated {
		if err := u.open(); err != nil {
			return Receipt{}, err
		}
		next, err := u.prepareFinish(ctx, uploadKey{group: u.group, name: name, digest: hash}, size, o)
		if err != nil {
			return Receipt{}, err
		}
		u.last = next
	}
	s := u.last.sealed
	u.mu.Lock()
	u.content = s.contentID
	u.mu.Unlock()
	if u.onFinish != nil {
		u.onFinish()
	}
	r, at, err := u.c.small.record(ctx, s, o.attrs, repeated)
	switch {
	case err == nil:
		u.c.uploads.reported(r.Ref)
		u.receipt = &r
		u.openRecorded(r, at)
		u.end(errors.New("the upload is recorded"))
	case s.mayBeRecorded():
		u.refuse(errMayBeRecorded)
	default: // the parts are there: what was wrong may be mended
		s.Wipe()
		u.last = nil
		if codeOf(err) == wire.CodeMissing {
			_ = u.reconcile(ctx) // without an answer the next Finish finds the same
		}
	}
	return r, err
}

// takeUnsure returns what may have been recorded, and gives it up: the caller sends it again.
func (u *BlockUpload) takeUnsure() *Sealed {
	u.finishing.Lock()
	defer u.finishing.Unlock()
	if u.last == nil || u.receipt != nil {
		return nil
	}
	s := u.last.sealed
	u.last = nil
	return s
}

// openRecorded opens the file that was recorded, where the service says how.
func (u *BlockUpload) openRecorded(r Receipt, answer wire.FinalizeUploadResult) {
	if answer.DataURL == "" || answer.TilesURL == "" {
		return
	}
	s := u.last.sealed
	key, err := format.NewKey(u.key.Bytes())
	if err != nil {
		return
	}
	at := wire.PrepareRetrieveResult{DataURL: answer.DataURL, TilesURL: answer.TilesURL}
	meta := s.facts
	meta.Attributes = ""
	b := &Blocks{c: u.c, group: u.group, meta: meta, layout: meta.Layout(), manifest: u.last.manifest, key: key,
		dataURL: at.DataURL,
		entry: Entry{Group: u.group, Ref: r.Ref, Tx: r.Tx, Hash: r.Hash, Uploader: u.c.account, Time: r.Time,
			Seq: r.Seq, ChangedSeq: r.Seq, Name: meta.Filename,
			Size: s.size, ContentType: meta.ContentType, Content: s.contentID}}
	b.life, b.cancel = context.WithCancel(context.Background())
	if b.tree, err = u.c.blocks.newTree(b.life, b.layout.Blocks(), meta.Root, at); err != nil {
		_ = b.Close() // it only wipes
		return
	}
	u.opened = b
}

// Opened returns the file that Finish recorded, open for reading: who sent the content needs no
// claim to go on with it. It returns nil where the service does not offer that, before Finish has
// succeeded, and after the first call. The caller closes the result. Local, free.
func (u *BlockUpload) Opened() *Blocks {
	u.finishing.Lock()
	defer u.finishing.Unlock()
	b := u.opened
	u.opened = nil
	return b
}

var errMayBeRecorded = errors.New("a version may have been recorded from this upload: finish it as before, or begin " +
	"another one")

// codeOf returns the code of a refusal by the service, or "".
func codeOf(err error) string {
	var refused *call.Refusal
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// prepareFinish makes manifest, tree and metadata, and seals the key of the file with them.
func (u *BlockUpload) prepareFinish(ctx context.Context, k uploadKey, size int64, o options) (*finish, error) {
	l := format.Layout{Size: size, BlockBytes: u.blockBytes}
	if err := l.Check(); err != nil {
		return nil, &Error{Op: "check", Kind: ErrInvalid, Err: err}
	}
	if k.digest == (Digest{}) && u.base == nil {
		return nil, &Error{Op: "check", Kind: ErrInvalid,
			Err: errors.New("no hash of the content: it may lack only where blocks are taken over")}
	}
	u.mu.Lock()
	plan, missing := u.plan(l)
	key, ended := *u.key, u.ended // Abandon may come meanwhile
	u.mu.Unlock()
	defer key.Wipe()
	if ended != nil {
		return nil, ended
	}
	if len(missing) > 0 {
		return nil, &Error{Op: "check", Kind: ErrConflict, Code: wire.CodeMissing,
			Err: fmt.Errorf("blocks %.60s were not sent", missing)}
	}
	manifest, err := u.manifest(plan, &key)
	if err != nil {
		return nil, err
	}
	encoded := manifest.Encode()
	if len(encoded) > format.MaxManifestBytes {
		return nil, &Error{Op: "check", Kind: ErrTooLarge,
			Err: fmt.Errorf("the file lies in %d pieces, and %d are allowed: send all blocks of it, in order",
				len(manifest), format.MaxManifestBytes/format.RunBytes)}
	}
	root, err := u.root(ctx, plan)
	if err != nil {
		return nil, err
	}
	check, err := format.KeyCheck(&key)
	if err != nil {
		return nil, err
	}
	text, err := checkAttributes(o.attrs, k.digest)
	if err != nil {
		return nil, err
	}
	facts := format.NewBlocksMetadata(l, root, check, contentType(k.name), k.name)
	content := facts.Content(format.ManifestSum(encoded))
	facts.Attributes = text
	s := &Sealed{account: u.c.account, time: u.time, size: size, contentID: content, after: u.after, facts: facts,
		attrs: o.attrs, cipher: bytes.NewReader(encoded)}
	if s.key, err = format.NewKey(key.Bytes()); err != nil {
		return nil, err
	}
	o.from = ""
	for _, p := range plan {
		if p.part == nil {
			o.from = string(u.base.Entry().Ref)
		}
	}
	if err := u.c.uploads.sealHead(ctx, s, k, u.id, sha256.Sum256(encoded), int64(len(encoded)), o); err != nil {
		s.Wipe()
		return nil, err
	}
	return &finish{s, manifest}, nil
}

// piece is a run of blocks that come from one part.
type piece struct {
	first, count int64
	part         *sentPart   // nil: taken over
	run          *format.Run // of the base, if part is nil
}

// plan says where the blocks of a file come from, and which are missing. The caller holds mu.
func (u *BlockUpload) plan(l format.Layout) (pieces []piece, missing format.Extents) {
	last := l.Blocks() - 1
	for i := int64(0); i <= last; i++ {
		part := u.owner(i)
		var run *format.Run
		switch {
		case part == nil && !u.isTaken(l, i), part != nil && !part.holds(i, l):
			missing = missing.Add(i)
			continue
		case part == nil:
			run = u.base.manifest.Find(i)
		}
		if n := len(pieces) - 1; n >= 0 && pieces[n].first+pieces[n].count == i && pieces[n].part == part &&
			(part != nil || pieces[n].run.Part == run.Part && pieces[n].run.Key == run.Key) {
			pieces[n].count++
			continue
		}
		pieces = append(pieces, piece{i, 1, part, run})
	}
	return pieces, missing
}

// isTaken reports whether the base has block i as a file with the layout l needs it.
func (u *BlockUpload) isTaken(l format.Layout, i int64) bool {
	if u.base == nil {
		return false
	}
	from := u.base.Layout()
	return i < from.Blocks() && from.Plain(i) == l.Plain(i)
}

// manifest wraps the keys of all parts under the file key.
func (u *BlockUpload) manifest(plan []piece, fileKey *format.Key) (format.Manifest, error) {
	m := make(format.Manifest, len(plan))
	wrapped := make(map[[format.WrappedKeyBytes]byte][format.WrappedKeyBytes]byte) // by that of the base
	for i, p := range plan {
		m[i] = format.Run{First: p.first, Count: p.count}
		if p.part != nil {
			m[i].Part, m[i].Key = p.part.id, p.part.key
			continue
		}
		m[i].Part = p.run.Part
		var known bool
		if m[i].Key, known = wrapped[p.run.Key]; known {
			continue
		}
		key, err := u.base.partKey(p.run)
		if err != nil {
			return nil, err
		}
		m[i].Key, err = format.WrapKey(fileKey, key)
		key.Wipe()
		if err != nil {
			return nil, err
		}
		wrapped[p.run.Key] = m[i].Key
	}
	return m, nil
}

// root returns the root of the tree over all blocks.
func (u *BlockUpload) root(ctx context.Context, plan []piece) (root format.Hash, err error) {
	var tree format.Tree
	var groups []format.Hash // of the base, of groupLeaves leaves each
	if u.base != nil {
		if groups, err = u.base.groupRoots(ctx); err != nil {
			return root, err
		}
	}
	for _, p := range plan {
		for i, end := p.first, p.first+p.count; i < end; {
			switch {
			case p.part != nil && p.part.leaves == nil: // plan made sure that it is complete
				tree.AddComplete(p.part.root, p.count)
				i = end
			case p.part != nil:
				tree.Add(p.part.leaf(i))
				i++
			case i%groupLeaves == 0 && i+groupLeaves <= end && i/groupLeaves < int64(len(groups)):
				tree.AddComplete(groups[i/groupLeaves], groupLeaves)
				i += groupLeaves
			default:
				to := min(end, (i/groupLeaves+1)*groupLeaves)
				leaves, err := u.base.leaves(ctx, i, to-i)
				if err != nil {
					return root, err
				}
				for _, leaf := range leaves {
					tree.Add(leaf)
				}
				i = to
			}
		}
	}
	return tree.Root(), nil
}

// Missing returns which blocks of a file of size bytes must be sent before Finish. Local, free.
func (u *BlockUpload) Missing(size int64) format.Extents {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, missing := u.plan(format.Layout{Size: size, BlockBytes: u.blockBytes})
	return missing
}

// Abandon ends an upload, and wipes its keys. Parts that are being sent fail. An upload that is
// recorded stays recorded. The service drops the parts of any other a day later. Local, free.
func (u *BlockUpload) Abandon() {
	u.end(errors.New("the upload was given up"))
	if s := u.takeUnsure(); s != nil {
		s.Wipe()
	}
	if b := u.Opened(); b != nil {
		_ = b.Close() // it only wipes
	}
}

// end refuses more parts, and wipes the key of the file.
func (u *BlockUpload) end(why error) {
	u.refuse(why)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.key.Wipe()
}

// refuse lets no more parts be sent.
func (u *BlockUpload) refuse(why error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended == nil {
		u.ended = &Error{Op: "check", Kind: ErrInvalid, Err: why}
	}
}

// open returns why the upload takes no more parts, or nil.
func (u *BlockUpload) open() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended
}
