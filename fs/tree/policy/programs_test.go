package policy

import "testing"

// R4, R5: which programs read by themselves, and which may want only a file's type.
func TestPrograms(t *testing.T) {
	for _, tc := range []struct {
		name                  string
		program, thread, lib  string // "" = unknown, or none
		noAtime, foreign      bool
		crawls, peeks, byName bool // byName: the answer is the same for every way to open
	}{
		{name: "unknown"},
		{name: "an editor", program: "vim", byName: true},
		{name: "a thumbnailer", program: "tumblerd", crawls: true, byName: true},
		{name: "one whose name the kernel cut", program: "gdk-pixbuf-thumb", crawls: true, byName: true},
		{name: "an indexer with a number", program: "tracker-miner-fs-3", crawls: true, byName: true},
		{name: "a name that only contains one", program: "my-tumblerd", byName: true},
		{name: "a file manager copies", program: "nautilus"},
		{name: "a file manager looks", program: "nautilus", noAtime: true, crawls: true},
		{name: "a file manager at a file of others", program: "nautilus", foreign: true, peeks: true},
		{name: "a file manager looks at a file of others", program: "nautilus", noAtime: true, foreign: true, crawls: true},
		{name: "a program with the file dialog of GTK", program: "gimp", lib: "/libgio-2.0.so.0", noAtime: true, crawls: true},
		{name: "a program with that library reads", program: "gimp", lib: "/libgio-2.0.so.0"},
		{name: "a backup program", program: "restic", noAtime: true},
		{name: "pcmanfm looks or copies", program: "pcmanfm", thread: "pool", peeks: true},
		{name: "pcmanfm makes a preview", program: "pcmanfm", thread: "loader", crawls: true, peeks: true},
		{name: "dolphin looks in its first thread", program: "dolphin", thread: "dolphin", crawls: true},
		{name: "dolphin copies in another", program: "dolphin", thread: "CopyJob"},
		{name: "a worker of KDE copies", program: "kioworker", lib: "/kio/file.so"},
		{name: "a worker of KDE makes previews", program: "kioworker", lib: "/kio/thumbnail.so", crawls: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := Caller{Thread: func() string { return tc.thread }, Loaded: func(library string) bool {
				return tc.lib != "" && len(library) <= len(tc.lib) && tc.lib[:len(library)] == library
			}}
			if tc.program != "" {
				c.Name = func() string { return tc.program }
			}
			if got := c.Crawls(tc.noAtime); got != tc.crawls {
				t.Errorf("crawls: %v", got)
			}
			if got := c.MayPeek(tc.noAtime, tc.foreign); got != tc.peeks {
				t.Errorf("may want only the type: %v", got)
			}
			if tc.byName && c.Crawls(!tc.noAtime) != tc.crawls {
				t.Errorf("with O_NOATIME %v the answer is another", !tc.noAtime)
			}
		})
	}
}

// A caller whose threads and libraries are not known is taken for one that reads on request.
func TestCallersOfWhichOnlyTheNameIsKnown(t *testing.T) {
	for _, program := range []string{"dolphin", "kioworker", "gimp"} {
		if c := (Caller{Name: func() string { return program }}); c.Crawls(true) {
			t.Errorf("%s is refused", program)
		}
	}
}

// R4: a look at the type reads at most 4 KiB, from the beginning.
func TestPeeks(t *testing.T) {
	for _, tc := range []struct {
		off  int64
		n    int
		want bool
	}{{0, 1, true}, {0, 4096, true}, {0, 4097, false}, {1, 1, false}, {4096, 4096, false}} {
		if got := IsPeek(tc.off, tc.n); got != tc.want {
			t.Errorf("%d bytes from %d: %v", tc.n, tc.off, got)
		}
	}
}
