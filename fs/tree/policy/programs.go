package policy

import (
	"slices"
	"strings"
)

// Caller is the process behind a request. The zero value is unknown.
type Caller struct {
	PID uint32
	// Process returns the process of PID, which may be the number of a thread; 0 when it is not known.
	// nil = PID is a process.
	Process func() uint32
	// Name returns the program's name, at most 15 bytes as in /proc/PID/comm, "" when
	// unknown. It is called only when a decision depends on it; may be nil.
	Name func() string
	// Thread returns the name of the calling thread, in the same way.
	Thread func() string
	// Loaded reports whether the program has loaded a library or plugin, given a part of
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

// Crawls reports whether the program reads for a preview or an index, and no user asked
// it to read (R5).
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
	return []string{"tumblerd", "tracker-miner", "tracker-extract", "localsearch", "baloo_file", "updatedb",
		"plocate-build",
		"recollindex", "zeitgeist", "gdk-pixbuf-thum", "evince-thumbnai", "totem-video-thu", "ffmpegthumbnail",
		"gnome-thumbnail",
		"gnome-font-thum", "gsf-office-thum", "papers-thumbnai", "raw-thumbnailer", "webp-pixbuf-thu", "thumbnail",
		"kioslave-thumb"}
}

// fileManagers list folders (R4). To learn the type of a file whose name does not show it,
// they read the file with O_NOATIME, as GIO does; to copy a file they read without the
// flag. The file dialog of every GTK program does the same; such a program is recognised by
// its library, which backup programs, the other users of the flag, do not load. The kernel
// lets only a file's owner use the flag. At files of others GIO reads 4 KiB without it, as
// libfm below, while its copies read more or ask for attributes first.
func fileManagers() []string {
	return []string{libfmManager, "nautilus", "nemo", "caja", "thunar", "Thunar", "xdg-desktop-por", "gio"}
}

const libGIO = "/libgio-2.0.so"

// kdeManagers look into files in their first thread, which has the program's name and does
// nothing else with files. Workers make copies and previews: threads with other names, or
// processes that load a library for their task.
func kdeManagers() []string { return []string{"dolphin", "konqueror", "krusader", "plasmashell"} }

func kdeWorkers() []string { return []string{"kioslave5", "kioworker"} }

const kdePreview = "/kio/thumbnail.so"

// The file manager of libfm reads 4 KiB to learn a file's type. Its copies read more, unless
// the file is not longer; such a copy is recognised because GIO first asks for the extended
// attributes, which are copied too, in the thread that opened the file. The file manager
// makes previews of small pictures itself, in a thread named libfmPreview.
const (
	libfmManager = "pcmanfm"
	libfmPeek    = 4 << 10
	libfmPreview = "loader"
)
