package tree

import (
	"context"
	"slices"
	"strings"
)

// crawlers are programs that read everything for a preview or an index (R5), by
// the first bytes of their names, as /proc/PID/comm cuts them to 15.
func crawlers() []string {
	return []string{"tumblerd", "tracker-miner", "tracker-extract", "localsearch", "baloo_file", "updatedb", "plocate-build",
		"recollindex", "zeitgeist", "gdk-pixbuf-thum", "evince-thumbnai", "totem-video-thu", "ffmpegthumbnail", "gnome-thumbnail",
		"gnome-font-thum", "gsf-office-thum", "papers-thumbnai", "raw-thumbnailer", "webp-pixbuf-thu", "thumbnail", "kioslave-thumb"}
}

// fileManagers list folders (R4), and for that look into files whose names do not
// tell their type. The same program copies files when it is asked to, so it is
// what it reads that tells the two apart.
func fileManagers() []string {
	return []string{"pcmanfm", "nautilus", "nemo", "caja", "thunar", "Thunar", "dolphin"}
}

const (
	// peekBytes is the most that file managers read of a file to guess its type
	// (GIO and libfm 4 KiB, Qt 16 KiB). Copying reads more at a time.
	peekBytes = 16 << 10
	// previewThread is the thread in which libfm makes previews by itself.
	previewThread = "loader"
)

// mayPeek reports whether an open may be no more than a look at the type, so that
// the content is retrieved with the first read that wants more.
func (f *File) mayPeek(flags OpenFlags) bool {
	if f.t.cfg.AllowCrawlers || flags.Caller.Name == nil || flags.Write || f.staged.Load() || f.entry.Load() == nil || f.isCached() {
		return false
	}
	return slices.Contains(fileManagers(), flags.Caller.Name())
}

// loadPeeked retrieves what opening did not, once n bytes from off are more than a
// look at the type.
func (h *Handle) loadPeeked(ctx context.Context, off int64, n int) error {
	if h.peeks && off == 0 && n <= peekBytes && !h.f.isCached() {
		return h.f.refuseReader(h.flags.Caller.Name())
	}
	return h.f.load(ctx, h)
}

// refuseCrawler keeps a known crawler from spending: content that is in memory
// it may read.
func (f *File) refuseCrawler(caller Caller) error {
	if f.t.cfg.AllowCrawlers || caller.Name == nil || f.isCached() {
		return nil
	}
	name := caller.Name()
	preview := caller.Thread != nil && slices.Contains(fileManagers(), name) && caller.Thread() == previewThread
	if !preview && !slices.ContainsFunc(crawlers(), func(known string) bool { return strings.HasPrefix(name, known) }) {
		return nil
	}
	return f.refuseReader(name)
}

func (f *File) refuseReader(name string) error {
	f.t.counts.crawlers.Add(1)
	return &Error{Class: ClassAccess, Err: errText(name + " makes previews or an index, and reading this file would cost"),
		Hint: "Open it with another program once, or mount with --allow-crawlers."}
}
