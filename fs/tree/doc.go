// Package tree is the filesystem without a kernel: it decides which names exist, and how
// files are opened, written, closed and removed, at which cost and with which errors. The
// kernel adapter (package fs) only translates.
//
// A [Dir] and a [File] are inodes. The name a directory holds points at a File;
// its committed content never changes: when a newer upload of the same name
// arrives from elsewhere, the name points at a new File with an inode number of its own,
// and handles that are open on the old File keep reading it. Writes go to a staged copy in memory that belongs to the File and is
// committed (sealed, uploaded, recorded) by Flush and Fsync.
//
// Where to begin: content.go has the states of a file's content and the steps between
// them, commit.go a save from close to record; namespace.go how names are attached to
// folders, detached, and placed as the ledger has them; move.go and folder.go the plans of
// renames and links; symlink.go which symbolic links are shown as such; look.go when the tree looks at the ledger; tree.go the order of all
// locks; package policy the decisions that need nothing of the files.
package tree
