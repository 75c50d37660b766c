package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

func TestSearch(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	e := sdk.Entry{Name: "docs/Report.pdf", Size: 2000, Uploader: "alice", Time: now.Add(-50 * time.Hour)}
	for flags, want := range map[[2]string]bool{
		{"name", "*.pdf"}: true, {"name", "report*"}: false, {"name", "Report.???"}: true, {"name", "docs*"}: false,
		{"iname", "REPORT*"}: true, {"path", "docs*"}: true, {"path", "*/Report.pdf"}: true, {"path", "d?cs/R*"}: true,
		{"path", "Report*"}: false,
		{"type", "f"}:       true, {"type", "l"}: false, {"type", "d"}: false,
		{"size", "+1K"}: true, {"size", "-1K"}: false, {"size", "2000"}: true, {"size", "+2000"}: false,
		{"user", "alice"}: true, {"user", "bob"}: false,
		{"mtime", "-3"}: true, {"mtime", "2"}: true, {"mtime", "+2"}: false, {"mtime", "-2"}: false,
		{"mtime", "+1"}:         true,
		{"newer", "2026-11-25"}: true, {"newer", "2026-11-28"}: false, {"older", "2026-11-28T00:00:00Z"}: true,
		{"older", "2026-11-01"}: false,
	} {
		var s search
		set := map[string]func(string) error{"name": (*pattern)(&s.name).Set, "iname": (*pattern)(&s.iname).Set,
			"path": (*pattern)(&s.path).Set,
			"type": s.kind.Set, "size": s.size.Set, "newer": s.newer.Set, "older": s.older.Set, "mtime": s.days.Set,
			"user": func(text string) error { s.uploader = text; return nil }}
		ok(t, set[flags[0]](flags[1]))
		if got := s.fits(&e, e.Name, now); got != want {
			t.Errorf("%v: %v", flags, got)
		}
	}
	unknown := e
	unknown.Size = sdk.SizeUnknown
	var s search
	ok(t, s.size.Set("-1T"))
	if s.fits(&unknown, unknown.Name, now) {
		t.Error("a size that nobody knows is smaller than 1T")
	}
}

// BenchmarkFind looks for a name among 200,000 in the list of a group, as it has come and is proven.
func BenchmarkFind(b *testing.B) {
	const files = 200_000
	entries := make([]sdk.Entry, files)
	for i := range entries {
		entries[i] = sdk.Entry{Ref: sdk.Ref(fmt.Sprint("ref", i)), Seq: sdk.Seq(i + 1), Number: int64(i + 1),
			ChangedSeq: sdk.Seq(i + 1), Size: int64(i),
			Name: fmt.Sprintf("folder %d/below/file-%d.txt", i%1000, i),
			Hash: sdk.ComputeHash([]byte{byte(i), byte(i >> 8)})}
	}
	var s search
	ok(b, (*pattern)(&s.iname).Set("FILE-1999*.txt"))
	ok(b, s.size.Set("+100"))
	for b.Loop() {
		list := listingOf(entries)
		if all, err := list.findIn("team", []string{""}, &s); err != nil || len(all) != 111 {
			b.Fatal(len(all), err)
		}
	}
	b.ReportMetric(files*float64(b.N)/b.Elapsed().Seconds(), "names/s")
}
