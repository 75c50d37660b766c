package checkpoint

import "time"

// LookSeldom keeps a log that nobody tells of commits from looking at the ledger.
func (l *Log) LookSeldom() { l.interval = time.Hour }

// Signed is the number of records in the newest checkpoint.
func (l *Log) Signed() int64 {
	signed, _ := l.newest()
	return signed.N
}
