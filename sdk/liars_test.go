package sdk_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/view"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/testkit"
)

func remembering(t *testing.T, d *testkit.World, dir string, changes ...func(*sdk.Config)) *sdk.Client {
	t.Helper()
	return d.Client(t, d.Bob, append(changes, func(c *sdk.Config) { c.StateDir = dir })...)
}

func listed(t *testing.T, c *sdk.Client, g sdk.GroupID, want int) {
	t.Helper()
	entries, err := c.Group(g).Entries(t.Context())
	if err != nil || len(entries) != want {
		t.Fatalf("%d entries, %v; want %d", len(entries), err, want)
	}
}

// Threat 6: the service acknowledges an upload with a signed receipt, and hides it
// afterwards, from the uploader.
func TestThreat6HiddenAfterTheReceipt(t *testing.T) {
	t.Parallel()
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	before := d.Log().Rewritten(keepAll)
	dir := t.TempDir()
	c := remembering(t, d, dir)
	if _, err := c.Group(d.Group).Put(t.Context(), "new.txt", bytes.NewReader([]byte("new"))); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	d.Show(before)
	_, err := remembering(t, d, dir).Group(d.Group).Entries(t.Context())
	if sdk.KindOf(err) != sdk.ErrCorrupt || !strings.Contains(err.Error(), "newer ones are left out") {
		t.Errorf("got %v", err)
	}
}

func keepAll(*chain.Record) bool { return true }

// changing lies about the result of an operation that succeeded.
func changing(lie func(result map[string]any)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return testkit.Changed(next, func(answer *map[string]any) { lie((*answer)["result"].(map[string]any)) })
	}
}

// Threat 6: an answer about the dialect that makes no sense does not free a service from
// proving what it lists: the next call asks again. After the page of a portal the same call does.
func TestThreat6SenselessCapabilities(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter){
		"no JSON": say(http.StatusOK, "{"), "a portal": say(http.StatusOK, "<html>sign in</html>"), "forbidden": say(http.StatusForbidden, "{}"),
	} {
		t.Run(name, func(t *testing.T) {
			d := testkit.NewWorld(t, testkit.OnHistory, false)
			key := d.Log().VerifierKey()
			c := remembering(t, d, "", func(c *sdk.Config) { c.LogKey = key })
			d.Disturb(wire.PathCapabilities, scripted(answer))
			if list, err := c.Group(d.Group).Entries(t.Context()); (err == nil) != (name == "a portal") {
				t.Errorf("the first call lists %d entries, %v", len(list), err)
			}
			listed(t, c, d.Group, 4)
			if trust, err := c.Trust(t.Context()); err != nil || !trust.Proves {
				t.Errorf("it is believed without proofs: %+v, %v", trust, err)
			}
		})
	}
}

// Threat 6: a service that never proved anything is refused by who has its log key.
func TestThreat6LogKeyDemandsProofs(t *testing.T) {
	t.Parallel()
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	key := d.Log().VerifierKey()
	withKey := func(c *sdk.Config) { c.LogKey = key }
	listed(t, remembering(t, d, "", withKey), d.Group, 4)
	d.Answer(wire.PathCapabilities, http.NotFound)
	if _, err := remembering(t, d, "", withKey).Group(d.Group).Entries(t.Context()); sdk.KindOf(err) != sdk.ErrCorrupt {
		t.Errorf("without proofs: %v", err)
	}
	if _, err := remembering(t, d, "").Group(d.Group).Entries(t.Context()); err != nil {
		t.Errorf("who requires nothing: %v", err)
	}
	d.Disturb(wire.PathCapabilities, nil)
	other := testkit.NewWorld(t, testkit.OnHistory, false).Log().VerifierKey()
	if _, err := remembering(t, d, "", func(c *sdk.Config) { c.LogKey = other }).Group(d.Group).Entries(t.Context()); sdk.KindOf(err) != sdk.ErrCorrupt {
		t.Errorf("another key: %v", err)
	}
	dir := t.TempDir()
	first := remembering(t, d, dir)
	listed(t, first, d.Group, 4)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := remembering(t, d, dir, func(c *sdk.Config) { c.LogKey = other }).Group(d.Group).Entries(t.Context()); sdk.KindOf(err) != sdk.ErrCorrupt {
		t.Errorf("another key than the pinned one: %v", err)
	}
}

// Threat 6: the service signs a receipt for a place that the group had before, so
// that it may hide the upload later.
func TestThreat6ReceiptOfAnOldPlace(t *testing.T) {
	t.Parallel()
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	c := remembering(t, d, "")
	listed(t, c, d.Group, 4)
	d.Show(d.Log().Rewritten(func(r *chain.Record) bool { // of a log in which the group is shorter
		if r.Seq > 3 {
			r.Group = "other"
		}
		return true
	}))
	if _, err := c.Group(d.Group).Put(t.Context(), "new.txt", bytes.NewReader([]byte("new"))); sdk.KindOf(err) != sdk.ErrCorrupt || !strings.Contains(err.Error(), "had 7 records before") {
		t.Errorf("got %v", err)
	}
}

