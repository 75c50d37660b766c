package tree

import (
	"context"
	"errors"
	"fmt"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
)

// origin is where the blocks of a file come from, a [content.Origin].
type origin struct {
	f *File // that was opened first
	e *sdk.Entry
}

// Open has the service open the file, which costs one claim. What waits on this disk is free.
func (o *origin) Open(ctx context.Context, ahead ...int64) (blocks content.Blocks, err error) {
	t, g := o.f.t, o.f.groupNow()
	if t.blocks == nil {
		return nil, &Error{Class: ClassUnsupported,
			Err: errors.New("the file is of format version 2, which this service does not have")}
	}
	entry := o.e
	if isWaiting(entry) {
		if blocks, entry, err = g.openWaiting(entry); blocks != nil || err != nil {
			return blocks, err
		}
	}
	err = t.spent.Spend("retrieve", func() (sdk.Amount, error) {
		blocks, err = t.blocks.OpenBlocks(ctx, *entry, ahead...)
		if err != nil {
			return sdk.Amount{}, err
		}
		return blocks.Fee(), nil
	})
	if err != nil {
		o.Failed(err)
		return nil, err
	}
	if l := blocks.Layout(); l.BlockBytes < 1 || l.Size < 1 || o.e.Size != sdk.SizeUnknown && l.Size != o.e.Size {
		_ = blocks.Close()
		return nil, &Error{Class: ClassCorrupt, Err: fmt.Errorf("the file has %d bytes in blocks of %d, and the "+
			"ledger recorded %d", l.Size, l.BlockBytes, o.e.Size)}
	}
	t.counts.retrieves.Add(1)
	g.list.NoteMember()
	return blocks, nil
}

// Check refuses a version that is known to be wrong.
func (o *origin) Check() error { return o.f.groupNow().knownWrong(o.e.Ref) }

// Failed remembers a version that is wrong.
func (o *origin) Failed(err error) { o.f.groupNow().noteWrong(o.e.Ref, err) }

// Explain turns the error of a fetch into that of a read: whoever has the file open and may
// not read it any more lost it (M5).
func (o *origin) Explain(ctx context.Context, err error) error {
	switch wrapRemote("", "", err).Class {
	case ClassAccess:
		_ = o.f.groupNow().failed(ctx, "read", o.f.Path(), err)
		return content.ErrTaken
	case ClassNotExist:
		return content.ErrTaken
	}
	return err
}

// retrieve fetches e. It runs once for all openers that wait for it.
func (f *File) retrieve(ctx context.Context, e *sdk.Entry, room *cache.Room) (cache.Buffer, error) {
	if isLink(e) {
		return f.groupNow().targetBuffer(e)
	}
	if isWaiting(e) {
		if err := reserve(ctx, room, e.Size); err != nil {
			return nil, err
		}
		buf, err := f.t.contents.Pool.Get(0)
		if err != nil {
			return nil, &Error{Class: ClassNoMemory, Err: err}
		}
		if err := f.t.queue.Read(e, buf); err != nil {
			buf.Release()
			return nil, err
		}
		return buf, nil
	}
	if e.Size > f.t.cfg.MaxFileBytes {
		return nil, &Error{Class: ClassTooBig, Err: errors.New("the file is larger than this mount allows"),
			Hint: "Mount again with a larger --max-file-size."}
	}
	if err := f.groupNow().knownWrong(e.Ref); err != nil {
		return nil, err
	}
	if err := reserve(ctx, room, e.Size); err != nil {
		return nil, err
	}
	buf, err := f.t.contents.Pool.Get(0)
	if err != nil {
		return nil, &Error{Class: ClassNoMemory, Err: err}
	}
	buf.Within(func(bytes int64) error { return await(ctx, bytes, room.Take) })
	defer buf.Within(nil)
	err = f.t.spent.Spend("retrieve", func() (sdk.Amount, error) {
		return f.t.remote.Retrieve(ctx, *e, buf)
	})
	if err != nil {
		buf.Release()
		f.groupNow().noteWrong(e.Ref, err)
		return nil, err
	}
	f.t.counts.retrieves.Add(1)
	f.groupNow().list.NoteMember()
	return buf, nil
}

// reserve waits until the content of a file fits beside files that are open or on their
// way (threat 8), before it is paid for. Where the size is unknown, the bytes wait as they
// come.
func reserve(ctx context.Context, room *cache.Room, size int64) error {
	if size == sdk.SizeUnknown {
		return nil
	}
	return await(ctx, mem.FootprintOf(size), room.Reserve)
}

// await waits for memory: of [cache.Room] take is Reserve or Take.
func await(ctx context.Context, bytes int64, take func(context.Context, int64) error) error {
	ctx, cancel := context.WithTimeout(ctx, roomPatience)
	defer cancel()
	err := take(ctx, bytes)
	if !errors.Is(err, cache.ErrNoRoom) {
		return err
	}
	return &Error{Class: ClassNoMemory, Err: errors.New("files that are open or on their way hold all of the memory " +
		"for content"),
		Hint: "Close other files first, or mount with a larger --cache-size."}
}

// noteWrong remembers an upload whose content differs from its record, so that it is paid
// for once. Another version is another upload, and [Tree.Refresh] forgets.
func (g *group) noteWrong(ref sdk.Ref, err error) {
	if !errors.Is(err, sdk.ErrWrongContent) {
		return
	}
	g.dir.t.mu.Lock()
	defer g.dir.t.mu.Unlock()
	if g.wrong == nil {
		g.wrong = make(map[sdk.Ref]error)
	}
	g.wrong[ref] = err
}

// knownWrong refuses an upload that noteWrong remembers.
func (g *group) knownWrong(ref sdk.Ref) error {
	g.dir.t.mu.RLock()
	defer g.dir.t.mu.RUnlock()
	if g.wrong[ref] == nil {
		return nil
	}
	return wrongContent(g.wrong[ref])
}

func wrongContent(err error) *Error {
	return &Error{Class: ClassCorrupt, Err: err,
		Hint: "Ask the uploader to save the file again. This version is not fetched and paid for again; 'svcfs " +
			"refresh' allows another attempt."}
}
