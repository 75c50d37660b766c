package sdk_test

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/testkit"
)

// What a service says of versions is told as it is, and refused where it cannot be.
func TestVersionsOfALyingService(t *testing.T) {
	t.Parallel()
	s, c := world(t, testkit.Ours)
	keeps := wire.VersionSettings{Keep: wire.Keep{Last: 5}}
	for said, want := range map[string]wire.VersionSettings{
		`{"keep":"5"}`:                           keeps,
		`{"keep":"all"}`:                         {},
		`{"keep":""}`:                            {},
		`{"keep":"-5"}`:                          {},
		`{"keep":"5","next":"1"}`:                {},
		`{"keep":"5","next":"many","at":"1000"}`: {},
		`{"keep":7}`:                             {},
	} {
		s.Answer(wire.PathTools+wire.OpGetGroupVersions, answer(200, `{"result":`+said+`}`))
		got, err := c.Group("g").Settings().Versions(t.Context())
		isLie := want == (wire.VersionSettings{}) && said != `{"keep":"all"}`
		if got != want || isLie != (sdk.KindOf(err) == sdk.ErrCorrupt) || !isLie && err != nil {
			t.Errorf("%s: %+v, %v", said, got, err)
		}
	}
	for said, isLie := range map[string]bool{
		`{"files":1,"versions":2,"bytes":9,"names":[{"filename":"b","versions":2,"bytes":9}]}`: false,
		`{"files":9,"versions":9,"bytes":9,"names":[]}`:                                        false,
		`{"files":9,"versions":9,"bytes":9,"names":[],"more":true}`:                            true, // for ever
		`{"files":2,"versions":1,"bytes":9,"names":[]}`:                                        true,
		`{"files":0,"versions":1,"bytes":-9,"names":[]}`:                                       true,
		`{"files":1,"versions":2,"bytes":9,"names":[{"filename":"a","versions":2,"bytes":9}]}`: true, // not after a
		`{"files":1,"versions":2,"bytes":9,"names":[{"filename":"b","versions":0,"bytes":9}]}`: true,
		`{"files":0,"versions":2,"bytes":9,"names":[{"filename":"b","versions":1,"bytes":9}]}`: true,
	} {
		s.Answer(wire.PathTools+wire.OpTryGroupVersions, answer(200, `{"result":`+said+`}`))
		if got, err := c.Group("g").Settings().TryVersions(t.Context(), wire.Keep{Last: 1}, "a"); isLie != (sdk.KindOf(err) == sdk.ErrCorrupt) || !isLie && err != nil {
			t.Errorf("%s: %+v, %v", said, got, err)
		}
	}
}

// An upload says that its client knows versions to a service of ours, and nowhere else.
func TestUploadsSayThatTheyAreVersions(t *testing.T) {
	t.Parallel()
	for flavour, offers := range map[testkit.Dialect]bool{testkit.Keyless: true, testkit.Hosted: false} {
		s := testkit.Start(t, flavour)
		var sent []byte
		s.Disturb(wire.PathTools+wire.OpFinalizeUpload, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				sent, _ = io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(sent))
				next.ServeHTTP(w, r)
			})
		})
		c := s.Client(t, s.Account("alice", "100"))
		if _, err := c.Group("g").Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Group("g").Put(t.Context(), "f", strings.NewReader("content")); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(sent, []byte(`"versioned":true`)) != offers || bytes.Contains(sent, []byte("versioned")) != offers {
			t.Errorf("offered %v, and it sent %s", offers, sent)
		}
	}
}

// A version that a newer one ended keeps its name old, as one that retention ended does:
// nobody takes the name of a file because the file has changed.
func TestEndedVersionsKeepTheirName(t *testing.T) {
	t.Parallel()
	for reason, keeps := range map[string]bool{wire.ReasonVersionPolicy: true, wire.ReasonRetentionPolicy: true, wire.ReasonOwnerRequest: false} {
		e := sdk.Entry{Seq: 3, ChangedSeq: 9, Deleted: &sdk.Deletion{Reason: reason}}
		if age := e.Named().Age; (age == 3) != keeps {
			t.Errorf("%s: the age is %d", reason, age)
		}
	}
}

// A version that got its name late, and that a newer one ended, makes the name no older
// than that: nobody takes the name of another file with an old upload.
func TestEndedVersionsMakeNoNameOlder(t *testing.T) {
	t.Parallel()
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	alice := d.Client(t, d.Alice).Group(d.Group)
	upload, err := alice.Put(t.Context(), "old upload", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	before, err := alice.Put(t.Context(), "name/of another", strings.NewReader("y"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := alice.Rename(t.Context(), upload.Ref, "name"); err != nil {
		t.Fatal(err)
	}
	newest, err := alice.Put(t.Context(), "newest", strings.NewReader("z"))
	if err != nil {
		t.Fatal(err)
	}
	end := about(t, d, "name", chain.KindTombstone, wire.ReasonVersionPolicy)
	named := entryOf(t, remembering(t, d, ""), d, upload.Ref).Number
	end.Tags = slices.Insert(end.Tags, 1, chain.Tag{Name: chain.TagNamed, Value: strconv.FormatInt(named, 10)}) // in the order of the names
	running := remembering(t, d, "")
	if _, err := running.Group(d.Group).Entries(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.Show(d.Log().Rewritten(keepAll).Invent(end))
	for who, c := range map[string]*sdk.Client{"a client that runs": running, "a client that begins": remembering(t, d, "")} {
		opts := []sdk.ListOptions{}
		if c == running {
			opts = append(opts, sdk.ListOptions{Since: newest.Seq}) // then the record alone tells
		}
		if e := entryOf(t, c, d, upload.Ref, opts...); e.Deleted == nil || e.Named().Age != int64(named) || named <= before.Number {
			t.Errorf("%s: the name is as old as %d, want %d: %+v", who, e.Named().Age, named, e)
		}
	}
}

// entryOf lists the group of a world and returns one file.
func entryOf(t *testing.T, c *sdk.Client, d *testkit.World, ref sdk.Ref, opts ...sdk.ListOptions) sdk.Entry {
	t.Helper()
	entries, err := c.Group(d.Group).Entries(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(entries, func(e sdk.Entry) bool { return e.Ref == ref })
	if i < 0 {
		t.Fatalf("%s is not listed: %+v", ref, entries)
	}
	return entries[i]
}
