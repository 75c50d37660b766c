package sdk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
)

// finish is the record of an upload that is sent.
type finish struct {
	sealed   *Sealed // its ciphertext is the manifest
	manifest format.Manifest
}

// is reports whether the record is that of a file.
func (f *finish) is(name string, size int64, hash Digest) bool {
	return f.sealed.Name() == name && f.sealed.size == size && f.sealed.hash() == hash
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
// see [BlockUpload.Missing]. Of [PutOptions], Compress and Progress mean nothing here.
func (u *BlockUpload) Finish(ctx context.Context, name string, size int64, hash Digest, opts ...PutOptions) (Receipt,
	error) {
	o := asked(opts)
	o.save = u.save
	r, err := u.finish(call.Bridging(ctx), name, size, hash, o)
	return r, u.c.wrap("upload "+quote(name), u.group, "", err)
}

func (u *BlockUpload) finish(ctx context.Context, name string, size int64, hash Digest, o options) (Receipt, error) {
	u.finishing.Lock()
	defer u.finishing.Unlock()
	if u.last != nil && !u.last.is(name, size, hash) {
		return Receipt{}, &Error{Op: "check", Kind: ErrInvalid, Unsure: true, Err: errMayBeRecorded}
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
	case isUnsure(err):
		u.refuse(errMayBeRecorded)
	default: // the parts are there: what was wrong may be mended
		u.allow(errMayBeRecorded)
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
	plan, key, err := u.planned(l)
	if err != nil {
		return nil, err
	}
	defer key.Wipe()
	manifest, encoded, err := u.encoded(plan, key)
	if err != nil {
		return nil, err
	}
	root, err := u.root(ctx, plan)
	if err != nil {
		return nil, err
	}
	check, err := format.KeyCheck(key)
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
	if slices.ContainsFunc(plan, func(p piece) bool { return p.part == nil }) {
		o.from = string(u.base.Entry().Ref)
	}
	if err := u.c.uploads.sealHead(ctx, s, k, u.id, sha256.Sum256(encoded), int64(len(encoded)), o); err != nil {
		s.Wipe()
		return nil, err
	}
	return &finish{s, manifest}, nil
}

// planned returns the pieces of the file, and a copy of its key, because Abandon may come meanwhile. The caller wipes
// the copy.
func (u *BlockUpload) planned(l format.Layout) ([]piece, *format.Key, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended != nil {
		return nil, nil, u.ended
	}
	plan, missing := u.plan(l)
	if len(missing) > 0 {
		return nil, nil, &Error{Op: "check", Kind: ErrConflict, Code: wire.CodeMissing,
			Err: fmt.Errorf("blocks %.60s were not sent", missing)}
	}
	key, err := format.NewKey(u.key.Bytes())
	return plan, key, err
}

// encoded returns the manifest of the pieces, and how it is recorded.
func (u *BlockUpload) encoded(plan []piece, key *format.Key) (format.Manifest, []byte, error) {
	manifest, err := u.manifest(plan, key)
	if err != nil {
		return nil, nil, err
	}
	encoded := manifest.Encode()
	if len(encoded) > format.MaxManifestBytes {
		return nil, nil, &Error{Op: "check", Kind: ErrTooLarge,
			Err: fmt.Errorf("the file lies in %d pieces, and %d are allowed: send all blocks of it, in order",
				len(manifest), format.MaxManifestBytes/format.RunBytes)}
	}
	return manifest, encoded, nil
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
