// Package outbox keeps what was saved and is not recorded yet: on the disk of this machine,
// encrypted, until the service has recorded it.
//
// store.go has the files and what survives a loss of power, item.go the layout of one item,
// state.go the states of an item and the steps between them, outbox.go the order in which items
// are sent, letter.go what is encrypted to whom.
package outbox
