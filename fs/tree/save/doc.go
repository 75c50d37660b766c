// Package save is what the ledger shall have and does not have yet. It knows no folders: it is told a name, and
// answers a record, or what stands for one.
//
//   - queue: saves that wait in the outbox, and what is set aside of the budget for them
//   - blocks: a large save that waits, read through what waits and the version below it
package save
