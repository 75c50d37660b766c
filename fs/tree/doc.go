// Package tree is what the filesystem means, without a kernel: which names
// exist, what opening, writing, closing and removing them does, what it costs
// and how it fails. The kernel adapter (package fs) only translates.
//
// A [Dir] and a [File] are inodes. The name a directory holds points at a File;
// its committed content never changes: when a newer upload of the same name
// arrives from elsewhere, the name points at a new File with the same inode
// number and a new generation, and whoever has the old one open keeps reading
// it. Writes go to a staged copy in memory that belongs to the File and is
// committed (sealed, uploaded, recorded) by Flush and Fsync.
//
// content.go holds the states of a file's content and the steps between them, commit.go
// how it is recorded; namespace.go how names are attached to folders, detached, and
// placed as the ledger says; move.go the plan of a rename or a link; look.go when the
// ledger is looked at; package policy the decisions that know nothing of files.
package tree
