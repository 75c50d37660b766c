package tree

import (
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/view"
)

// Programs obey files of the user who starts them: git runs a monitor that .git/config
// names, ssh a proxy, an editor its settings. So a file that another account uploaded is
// shown as another user's: such programs then refuse it by checks of their own (A5). A file is another account's when
// its newest record is; saving it here makes it ours. A folder is another account's when a file
// anywhere beneath it is, because programs check the folder and read the file. It
// stays so as long as the mount does: else whoever uploads and deletes in turn
// would sooner or later be read between a program's check and its use. A group is
// also another account's when that account owns it, and may rename and delete the files
// in it. Of a group that is known in part, a folder is another account's as long as something beneath it is not known.

// isForeign reports whether another account uploaded e; nil is ours.
func (t *Tree) isForeign(e *sdk.Entry) bool { return e != nil && e.Uploader != t.remote.Account() }

// isForeign needs Tree.mu.
func (d *Dir) isForeign() bool {
	return d.foreign || d.kind == dirGroup && !d.group.owned || d.mayHoldOthers()
}

// mayHoldOthers reports whether files of others may be beneath d that nobody looked at. Needs Tree.mu.
func (d *Dir) mayHoldOthers() bool {
	p := d.partial()
	return p != nil && !p.KnowsBeneath(d.pathInGroup())
}

// partial returns what is known of the group that d shows a part of, nil = all, or d shows something else.
func (d *Dir) partial() *view.Partial {
	if d.kind != dirFolder && d.kind != dirGroup || d.group == nil || d.group.waste {
		return nil
	}
	return d.group.part.Load()
}

// recordedFolder is a folder of a group, by its recorded name, "" = the top.
type recordedFolder struct {
	g    *group
	path string
}

// ownersInDoubt tells the kernel that folders may hold files of others which nobody looked at, and did not until now.
// Needs Tree.mu.
func (t *Tree) ownersInDoubt() (notices []notice) {
	for _, f := range t.inDoubt {
		if d := f.g.folderAt(f.path); d != nil && !d.foreign {
			notices = append(notices, ownerChanged(d))
		}
	}
	t.inDoubt = nil
	return notices
}

// disown makes d and the folders above it another account's if foreign, and
// returns the notices for the kernel. Needs Tree.mu.
func (d *Dir) disown(foreign bool) (notices []notice) {
	for at := d; foreign && at != nil && !at.foreign && (at.kind == dirFolder || at.kind == dirGroup); at = at.parent {
		at.foreign = true
		notices = append(notices, ownerChanged(at))
	}
	return notices
}
