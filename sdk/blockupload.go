package sdk

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
)

// BlockUpload is an upload of format version 2 in progress: parts are sent in any order, also at
// the same time, while the content is still being made. It is safe for concurrent use. For each
// block it holds about 40 bytes of memory, and for each part that is being sent 2 MiB.
type BlockUpload struct {
	recording
	base       *Blocks // nil: nothing is taken over
	blockBytes int64
	partBlocks int64
	flow       flow
	meter      *partsMeter // may be nil
	sealed     sync.Pool   // *[]byte, each for one sealed block
	changed    func()      // called after a part arrived; may be nil

	mu       sync.Mutex
	parts    []*sentPart
	owners   map[int64]*[ownersTogether]int32 // by block / ownersTogether: 1 + index in parts; 0 = not sent
	attempts map[int64]*attempt               // by number: parts of which not all is known to have arrived
	number   int64                            // of the next part
	order    int64                            // of the next PutPart
	ended    error                            // why no more parts are taken; nil = they are

	finishing sync.Mutex           // one Finish at a time, which has all below
	last      *finish              // what the newest finalize said, if it may have been recorded
	receipt   *Receipt             // once recorded
	opened    *Blocks              // the recorded file, until somebody takes it; nil = none, or taken
	onFinish  func(content Digest) // called before the first finalize; may be nil
}

// ownersTogether is how many blocks share an entry of BlockUpload.owners.
const ownersTogether = 256

// BeginBlocks begins an upload of format version 2. base, if it is not nil, is an open earlier
// version of the name; [BlockUpload.TakesOver] then tells whether blocks that are not sent are
// taken over from it. base must stay open until the upload ended. blockBytes is the plaintext of a
// block; 0 = that of base, or [format.BlockBytes]. The caller must call [BlockUpload.Abandon] at the
// end, also when the upload is recorded. Free; needs the API key and membership. Errors: those of [Group.Put];
// [ErrUnsupported] where the service or the group has no format version 2.
func (g Group) BeginBlocks(ctx context.Context, base *Blocks, blockBytes int64) (*BlockUpload, error) {
	u, err := g.beginBlocks(bridging(ctx), base, blockBytes, "")
	return u, g.wrap("begin upload", err)
}

// beginBlocks begins an upload, or goes on with the one that has the id resume.
func (g Group) beginBlocks(ctx context.Context, base *Blocks, blockBytes int64, resume string) (*BlockUpload, error) {
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
	if !caps.Dialect.IsOurs() {
		return nil, errNoBlocks
	}
	request := wire.PrepareUploadRequest{GroupID: string(g.ID), Formats: []int{format.Version, format.VersionBlocks}, BlockSize: blockBytes, Resume: resume}
	if base != nil && base.Layout().BlockBytes == blockBytes && base.Entry().Group == g.ID {
		request.Base = string(base.Entry().Ref)
	}
	t, err := g.c.uploads.prepare(ctx, true, request)
	if err != nil {
		return nil, err
	}
	sealedBytes := blockBytes + format.Overhead
	switch {
	case t.parts.url == "":
		t.key.Wipe()
		return nil, errNoBlocks
	case t.parts.bytes < sealedBytes || t.parts.base != "" && t.parts.base != Ref(request.Base) || resume != "" && t.id != resume:
		t.key.Wipe()
		return nil, malformed(errors.New("it offers an upload other than the one asked for"))
	}
	u := &BlockUpload{recording: recording{c: g.c, isOurs: true, key: uploadKey{group: g.ID}, ticket: t}, blockBytes: blockBytes, partBlocks: 1,
		owners: make(map[int64]*[ownersTogether]int32)}
	if t.parts.base != "" {
		u.base = base
	}
	for 2*u.partBlocks*sealedBytes <= min(t.parts.bytes, wire.PartBytes) { // a complete subtree
		u.partBlocks *= 2
	}
	u.flow.most = partsAtOnce * u.partBlocks
	u.flow.budget = u.flow.most
	u.sealed.New = func() any { buf := make([]byte, 0, sealedBytes); return &buf }
	return u, nil
}

