package tree

import (
	"context"
	"errors"
	"fmt"

	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/sdk"
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
