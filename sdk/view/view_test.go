package view_test

import (
	"slices"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/view"
)

// A row is the newest that any list or answer told, whatever comes first.
func TestApply(t *testing.T) {
	v := view.New()
	first := v.Apply(sdk.Entry{Ref: "a", Name: "a", Number: 1, Seq: 10, Tx: "tx", Size: 5})
	if len(first) != 1 || first[0].Was != nil || first[0].Now != v.Entry("a") {
		t.Fatalf("a new file: %+v", first)
	}
	renamed := v.Apply(sdk.Entry{Ref: "a", Name: "b", Number: 4, ChangedSeq: 13, Size: sdk.SizeUnknown})
	if len(renamed) != 1 || renamed[0].Was != first[0].Now || renamed[0].Was.Name != "a" {
		t.Errorf("a rename: %+v", renamed)
	}
	if e := v.Entry("a"); e.Name != "b" || e.Seq != 10 || e.Tx != "tx" || e.Size != 5 {
		t.Errorf("what the later row does not tell: %+v", e)
	}
	if late := v.Apply(sdk.Entry{Ref: "a", Name: "old", Number: 3}); len(late) != 0 || v.Entry("a").Name != "b" {
		t.Errorf("an older row: %+v", late)
	}
}

// What the answer to a change tells of a file is not believed where it contradicts the record of the upload, and its
// record is read again.
func TestThreat5AnswersOfOtherContent(t *testing.T) {
	digest := func(b byte) sdk.Digest { return sdk.Digest{b} }
	honest := sdk.Entry{Ref: "a", Name: "a", Number: 1, ChangedSeq: 1, Uploader: "bob", Commitment: digest(1)}
	for what, lie := range map[string]func(*sdk.Entry){
		"content":  func(e *sdk.Entry) { e.Commitment = digest(2) },
		"blocks":   func(e *sdk.Entry) { e.Content = digest(2) },
		"uploader": func(e *sdk.Entry) { e.Uploader = "alice" },
	} {
		v := view.New()
		v.Apply(honest)
		v.Listed([]sdk.Entry{honest})
		row := honest
		row.Name, row.Number, row.ChangedSeq = "b", 2, 2
		lie(&row)
		if changes := v.Apply(row); len(changes) != 0 || v.Entry("a").Name != "a" || v.KnowsUpTo(2) {
			t.Errorf("another %s: %+v", what, changes)
		}
		row = honest
		row.Name, row.Number = "b", 2
		if changes := v.Apply(row); len(changes) != 1 || !v.KnowsUpTo(2) {
			t.Errorf("after another %s the truth is not taken", what)
		}
	}
}

// The answer to a change of an older version, or a list of that change, cannot make it the newest. The record of the
// upload says where it is among others.
func TestThreat5AnswersDoNotReorderVersions(t *testing.T) {
	v := view.New()
	rows := []sdk.Entry{{Ref: "old", Number: 1, Seq: 10, ChangedSeq: 10, Tx: "tx10"},
		{Ref: "new", Number: 2, Seq: 20, ChangedSeq: 20, Tx: "tx20"}}
	v.Apply(rows...)
	v.Listed(rows)
	for _, told := range []struct {
		what string
		row  sdk.Entry
		want sdk.Seq
	}{
		{"an answer", sdk.Entry{Ref: "old", Number: 3, Seq: 29, ChangedSeq: 30}, 10},
		{"a list of the same change", sdk.Entry{Ref: "old", Number: 3, Seq: 29, ChangedSeq: 30}, 10},
		{"a list with the upload", sdk.Entry{Ref: "old", Number: 3, Seq: 11, ChangedSeq: 30, Tx: "tx10"}, 11},
		{"an answer after that", sdk.Entry{Ref: "old", Number: 4, Seq: 39, ChangedSeq: 40}, 11},
	} {
		v.Apply(told.row)
		files := v.Files()
		if e := v.Entry("old"); e.Seq != told.want || e.ChangedSeq != told.row.ChangedSeq || files[1].Ref != "new" {
			t.Errorf("after %s: %+v, and %s is the newest", told.what, e, files[1].Ref)
		}
	}
}

// A view knows up to which record nothing is missing, whether lists or answers told of it.
func TestGapless(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	v := view.New()
	want := func(when string, upTo int64, whole time.Time) {
		t.Helper()
		if !v.KnowsUpTo(upTo) || v.KnowsUpTo(upTo+1) || !v.Whole().Equal(whole) {
			t.Errorf("%s: all is not known up to %d, at %v", when, upTo, v.Whole())
		}
	}
	list := func(rows ...sdk.Entry) {
		v.Apply(rows...)
		v.Listed(rows)
	}
	v.Made(5, at(1))
	want("before a list", 0, time.Time{})
	list(sdk.Entry{Ref: "a", Number: 3, ChangedSeq: 4}, sdk.Entry{Ref: "b", Number: 7, ChangedSeq: 9}, sdk.Entry{Ref: "c"})
	v.Made(9, at(20)) // 8 is not known
	v.Made(7, at(30)) // known: it was made before it was listed
	want("after a gap", 7, time.Time{})
	v.Apply(sdk.Entry{Ref: "d", Number: 9})
	v.Made(8, at(10))
	want("answers in another order", 9, at(20))
	v.Apply(sdk.Entry{Ref: "d", Number: 10})
	want("a row without a time", 10, at(20))
	v.Made(12, at(40))
	v.Made(14, at(50))
	list(sdk.Entry{Ref: "e", Number: 13, ChangedSeq: 30})
	want("after a list", 14, at(50))
	list()
	if want("after an empty list", 14, at(50)); v.After() != 30 {
		t.Errorf("listed up to %d", v.After())
	}
}

func TestAll(t *testing.T) {
	v := view.New()
	v.Apply(sdk.Entry{Ref: "a"}, sdk.Entry{Ref: "b", Folder: true}, sdk.Entry{Ref: "a", Name: "new"})
	var names []string
	for e := range v.All() {
		names = append(names, string(e.Ref)+e.Name)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"anew", "b"}) {
		t.Errorf("%q", names)
	}
	for range v.All() {
		break
	}
}
