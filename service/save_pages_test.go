package service_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/store"
)

// A save of 4 KiB that comes alone changes 21 pages of the database, of 2 KiB each: with -v the
// test tells which. Every index of files or of the ledger costs one page more, and an index
// whose rows come in no order two.
func TestPagesOfASave(t *testing.T) {
	t.Parallel()
	const before, saves, most = 300, 50, 22
	r := runWith(t, service.Config{RequestRate: -1})
	alice := r.owner()
	alice.give("1000")
	save := func(i int) {
		t.Helper()
		item := alice.seals("g", fmt.Sprintf("folder/file-%06d", i), noise(4096))
		if status, body := alice.putsFrame(item.ID, item.frame()); status != http.StatusOK {
			t.Fatal(status, body)
		}
	}
	v := alice.vaultKey()
	for from := 0; from < before; from += 50 {
		var frames [][]byte
		for i := from; i < from+50; i++ {
			frames = append(frames, alice.sealsFor(v, "g", fmt.Sprintf("folder/file-%06d", i), noise(4096)).frame())
		}
		if status, body, _ := alice.batches(frames...); status != http.StatusOK {
			t.Fatal(status, body)
		}
	}
	db := r.openDatabase()
	var busy, inLog, moved, pageSize int
	if err := db.QueryRow("PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &inLog, &moved); err != nil || busy != 0 {
		t.Fatal(busy, err)
	}
	ok(t, db.QueryRow("PRAGMA page_size").Scan(&pageSize))
	for i := range saves {
		save(before + i)
	}
	log, err := os.ReadFile(filepath.Join(r.dir, store.FileName+"-wal"))
	ok(t, err)
	all, pages := 0, map[uint32]int{} // how often each was written
	for at := 32; at+24+pageSize <= len(log); at += 24 + pageSize {
		pages[binary.BigEndian.Uint32(log[at:])]++
		all++
	}
	of := map[string]int{} // tables and indexes
	rows, err := db.Query("SELECT pageno, name || ', ' || pagetype FROM dbstat")
	ok(t, err)
	defer rows.Close()
	for rows.Next() {
		var page uint32
		var name string
		ok(t, rows.Scan(&page, &name))
		if pages[page] > 0 {
			of[name] += pages[page]
		}
	}
	ok(t, rows.Err())
	var text strings.Builder
	for _, name := range slices.SortedFunc(maps.Keys(of), func(a, b string) int { return of[b] - of[a] }) {
		fmt.Fprintf(&text, "%6.2f %s\n", float64(of[name])/saves, name)
	}
	t.Logf("%.2f pages of %d bytes for each save:\n%s", float64(all)/saves, pageSize, &text)
	if each := float64(all) / saves; each > most || each < 10 {
		t.Errorf("a save changes %.2f pages, want at most %d", each, most)
	}
}
