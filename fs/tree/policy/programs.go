package policy

import (
	"slices"
	"strings"
)

// Caller is the process behind a request. The zero value is unknown.
type Caller struct {
	PID uint32
	// Name tells the program's name, at most 15 bytes as in /proc/PID/comm, ""
	// when unknown. It is called only when something hangs on it; may be nil.
	Name func() string
	// Thread tells the name of the thread that asks, in the same way.
	Thread func() string
	// Loaded tells whether the program has loaded a library or plugin, by a part of
	// its path. Like Name.
	Loaded func(library string) bool
}

// MayPeek reports whether the program may want to read no more than it takes to know a
// file's type, so that the content is retrieved with the first read that wants more.
// foreign: the file is another user's.
func (c Caller) MayPeek(noAtime, foreign bool) bool {
	if c.Name == nil {
		return false
	}
	name := c.Name()
	return name == libfmManager || !noAtime && foreign && slices.Contains(fileManagers(), name)
}

// IsPeek reports whether a read is such a look at the type.
func IsPeek(off int64, n int) bool { return off == 0 && n <= libfmPeek }

// Crawls reports whether the program reads by itself, for a preview or an index, not
// because it was asked to (R5).
func (c Caller) Crawls(noAtime bool) bool {
	if c.Name == nil {
		return false
	}
	name := c.Name()
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
