package tree

import "github.com/svcfs/svcfs/sdk"

// Programs obey files of the user who starts them: git runs a monitor that .git/config
// names, ssh a proxy, an editor its settings. So a file that another account uploaded is
// shown as another user's: such programs then refuse it by checks of their own (A5). A file is another account's when
// its newest record is; saving it here makes it ours. A folder is another account's when a file
// anywhere beneath it is, because programs check the folder and read the file. It
// stays so as long as the mount does: else whoever uploads and deletes in turn
// would sooner or later be read between a program's check and its use. A group is
// also another account's when that account owns it, and may rename and delete the files
// in it.

// isForeign reports whether another account uploaded e; nil is ours.
func (t *Tree) isForeign(e *sdk.Entry) bool { return e != nil && e.Uploader != t.remote.Account() }

// isForeign needs Tree.mu.
func (d *Dir) isForeign() bool {
	return d.foreign || d.kind == dirGroup && !d.group.owned
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
