// Package outbox keeps what was saved and is not recorded yet: on the disk of this machine,
// encrypted, until the service has recorded it.
//
// log.go has the log of items and what survives a loss of power, logread.go and logclean.go how it is read
// and kept short, replay.go what a log says when it is opened again, entry.go the layout of one entry,
// body.go the files of large items and the room on the disk, seal.go what is encrypted and how, journal.go
// the keys, journalend.go when they end, state.go the states of an item and the steps between them, outbox.go
// what an outbox is, put.go and change.go what is done with items, status.go what is known of them, send.go
// the order in which they are sent, outcome.go what became of them, parts.go which parts of a large one were,
// remote.go what is asked of the service, service.go how the client does that.
package outbox