// Threat 6: who requires a witness or a key, or has seen proofs, is not talked out
// of them; a fault or a portal before the service is no accusation.
func TestThreat6CapabilitiesThatVanish(t *testing.T) {
	t.Parallel()
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	dir := t.TempDir()
	first := remembering(t, d, dir)
	listed(t, first, d.Group, 4)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	d.Answer(wire.PathCapabilities, http.NotFound)
	required := func(c *sdk.Config) { c.Witness = testkit.NewWitness("w.example/1").VerifierKey() }
	if _, err := remembering(t, d, "", required).Group(d.Group).Entries(t.Context()); sdk.KindOf(err) != sdk.ErrCorrupt {
		t.Errorf("a witness is required: %v", err)
	}
	for status, body := range map[int]string{500: "oops", 507: "full", 403: "no", 200: "<html>Sign in to the Wi-Fi</html>"} {
		d.Answer(wire.PathCapabilities, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
		entries, err := remembering(t, d, dir).Group(d.Group).Entries(t.Context())
		if err == nil || len(entries) > 0 || strings.Contains(err.Error(), "does not any more") {
			t.Errorf("%d: %d entries, %v", status, len(entries), err)
		}
	}
}

// Threat 6: the service shows alice one history and bob another, each complete and
// signed. Without a witness nobody notices until they compare; a witness signs only
// one of the two.
func TestThreat6SplitView(t *testing.T) {
	t.Parallel()
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	w := testkit.NewWitness("witness.example/1")
	shown := d.Log()
	shown.Cosign = w.Cosign
	required := func(c *sdk.Config) { c.Witness = w.VerifierKey() }
	listed(t, remembering(t, d, "", required), d.Group, 4)
	other := shown.Rewritten(func(r *chain.Record) bool {
		if r.Detail == "payroll.txt" {
			r.Detail = "draft.txt"
		}
		return true
	})
	d.Show(other)
	listed(t, remembering(t, d, ""), d.Group, 4) // who has seen nothing and asks for no witness
	if _, err := remembering(t, d, "", required).Group(d.Group).Entries(t.Context()); sdk.KindOf(err) != sdk.ErrCorrupt || !strings.Contains(err.Error(), "witness") {
		t.Errorf("without the witness: %v", err)
	}
	other.Cosign = w.Cosign // which refuses a fork of what it signed
	if _, err := remembering(t, d, "", required).Group(d.Group).Entries(t.Context()); sdk.KindOf(err) != sdk.ErrCorrupt || !strings.Contains(err.Error(), "witness") {
		t.Errorf("the witness was asked to sign both: %v", err)
	}
	d.Show(shown)
	listed(t, remembering(t, d, "", required), d.Group, 4)
}

// Threat 6: an operator shows last week's history, with the signature that the witness gave it then. Who
// requires the witness gets no list of it; one that is signed anew, or a client that allows the age, goes on.
func TestThreat6WitnessSignedLongAgo(t *testing.T) {
	t.Parallel()
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	w := testkit.NewWitness("witness.example/1")
	age := 11 * time.Minute
	w.Clock = func() time.Time { return time.Now().Add(-age) }
	shown := d.Log()
	shown.Cosign = w.Cosign
	required := func(c *sdk.Config) { c.Witness = w.VerifierKey() }
	c := remembering(t, d, "", required)
	_, err := c.Group(d.Group).Entries(t.Context())
	if sdk.KindOf(err) != sdk.ErrUnavailable || errorCode(err) != wire.CodeWitness || !strings.Contains(err.Error(), "witness.example/1") {
		t.Errorf("11 minutes old: %v", err)
	}
	if _, err := c.CheckTrust(t.Context()); errorCode(err) != wire.CodeWitness {
		t.Errorf("11 minutes old, compared: %v", err)
	}
	listed(t, remembering(t, d, "", required, func(c *sdk.Config) { c.WitnessAge = time.Hour }), d.Group, 4)
	age = 9 * time.Minute
	listed(t, c, d.Group, 4)
	if _, err := c.CheckTrust(t.Context()); err != nil {
		t.Errorf("9 minutes old: %v", err)
	}
	age = 25 * time.Hour
	if _, err := c.Group(d.Group).Verify(t.Context()); errorCode(err) != wire.CodeWitness {
		t.Errorf("25 hours old, verified: %v", err)
	}
	if _, err := sdk.New(d.Alice.ID, sdk.Config{URL: d.URL, WitnessAge: 25 * time.Hour}); sdk.KindOf(err) != sdk.ErrInvalid {
		t.Errorf("an age of 25 hours: %v", err)
	}
}

// After an honest restore of a backup the client begins anew, with the key it has
// pinned.
func TestAcceptRollback(t *testing.T) {
	t.Parallel()
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	dir := t.TempDir()
	first := remembering(t, d, dir)
	listed(t, first, d.Group, 4)
	_ = first.Close()
	backup := d.Log().Rewritten(func(r *chain.Record) bool { return r.Group == "" || r.Number < 5 })
	d.Show(backup)
	c := remembering(t, d, dir)
	if _, err := c.Group(d.Group).Entries(t.Context()); sdk.KindOf(err) != sdk.ErrCorrupt {
		t.Fatalf("a rollback: %v", err)
	}
	if err := c.AcceptRollback(); err != nil {
		t.Fatal(err)
	}
	listed(t, c, d.Group, 2)
	_ = c.Close()
	again := remembering(t, d, dir)
	listed(t, again, d.Group, 2)
	if trust, err := again.Trust(t.Context()); err != nil || trust.Key != backup.VerifierKey() || !trust.Proves || trust.Size != 6 { // with those of the accounts
		t.Errorf("%+v, %v", trust, err)
	}
}

// An incremental list costs one request, and brings only what is new.
func TestProvenListGoesOn(t *testing.T) {
	t.Parallel()
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	c := remembering(t, d, "")
	all, err := c.Group(d.Group).Entries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	newest := all[len(all)-1].ChangedSeq
	alice := d.Client(t, d.Alice)
	if _, err := alice.Group(d.Group).Rename(t.Context(), all[0].Ref, "renamed.txt"); err != nil {
		t.Fatal(err)
	}
	if _, err := alice.Group(d.Group).Delete(t.Context(), all[1].Ref); err != nil {
		t.Fatal(err)
	}
	asked := d.Hits(wire.PathTools + wire.OpGetGroupTransactions)
	for range 2 { // with the newest again, and without
		news, err := c.Group(d.Group).Entries(t.Context(), sdk.ListOptions{Since: newest})
		if err != nil || len(news) != 2 || news[0].Name != "renamed.txt" || news[0].Uploader != d.Alice.ID || news[0].Size != all[0].Size ||
			news[0].Seq != all[0].Seq || news[0].Hash != all[0].Hash || !news[0].Time.Equal(all[0].Time) || news[1].Deleted == nil || news[1].Name != all[1].Name {
			t.Fatalf("%+v, %v", news, err)
		}
		asked++
	}
	if got := d.Hits(wire.PathTools + wire.OpGetGroupTransactions); got != asked {
		t.Errorf("%d requests, want %d", got, asked)
	}
}

// following lists a group, and from then on what changed since.
func following(t *testing.T, c *sdk.Client, g sdk.GroupID) func() ([]sdk.Entry, error) {
	known := view.New()
	return func() ([]sdk.Entry, error) {
		t.Helper()
		news, err := c.Group(g).News(t.Context(), known)
		if err == nil {
			known.Apply(news...)
			known.Listed(news)
		}
		return news, err
	}
}

// Threat 6, E3: what a service records later must follow what was listed before, though the records of that are not
// read again.
func TestThreat6NewsAndWhatIsKnown(t *testing.T) {
	t.Parallel()
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	renamed, restored := aboutPayroll(t, d, chain.KindRename, "new"), about(t, d, "draft.txt", chain.KindRestore, "")
	ended := about(t, d, "draft.txt", chain.KindRename, "old")
	other := renamed
	other.Tags = slices.Clone(renamed.Tags)
	other.Tags[len(other.Tags)-1].Value = string(d.Bob.ID)
	made := chain.Record{Kind: chain.KindRecord, Account: string(d.Alice.ID), Group: string(d.Group), Ref: renamed.Ref, FileHash: renamed.FileHash, Detail: "x"}
	noFolder := chain.Record{Kind: chain.KindRemoveFolder, Account: string(d.Alice.ID), Group: string(d.Group),
		Ref: "bafyfolder", Detail: "folder", Tags: []chain.Tag{{Name: chain.TagUploaded, Value: "1"},
			{Name: chain.TagUploader, Value: string(d.Alice.ID)}}}
	if _, err := d.Client(t, d.Alice).Group(d.Group).Delete(t.Context(), sdk.Ref(restored.Ref)); err != nil {
		t.Fatal(err)
	}
	before := d.Log().Rewritten(keepAll)
	for _, tc := range []struct {
		record chain.Record
		want   string // a part of the error
	}{
		{renamed, ""},
		{restored, "its file was deleted before"},
		{ended, "its file was deleted before"},
		{aboutPayroll(t, d, chain.KindRestore, ""), "was not removed before"},
		{other, "uploader differs"},
		{made, "was recorded before"},
		{testkit.NotUploaded(d.Alice.ID, d.Group), "nobody uploaded the file that it is about"},
		{noFolder, "nobody made the folder that it removes"},
	} {
		d.Show(before)
		look := following(t, remembering(t, d, ""), d.Group)
		if _, err := look(); err != nil {
			t.Fatal(err)
		}
		d.Show(before.Rewritten(keepAll).Invent(tc.record))
		switch news, err := look(); {
		case tc.want == "" && (err != nil || len(news) != 1 || news[0].Name != "new"):
			t.Errorf("%+v, %v", news, err)
		case tc.want != "" && (sdk.KindOf(err) != sdk.ErrCorrupt || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s of %s: %+v, %v, want %q", tc.record.Kind, tc.record.Ref, news, err, tc.want)
		}
	}
}

// aboutPayroll is a record about the newest version of payroll.txt.
func aboutPayroll(t *testing.T, d *testkit.World, kind, detail string) chain.Record {
	t.Helper()
	return about(t, d, "payroll.txt", kind, detail)
}

// about is a record about the newest version of a name.
func about(t *testing.T, d *testkit.World, name, kind, detail string) chain.Record {
	t.Helper()
	e, err := remembering(t, d, "").Group(d.Group).Stat(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return chain.Record{Kind: kind, Account: string(e.Uploader), Group: string(d.Group), Ref: string(e.Ref), FileHash: e.Commitment.String(), Detail: detail, Tags: []chain.Tag{
		{Name: chain.TagName, Value: e.Name}, {Name: chain.TagType, Value: e.ContentType},
		{Name: chain.TagUpload, Value: strconv.FormatInt(int64(e.Seq), 10)}, {Name: chain.TagUploaded, Value: strconv.FormatInt(e.Time.UnixNano(), 10)},
		{Name: chain.TagUploader, Value: string(e.Uploader)}}}
}

// Threats 6 and 46: a removal and a return are proven like every other record. A
// service that hides a removal, or shows a removed file again without a return, is
// found out.
func TestThreat6Threat46RemovalsAreProven(t *testing.T) {
	t.Parallel()
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	before := d.Log().Rewritten(keepAll)
	until := time.Now().Add(time.Hour)
	removed := aboutPayroll(t, d, chain.KindRemove, strconv.FormatInt(until.UnixNano(), 10))
	restored := aboutPayroll(t, d, chain.KindRestore, "")
	path := t.TempDir()
	running := remembering(t, d, path)
	listed(t, running, d.Group, 4)
	inTrash := func(want int) {
		t.Helper()
		for who, c := range map[string]*sdk.Client{"a client that runs": running, "a client that begins": remembering(t, d, path)} {
			found := 0
			entries, err := c.Group(d.Group).Entries(t.Context())
			for _, e := range entries {
				if e.Deleted != nil {
					found++
					if !e.Deleted.InTrash || !e.Deleted.Until.Equal(until) || string(e.Deleted.By) != removed.Account || e.ChangedSeq <= e.Seq {
						t.Errorf("%s is told %+v", who, e.Deleted)
					}
				}
			}
			if err != nil || found != want {
				t.Fatalf("%s: %d in the trash, %v; want %d", who, found, err, want)
			}
			if c != running {
				if err := c.Close(); err != nil { // it remembers
					t.Fatal(err)
				}
			}
		}
	}
	refused := func(what, proven string) {
		t.Helper()
		for who, c := range map[string]*sdk.Client{"a client that runs": running, "a client that begins": remembering(t, d, path)} {
			if entries, err := c.Group(d.Group).Entries(t.Context()); sdk.KindOf(err) != sdk.ErrCorrupt || len(entries) > 0 || !strings.Contains(err.Error(), proven) {
				t.Errorf("%s, %s: %d entries, %v", what, who, len(entries), err)
			}
		}
	}
	honest := before.Rewritten(keepAll).Invent(removed)
	d.Show(honest)
	inTrash(1)
	d.Show(before)
	refused("a hidden removal", "newer ones are left out")
	d.Show(before.Rewritten(keepAll).Invent(aboutPayroll(t, d, chain.KindRename, "payroll.txt")))
	refused("another record in its place", "seen before")
	d.Show(honest)
	inTrash(1)
	d.Show(honest.Rewritten(keepAll).Invent(restored))
	inTrash(0)
	d.Show(honest)
	refused("a hidden return", "newer ones are left out")
}

// Threat 46: records about a file come in an order that makes sense.
func TestThreat46NoReturnWithoutARemoval(t *testing.T) {
	t.Parallel()
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	before := d.Log().Rewritten(keepAll)
	record := func(kind, detail string) chain.Record { return aboutPayroll(t, d, kind, detail) }
	remove, restore, rename, destroy := record(chain.KindRemove, ""), record(chain.KindRestore, ""), record(chain.KindRename, "x"), record(chain.KindTombstone, wire.ReasonOwnerRequest)
	for _, tc := range []struct {
		name, want string
		records    []chain.Record
	}{
		{"returned twice", "was not removed before", []chain.Record{remove, restore, restore}},
		{"returned without a removal", "was not removed before", []chain.Record{restore}},
		{"removed twice", "was removed before", []chain.Record{remove, remove}},
		{"renamed in the trash", "was removed before", []chain.Record{remove, rename}},
		{"returned after its end", "was deleted before", []chain.Record{remove, destroy, restore}},
		{"removed after its end", "was deleted before", []chain.Record{destroy, remove}},
		{"removed, and its end", "", []chain.Record{remove, destroy}},
		{"removed, returned, renamed, removed", "", []chain.Record{remove, restore, rename, remove}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log := before.Rewritten(keepAll)
			for _, r := range tc.records {
				log.Invent(r)
			}
			d.Show(log)
			entries, err := remembering(t, d, "").Group(d.Group).Entries(t.Context())
			if tc.want == "" && (err != nil || len(entries) != 4) || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%d entries, %v", len(entries), err)
			}
		})
	}
}

// Threats 5 and 6: which files a renamed folder concerns follows from the records before
// it. A service cannot move others with it, hide it, or tell a client that runs other
// names than one that begins.
func TestThreat5Threat6FoldersMoveWhatTheyHold(t *testing.T) {
	t.Parallel()
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	alice := d.Client(t, d.Alice).Group(d.Group)
	for _, name := range []string{"pay/may.txt", "pay/june.txt", "payments.txt", "pay/deleted.txt"} {
		r, err := alice.Put(t.Context(), name, bytes.NewReader([]byte(name)))
		if err != nil {
			t.Fatal(err)
		}
		if name == "pay/deleted.txt" {
			if _, err := alice.Delete(t.Context(), r.Ref); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := d.Log().Rewritten(keepAll)
	folder := func(from, to string) chain.Record {
		return chain.Record{Kind: chain.KindRenameFolder, Account: string(d.Alice.ID), Group: string(d.Group), Detail: to, Tags: []chain.Tag{{Name: chain.TagFolder, Value: from}}}
	}
	for _, tc := range []struct {
		name    string
		records []chain.Record
		want    string // names, or a part of the error
	}{
		{"a folder", []chain.Record{folder("pay", "old/pay")}, "payroll.txt draft.txt old.txt payroll.txt old/pay/may.txt old/pay/june.txt payments.txt pay/deleted.txt"},
		{"a file", []chain.Record{folder("payroll.txt", "x")}, "payroll.txt draft.txt old.txt payroll.txt pay/may.txt pay/june.txt payments.txt pay/deleted.txt"},
		{"there and back", []chain.Record{folder("pay", "x"), folder("x", "pay")}, "payroll.txt draft.txt old.txt payroll.txt pay/may.txt pay/june.txt payments.txt pay/deleted.txt"},
		{"no folder", []chain.Record{folder("", "x")}, "which folder"},
		{"to no folder", []chain.Record{folder("pay", "")}, "which folder"},
		{"a prefix of names", []chain.Record{folder("pay/", "x")}, "which folder"},
		{"into itself", []chain.Record{folder("pay", "pay/x")}, "which folder"},
		{"without the folder before", []chain.Record{{Kind: chain.KindRenameFolder, Account: string(d.Alice.ID), Group: string(d.Group), Detail: "x"}}, "which folder"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d.Show(before)
			running := remembering(t, d, "")
			listed(t, running, d.Group, 8)
			log := before.Rewritten(keepAll)
			for _, r := range tc.records {
				log.Invent(r)
			}
			d.Show(log)
			for who, c := range map[string]*sdk.Client{"a client that runs": running, "a client that begins": remembering(t, d, "")} {
				entries, err := c.Group(d.Group).Entries(t.Context())
				var names []string
				for _, e := range entries {
					names = append(names, e.Name)
				}
				if got := strings.Join(names, " "); tc.want != got && (err == nil || !strings.Contains(err.Error(), tc.want)) {
					t.Errorf("%s: %q, %v", who, got, err)
				}
			}
		})
	}
	t.Run("the changes since then", func(t *testing.T) {
		d.Show(before)
		running := remembering(t, d, "")
		entries, err := running.Group(d.Group).Entries(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		newest := entries[len(entries)-1].ChangedSeq // of the deletion
		d.Show(before.Rewritten(keepAll).Invent(folder("pay", "x")))
		for range 3 { // with the newest again, too
			news, err := running.Group(d.Group).Entries(t.Context(), sdk.ListOptions{Since: newest})
			if err != nil || len(news) != 2 || news[0].Name != "x/may.txt" || news[1].Name != "x/june.txt" || news[0].ChangedSeq != news[1].ChangedSeq {
				t.Fatalf("%+v, %v", news, err)
			}
		}
		news, err := running.Group(d.Group).Entries(t.Context(), sdk.ListOptions{Since: newest + 1})
		if err != nil || len(news) != 0 {
			t.Errorf("%+v, %v", news, err)
		}
		d.Show(before)
		if entries, err := running.Group(d.Group).Entries(t.Context()); sdk.KindOf(err) != sdk.ErrCorrupt {
			t.Errorf("a hidden rename: %d entries, %v", len(entries), err)
		}
	})
}

// Threats 5 and 6: a service cannot invent, hide or end recorded folders but by records that say so of
// themselves, and a rename takes along what lies in the folder.
func TestThreat5Threat6RecordedFolders(t *testing.T) {
	t.Parallel()
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	alice := d.Client(t, d.Alice).Group(d.Group)
	kept, err1 := alice.MakeFolder(t.Context(), "kept")
	_, err2 := alice.MakeFolder(t.Context(), "a/b")
	file, err3 := alice.Put(t.Context(), "file", bytes.NewReader([]byte("x")))
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	before := d.Log().Rewritten(keepAll)
	record := func(kind, ref, folder string, tags ...chain.Tag) chain.Record {
		return chain.Record{Kind: kind, Account: string(d.Alice.ID), Group: string(d.Group), Ref: ref, Detail: folder, Tags: tags}
	}
	by := chain.Tag{Name: chain.TagUploader, Value: string(d.Alice.ID)}
	at := chain.Tag{Name: chain.TagUploaded, Value: fmt.Sprint(kept.Time.UnixNano())}
	renamed := record(chain.KindRenameFolder, "", "n", chain.Tag{Name: chain.TagFolder, Value: "a"})
	ref := string(kept.Ref)
	for _, tc := range []struct {
		name    string
		records []chain.Record
		want    string // folders, or a part of the error
	}{
		{"made", []chain.Record{record(chain.KindMakeFolder, "r", "new")}, "kept a/b new"},
		{"removed", []chain.Record{record(chain.KindRemoveFolder, ref, "kept", at, by)}, "a/b"},
		{"made again", []chain.Record{record(chain.KindRemoveFolder, ref, "kept", at, by), record(chain.KindMakeFolder, "r", "kept")}, "a/b kept"},
		{"renamed", []chain.Record{renamed}, "kept n/b"},
		{"made in a renamed folder, and removed", []chain.Record{record(chain.KindMakeFolder, "r", "a"), renamed, record(chain.KindRemoveFolder, "r", "n", by)}, "kept n/b"},
		{"a reference of a file", []chain.Record{record(chain.KindMakeFolder, string(file.Ref), "new")}, "reference was recorded before"},
		{"one reference twice", []chain.Record{record(chain.KindMakeFolder, ref, "new")}, "reference was recorded before"},
		{"without a reference", []chain.Record{record(chain.KindMakeFolder, "", "new")}, "names no folder"},
		{"no folder", []chain.Record{record(chain.KindMakeFolder, "r", "new/")}, "names no folder"},
		{"a removed file", []chain.Record{record(chain.KindRemoveFolder, string(file.Ref), "file", by)}, "not there"},
		{"removed under another name", []chain.Record{record(chain.KindRemoveFolder, ref, "a/b", at, by)}, "not there"},
		{"removed twice", []chain.Record{record(chain.KindRemoveFolder, ref, "kept", at, by), record(chain.KindRemoveFolder, ref, "kept", at, by)}, "not there"},
		{"removed of another maker", []chain.Record{record(chain.KindRemoveFolder, ref, "kept", at, chain.Tag{Name: chain.TagUploader, Value: "bob"})}, "not there"},
		{"renamed as a file", []chain.Record{record(chain.KindRename, ref, "kept/file", at, by)}, "differs from the upload"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d.Show(before)
			running := remembering(t, d, "")
			list := func(c *sdk.Client) (names string, newest sdk.Seq, err error) {
				entries, err := c.Group(d.Group).Entries(t.Context(), sdk.ListOptions{Folders: true})
				var got []string
				for _, e := range entries {
					newest = max(newest, e.ChangedSeq)
					if e.Folder && e.Deleted == nil {
						got = append(got, e.Name)
					}
				}
				return strings.Join(got, " "), newest, err
			}
			if got, _, err := list(running); got != "kept a/b" || err != nil {
				t.Fatalf("before: %q, %v", got, err)
			}
			log := before.Rewritten(keepAll)
			for _, r := range tc.records {
				log.Invent(r)
			}
			d.Show(log)
			for who, c := range map[string]*sdk.Client{"a client that runs": running, "a client that begins": remembering(t, d, "")} {
				if got, _, err := list(c); tc.want != got && (err == nil || !strings.Contains(err.Error(), tc.want)) {
					t.Errorf("%s: %q, %v", who, got, err)
				}
			}
		})
	}
	t.Run("the changes since then", func(t *testing.T) {
		d.Show(before)
		running := remembering(t, d, "")
		entries, err := running.Group(d.Group).Entries(t.Context(), sdk.ListOptions{Folders: true})
		if err != nil {
			t.Fatal(err)
		}
		newest := entries[len(entries)-1].ChangedSeq
		d.Show(before.Rewritten(keepAll).Invent(record(chain.KindRemoveFolder, ref, "kept", at, by)))
		news, err := running.Group(d.Group).Entries(t.Context(), sdk.ListOptions{Folders: true, Since: newest})
		if err != nil || len(news) != 1 || news[0].Ref != kept.Ref || !news[0].Time.Equal(kept.Time) || news[0].Uploader != kept.Uploader || news[0].Deleted == nil || !news[0].Folder {
			t.Errorf("%+v, %v", news, err)
		}
	})
}

// Threat 8: short records of folders make neither more names nor more work than a list may
// have.
func TestThreat8FoldersOfManyFiles(t *testing.T) {
	t.Parallel()
	const files = 5000 // a record moves all of them to a name of 4096 bytes, but not twice as many
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	log := d.Log().Rewritten(keepAll)
	upload := func(i int) {
		log.Invent(chain.Record{Kind: chain.KindRecord, Account: string(d.Alice.ID), Group: string(d.Group), Ref: fmt.Sprint("r", i), FileHash: strings.Repeat("ab", 32), Detail: fmt.Sprint("a/", i)})
	}
	folder := func(from, to string) {
		log.Invent(chain.Record{Kind: chain.KindRenameFolder, Account: string(d.Alice.ID), Group: string(d.Group), Detail: to, Tags: []chain.Tag{{Name: chain.TagFolder, Value: from}}})
	}
	list := func(want string) {
		t.Helper()
		d.Show(log)
		c := remembering(t, d, "", func(c *sdk.Config) { c.MaxFileBytes = 1 << 20 })
		entries, err := c.Group(d.Group).Entries(t.Context())
		if want == "" && err != nil || want != "" && (sdk.KindOf(err) != sdk.ErrCorrupt || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d entries, %v, want %q", len(entries), err, want)
		}
	}
	for i := range files {
		upload(i)
	}
	folder("a", "b")
	folder("b", "a")
	list("")
	for i := range files {
		upload(files + i)
	}
	folder("a", strings.Repeat("b", 4096))
	list("renames more than one record may")
	c := remembering(t, d, "")
	sdk.SetShare(c, 10<<20) // half of the files
	_, err := c.Group(d.Group).Verify(t.Context())
	if sdk.KindOf(err) != sdk.ErrCorrupt || !strings.Contains(err.Error(), "renames more than one record may") {
		t.Errorf("in shares: %v", err)
	}
}

// Threat 8: a long history of renamed folders is listed, and one of short records that rename ever more ends.
// Who reads it little by little is not stopped by what it read before.
func TestThreat8RenamesOfFoldersEnd(t *testing.T) {
	t.Parallel()
	const files = 1000
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	log := d.Log().Rewritten(keepAll)
	record := func(r chain.Record) {
		r.Account, r.Group = string(d.Alice.ID), string(d.Group)
		log.Invent(r)
	}
	name, other := "a", strings.Repeat("b", 1500)
	move := func(times int) {
		for range times { // of 1.5 MB each
			record(chain.Record{Kind: chain.KindRenameFolder, Detail: other,
				Tags: []chain.Tag{{Name: chain.TagFolder, Value: name}}})
			name, other = other, strings.Repeat(string('b'+'c'-rune(other[0])), 1500)
		}
		d.Show(log)
	}
	for i := range files {
		record(chain.Record{Kind: chain.KindRecord, Ref: fmt.Sprint("r", i), FileHash: strings.Repeat("ab", 32),
			Detail: fmt.Sprint("a/", i)})
	}
	small := func(c *sdk.Config) { c.MaxFileBytes = 1 << 20 }
	running := following(t, remembering(t, d, "", small), d.Group)
	for range 2 {
		move(45)
		if _, err := running(); err != nil {
			t.Errorf("little by little: %v", err)
		}
	}
	_, err := remembering(t, d, "", small).Group(d.Group).Entries(t.Context())
	if err != nil { // it moved more than 128 MiB
		t.Errorf("an honest history: %v", err)
	}
	move(230)
	_, err = remembering(t, d, "", small).Group(d.Group).Entries(t.Context())
	if sdk.KindOf(err) != sdk.ErrCorrupt || !strings.Contains(err.Error(), "have no end") {
		t.Errorf("more than 256 KiB for each record: %v", err)
	}
	c := remembering(t, d, "", small)
	sdk.SetShare(c, 512<<10)
	_, err = c.Group(d.Group).Verify(t.Context())
	if sdk.KindOf(err) != sdk.ErrCorrupt || !strings.Contains(err.Error(), "have no end") {
		t.Errorf("in shares: %v", err)
	}
}

// Threat 13: the record of an earlier rename of the same folder proves no new one, also
// under another sequence, which no hash covers.
func TestThreat13EarlierRenameOfAFolder(t *testing.T) {
	t.Parallel()
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	alice := d.Client(t, d.Alice).Group(d.Group)
	r, err := alice.Put(t.Context(), "a/x", bytes.NewReader([]byte("x")))
	if err != nil {
		t.Fatal(err)
	}
	var first any // answer
	d.Disturb(wire.PathTools+wire.OpRenameFolder, changing(func(a map[string]any) { first = maps.Clone(a) }))
	if _, err := alice.RenameFolder(t.Context(), "a", "b", r.Seq); err != nil {
		t.Fatal(err)
	}
	d.Disturb(wire.PathTools+wire.OpRenameFolder, nil)
	back, err := alice.RenameFolder(t.Context(), "b", "a", r.Seq)
	if err != nil {
		t.Fatal(err)
	}
	d.Disturb(wire.PathTools+wire.OpRenameFolder, changing(func(a map[string]any) {
		maps.Copy(a, first.(map[string]any))
		a["record"].(map[string]any)["seq"] = back.Seq + 1
	}))
	if done, err := alice.RenameFolder(t.Context(), "a", "b", back.Seq); sdk.KindOf(err) != sdk.ErrConflict {
		t.Errorf("renamed %+v, %v", done, err)
	}
}

// A rename of a folder whose answer is lost is repeated, and happens once.
func TestRenameFolderAfterALostAnswer(t *testing.T) {
	t.Parallel()
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	alice := d.Client(t, d.Alice).Group(d.Group)
	r, err := alice.Put(t.Context(), "a/x", bytes.NewReader([]byte("x")))
	if err != nil {
		t.Fatal(err)
	}
	d.Disturb(wire.PathTools+wire.OpRenameFolder, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			d.Disturb(wire.PathTools+wire.OpRenameFolder, nil)
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		})
	})
	before := d.Log().Len()
	done, err := alice.RenameFolder(t.Context(), "a", "b", r.Seq)
	if err != nil || done.Versions != 1 || d.Log().Len() != before+1 {
		t.Errorf("renamed %+v, %v, with %d records", done, err, d.Log().Len()-before)
	}
}

