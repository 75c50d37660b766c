package sdk_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/testkit"
)

// TestThreat48AttributesOfOthers: whatever a record says, the list is read, and the target of
// a link is its content.
func TestThreat48AttributesOfOthers(t *testing.T) {
	t.Parallel()
	const draft = "DRAFT: pay Mallory 999999"
	for text, tc := range map[string]struct {
		contentType string
		want        *sdk.Attributes
	}{
		"":                                     {},
		`{`:                                    {},
		`[]`:                                   {},
		`{}`:                                   {},
		`{"later":1}`:                          {},
		`{"mtime":5}`:                          {},
		`{"mtime":"1e3"}`:                      {},
		`{"target":"a\u0000b"}`:                {},
		`{"mtime":"1","xattrs":{"a":""}}`:      {},
		`{"xattrs":{"user.svcfs.ref":"eA=="}}`: {},
		`{"xattrs":{"user.a":"` + strings.Repeat("AAAA", 2000) + `"}}`: {},
		`{"target":"` + strings.Repeat("a", 1<<17) + `"}`:              {},
		` {"executable":true,"mtime":"7","later":[{}]}`:                {want: &sdk.Attributes{ModTime: time.Unix(0, 7), Executable: true}},
		`{"mtime":"9223372036854775807"}`:                              {want: &sdk.Attributes{ModTime: time.Unix(0, 1<<63-1)}},
		`{"target":"/etc/passwd"}`:                                     {contentType: format.TypeSymlink},
		`{"target":"` + draft + `"}`:                                   {contentType: "text/plain"},
		`{"target":"` + draft + `","mtime":"1"}`:                       {want: &sdk.Attributes{ModTime: time.Unix(0, 1)}},
		`{"target":"` + draft + `", "mtime":"1"}`:                      {contentType: format.TypeSymlink, want: &sdk.Attributes{ModTime: time.Unix(0, 1), Target: draft}},
	} {
		t.Run(fmt.Sprintf("%.60s", text), func(t *testing.T) {
			d := testkit.NewWorld(t, testkit.OnHistory, false)
			d.Show(d.Log().Rewritten(func(r *chain.Record) bool {
				if r.Kind == chain.KindRecord && r.Detail == "draft.txt" {
					r.Tags = []chain.Tag{{Name: chain.TagAttributes, Value: text}, {Name: chain.TagType, Value: tc.contentType}}
				}
				return true
			}))
			entries, err := remembering(t, d, "").Group(d.Group).Entries(t.Context())
			if err != nil || len(entries) != 4 {
				t.Fatalf("%d entries, %v", len(entries), err)
			}
			for _, e := range entries {
				if is := e.Name == "draft.txt"; is && !same(e.Attributes, tc.want) || !is && e.Attributes != nil {
					t.Errorf("%s has %+v", e.Name, e.Attributes)
				}
			}
		})
	}
}

// TestThreat17AttributesWithoutTheAgeOfTheName: a record of new attributes says which record
// gave the file its name, or the list is refused.
func TestThreat17AttributesWithoutTheAgeOfTheName(t *testing.T) {
	t.Parallel()
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	before := d.Log().Rewritten(keepAll)
	c := remembering(t, d, "")
	entries, err := c.Group(d.Group).Entries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := about(t, d, "draft.txt", chain.KindAttributes, "")
	last := entries[len(entries)-1].ChangedSeq
	for named, want := range map[string]bool{"": false, "x": false, "1": false, strconv.FormatInt(int64(last)+9, 10): false, r.Tag(chain.TagUpload): true} {
		t.Run(named, func(t *testing.T) {
			d.Show(before.Rewritten(keepAll))
			c := remembering(t, d, "")
			listed(t, c, d.Group, 4)
			r := r
			r.Tags = append(slices.Clone(r.Tags), chain.Tag{Name: chain.TagNamed, Value: named})
			slices.SortFunc(r.Tags, func(a, b chain.Tag) int { return strings.Compare(a.Name, b.Name) })
			d.Show(before.Rewritten(keepAll).Invent(r))
			if _, err := c.Group(d.Group).Entries(t.Context(), sdk.ListOptions{Since: last}); (err == nil) != want || !want && !errors.Is(err, sdk.ErrCorrupt) {
				t.Errorf("a list that begins with it: %v", err)
			}
		})
	}
}

func same(a, b *sdk.Attributes) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(*b)
}

