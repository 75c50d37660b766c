package tree

import (
	"testing"
)

// W6: names of temporary files never reach the ledger; names that only look alike do.
func TestW6ScratchNamesAreNeverUploaded(t *testing.T) {
	scratch := []string{".~lock.letter.odt#", "notes.swp", ".notes.txt.swp", ".notes.txt.swx", "notes.txt~", "4913", ".goutputstream-ABC123",
		"x.tmp", "movie.mkv.part", "setup.exe.crdownload", ".#notes.txt", "#notes.txt#", ".fuse_hidden0001", ".nfs0001", ".DS_Store",
		"._photo.jpg", ".Trash-1000", ".photo.jpg.aB3dE9", "sedXy12Zz", "zi7dQ5wa", "mine.bak"}
	real := []string{"notes.txt", ".config", ".config.backup", "49134", "sedation", "zincdust", "a~b", "#1", "part", "tmp", ".photo.jpg.backup", "Cargo.lock"}
	w := team()
	m := mount(t, w, alice, func(c *Config) { c.Scratch = []string{"*.bak"} })
	for _, name := range scratch {
		h := m.create("/team/" + name)
		m.write(h, "x", 0)
		if err := h.Fsync(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := h.Flush(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		h.Release()
		m.wantContent("/team/"+name, "x")
		if got := m.node("/team/" + name).(*File).Xattrs()["user.svcfs.state"]; got != "scratch" {
			t.Errorf("%s is %s", name, got)
		}
	}
	if left := m.Drain(t.Context()); len(left) != 0 {
		t.Errorf("scratch files are pending: %+v", left)
	}
	if s := m.Status(); s.TemporaryFiles != len(scratch) || len(s.Temporary) != len(scratch) ||
		s.Temporary[0] != "/team/#notes.txt#" {
		t.Errorf("the status tells of %d: %q", s.TemporaryFiles, s.Temporary)
	}
	m.wantCharges(0, 0)
	for _, name := range real {
		if err := m.save("/team/"+name, "x"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	m.wantCharges(0, len(real))
	for _, name := range scratch {
		if err := m.dir("/team").Unlink(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// W6: a name that only its program means as a temporary one is real for others.
func TestW6NamesOfProgramsAreTheirs(t *testing.T) {
	m := mount(t, team(), alice)
	uploads := 0
	for _, tc := range []struct {
		name, program string
		scratch       bool
	}{
		{"sedan2024", "cp", false}, {"sedan2023", "sed", true}, {"zipped01", "vim", false}, {"zipped02", "zip", true},
		{".list.2024ab", "tar", false}, {".list.2023ab", "rsync", true},
	} {
		caller := Caller{Name: func() string { return tc.program }}
		_, h, err := m.dir("/team").Create(t.Context(), tc.name, true, OpenFlags{Write: true, Caller: caller})
		if err != nil {
			t.Fatal(err)
		}
		m.write(h, tc.name, 0)
		if err := h.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		h.Release()
		if !tc.scratch {
			uploads++
		}
		m.wantCharges(0, uploads)
	}
}

// W6: git's own temporary names are scratch beneath its folders, and only there.
func TestW6NamesOfGitBeneathItsFolder(t *testing.T) {
	w := team()
	m := mount(t, w, alice)
	for _, dir := range []string{".git", "bare.git", "src"} {
		if _, err := m.dir("/team").Mkdir(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		if _, err := m.dir("/team/"+dir).Mkdir(t.Context(), "objects"); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"index.lock", "objects/tmp_obj_AbCdEf", "packed-refs.new"} {
			ok(t, m.save("/team/"+dir+"/"+name, dir))
		}
	}
	m.wantCharges(0, 3)
	ok(t, m.dir("/team/.git").Rename(t.Context(), "index.lock", m.dir("/team/.git"), "index", false))
	m.wantCharges(0, 4)
}