// Threat 13: a service that renames another folder, or to another name, confirms nothing,
// although its record is signed.
func TestThreat13AnotherRenameThanAsked(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]wire.RenameFolderRequest{
		"another folder": {Folder: "c", NewFolder: "b"}, "another name": {Folder: "a", NewFolder: "c2"},
	} {
		t.Run(name, func(t *testing.T) {
			d := testkit.NewWorld(t, testkit.OnHistory, false)
			alice := d.Client(t, d.Alice).Group(d.Group)
			for _, name := range []string{"a/x", "c/x"} {
				if _, err := alice.Put(t.Context(), name, bytes.NewReader([]byte("x"))); err != nil {
					t.Fatal(err)
				}
			}
			d.Disturb(wire.PathTools+wire.OpRenameFolder, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					other.GroupID, other.Seq = string(d.Group), 1
					raw, err := json.Marshal(other)
					if err != nil {
						t.Error(err)
					}
					r.Body = io.NopCloser(bytes.NewReader(raw))
					next.ServeHTTP(w, r)
				})
			})
			if done, err := alice.RenameFolder(t.Context(), "a", "b", 1); sdk.KindOf(err) != sdk.ErrCorrupt {
				t.Errorf("renamed %+v, %v", done, err)
			}
		})
	}
}

