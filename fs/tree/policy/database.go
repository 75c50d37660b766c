package policy

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// Aid is a file that SQLite keeps beside a database while it works.
type Aid uint8

const (
	AidNone    Aid = iota // not one
	AidJournal            // what the database held before the transaction, or is not begun yet
	AidHot                // the same, and it counts: a program that opens the database restores it
	AidIndex              // the index of the write-ahead log, which is made anew from the log
)

// AidHead is how many bytes of a file [AidOf] wants to see.
const AidHead = 28

// DatabaseOf returns the name of the database that a file belongs to, if its name is that of an aid.
func DatabaseOf(name string) (database string, ok bool) {
	for _, suffix := range []string{journalSuffix, indexSuffix} {
		if database, ok := strings.CutSuffix(name, suffix); ok && database != "" {
			return database, true
		}
	}
	return "", false
}

// IsDatabase tells by the first bytes of a file, fewer only when it holds fewer, whether it is an SQLite database.
func IsDatabase(head []byte) bool { return bytes.HasPrefix(head, []byte("SQLite format 3\x00")) }

// DatabaseHead is how many bytes of a file [IsDatabase] wants to see.
const DatabaseHead = 16

// Companions are the names of the files that SQLite keeps beside a database.
func Companions(database string) []string {
	return []string{database + journalSuffix, database + logSuffix, database + indexSuffix}
}

// JournalOf returns the name of a database's journal.
func JournalOf(database string) string { return database + journalSuffix }

const (
	journalSuffix = "-journal"
	logSuffix     = "-wal"
	indexSuffix   = "-shm"
	indexVersion  = 3007000 // of the index's format, in the byte order of the machine
)

// AidOf tells what a file is by its name and by how its content begins (SQLite's file format,
// sections 3 and 4.1, and for the index the document walformat): head is its first
// [AidHead] bytes, fewer only when it holds fewer. A file that merely has such a name is none.
func AidOf(name string, head []byte) Aid {
	switch {
	case strings.HasSuffix(name, journalSuffix):
		return journal(head)
	case strings.HasSuffix(name, indexSuffix):
		if len(head) == 0 {
			return AidIndex
		}
		if len(head) < 4 {
			return AidNone
		}
		v := head[:4]
		if n := binary.LittleEndian.Uint32(v); n == 0 && isZero(head) || n == indexVersion ||
			binary.BigEndian.Uint32(v) == indexVersion {
			return AidIndex
		}
	}
	return AidNone
}

// journal recognises a rollback journal. SQLite leaves out its mark until it has written the
// pages, and wipes the header to end a transaction.
func journal(head []byte) Aid {
	magic := []byte{0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7}
	switch {
	case len(head) == 0:
		return AidJournal
	case len(head) < AidHead:
		return AidNone
	case bytes.HasPrefix(head, magic):
		return AidHot
	case isZero(head[:AidHead]):
		return AidJournal
	}
	sector, page := binary.BigEndian.Uint32(head[20:]), binary.BigEndian.Uint32(head[24:])
	if isZero(head[:12]) && isPower(sector) && isPower(page) && sector >= 32 && page >= 512 &&
		max(sector, page) <= 65536 {
		return AidJournal
	}
	return AidNone
}

func isZero(p []byte) bool { return len(bytes.Trim(p, "\x00")) == 0 }

func isPower(n uint32) bool { return n != 0 && n&(n-1) == 0 }
