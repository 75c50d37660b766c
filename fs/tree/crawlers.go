package tree

import (
	"context"
	"errors"

	"github.com/svcfs/svcfs/fs/tree/policy"
)

// mayPeek reports whether an open may be no more than a look at the type.
func (f *File) mayPeek(flags OpenFlags) bool {
	if f.t.cfg.AllowCrawlers || flags.Write || f.now.IsStaged() || f.entry.Load() == nil || f.isCached() ||
		!flags.Caller.MayPeek(flags.NoAtime, f.t.isForeign(f.entry.Load())) {
		return false
	}
	f.copier.CompareAndSwap(flags.Caller.PID, 0) // an earlier copy does not count
	return true
}

// AttributesAsked notes that a thread asked which extended attributes there are.
func (f *File) AttributesAsked(thread uint32) { f.copier.Store(thread) }

// loadPeeked retrieves the content that opening left out, once n bytes from off are more
// than a look at the type.
func (h *Handle) loadPeeked(ctx context.Context, off int64, n int) error {
	copies := h.f.copier.Load() == h.flags.Caller.PID
	if !copies && policy.IsPeek(off, n) && !h.f.isCached() {
		return h.f.refuseReader(h.flags.Caller.Name())
	}
	return h.f.load(ctx, h)
}

// refuseCrawler keeps a known crawler from spending: content that is in memory
// it may read.
func (f *File) refuseCrawler(flags OpenFlags) error {
	if f.t.cfg.AllowCrawlers || f.isCached() || !flags.Caller.Crawls(flags.NoAtime) {
		return nil
	}
	return f.refuseReader(flags.Caller.Name())
}

func (f *File) refuseReader(name string) error {
	f.t.counts.crawlers.Add(1)
	return &Error{Class: ClassAccess, Err: errors.New(name +
		" makes previews or an index, and reading this file would cost"),
		Hint: "Open it with another program once, or mount with --allow-crawlers."}
}