// A caller that says what it knows gets only new records, also of a renamed folder, and gives the same names as a client that begins.
func TestRenamedFoldersAreReadOnce(t *testing.T) {
	t.Parallel()
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	alice := d.Client(t, d.Alice).Group(d.Group)
	var seen sdk.Seq
	for _, name := range []string{"a/x", "a/y", "b/z"} {
		r, err := alice.Put(t.Context(), name, bytes.NewReader([]byte(name)))
		if err != nil {
			t.Fatal(err)
		}
		seen = r.Seq
	}
	running := remembering(t, d, "")
	look := following(t, running, d.Group)
	if news, err := look(); err != nil || len(news) != 7 {
		t.Fatalf("%d entries, %v", len(news), err)
	}
	var most int // records in one answer
	d.Disturb(wire.PathTools+wire.OpGetGroupTransactions, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := httptest.NewRecorder()
			next.ServeHTTP(answer, r)
			most = max(most, strings.Count(answer.Body.String(), `"trans_id"`))
			_, _ = w.Write(answer.Body.Bytes())
		})
	})
	names := map[sdk.Ref]string{}
	for i, move := range [][2]string{{"a", "c"}, {"c", "d"}, {"b", "d/e"}, {"d", "a"}} {
		done, err := alice.RenameFolder(t.Context(), move[0], move[1], seen)
		if err != nil {
			t.Fatal(err)
		}
		most = 0
		news, err := look()
		if err != nil || int64(len(news)) != done.Versions {
			t.Fatalf("%+v, %v", news, err)
		}
		for _, e := range news {
			names[e.Ref] = e.Name
		}
		if again, err := look(); err != nil || len(again) != 0 || most > 1 {
			t.Errorf("%+v, %v, and %d records read", again, err, most)
		}
		seen = done.Seq
		if _, err := alice.Settings().SetRetention(t.Context(), int64(1000+i)); err != nil {
			t.Fatal(err)
		}
		if news, err := look(); err != nil || len(news) != 0 {
			t.Errorf("a record about no file: %+v, %v", news, err)
		}
	}
	d.Disturb(wire.PathTools+wire.OpGetGroupTransactions, nil)
	fresh, err := remembering(t, d, "").Group(d.Group).Entries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range fresh {
		if name, ok := names[e.Ref]; ok && name != e.Name {
			t.Errorf("a client that runs says %q, one that begins %q", name, e.Name)
		}
	}
	if len(names) != 3 {
		t.Errorf("%d files were renamed: %v", len(names), names)
	}
	var all sync.WaitGroup // calls at the same time share nothing that changes
	for range 4 {
		all.Go(func() {
			for range 5 {
				if news, err := running.Group(d.Group).Entries(t.Context(), sdk.ListOptions{Since: seen - 1}); err != nil || len(news) < 3 || len(news) > 4 {
					t.Errorf("%d entries, %v", len(news), err)
				}
			}
		})
	}
	if _, err := alice.Put(t.Context(), "f", bytes.NewReader([]byte("f"))); err != nil {
		t.Fatal(err)
	}
	all.Wait()
}
