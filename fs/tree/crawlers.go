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
// tell their type, with O_NOATIME, as GIO does. The same programs copy files when
// they are asked to, without it. So does the file dialog of every GTK program; it
// is known by its library, which backup programs, that use the flag too, do not load.
// The kernel lets only a file's owner use the flag, and GIO then looks without it:
// 4 KiB, as libfm below, where its copies read more or ask for attributes first.
func fileManagers() []string {
	return []string{libfmManager, "nautilus", "nemo", "caja", "thunar", "Thunar", "xdg-desktop-por", "gio"}
}

const libGIO = "/libgio-2.0.so"

// kdeManagers look in their first thread, which has the program's name, and that
// does nothing else with files. Copies and previews are made by workers: threads
// with a name of their own, or processes that load what they are started for.
func kdeManagers() []string { return []string{"dolphin", "konqueror", "krusader", "plasmashell"} }

func kdeWorkers() []string { return []string{"kioslave5", "kioworker"} }

const kdePreview = "/kio/thumbnail.so"

// The file manager of libfm also looks by itself, as it copies: it reads 4 KiB,
// and copying more, but for a file that is not longer. What sets the copy apart then
// is that GIO first asks for the extended attributes, which go along, in the thread
// that opened the file. It makes previews of small pictures itself, in a thread of
// this name.
const (
	libfmManager = "pcmanfm"
	libfmPeek    = 4 << 10
	libfmPreview = "loader"
)

// mayPeek reports whether an open may be no more than a look at the type, so that
// the content is retrieved with the first read that wants more.
func (f *File) mayPeek(flags OpenFlags) bool {
	if f.t.cfg.AllowCrawlers || flags.Caller.Name == nil || flags.Write || f.isStaged() || f.entry.Load() == nil || f.isCached() {
		return false
	}
	name := flags.Caller.Name()
	if name != libfmManager && (flags.NoAtime || !slices.Contains(fileManagers(), name) || !f.t.isForeign(f.entry.Load())) {
		return false
	}
	f.copier.CompareAndSwap(flags.Caller.PID, 0) // what it copied before
	return true
}

// AttributesAsked notes that a thread asked which extended attributes there are.
func (f *File) AttributesAsked(thread uint32) { f.copier.Store(thread) }

// loadPeeked retrieves what opening did not, once n bytes from off are more than a
// look at the type.
func (h *Handle) loadPeeked(ctx context.Context, off int64, n int) error {
	copies := h.f.copier.Load() == h.flags.Caller.PID
	if h.peeks && !copies && off == 0 && n <= libfmPeek && !h.f.isCached() {
		return h.f.refuseReader(h.flags.Caller.Name())
	}
	return h.f.load(ctx, h)
}

// refuseCrawler keeps a known crawler from spending: content that is in memory
// it may read.
func (f *File) refuseCrawler(flags OpenFlags) error {
	if f.t.cfg.AllowCrawlers || flags.Caller.Name == nil || f.isCached() {
		return nil
	}
	if name := flags.Caller.Name(); flags.Caller.crawls(name, flags.NoAtime) {
		return f.refuseReader(name)
	}
	return nil
}

// crawls reports whether the program of that name reads by itself, not because it
// was asked to.
func (c Caller) crawls(name string, noAtime bool) bool {
	switch {
	case noAtime && slices.Contains(fileManagers(), name):
	case noAtime && c.hasLoaded(libGIO): // a file dialog
	case name == libfmManager && c.isThread(libfmPreview):
	case slices.Contains(kdeManagers(), name) && c.isThread(name):
	case slices.Contains(kdeWorkers(), name) && c.hasLoaded(kdePreview):
	case slices.ContainsFunc(crawlers(), func(known string) bool { return strings.HasPrefix(name, known) }):
	default:
		return false
	}
	return true
}

func (c Caller) isThread(name string) bool { return c.Thread != nil && c.Thread() == name }

func (c Caller) hasLoaded(library string) bool { return c.Loaded != nil && c.Loaded(library) }

func (f *File) refuseReader(name string) error {
	f.t.counts.crawlers.Add(1)
	return &Error{Class: ClassAccess, Err: errText(name + " makes previews or an index, and reading this file would cost"),
		Hint: "Open it with another program once, or mount with --allow-crawlers."}
}