// TakesOver reports whether blocks that are not sent are those of the base. Local, free.
func (u *BlockUpload) TakesOver() bool { return u.base != nil }

// PartBlocks returns how many blocks one part may have. Local, free.
func (u *BlockUpload) PartBlocks() int64 { return u.partBlocks }

// BlockBytes returns the plaintext of a block, in bytes. Local, free.
func (u *BlockUpload) BlockBytes() int64 { return u.blockBytes }

// finish is what a finalize says.
type finish struct {
	name     string
	size     int64
	hash     Digest
	meta     format.Metadata // without attributes
	manifest []byte
	content  Digest
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
// see [BlockUpload.Missing].
func (u *BlockUpload) Finish(ctx context.Context, name string, size int64, hash Digest, a Attributes) (Receipt, error) {
	r, err := u.finish(bridging(ctx), name, size, hash, a)
	return r, u.c.wrap("upload "+quote(name), u.key.group, "", err)
}

func (u *BlockUpload) finish(ctx context.Context, name string, size int64, hash Digest, a Attributes) (Receipt, error) {
	u.finishing.Lock()
	defer u.finishing.Unlock()
	if u.last != nil && (u.last.name != name || u.last.size != size || u.last.hash != hash) {
		return Receipt{}, &Error{Op: "check", Kind: ErrInvalid, Err: errMayBeRecorded}
	}
	if u.receipt != nil {
		return *u.receipt, nil
	}
	u.key.name, u.key.digest, u.size, u.attrs = name, hash, size, a
	if err := u.useAttributes(); err != nil {
		return Receipt{}, err
	}
	if u.last == nil {
		if err := u.open(); err != nil {
			return Receipt{}, err
		}
		next, err := u.prepareFinish(ctx)
		if err != nil {
			return Receipt{}, err
		}
		u.last = next
	}
	u.content = u.last.content
	if len(u.last.manifest) > wire.InlineManifestBytes && u.ticket.state == uploadIssued {
		if err := u.putManifest(ctx, u.last.manifest); err != nil {
			u.last = nil
			return Receipt{}, err
		}
	}
	if u.onFinish != nil {
		u.onFinish(u.content)
	}
	var at wire.PrepareRetrieveResult
	r, err := u.record(ctx, func(ctx context.Context, answer *wire.FinalizeUploadResult) error {
		err := u.sendFinalize(ctx, answer)
		at.DataURL, at.TilesURL = answer.DataURL, answer.TilesURL
		return err
	})
	switch u.ticket.state {
	case uploadRecorded:
		u.c.uploads.reported(r.Ref)
		u.receipt = &r
		u.openRecorded(r, at)
		u.end(errors.New("the upload is recorded"))
		return r, nil
	case uploadRefused: // the parts are there: what was wrong may be mended
		u.last = nil
		u.ticket = u.ticket.again()
		if codeOf(err) == wire.CodeMissing {
			_ = u.reconcile(ctx) // without an answer the next Finish finds the same
		}
	case uploadGone:
		u.end(err)
	case uploadUnsure:
		u.refuse(errMayBeRecorded)
	}
	return Receipt{}, err
}

// openRecorded opens the file that was recorded, where the service says how.
func (u *BlockUpload) openRecorded(r Receipt, at wire.PrepareRetrieveResult) {
	if at.DataURL == "" || at.TilesURL == "" {
		return
	}
	f := u.last
	manifest, err := format.ParseManifest(f.manifest, f.meta.Layout().Blocks())
	if err != nil {
		return
	}
	key, err := format.NewKey(u.ticket.key.Bytes())
	if err != nil {
		return
	}
	b := &Blocks{c: u.c, group: u.key.group, meta: f.meta, layout: f.meta.Layout(), manifest: manifest, key: key, dataURL: at.DataURL,
		entry: Entry{Group: u.key.group, Ref: r.Ref, Tx: r.Tx, Hash: r.Hash, Uploader: u.c.account, Time: r.Time, Seq: r.Seq, ChangedSeq: r.Seq, Name: f.name,
			Size: f.size, ContentType: f.meta.ContentType, Content: f.content}}
	b.life, b.cancel = context.WithCancel(context.Background())
	if b.tree, err = u.c.newBlockTree(b.life, b.layout.Blocks(), f.meta.Root, at); err != nil {
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

var errMayBeRecorded = errors.New("a version may have been recorded from this upload: finish it as before, or begin another one")

// codeOf returns the code of a refusal by the service, or "".
func codeOf(err error) string {
	var refused *answerError
	if errors.As(err, &refused) {
		return refused.code
	}
	return ""
}

// sendFinalize sends the finalize of u.last.
func (u *BlockUpload) sendFinalize(ctx context.Context, answer *wire.FinalizeUploadResult) error {
	meta := u.last.meta
	meta.Attributes = u.attributes
	facts, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	request := wire.FinalizeUploadRequest{UploadID: u.ticket.id, FileHash: hashText(u.last.hash), Salt: u.salt(), Format: facts, Versioned: true}
	if len(u.last.manifest) <= wire.InlineManifestBytes {
		request.Manifest = base64.StdEncoding.EncodeToString(u.last.manifest)
	}
	raw, err := json.Marshal(request)
	if err != nil {
		return err
	}
	return u.postFinalize(ctx, jsonBody(raw), answer)
}

// prepareFinish makes manifest, tree and metadata.
func (u *BlockUpload) prepareFinish(ctx context.Context) (*finish, error) {
	l := format.Layout{Size: u.size, BlockBytes: u.blockBytes}
	if err := l.Check(); err != nil {
		return nil, &Error{Op: "check", Kind: ErrInvalid, Err: err}
	}
	if u.key.digest == (Digest{}) && u.base == nil {
		return nil, &Error{Op: "check", Kind: ErrInvalid, Err: errors.New("no hash of the content: it may lack only where blocks are taken over")}
	}
	u.mu.Lock()
	plan, missing := u.plan(l)
	key, ended := *u.ticket.key, u.ended // Abandon may come meanwhile
	u.mu.Unlock()
	defer key.Wipe()
	if ended != nil {
		return nil, ended
	}
	if len(missing) > 0 {
		return nil, &Error{Op: "check", Kind: ErrConflict, Code: wire.CodeMissing, Err: fmt.Errorf("blocks %.60s were not sent", missing)}
	}
	manifest, err := u.manifest(plan, &key)
	if err != nil {
		return nil, err
	}
	f := &finish{name: u.key.name, size: u.size, hash: u.key.digest, manifest: manifest.Encode()}
	if len(f.manifest) > format.MaxManifestBytes {
		return nil, &Error{Op: "check", Kind: ErrTooLarge, Err: fmt.Errorf("the file lies in %d pieces, and %d are allowed: send all blocks of it, in order", len(manifest), format.MaxManifestBytes/format.RunBytes)}
	}
	root, err := u.root(ctx, plan)
	if err != nil {
		return nil, err
	}
	check, err := format.KeyCheck(&key)
	if err != nil {
		return nil, err
	}
	f.meta = format.NewBlocksMetadata(l, root, check, contentType(u.key.name), u.key.name)
	f.content = f.meta.Content(format.ManifestSum(f.manifest))
	return f, nil
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
		if n := len(pieces) - 1; n >= 0 && pieces[n].first+pieces[n].count == i && pieces[n].part == part && (part != nil || pieces[n].run.Part == run.Part && pieces[n].run.Key == run.Key) {
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
	if b := u.Opened(); b != nil {
		_ = b.Close() // it only wipes
	}
}

// end refuses more parts, and wipes the key of the file.
func (u *BlockUpload) end(why error) {
	u.refuse(why)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ticket.key.Wipe()
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
