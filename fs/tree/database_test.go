package tree

import (
	"slices"
	"strings"
	"testing"
)

const (
	hotJournal   = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7 and what the pages held before"
	wipedJournal = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00 and what the pages held before"
)

// W6: what SQLite keeps beside a database stays in the mount, and a database that is recorded
// in the middle of a transaction never lacks its journal.
func TestW6JournalsOfDatabases(t *testing.T) {
	begin := func(m *mounted) (db, journal *Handle) {
		db, journal = m.open("/team/f.db", OpenFlags{Read: true, Write: true}), m.create("/team/f.db-journal")
		m.write(journal, hotJournal, 0)
		ok(m.t, journal.Fsync(m.t.Context()))
		m.write(db, "new!", 0)
		return db, journal
	}
	end := func(m *mounted, db, journal *Handle) {
		journal.Release()
		ok(m.t, m.dir("/team").Unlink(m.t.Context(), "f.db-journal"))
		ok(m.t, db.Flush(m.t.Context()))
		db.Release()
	}
	for name, tc := range map[string]struct {
		do      func(m *mounted)
		want    []string // records of the ledger beside that of the database, in order
		pending int
		lost    int // at unmount
	}{
		"a transaction": {func(m *mounted) {
			db, journal := begin(m)
			ok(m.t, db.Fsync(m.t.Context()))
			end(m, db, journal)
		}, []string{"f.db=new!"}, 0, 0},
		"a transaction that is not synced": {func(m *mounted) {
			db, journal := begin(m)
			end(m, db, journal)
		}, []string{"f.db=new!"}, 0, 0},
		"a journal that stays, wiped": {func(m *mounted) {
			db, journal := begin(m)
			ok(m.t, db.Fsync(m.t.Context()))
			m.write(journal, wipedJournal, 0)
			ok(m.t, journal.Flush(m.t.Context()))
			journal.Release()
			db.Release()
		}, []string{"f.db=new!"}, 0, 0},
		"another program closes the database": {func(m *mounted) {
			db, journal := begin(m)
			other := m.open("/team/f.db", OpenFlags{Read: true, Write: true})
			ok(m.t, other.Flush(m.t.Context()))
			other.Release()
			end(m, db, journal)
		}, []string{"f.db-journal=" + hotJournal, "f.db=new!"}, 0, 0},
		"another program syncs the database": {func(m *mounted) {
			db, journal := begin(m)
			other := m.open("/team/f.db", OpenFlags{Read: true})
			ok(m.t, other.Fsync(m.t.Context()))
			other.Release()
			end(m, db, journal)
		}, []string{"f.db-journal=" + hotJournal, "f.db=new!"}, 0, 0},
		"the mount ends in the middle": {func(m *mounted) {
			db, journal := begin(m)
			m.Drain(m.t.Context())
			end(m, db, journal)
		}, []string{"f.db-journal=" + hotJournal, "f.db=new!"}, 0, 0},
		"the program is killed": {func(m *mounted) {
			db, journal := begin(m)
			for _, h := range []*Handle{db, journal} {
				h.Abandon()
				h.Release()
			}
		}, nil, 1, 1},
		"the database is removed": {func(m *mounted) {
			_, journal := begin(m)
			ok(m.t, m.rename("f.db", "f.db.tmp"))
			ok(m.t, journal.Flush(m.t.Context()))
			journal.Release()
		}, []string{"f.db-journal=" + hotJournal}, 0, 0},
		"a diary": {func(m *mounted) {
			ok(m.t, m.save("/team/f.db-journal", "Monday: it rained, and we stayed in."))
			ok(m.t, m.save("/team/f.db-shm", "notes about shared memory"))
		}, []string{"f.db-journal=Monday: it rained, and we stayed in.", "f.db-shm=notes about shared memory"}, 0, 0},
		"no database": {func(m *mounted) {
			ok(m.t, m.save("/team/other-journal", hotJournal))
		}, []string{"other-journal=" + hotJournal}, 0, 0},
		"the index of the log": {func(m *mounted) {
			ok(m.t, m.save("/team/f.db-shm", "\x18\xe2\x2d\x00 and hashes"))
			ok(m.t, m.save("/team/f.db-wal", "a log"))
		}, []string{"f.db-wal=a log"}, 0, 0},
		"a journal that was recorded": {func(m *mounted) {
			ok(m.t, m.save("/team/f.db-journal", "begins otherwise"))
			ok(m.t, m.save("/team/f.db-journal", wipedJournal))
		}, []string{"f.db-journal=begins otherwise", "f.db-journal=" + wipedJournal}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := team()
			w.Put("team", alice, "f.db", []byte("old!"))
			m := mount(t, w, alice, ours)
			tc.do(m)
			if p := m.Pending(); len(p) != tc.pending {
				t.Errorf("pending is %+v", p)
			}
			if lost := m.Drain(t.Context()); len(lost) != tc.lost {
				t.Errorf("unmounting leaves %+v", lost)
			}
			var got []string
			for _, e := range w.Rows("team")[1:] {
				got = append(got, e.Name+"="+string(w.Content(e.Ref)))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("recorded are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
		})
	}
}
