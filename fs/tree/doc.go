// Package tree is the filesystem without a kernel: it decides which names exist, and how
// files are opened, written, closed and removed, at which cost and with which errors. The
// kernel adapter (package fs) only translates.
//
// A [Dir] and a [File] are inodes. The name a directory holds points at a File;
// its committed content never changes: when a newer upload of the same name
// arrives from elsewhere, the name points at a new File with an inode number of its own,
// and handles that are open on the old File keep reading it. Writes go to a staged copy in
// memory that belongs to the File and is committed (sealed, uploaded, recorded) by Flush and
// Fsync.
//
// Where to begin: tree.go has the configuration and the order of all locks, api.go what the
// package asks for and gives. Each word before a colon below is a file.
//
// Names:
//   - namespace: names are attached to folders, detached, and placed as the ledger has them
//   - dir: folders, look-ups and listings; create, remove: what programs make and remove; inode: their numbers
//   - groups: groups that come and go
//   - move: plans of renames and links; folder: renames of folders; uploads: what the service renames and removes
//   - recorded: folders that the service records; trash, wastebasket: what was removed; history: older versions
//   - symlink: which symbolic links are shown as such; owner: whose files are; lookalike: groups that look alike
//
// Looks at the ledger:
//   - package look: when the tree looks, and what failed looks mean; package sdk/view: what it knows
//   - looks: what package look is given; groups: how lists are asked for, and shown
//   - listmemory: the memory of lists; told: what programs that watch are told
//
// Content:
//   - package content: the bytes of a file, recorded and staged, and the states between
//   - file, handle: opening, reading, writing and closing; crawlers: who may not spend
//   - content: a file's content, which its lock guards; origin: what reads ask the service for, and pay
//   - blocks: files in blocks, as the service has them
//
// Saves:
//   - commit: a save from close to record; ways: how a change gets into the ledger; saving: what a save asks of names
//   - package save: the budget, the outbox, parts on their way, and saves of others that came first
//   - waiting: names of what is in the outbox; conflict: a save that others overtook
//   - unrecorded: what the ledger does not have: what is pending, retried, and drained
//   - half: saves that must not be recorded; base: which version a save replaces
//   - database: what SQLite keeps beside a database
//   - keep: attributes that are recorded without a save; attributes: all of them
//
// What is shown:
//   - package report: the shapes and texts of /.svcfs and GROUP/.svcfs
//   - control: /.svcfs; groupinfo: GROUP/.svcfs; storage: statfs
//   - errors: their classes; reasons: svcfs why; panic: mistakes of svcfs itself
//
// client makes an [sdk.Client] the service of a tree. Package policy has the decisions that
// need nothing of the files, package staging the content that programs change, and package
// treetest the model that the tree is compared with.
package tree
