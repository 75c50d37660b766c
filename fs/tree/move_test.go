package tree

import (
	"slices"
	"testing"

	"github.com/svcfs/svcfs/sdk"
)

// N5, W7, W8: how a file gets a name, as far as it is decided before anything changes.
func TestMovePlans(t *testing.T) {
	one := []sdk.Entry{{Ref: "one"}}
	for _, tc := range []struct {
		name string
		move move
		want plan
		not  Class // refused; ClassOther: not
	}{
		{"staged, saved", move{staged: true}, plan{first: firstCommit}, 0},
		{"staged, to a scratch name", move{staged: true, toScratch: true}, plan{becomes: fileScratch}, 0},
		{"scratch, saved", move{scratch: true, staged: true}, plan{first: firstCommit}, 0},
		{"scratch, to another group", move{scratch: true, staged: true, crosses: true}, plan{first: firstCommit}, 0},
		{"changed, then renamed by others", move{staged: true, uploaded: true}, plan{first: firstCommit}, 0},
		{"uploaded, made a backup", move{uploaded: true, recorded: true, newest: true, toScratch: true}, plan{becomes: fileScratch}, 0},
		{"uploaded", move{uploaded: true, recorded: true, newest: true, versions: one}, plan{}, ClassByDesign},
		{"uploaded, where the service renames", move{uploaded: true, recorded: true, newest: true, versions: one, canRename: true}, plan{first: firstRename}, 0},
		{"uploaded, and deleted by now", move{uploaded: true, recorded: true, canRename: true}, plan{}, ClassNotExist},
		{"uploaded, onto a later upload", move{uploaded: true, recorded: true, newest: true, versions: one, overtaken: true, canRename: true}, plan{}, ClassByDesign},
		{"uploaded, to another group", move{uploaded: true, recorded: true, crosses: true}, plan{}, ClassByDesign},
		{"uploaded, to another group, with deleting", move{uploaded: true, recorded: true, crosses: true, canDelete: true}, plan{}, ClassCrossDevice},
		{"backup, taking its name back", move{scratch: true, uploaded: true, recorded: true, back: true, newest: true}, plan{}, 0},
		{"backup, taking it back after another save", move{scratch: true, uploaded: true, recorded: true, back: true}, plan{first: firstCommit}, 0},
		{"backup, changed", move{scratch: true, staged: true, uploaded: true, recorded: true, newest: true}, plan{first: firstCommit}, 0},
		{"backup, to another name", move{scratch: true, uploaded: true, recorded: true, newest: true, versions: one, canRename: true}, plan{first: firstRename}, 0},
		{"backup of an older save, to another name", move{scratch: true, uploaded: true, recorded: true, versions: one, canRename: true}, plan{}, ClassByDesign},
		{"link: scratch to scratch", move{link: true, scratch: true, toScratch: true}, plan{aside: true}, 0},
		{"link: scratch to real", move{link: true, scratch: true, staged: true}, plan{first: firstCommit}, 0},
		{"link: staged to scratch", move{link: true, staged: true, toScratch: true}, plan{aside: true}, 0},
		{"link: staged to real", move{link: true, staged: true}, plan{}, ClassByDesign},
		{"link: backup to scratch", move{link: true, scratch: true, uploaded: true, recorded: true, toScratch: true}, plan{aside: true}, 0},
		{"link: backup to real", move{link: true, scratch: true, uploaded: true, recorded: true}, plan{}, ClassByDesign},
		{"link: uploaded to scratch", move{link: true, uploaded: true, recorded: true, toScratch: true}, plan{}, ClassByDesign},
		{"a link of a saved file, to scratch", move{further: true, uploaded: true, recorded: true, toScratch: true}, plan{aside: true}, 0},
		{"a link of a saved file, to real", move{further: true, uploaded: true, recorded: true, canRename: true, versions: one}, plan{}, ClassByDesign},
		{"a link of a saved file, to another group", move{further: true, uploaded: true, recorded: true, toScratch: true, crosses: true}, plan{}, ClassByDesign},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, refused := tc.move.plan()
			if refused == nil && tc.not == 0 && got == tc.want {
				return
			}
			if refused == nil || tc.not == 0 || refused.Class != tc.not || refused.Hint == "" && tc.not != ClassNotExist {
				t.Errorf("plan %+v, refused %v; want %+v, %s", got, refused, tc.want, tc.not)
			}
		})
	}
}

// W8: a backup may replace an older backup that is the only other file of its folder.
func TestW8BackupReplacesABackup(t *testing.T) {
	w := team()
	w.Put("team", alice, "d/f", []byte("uploaded"))
	m := mount(t, w, alice)
	if err := m.save("/team/d/f~", "older backup"); err != nil {
		t.Fatal(err)
	}
	d := m.dir("/team/d")
	if err := d.Rename(t.Context(), "f", d, "f~", false); err != nil {
		t.Fatal(err)
	}
	if got := allFiles(t, m.dir("/team"), ""); !slices.Equal(got, []string{"d/f~"}) {
		t.Errorf("there is %q", got)
	}
	m.wantContent("/team/d/f~", "uploaded")
}

// W8: a folder goes with the last file that the service renames out of it, as in every
// other mount.
func TestW8FolderGoesWithItsLastFile(t *testing.T) {
	w := team()
	w.Put("team", alice, "d/e/f", []byte("content"))
	m := mount(t, w, alice, func(c *Config) { c.CanRename = true })
	if err := m.dir("/team/d/e").Rename(t.Context(), "f", m.dir("/team"), "f", false); err != nil {
		t.Fatal(err)
	}
	if got := m.names("/team"); !slices.Equal(got, []string{"f"}) {
		t.Errorf("there is %q", got)
	}
	m.wantContent("/team/f", "content")
}
