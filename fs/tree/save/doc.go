// Package save is what the ledger shall have and does not have yet. It knows no folders: it is told a name, and
// answers a record, or what stands for one while the save waits.
//
//   - save: one save, in one piece or in blocks: within the budget, through the outbox, past the saves of others
//   - send: the sender of content in blocks: parts beside the program that writes, and by the save
//   - queue: saves that wait in the outbox, and what is set aside of the budget for them
//   - blocks: a large save that waits, read through what waits and the version below it
//
// Its mutexes are held while memory is read or changed, and no other lock is taken meanwhile; that of a version that is
// claimed is held while the service is asked.
package save
