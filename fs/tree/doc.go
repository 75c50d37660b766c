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
package tree