// TestAttributesOfTheNewestAttempt: an upload whose answer was lost is repeated with other
// attributes. It is paid once, and has the attributes of the newest attempt.
func TestAttributesOfTheNewestAttempt(t *testing.T) {
	t.Parallel()
	for _, f := range []testkit.Dialect{testkit.Keyless, testkit.Ours} {
		for _, lostSet := range []int32{0, 9} {
			t.Run(fmt.Sprint(f, " lost ", lostSet), func(t *testing.T) {
				t.Parallel()
				s, c := world(t, f)
				g := c.Group("g")
				s.DisturbUploads(lost(4, 0))
				s.Disturb(wire.PathTools+wire.OpSetAttributes, lost(lostSet, 0))
				var r sdk.Receipt
				var err error
				attempts := int64(0)
				for {
					attempts++
					sent := sdk.Attributes{ModTime: time.Unix(attempts, 0)}
					if r, err = g.Put(t.Context(), "f", strings.NewReader("content"), sdk.PutOptions{Attributes: sent}); err == nil || attempts == 9 {
						break
					}
				}
				if err != nil || attempts < 2 || s.Records() != 1 {
					t.Fatalf("%d attempts, %d records, %v", attempts, s.Records(), err)
				}
				entries, err := g.Entries(t.Context())
				if err != nil || len(entries) != 1 || entries[0].Ref != r.Ref || !same(entries[0].Attributes, &sdk.Attributes{ModTime: time.Unix(attempts, 0)}) {
					t.Errorf("after %d attempts: %+v, %v", attempts, entries, err)
				}
			})
		}
	}
}

// TestLinkAndFileAreTwoUploads: a file with the target of a link as its content is another
// upload, also while the outcome of the first is unknown, and a later one than the link.
func TestLinkAndFileAreTwoUploads(t *testing.T) {
	t.Parallel()
	s, c := world(t, testkit.Ours)
	g := c.Group("g")
	s.DisturbUploads(lost(9, 0))
	if _, err := g.Put(t.Context(), "f", strings.NewReader("target")); err == nil {
		t.Fatal("the answer was not lost")
	}
	s.DisturbUploads(nil)
	link, err := g.Put(t.Context(), "f", strings.NewReader("target"), sdk.PutOptions{Attributes: sdk.Attributes{Target: "target"}})
	if err != nil {
		t.Fatal(err)
	}
	file, err := g.Put(t.Context(), "f", strings.NewReader("target"))
	if err != nil || file.Ref == link.Ref || file.Ref != newest(t, g, "f").Ref || s.Records() != 3 {
		t.Errorf("%s and %s, %d records, %v", link.Ref, file.Ref, s.Records(), err)
	}
}

// TestThreat13ReceiptWithOtherAttributes: the record that a receipt confirms must have the
// attributes that were sent, and no others.
func TestThreat13ReceiptWithOtherAttributes(t *testing.T) {
	t.Parallel()
	executable := sdk.PutOptions{Attributes: sdk.Attributes{Executable: true}}
	for lie, tc := range map[string]struct {
		sent []sdk.PutOptions
		lie  any
	}{
		"left out": {[]sdk.PutOptions{executable}, nil},
		"added":    {nil, map[string]any{"executable": true}},
		"changed":  {[]sdk.PutOptions{executable}, map[string]any{"mtime": "1"}},
	} {
		for _, sealed := range []bool{true, false} {
			s, c := world(t, testkit.Ours)
			if !sealed {
				s.WithoutSealed()
			}
			var lies atomic.Bool
			lies.Store(true)
			s.DisturbUploads(func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if lies.Load() {
						r = withAttributes(t, s, c, r, tc.lie)
					}
					next.ServeHTTP(w, r)
				})
			})
			if _, err := c.Group("g").Put(t.Context(), "f", strings.NewReader("x"), tc.sent...); !errors.Is(err, sdk.ErrCorrupt) || !strings.Contains(err.Error(), "other attributes") {
				t.Errorf("%s: %v", lie, err)
			}
			lies.Store(false)
			if _, err := c.Group("g").Put(t.Context(), "g", strings.NewReader("y"), tc.sent...); err != nil {
				t.Errorf("%s, the truth: %v", lie, err)
			}
		}
	}
}

// withAttributes is a request to finalize an upload, with these attributes alone; nil = none.
func withAttributes(t *testing.T, s *testkit.Server, c *sdk.Client, r *http.Request, attributes any) *http.Request {
	t.Helper()
	var body map[string]any
	if strings.HasPrefix(r.URL.Path, wire.PathSealed) {
		return s.NewHead(r, c.Account(), func(h *wire.SealedHead) {
			var meta map[string]any
			if err := json.Unmarshal(h.Format, &meta); err != nil {
				t.Error(err)
			}
			meta["attributes"] = attributes
			h.Format, _ = json.Marshal(meta)
		})
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		t.Error(err)
	}
	body["format"].(map[string]any)["attributes"] = attributes
	raw, err := json.Marshal(body)
	if err != nil {
		t.Error(err)
	}
	again := r.Clone(r.Context())
	again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	return again
}
