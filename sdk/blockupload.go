package sdk

import (
	"context"
	"errors"
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
	set, err := g.Settings().Get(ctx)
	if err != nil {
		return nil, err
	}
	if set.Format < format.VersionBlocks {
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

// allow lets parts be sent again that were refused for this reason.
func (u *BlockUpload) allow(why error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if errors.Is(u.ended, why) {
		u.ended = nil
	}
}

// open returns why the upload takes no more parts, or nil.
func (u *BlockUpload) open() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended
}
