package policy

import "testing"

// W6: names that are never recorded, and names that only resemble them.
func TestScratchNames(t *testing.T) {
	for _, tc := range []struct {
		patterns []string
		name     string
		want     bool
	}{
		{ScratchNames(), ".~lock.letter.odt#", true},
		{ScratchNames(), ".notes.txt.swp", true},
		{ScratchNames(), "notes.txt~", true},
		{ScratchNames(), "4913", true},
		{ScratchNames(), "49134", false},
		{ScratchNames(), "setup.exe.crdownload", true},
		{ScratchNames(), "a~b", false},
		{ScratchNames(), "#notes#", true},
		{ScratchNames(), "#1", false},
		{ScratchNames(), "tmp", false},
		{ScratchNames(), "Cargo.lock", false},
		{ScratchNames(), "mine.bak", false},
		{append(ScratchNames(), "*.bak"), "mine.bak", true},
		{GitNames(), "index.lock", true},
		{GitNames(), "tmp_obj_AbCdEf", true},
		{GitNames(), "packed-refs", false},
		{GitNames(), "gc.pid", true},
		{[]string{"[broken"}, "[broken", false},
		{nil, "notes.swp", false},
	} {
		if got := Matches(tc.patterns, tc.name); got != tc.want {
			t.Errorf("%q among %q: %v", tc.name, tc.patterns, got)
		}
	}
}

// W6: git's names count beneath a folder of git's only.
func TestGitFolders(t *testing.T) {
	for folder, want := range map[string]bool{".git": true, "bare.git": true, "git": false, ".github": false, "": false} {
		if got := IsGit(folder); got != want {
			t.Errorf("%q: %v", folder, got)
		}
	}
}

// W6: a temporary name counts when the program that chooses such names creates it.
func TestTemporaryNamesBelongToPrograms(t *testing.T) {
	for _, tc := range []struct {
		name, program string // "" = unknown
		want          bool
	}{
		{"sedXy12Zz", "sed", true},
		{"sedXy12Zz", "", true},
		{"sedan2024", "cp", false},
		{"sedation", "sed", false}, // five characters
		{"sedikthkw", "sed", true}, // one name in two hundred
		{"sedikthkw", "cp", false},
		{"sedikthkw", "", false},   // no digit, no capital
		{"sed12345", "sed", false}, // five characters
		{"sed-12345", "sed", false},
		{"zi7dQ5wa", "zip", true},
		{"zi7dQ5wa", "sed", false},
		{"zincdust", "zip", true},
		{"zincdust", "", false},
		{".photo.jpg.aB3dE9", "rsync", true},
		{".photo.jpg.aB3dE9", "tar", false},
		{"photo.jpg.aB3dE9", "rsync", false}, // not hidden
		{".config.backup", "rsync", false},
		{".photo.jpg.aB3dE", "rsync", false},
		{"..aB3dE9", "rsync", false}, // no name before the suffix
		{"0a1b2c-tmp-3141592", "restic", true},
		{"0a1b2c-tmp-3141592", "cp", false},
		{"0a1b2c-tmp-", "restic", false},
		{"-tmp-3141592", "restic", false},
		{"a-tmp-b", "restic", false},
		{"notes.txt", "sed", false},
	} {
		var caller Caller
		if tc.program != "" {
			caller.Name = func() string { return tc.program }
		}
		if got := IsTemp(tc.name, caller); got != tc.want {
			t.Errorf("%q created by %q: %v", tc.name, tc.program, got)
		}
	}
}

// E1: a scratch name tells which file a program saves through it, or nothing.
func TestNamesMeant(t *testing.T) {
	for scratch, want := range map[string]string{
		".notes.txt.swp": "notes.txt", ".notes.txt.swx": "notes.txt", "notes.txt~": "notes.txt", "notes.txt.tmp": "notes.txt",
		".notes.txt.tmp": "notes.txt", "film.part": "film", "setup.exe.crdownload": "setup.exe", ".~lock.a.odt#": "a.odt", "#notes#": "notes",
		".#notes": "notes", "._notes": "notes", ".photo.jpg.aB3dE9": "photo.jpg",
		"notes.txt": "", ".profile": "", "~": "", ".swp": "", ".goutputstream-ABC123": "", "4913": "", "": "", ".": "",
	} {
		if got, ok := Meant(scratch); got != want || ok != (want != "") {
			t.Errorf("%q is meant for %q, %v", scratch, got, ok)
		}
	}
	for scratch, want := range map[string]bool{".goutputstream-ABC123": true, "4913": true, "sedXy12Zz": true, "ziXy12Zz": true, ".xdp-f-abc": true,
		"notes.txt~": false, "sedan": false} {
		if got := IsNameless(scratch); got != want {
			t.Errorf("%q is nameless: %v", scratch, got)
		}
	}
}
