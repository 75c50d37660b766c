package tree

import (
	"context"
	"path"
	"strings"

	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/policy"
)

// An upload replaces a database as a whole, so SQLite's journal is needed beside a recorded
// version only when that version was recorded in the middle of a transaction. See W6.

// aid tells whether a staged file, to be recorded as raw, is one that SQLite keeps beside a
// database of the same folder. An aid that was recorded is a file like others. Needs
// body.mu and a stage.
func (f *File) aid(raw string) policy.Aid {
	database, ok := policy.DatabaseOf(path.Base(raw))
	if !ok || f.entry.Load() != nil {
		return policy.AidNone
	}
	head := make([]byte, policy.AidHead)
	n, _, err := f.stage.ReadAt(head, 0) // all of it is here: it was never recorded
	if err != nil {
		return policy.AidNone
	}
	kind := policy.AidOf(path.Base(raw), head[:n])
	if kind == policy.AidNone || f.sibling(database) == nil {
		return policy.AidNone
	}
	return kind
}

// sibling returns the file called name in the folder of f, or nil.
func (f *File) sibling(name string) *File {
	f.t.mu.RLock()
	defer f.t.mu.RUnlock()
	if f.dir == nil {
		return nil
	}
	beside, _ := f.dir.find(name).(*File)
	if beside == nil || !beside.isKind(fileReal) {
		return nil
	}
	return beside
}

// recordJournal records the journal that a database needs because it is about to be recorded
// in the middle of a transaction, for all that is known.
func (f *File) recordJournal(ctx context.Context, when commitWhen) error {
	if when == commitSynced || when == commitAhead || !f.willSend(when) {
		return nil
	}
	journal := f.sibling(policy.JournalOf(path.Base(f.rawName())))
	if journal == nil || !journal.isHot() {
		return nil
	}
	return journal.commit(ctx, commitAhead)
}

// willSend reports whether a commit would send something.
func (f *File) willSend(when commitWhen) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now.Is(content.Changed) && f.stage.Len() > 0 &&
		(f.half == nil || f.half.killed && f.half.lets(when, f.stage))
}

func (f *File) isHot() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now.Is(content.Changed) && f.aid(f.rawName()) == policy.AidHot
}

// rawName returns the name as it is recorded, or to be recorded.
func (f *File) rawName() string {
	f.t.mu.RLock()
	defer f.t.mu.RUnlock()
	return f.raw
}

// noteDatabase notes whether what is saved is an SQLite database. Of content in blocks that is not here it keeps what
// it knew. Needs body.mu.
func (f *File) noteDatabase(s *stage) {
	head := make([]byte, policy.DatabaseHead)
	if n, rest, err := s.ReadAt(head, 0); err == nil && len(rest) == 0 {
		f.sqlite.Store(policy.IsDatabase(head[:n]))
	}
}

// hasDatabase reports whether a name is one of those of an SQLite database: files that SQLite keeps beside it are
// there, or it is such a file. Needs Tree.mu.
func (g *group) hasDatabase(raw string) bool {
	is := func(name string) bool {
		v := g.names[name]
		return v != nil && (v.shown != nil || v.newest() != nil)
	}
	for _, beside := range policy.Companions("") {
		if database, ok := strings.CutSuffix(raw, beside); is(raw+beside) || ok && is(database) {
			return true
		}
	}
	return false
}

// notForTwo tells, for a conflict of an SQLite database, or of a file that SQLite keeps beside it, what two mounts must
// not do; "" for others. f, whose save met another, may be nil. Needs Tree.mu.
func (g *group) notForTwo(raw string, f *File) string {
	if f != nil && f.sqlite.Load() || g.hasDatabase(raw) {
		return "; two mounts of one SQLite file are not supported: let one mount write it"
	}
	return ""
}
