package sdktest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Account is an account with its API key.
type Account struct {
	ID  sdk.AccountID
	Key sdk.Secret
}

// World is a service under test: where it is, and two accounts that have at
// least 20 tokens each and nothing in common. Groups are named at random, so
// one service may serve several runs.
type World struct {
	Config     sdk.Config // addresses; the key is set per account
	Alice, Bob Account
}

// Run checks what every service promises its clients, and what one that speaks our
// dialect promises them beyond that.
func Run(t *testing.T, factory func(testing.TB) World) {
	for _, tc := range []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"Operations", operations}, {"Credentials", credentials}, {"GroupLife", groupLife}, {"OpenGroup", openGroup}, {"Roles", roles}, {"Retention", retention},
		{"Files", files}, {"Versions", versions}, {"Listing", listing}, {"Outsiders", outsiders}, {"Revoked", revoked},
		{"Money", money}, {"Parallel", parallel}, {"DeleteAndRename", deleteAndRename}, {"Folders", folders},
		{"RecordedFolders", recordedFolders}, {"Parts", parts}, {"Trash", trash}, {"TrashNames", trashNames},
		{"Watch", watch}, {"Attributes", attributes}, {"KeptVersions", keptVersions},
		{"GroupSettings", groupSettings},
		{"Blocks", blocks}, {"SealedUploads", sealedUploads},
		{"JournalKeys", journalKeys}, {"Saves", saves}, {"SavesInBlocks", savesInBlocks},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := factory(t)
			s := &suite{world: w, alice: dial(t, w, w.Alice), bob: dial(t, w, w.Bob)}
			s.group = sdk.GroupID("contract-" + uuid.NewString())
			if _, err := s.alice.Group(s.group).Register(t.Context()); err != nil {
				t.Fatal(err)
			}
			tc.run(t, s)
		})
	}
}

type suite struct {
	world      World
	alice, bob *sdk.Client
	group      sdk.GroupID // alice's
}

func dial(t *testing.T, w World, a Account) *sdk.Client {
	t.Helper()
	cfg := w.Config
	cfg.APIKey = a.Key
	c, err := sdk.New(a.ID, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (s *suite) isOurs(t *testing.T) bool {
	t.Helper()
	caps, err := s.alice.Capabilities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return caps.Dialect.IsOurs()
}

func (s *suite) upload(t *testing.T, c *sdk.Client, name string, content []byte) sdk.Receipt {
	t.Helper()
	r, err := c.Group(s.group).Put(t.Context(), name, bytes.NewReader(content))
	if err != nil {
		t.Fatalf("upload %s: %v", name, err)
	}
	return r
}

// is checks the kind of an error.
func is(t *testing.T, what string, err error, kinds ...sdk.Kind) {
	t.Helper()
	if err == nil || !slices.Contains(kinds, sdk.KindOf(err)) {
		t.Errorf("%s: kind %q, want one of %q: %v", what, sdk.KindOf(err), kinds, err)
	}
}

func ok(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func credentials(t *testing.T, s *suite) {
	ctx := t.Context()
	ok(t, "health", s.alice.Health(ctx))
	status, err := s.alice.AuthStatus(ctx)
	if err != nil || !status.Authenticated || status.Account != s.world.Alice.ID {
		t.Errorf("status %+v, %v", status, err)
	}
	status, err = s.alice.Group(s.group).AuthStatus(ctx)
	if err != nil || !status.Authorized {
		t.Errorf("status in an own group %+v, %v", status, err)
	}
	status, err = s.bob.Group(s.group).AuthStatus(ctx)
	if err != nil || status.Authorized {
		t.Errorf("status in another's group %+v, %v", status, err)
	}
	ok(t, "refresh", s.alice.RefreshToken(ctx))
	wrong := dial(t, s.world, Account{s.world.Alice.ID, s.world.Bob.Key})
	_, err = wrong.OwnedGroups(ctx)
	is(t, "another's key", err, sdk.ErrUnauthenticated)
	unknown := dial(t, s.world, Account{"nobody-" + s.world.Alice.ID, s.world.Bob.Key})
	_, err = unknown.OwnedGroups(ctx)
	is(t, "unknown account", err, sdk.ErrNotFound, sdk.ErrUnauthenticated)
	none := dial(t, s.world, Account{ID: s.world.Alice.ID})
	_, err = none.OwnedGroups(ctx)
	is(t, "no key", err, sdk.ErrUnauthenticated)
	_, err = none.Balance(ctx, "")
	ok(t, "balance without a key", err)
}

func groupLife(t *testing.T, s *suite) {
	ctx := t.Context()
	_, err := s.alice.Group(s.group).Register(ctx)
	is(t, "register twice", err, sdk.ErrConflict)
	_, err = s.bob.Group(s.group).Register(ctx)
	is(t, "register another's", err, sdk.ErrConflict)
	_, err = s.bob.Group(s.group).Add(ctx, s.world.Bob.ID)
	is(t, "add oneself", err, sdk.ErrNotAuthorized)
	added, err := s.alice.Group(s.group).Add(ctx, s.world.Bob.ID)
	if err != nil || added.Message == "" {
		t.Errorf("add says %+v, %v", added, err)
	}
	_, err = s.alice.Group(s.group).Add(ctx, s.world.Bob.ID)
	is(t, "add twice", err, sdk.ErrConflict)
	_, err = s.bob.Group(s.group).Revoke(ctx, s.world.Alice.ID)
	is(t, "revoke the owner", err, sdk.ErrNotAuthorized, sdk.ErrConflict)
	owner, err := s.bob.Group(s.group).Owner(ctx)
	if err != nil || owner != s.world.Alice.ID {
		t.Errorf("owner %q, %v", owner, err)
	}
	for c, owned := range map[*sdk.Client]bool{s.alice: true, s.bob: false} {
		members, err := c.Group(s.group).Members(ctx)
		if err != nil || !lists(members, s.world.Alice.ID) || !lists(members, s.world.Bob.ID) || len(members) != 2 {
			t.Errorf("members %v, %v", members, err)
		}
		groups, err := c.Groups(ctx)
		if err != nil || !slices.ContainsFunc(groups, func(g sdk.Group) bool { return g.ID == s.group && g.Owned == owned }) {
			t.Errorf("groups of %s: %+v, %v", c.Account(), groups, err)
		}
		if member, err := c.Group(s.group).IsAuthorized(ctx, ""); err != nil || !member {
			t.Errorf("%s is a member: %v, %v", c.Account(), member, err)
		}
	}
	_, err = s.alice.Group(s.group).Revoke(ctx, s.world.Bob.ID)
	ok(t, "revoke", err)
	_, err = s.alice.Group(s.group).Revoke(ctx, s.world.Bob.ID)
	is(t, "revoke twice", err, sdk.ErrConflict, sdk.ErrNotFound)
	if member, err := s.bob.Group(s.group).IsAuthorized(ctx, ""); err != nil || member {
		t.Errorf("after the revocation a member: %v, %v", member, err)
	}
	_, err = s.alice.Group("no-such-" + s.group).Owner(ctx)
	is(t, "owner of nothing", err, sdk.ErrNotFound)
	_, err = s.alice.Group("no-such-"+s.group).IsAuthorized(ctx, "")
	is(t, "member of nothing", err, sdk.ErrNotFound)
	_, err = s.alice.Group(s.group).Checksum(ctx)
	ok(t, "checksum", err)
}

func openGroup(t *testing.T, s *suite) {
	ctx := t.Context()
	_, err := s.bob.Group(s.group).Join(ctx)
	is(t, "join a closed group", err, sdk.ErrNotAuthorized)
	_, err = s.alice.Group(s.group).OpenJoin(ctx, time.Now().Add(time.Hour))
	is(t, "open a group that cannot be", err, sdk.ErrNotAuthorized, sdk.ErrConflict, sdk.ErrInvalid)
	_, err = s.alice.Group(s.group).OpenJoin(ctx, time.Now().Add(-time.Hour))
	is(t, "open until yesterday", err, sdk.ErrInvalid)
	open := s.group + "-open"
	_, err = s.alice.Group(open).OpenJoin(ctx, time.Now().Add(time.Hour), sdk.JoinOptions{AtMost: 5})
	ok(t, "open", err)
	for range 2 {
		_, err = s.bob.Group(open).Join(ctx)
		ok(t, "join", err)
	}
	if member, err := s.alice.Group(open).IsAuthorized(ctx, s.world.Bob.ID); err != nil || !member {
		t.Errorf("bob joined: %v, %v", member, err)
	}
	_, err = s.bob.Group(open).CloseJoin(ctx)
	is(t, "close as a member", err, sdk.ErrNotAuthorized)
	_, err = s.alice.Group(open).CloseJoin(ctx)
	ok(t, "close", err)
	_, err = s.alice.Group(open).Revoke(ctx, s.world.Bob.ID)
	ok(t, "revoke", err)
	_, err = s.bob.Group(open).Join(ctx)
	is(t, "join a group closed again", err, sdk.ErrNotAuthorized)
}

func roles(t *testing.T, s *suite) {
	ctx := t.Context()
	if !s.isOurs(t) {
		_, err := s.alice.Group(s.group).Add(ctx, s.world.Bob.ID, sdk.RoleReader)
		is(t, "add a reader where there are no roles", err, sdk.ErrUnsupported)
		_, err = s.alice.Group(s.group+"-open").OpenJoin(ctx, time.Now().Add(time.Hour), sdk.JoinOptions{Role: sdk.RoleReader})
		is(t, "open for readers where there are no roles", err, sdk.ErrUnsupported)
		return
	}
	r := s.upload(t, s.alice, "f", []byte("for readers"))
	_, err := s.alice.Group(s.group).Add(ctx, s.world.Bob.ID, sdk.RoleReader)
	ok(t, "add a reader", err)
	_, err = s.alice.Group(s.group).Add(ctx, s.world.Bob.ID)
	is(t, "add the reader again", err, sdk.ErrConflict)
	_, err = s.bob.Group(s.group).Add(ctx, s.world.Bob.ID, sdk.RoleWriter)
	is(t, "a reader raises itself", err, sdk.ErrNotAuthorized)
	has := func(c *sdk.Client, group sdk.GroupID, role sdk.Role) {
		t.Helper()
		groups, err := c.Groups(ctx)
		if err != nil || !slices.ContainsFunc(groups, func(g sdk.Group) bool { return g.ID == group && g.Role == role && g.Owned == (role == sdk.RoleOwner) }) {
			t.Errorf("%s is not %s in %+v, %v", c.Account(), role, groups, err)
		}
		members, err := s.alice.Group(group).Members(ctx)
		if err != nil || !slices.Contains(members, sdk.Member{ID: c.Account(), Role: role}) {
			t.Errorf("%s is not %s among %+v, %v", c.Account(), role, members, err)
		}
	}
	has(s.alice, s.group, sdk.RoleOwner)
	has(s.bob, s.group, sdk.RoleReader)
	_, err = s.bob.Group(s.group).Put(ctx, "g", bytes.NewReader([]byte("x")))
	is(t, "a reader uploads", err, sdk.ErrNotAuthorized)
	if refused := (*sdk.Error)(nil); !errors.As(err, &refused) || refused.Code != wire.CodeReadOnly {
		t.Errorf("a reader who uploads is told %v", err)
	}
	got, _, err := Read(ctx, s.bob.Group(s.group), string(r.Ref))
	if err != nil || string(got) != "for readers" {
		t.Errorf("a reader reads %q, %v", got, err)
	}
	status, err := s.bob.Group(s.group).AuthStatus(ctx)
	if err != nil || !status.Authorized || status.Role != sdk.RoleReader {
		t.Errorf("status of a reader %+v, %v", status, err)
	}
	_, err = s.alice.Group(s.group).Add(ctx, s.world.Bob.ID, sdk.RoleWriter)
	ok(t, "raise the reader", err)
	has(s.bob, s.group, sdk.RoleWriter)
	for id, nobody := range map[sdk.AccountID]bool{"nobody-" + s.world.Bob.ID: true, s.world.Bob.ID: false} {
		_, _ = s.alice.Group(s.group).Revoke(ctx, id) // bob is a member
		added, err := s.alice.Group(s.group).Add(ctx, id, "")
		if err != nil || added.Nobody != nobody || added.Message == "" {
			t.Errorf("adding %s: %+v, %v", id, added, err)
		}
	}
	s.upload(t, s.bob, "g", []byte("as a writer"))
	open := s.group + "-open"
	_, err = s.alice.Group(open).OpenJoin(ctx, time.Now().Add(time.Hour), sdk.JoinOptions{Role: sdk.RoleReader})
	ok(t, "open for readers", err)
	_, err = s.bob.Group(open).Join(ctx)
	ok(t, "join", err)
	has(s.bob, open, sdk.RoleReader)
}

func retention(t *testing.T, s *suite) {
	days := int64(30)
	_, err := s.alice.Group(s.group).Settings().SetRetention(t.Context(), days)
	ok(t, "set", err)
	got, set, err := s.bob.Group(s.group).Settings().Retention(t.Context())
	ok(t, "ask", err)
	if !set || got != days {
		t.Errorf("files are kept %v days (%v), want %d", got, set, days)
	}
	_, err = s.alice.Group(s.group).Settings().ClearRetention(t.Context())
	ok(t, "clear", err)
	if got, set, err := s.bob.Group(s.group).Settings().Retention(t.Context()); err != nil || set {
		t.Errorf("kept for ever: %v days, %v", got, err)
	}
	_, err = s.bob.Group(s.group).Settings().SetRetention(t.Context(), days)
	is(t, "set in another's group", err, sdk.ErrNotAuthorized)
}

func files(t *testing.T, s *suite) {
	ctx := t.Context()
	if _, err := s.alice.Group(s.group).Add(ctx, s.world.Bob.ID); err != nil {
		t.Fatal(err)
	}
	border := wire.InlineBlobBytes - format.Overhead
	for _, size := range []int{0, 1, 2, 3, 1000, border - 1, border, border + 1, 1 << 20, 3<<20 + 1} {
		content := pattern(size)
		name := fmt.Sprintf("file of %d.bin", size)
		r := s.upload(t, s.alice, name, content)
		if r.Ref == "" || r.Hash != sdk.ComputeHash(content) || r.Size != int64(size) || r.Time.IsZero() || strings.Contains(string(r.Tx), `"`) {
			t.Errorf("receipt %+v", r)
		}
		for _, c := range []*sdk.Client{s.alice, s.bob} {
			got, plain, err := Read(ctx, c.Group(s.group), string(r.Ref))
			if err != nil || !bytes.Equal(got, content) || plain.Size != int64(size) || plain.Name != name {
				t.Errorf("%d bytes come back as %d to %s: %+v, %v", size, len(got), c.Account(), plain, err)
			}
		}
	}
	_, _, err := Read(ctx, s.alice.Group(s.group), "no such name")
	is(t, "no such name", err, sdk.ErrNotFound)
	e := sdk.Entry{Group: s.group, Ref: "bafy-no-such-reference", Hash: sdk.ComputeHash(nil), Size: sdk.SizeUnknown}
	is(t, "no such reference", retrieve(ctx, t, s.alice, e), sdk.ErrNotFound)
}

func pattern(size int) []byte {
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(i*7 + i>>8 + size)
	}
	return content
}

// retrieve checks that a failure leaves nothing in the buffer.
func retrieve(ctx context.Context, t *testing.T, c *sdk.Client, e sdk.Entry) error {
	t.Helper()
	b, err := mem.NewPool().Get(0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	_, err = c.Group(e.Group).Retrieve(ctx, e, b)
	if err != nil && b.Len() != 0 {
		t.Errorf("%d bytes are in the buffer after %v", b.Len(), err)
	}
	return err
}

func versions(t *testing.T, s *suite) {
	first := s.upload(t, s.alice, "notes.txt", []byte("one"))
	same := s.upload(t, s.alice, "notes.txt", []byte("one"))
	second := s.upload(t, s.alice, "notes.txt", []byte("two"))
	if first.Ref == same.Ref || first.Ref == second.Ref || first.Tx == second.Tx {
		t.Errorf("uploads share a reference: %q %q %q", first.Ref, same.Ref, second.Ref)
	}
	old, _, err := Read(t.Context(), s.alice.Group(s.group), string(first.Ref))
	if err != nil || string(old) != "one" {
		t.Errorf("the older version is %q, %v", old, err)
	}
	if s.isOurs(t) {
		newest, _, err := Read(t.Context(), s.alice.Group(s.group), "notes.txt")
		if err != nil || string(newest) != "two" {
			t.Errorf("the name means %q, %v", newest, err)
		}
	}
}

func listing(t *testing.T, s *suite) {
	ctx := t.Context()
	empty, err := s.alice.Group(s.group).Entries(ctx)
	if err != nil || len(empty) != 0 {
		t.Errorf("a new group lists %d, %v", len(empty), err)
	}
	names := []string{"a.txt", "dir/b.png", "ünïcödé 文.md", "..", "a\tb", strings.Repeat("x", 300)}
	var receipts []sdk.Receipt
	for i, name := range names {
		receipts = append(receipts, s.upload(t, s.alice, name, pattern(i*10)))
	}
	entries, err := s.alice.Group(s.group).Entries(ctx)
	if err != nil || len(entries) != len(names) {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	rows := s.isOurs(t)
	for i, e := range entries {
		if e.Ref != receipts[i].Ref || e.Hash != receipts[i].Hash || e.Uploader != s.world.Alice.ID || e.Deleted != nil || e.Group != s.group || e.Tx != receipts[i].Tx {
			t.Errorf("entry %d is %+v, uploaded was %+v", i, e, receipts[i])
		}
		if rows && (e.Name != names[i] || e.Size != int64(i*10) || e.Seq == 0 || e.ContentType == "" || e.Number == 0) {
			t.Errorf("entry %d lacks facts: %+v", i, e)
		}
		if rows && e != receipts[i].Entry {
			t.Errorf("entry %d is %+v, the receipt has %+v", i, e, receipts[i].Entry)
		}
		if !rows && (e.Name != "" || e.Size != sdk.SizeUnknown) {
			t.Errorf("entry %d has facts nobody told: %+v", i, e)
		}
	}
	if !s.isOurs(t) {
		return
	}
	for i, e := range entries {
		rest, err := s.alice.Group(s.group).Entries(ctx, sdk.ListOptions{Since: e.ChangedSeq})
		if err != nil || len(rest) != len(entries)-i-1 {
			t.Errorf("after entry %d come %d, %v", i, len(rest), err)
		}
	}
}

func outsiders(t *testing.T, s *suite) {
	ctx := t.Context()
	r := s.upload(t, s.alice, "secret.txt", []byte("not for bob"))
	e := sdk.Entry{Group: s.group, Ref: r.Ref, Hash: r.Hash, Size: r.Size}
	is(t, "retrieve", retrieve(ctx, t, s.bob, e), sdk.ErrNotAuthorized)
	_, err := s.bob.Group(s.group).Put(ctx, "f", bytes.NewReader([]byte("x")))
	is(t, "upload", err, sdk.ErrNotAuthorized)
	_, err = s.bob.Group(s.group).Entries(ctx)
	is(t, "list", err, sdk.ErrNotAuthorized)
	_, err = s.bob.Group(s.group).Members(ctx)
	is(t, "members", err, sdk.ErrNotAuthorized)
	_, err = s.bob.Group("no-such-"+s.group).Put(ctx, "f", bytes.NewReader([]byte("x")))
	is(t, "upload to no group", err, sdk.ErrNotFound, sdk.ErrNotAuthorized)
	// A reference counts in its own group only.
	other := s.group + "-bob"
	if _, err := s.bob.Group(other).Register(ctx); err != nil {
		t.Fatal(err)
	}
	e.Group = other
	is(t, "another group's reference", retrieve(ctx, t, s.bob, e), sdk.ErrNotFound)
}

func revoked(t *testing.T, s *suite) {
	ctx := t.Context()
	if _, err := s.alice.Group(s.group).Add(ctx, s.world.Bob.ID); err != nil {
		t.Fatal(err)
	}
	mine := s.upload(t, s.bob, "by bob", []byte("bob's own"))
	if _, err := s.alice.Group(s.group).Revoke(ctx, s.world.Bob.ID); err != nil {
		t.Fatal(err)
	}
	e := sdk.Entry{Group: s.group, Ref: mine.Ref, Hash: mine.Hash, Size: mine.Size}
	is(t, "retrieve one's own", retrieve(ctx, t, s.bob, e), sdk.ErrNotAuthorized)
	_, err := s.bob.Group(s.group).Put(ctx, "again", bytes.NewReader([]byte("x")))
	is(t, "upload", err, sdk.ErrNotAuthorized)
	ok(t, "the owner still reads it", retrieve(ctx, t, s.alice, e))
	if _, err := s.alice.Group(s.group).Add(ctx, s.world.Bob.ID); err != nil {
		t.Fatal(err)
	}
	ok(t, "readmitted", retrieve(ctx, t, s.bob, e))
}

func money(t *testing.T, s *suite) {
	ctx := t.Context()
	before, err := s.alice.Balance(ctx, "")
	ok(t, "balance", err)
	r := s.upload(t, s.alice, "paid", []byte("content"))
	after, err := s.bob.Balance(ctx, s.world.Alice.ID)
	ok(t, "balance of another", err)
	paid, enough := before.Sub(after)
	if !enough {
		t.Errorf("the balance grew from %s to %s", before.Tokens(), after.Tokens())
	}
	if price, known := s.alice.Price("upload"); known && (paid != price || r.Fee != price) {
		t.Errorf("%s were taken, the price is %s, the receipt says %s", paid.Tokens(), price.Tokens(), r.Fee.Tokens())
	}
	if _, err := s.alice.Group(s.group).Entries(ctx); err != nil {
		t.Error(err)
	}
	read, err := s.alice.Group(s.group).ReadPrice(ctx)
	ok(t, "price of a look", err)
	again, err := s.alice.Balance(ctx, "")
	if cost, enough := after.Sub(again); err != nil || !enough || cost != read {
		t.Errorf("listing cost %s, its price is %s, %v", cost.Tokens(), read.Tokens(), err)
	}
	fee, err := s.alice.EstimateFee(ctx, "register_group")
	if err != nil || fee.IsZero() {
		t.Errorf("registering is free, %v", err)
	}
	if fee, err = s.alice.EstimateFee(ctx, "no such action"); err != nil || !fee.IsZero() {
		t.Errorf("nothing costs %s, %v", fee.Tokens(), err)
	}
	_, err = s.alice.Balance(ctx, "nobody-"+s.world.Alice.ID)
	is(t, "balance of nobody", err, sdk.ErrNotFound)
}

func parallel(t *testing.T, s *suite) {
	ctx := t.Context()
	const writers = 8
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			content := pattern(20_000 * (i + 1)) // some inline, some raw
			r, err := s.alice.Group(s.group).Put(ctx, fmt.Sprint("parallel ", i), bytes.NewReader(content))
			if err != nil {
				t.Error(err)
				return
			}
			got, _, err := Read(ctx, s.alice.Group(s.group), string(r.Ref))
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("writer %d reads %d bytes, %v", i, len(got), err)
			}
		})
	}
	all.Wait()
	if entries, err := s.alice.Group(s.group).Entries(ctx); err != nil || len(entries) != writers {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}

// asListed checks that changes answered files as the group lists them, without the id of the record.
func asListed(t *testing.T, changed []sdk.Entry, listed ...sdk.Entry) {
	t.Helper()
	listed = slices.Clone(listed)
	for i := range listed {
		listed[i].Tx = ""
	}
	if !reflect.DeepEqual(changed, listed) {
		t.Errorf("changed %+v, listed %+v", changed, listed)
	}
}

func deleteAndRename(t *testing.T, s *suite) {
	ctx := t.Context()
	r := s.upload(t, s.alice, "old name", []byte("content"))
	renamed, err := s.alice.Group(s.group).Rename(ctx, r.Ref, "new name")
	var e sdk.Entry
	if s.isOurs(t) {
		ok(t, "rename", err)
		e, err = s.alice.Group(s.group).Stat(ctx, "new name")
		if err != nil || e.Ref != r.Ref || e.ChangedSeq <= e.Seq {
			t.Errorf("renamed %+v, %v", e, err)
		}
		asListed(t, []sdk.Entry{renamed}, e)
	} else {
		is(t, "rename", err, sdk.ErrUnsupported)
	}
	deleted, err := s.alice.Group(s.group).Delete(ctx, r.Ref)
	if !s.isOurs(t) {
		is(t, "delete", err, sdk.ErrUnsupported)
		return
	}
	ok(t, "delete", err)
	entries, err := s.alice.Group(s.group).Entries(ctx)
	if err != nil || len(entries) != 1 || entries[0].Deleted == nil {
		t.Fatalf("after the deletion %+v, %v", entries, err)
	}
	asListed(t, []sdk.Entry{deleted}, entries...)
	is(t, "retrieve", retrieve(ctx, t, s.alice, entries[0]), sdk.ErrDeleted)
	is(t, "retrieve unaware", retrieve(ctx, t, s.alice, e), sdk.ErrDeleted) // by a client that has not heard of it
	ok(t, "delete twice", second(s.alice.Group(s.group).Delete(ctx, r.Ref)))
	again, err := s.alice.Group(s.group).Entries(ctx)
	if err != nil || len(again) != 1 || again[0].ChangedSeq != entries[0].ChangedSeq {
		t.Errorf("deleting twice changed the record to %+v, %v", again, err)
	}
	is(t, "rename what is deleted", second(s.alice.Group(s.group).Rename(ctx, r.Ref, "x")), sdk.ErrDeleted)
	others(t, s)
}

// folders renames a folder, which is one record for every client.
func folders(t *testing.T, s *suite) {
	ctx := t.Context()
	g := s.alice.Group(s.group)
	var newest sdk.Receipt
	for _, name := range []string{"a/x", "a/deep/y", "a/x", "ab", "a", "b/z"} {
		newest = s.upload(t, s.alice, name, []byte(name))
	}
	_, err := g.RenameFolder(ctx, "a", "c", newest.Seq)
	if !s.isOurs(t) {
		is(t, "rename a folder", err, sdk.ErrUnsupported)
		return
	}
	ok(t, "rename a folder", err)
	names := func(c *sdk.Client, want ...string) (entries []sdk.Entry) {
		t.Helper()
		entries, err := c.Group(s.group).Entries(ctx)
		ok(t, "list", err)
		var got []string
		for _, e := range entries {
			got = append(got, e.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the names are %q, want %q", got, want)
		}
		return entries
	}
	entries := names(s.alice, "c/x", "c/deep/y", "c/x", "ab", "a", "b/z")
	at := entries[0].ChangedSeq
	for i, e := range entries {
		if isMoved := i < 3; isMoved != (e.ChangedSeq == at) || isMoved && at <= newest.Seq {
			t.Errorf("%s changed at %d, uploaded were all at %d", e.Name, e.ChangedSeq, newest.Seq)
		}
	}
	is(t, "rename it once more, from an old list", second(g.RenameFolder(ctx, "a", "c", newest.Seq)), sdk.ErrConflict)
	is(t, "a folder without files", second(g.RenameFolder(ctx, "a", "c", at)), sdk.ErrNotFound)
	is(t, "a file", second(g.RenameFolder(ctx, "ab", "d", at)), sdk.ErrNotFound)
	is(t, "into itself", second(g.RenameFolder(ctx, "c", "c/deep", at)), sdk.ErrInvalid)
	is(t, "no folder", second(g.RenameFolder(ctx, "c/", "d", at)), sdk.ErrInvalid)
	s.upload(t, s.alice, "taken/x", []byte("x"))
	is(t, "a name in use", second(g.RenameFolder(ctx, "c", "taken", at)), sdk.ErrConflict)
	if _, err := g.Add(ctx, s.world.Bob.ID); err != nil {
		t.Fatal(err)
	}
	bobs := s.upload(t, s.bob, "c/bob", []byte("bob"))
	is(t, "files of others", second(s.bob.Group(s.group).RenameFolder(ctx, "c", "d", bobs.Seq)), sdk.ErrNotAuthorized)
	done, err := g.RenameFolder(ctx, "c", "d/e", bobs.Seq) // the owner may
	if err != nil || done.Versions != 4 {
		t.Errorf("renamed %+v, %v", done, err)
	}
	ok(t, "rename one", second(g.Rename(ctx, entries[1].Ref, "d/e/one")))
	ok(t, "delete one", second(g.Delete(ctx, entries[0].Ref)))
	_, err = g.RenameFolder(ctx, "d", "f", done.Seq)
	ok(t, "rename a folder above", err)
	for _, c := range []*sdk.Client{s.alice, s.bob} {
		names(c, "d/e/x", "f/e/one", "f/e/x", "ab", "a", "b/z", "taken/x", "f/e/bob")
	}
	news, err := s.bob.Group(s.group).Entries(ctx, sdk.ListOptions{Since: done.Seq})
	if err != nil || len(news) != 4 {
		t.Errorf("%d entries changed since, %v", len(news), err)
	}
}

// recordedFolders records folders, which only those see who ask for them.
func recordedFolders(t *testing.T, s *suite) {
	ctx := t.Context()
	g := s.alice.Group(s.group)
	made, err := g.MakeFolder(ctx, "refs/heads")
	if !s.isOurs(t) {
		is(t, "make a folder", err, sdk.ErrUnsupported)
		is(t, "remove a folder", second(g.RemoveFolder(ctx, "refs/heads")), sdk.ErrUnsupported)
		if list, err := g.Entries(ctx, sdk.ListOptions{Folders: true}); err != nil || len(list) != 0 {
			t.Errorf("listed %+v, %v", list, err)
		}
		return
	}
	ok(t, "make a folder", err)
	if made.Name != "refs/heads" || !made.Folder || made.Ref == "" || made.Uploader != s.world.Alice.ID || made.Seq == 0 || made.Seq != made.ChangedSeq || made.Number == 0 || made.Time.IsZero() {
		t.Errorf("made %+v", made)
	}
	running := s.bob
	if _, err := g.Add(ctx, s.world.Bob.ID); err != nil {
		t.Fatal(err)
	}
	folders := func(c *sdk.Client, since sdk.Seq, want ...string) {
		t.Helper()
		entries, err := c.Group(s.group).Entries(ctx, sdk.ListOptions{Folders: true, Since: since})
		ok(t, "list", err)
		got := map[string]bool{}
		for _, e := range entries {
			if e.Folder && e.Deleted == nil {
				got[e.Name] = true
			}
		}
		if fmt.Sprint(slices.Sorted(maps.Keys(got))) != fmt.Sprint(want) {
			t.Errorf("the folders are %v, want %v", slices.Sorted(maps.Keys(got)), want)
		}
	}
	folders(running, 0, "refs/heads")
	again, err := running.Group(s.group).MakeFolder(ctx, "refs/heads")
	if err != nil || again.Ref != "" {
		t.Errorf("a second time: %+v, %v", again, err)
	}
	file := s.upload(t, s.alice, "file", []byte("x"))
	is(t, "a file", second(g.MakeFolder(ctx, "file")), sdk.ErrConflict)
	is(t, "no folder", second(g.MakeFolder(ctx, "a/")), sdk.ErrInvalid)
	is(t, "nothing", second(g.MakeFolder(ctx, "")), sdk.ErrInvalid)
	is(t, "remove what is not there", second(g.RemoveFolder(ctx, "none")), sdk.ErrNotFound)
	is(t, "remove that of another", second(running.Group(s.group).RemoveFolder(ctx, "refs/heads")), sdk.ErrNotAuthorized)
	if _, err := running.Group(s.group).MakeFolder(ctx, "refs/tags"); err != nil {
		t.Fatal(err)
	}
	is(t, "rename that of another", second(running.Group(s.group).RenameFolder(ctx, "refs", "r", file.Seq)), sdk.ErrNotAuthorized)
	done, err := g.RenameFolder(ctx, "refs", "r", file.Seq)
	if err != nil || done.Versions != 2 {
		t.Errorf("renamed %+v, %v", done, err)
	}
	folders(running, 0, "r/heads", "r/tags")
	removed, err := g.RemoveFolder(ctx, "r/tags") // the owner
	if err != nil || removed.Uploader != s.world.Bob.ID || removed.Deleted == nil || removed.Deleted.By != s.world.Alice.ID || removed.Time.IsZero() {
		t.Errorf("removed %+v, %v", removed, err)
	}
	s.upload(t, s.alice, "r/heads/x", []byte("x"))
	is(t, "remove a folder with a file", second(g.RemoveFolder(ctx, "r/heads")), sdk.ErrConflict)
	folders(running, 0, "r/heads")
	folders(s.alice, 0, "r/heads")
	if entries, err := g.Entries(ctx); err != nil || len(entries) != 2 {
		t.Errorf("a list of files has %+v, %v", entries, err)
	}
	if report, err := g.Verify(ctx); err != nil || report.Files != 2 {
		t.Errorf("verified %d files, %v", report.Files, err)
	}
}

// others may neither delete nor rename, members as little as strangers.
func others(t *testing.T, s *suite) {
	ctx := t.Context()
	r := s.upload(t, s.alice, "alice's", []byte("content"))
	for _, who := range []string{"stranger", "member"} {
		is(t, "delete as a "+who, second(s.bob.Group(s.group).Delete(ctx, r.Ref)), sdk.ErrNotAuthorized)
		is(t, "rename as a "+who, second(s.bob.Group(s.group).Rename(ctx, r.Ref, "bob's")), sdk.ErrNotAuthorized)
		if _, err := s.alice.Group(s.group).Add(ctx, s.world.Bob.ID); who == "stranger" && err != nil {
			t.Fatal(err)
		}
	}
	bobs := s.upload(t, s.bob, "bob's", []byte("content"))
	ok(t, "rename as the uploader", second(s.bob.Group(s.group).Rename(ctx, bobs.Ref, "still bob's")))
	ok(t, "delete as the owner", second(s.alice.Group(s.group).Delete(ctx, bobs.Ref)))
	is(t, "delete what is not there", second(s.alice.Group(s.group).Delete(ctx, "bafy-no-such-reference")), sdk.ErrNotFound)
}

// attributes are recorded with an upload, and changed alone.
func attributes(t *testing.T, s *suite) {
	ctx := t.Context()
	g := s.alice.Group(s.group)
	sent := sdk.Attributes{ModTime: time.Unix(0, -5), Executable: true, XAttrs: map[string]string{"user.a": "\x00<\xff"}}
	r, err := g.Put(ctx, "f", strings.NewReader("content"), sdk.PutOptions{Attributes: sent})
	ok(t, "put", err)
	link, err := g.Put(ctx, "l", strings.NewReader("a/<b>"), sdk.PutOptions{Attributes: sdk.Attributes{Target: "a/<b>"}})
	ok(t, "put a link", err)
	_, err = g.Put(ctx, "l", strings.NewReader("other"), sdk.PutOptions{Attributes: sdk.Attributes{Target: "a/b"}})
	is(t, "put a link to something else than its content", err, sdk.ErrInvalid)
	_, err = g.Put(ctx, "f", strings.NewReader("x"), sdk.PutOptions{Attributes: sdk.Attributes{XAttrs: map[string]string{"user.svcfs.a": ""}}})
	is(t, "put a name of the mount", err, sdk.ErrInvalid)
	if !s.isOurs(t) {
		is(t, "set", second(g.SetAttributes(ctx, r.Ref, sent)), sdk.ErrUnsupported)
		if e := entry(t, g, r.Ref); e.Attributes != nil {
			t.Errorf("attributes %+v", *e.Attributes)
		}
		return
	}
	listed := func(what string, want sdk.Attributes, ref sdk.Ref) {
		t.Helper()
		if e := entry(t, g, ref); e.Attributes == nil || !e.Attributes.Equal(want) {
			t.Errorf("%s: %+v, want %+v", what, e.Attributes, want)
		}
	}
	listed("put", sent, r.Ref)
	listed("put a link", sdk.Attributes{Target: "a/<b>"}, link.Ref)
	target := strings.Repeat("a/", format.MaxTargetBytes/2) + "a"
	most := sdk.Attributes{ModTime: time.Unix(0, 1), Executable: true, Target: target, XAttrs: map[string]string{"user.big": strings.Repeat("\xff", format.MaxAttributeBytes-len("user.big"))}}
	full, err := g.Put(ctx, strings.Repeat("é", 2048), strings.NewReader(target), sdk.PutOptions{Attributes: most})
	ok(t, "put the most", err)
	listed("put the most", most, full.Ref)
	before := entry(t, g, r.Ref)
	sent.ModTime, sent.Executable = time.Unix(1<<40, 0).Round(0), false
	is(t, "set a time after 2261", second(g.SetAttributes(ctx, r.Ref, sent)), sdk.ErrInvalid)
	sent.ModTime = time.Unix(1<<33, 1)
	for i := range 2 {
		set, err := g.SetAttributes(ctx, r.Ref, sent)
		ok(t, "set", err)
		listed("set", sent, r.Ref)
		if i == 0 {
			asListed(t, []sdk.Entry{set}, entry(t, g, r.Ref))
		} else if set.Ref != "" {
			t.Errorf("the same attributes were set again: %+v", set)
		}
	}
	is(t, "set a target", second(g.SetAttributes(ctx, r.Ref, sdk.Attributes{Target: "content"})), sdk.ErrInvalid)
	is(t, "take a target", second(g.SetAttributes(ctx, link.Ref, sdk.Attributes{})), sdk.ErrInvalid)
	changed, err := g.Entries(ctx, sdk.ListOptions{Since: before.ChangedSeq})
	ok(t, "list changes", err)
	changed = slices.DeleteFunc(changed, func(e sdk.Entry) bool { return e.Ref == link.Ref || e.Ref == full.Ref })
	if s.isOurs(t) { // also where the list begins with the changes, a name is as old as it was
		for _, e := range append(slices.Clone(changed), entry(t, g, r.Ref)) {
			if e.NamedNumber != r.Number || e.Named().Age != r.Number {
				t.Errorf("the name is of record %d, with the age %d, want %d", e.NamedNumber, e.Named().Age, r.Number)
			}
		}
	}
	if len(changed) != 1 || changed[0].Ref != r.Ref || changed[0].Seq != r.Seq || changed[0].Name != "f" || changed[0].Attributes == nil || !changed[0].Attributes.Equal(sent) {
		t.Errorf("changes: %+v", changed)
	}
	ok(t, "rename", second(g.Rename(ctx, r.Ref, "g")))
	listed("rename", sent, r.Ref)
	if e := entry(t, g, r.Ref); e.NamedNumber != 0 || e.Named().Age != e.Number {
		t.Errorf("a new name is as old as %d, its record is %d", e.Named().Age, e.Number)
	}
	is(t, "set as a stranger", second(s.bob.Group(s.group).SetAttributes(ctx, r.Ref, sent)), sdk.ErrNotAuthorized)
	is(t, "set what is not there", second(g.SetAttributes(ctx, "bafy-no-such-reference", sent)), sdk.ErrNotFound)
	ok(t, "unset", second(g.SetAttributes(ctx, r.Ref, sdk.Attributes{})))
	if e := entry(t, g, r.Ref); e.Attributes != nil {
		t.Errorf("unset: %+v", *e.Attributes)
	}
	ok(t, "delete", second(g.Delete(ctx, r.Ref)))
	is(t, "set what is deleted", second(g.SetAttributes(ctx, r.Ref, sent)), sdk.ErrDeleted)
}

// entry is the entry of a reference in a new listing.
func entry(t *testing.T, g sdk.Group, ref sdk.Ref) sdk.Entry {
	t.Helper()
	entries, err := g.Entries(t.Context())
	ok(t, "list", err)
	for _, e := range entries {
		if e.Ref == ref {
			return e
		}
	}
	t.Errorf("%s is not listed", ref)
	return sdk.Entry{}
}

// trash removes a name with two versions and brings it back.
func trash(t *testing.T, s *suite) {
	ctx := t.Context()
	g := s.alice.Group(s.group)
	first := s.upload(t, s.alice, "name", []byte("first"))
	newest := s.upload(t, s.alice, "name", []byte("second"))
	if !s.isOurs(t) {
		is(t, "remove", second(g.Remove(ctx, "name")), sdk.ErrUnsupported)
		return
	}
	if _, err := g.Add(ctx, s.world.Bob.ID); err != nil {
		t.Fatal(err)
	}
	is(t, "remove as a member", second(s.bob.Group(s.group).Remove(ctx, "name")), sdk.ErrNotAuthorized)
	is(t, "remove what is not there", second(g.Remove(ctx, "none")), sdk.ErrNotFound)
	listed, err := g.Entries(ctx)
	ok(t, "list", err)
	var removed []sdk.Entry
	for range 2 { // as after a lost answer
		done, err := g.RemoveVersions(ctx, listed)
		ok(t, "remove", err)
		if done.Versions != 2 && done.Versions != 0 || len(done.Entries) != int(done.Versions) {
			t.Errorf("%d versions were removed: %+v", done.Versions, done.Entries)
		}
		removed = append(removed, done.Entries...)
	}
	_, err = s.bob.Group(s.group).Stat(ctx, "name")
	is(t, "find a removed name", err, sdk.ErrNotFound)
	inTrash, err := s.bob.Group(s.group).Trash(ctx)
	if err != nil || len(inTrash) != 2 || inTrash[0].Ref != first.Ref || inTrash[1].Ref != newest.Ref {
		t.Fatalf("the trash holds %+v, %v", inTrash, err)
	}
	asListed(t, removed, inTrash...)
	for _, e := range inTrash {
		if d := e.Deleted; !d.InTrash || d.By != s.world.Alice.ID || d.Until.Before(d.Time) {
			t.Errorf("removed: %+v", d)
		}
		is(t, "retrieve as a member", retrieve(ctx, t, s.bob, e), sdk.ErrDeleted)
		ok(t, "retrieve as the uploader", retrieve(ctx, t, s.alice, e))
	}
	settings, err := g.Settings().Trash(ctx)
	if err != nil || settings.Files != 2 || settings.Held != 0 || settings.Who != wire.TrashUploader {
		t.Errorf("the trash is %+v, %v", settings, err)
	}
	is(t, "bring back as a member", second(s.bob.Group(s.group).Restore(ctx, "name")), sdk.ErrNotAuthorized)
	done, err := g.Restore(ctx, "name")
	if err != nil || done.Versions != 2 {
		t.Errorf("brought back %+v, %v", done, err)
	}
	listed, err = g.Entries(ctx)
	ok(t, "list", err)
	asListed(t, done.Entries, listed...)
	e, err := s.bob.Group(s.group).Stat(ctx, "name")
	if err != nil || e.Ref != newest.Ref || e.Deleted != nil {
		t.Errorf("brought back %+v, %v", e, err)
	}
	is(t, "bring back twice", second(g.Restore(ctx, "name")), sdk.ErrNotFound)
	is(t, "set the trash as a member", second(s.bob.Group(s.group).Settings().SetTrash(ctx, 3, "")), sdk.ErrNotAuthorized)
	is(t, "set no time", second(g.Settings().SetTrash(ctx, -1, "")), sdk.ErrInvalid)
	_, err = g.Settings().SetTrash(ctx, 3, wire.TrashWriters)
	ok(t, "set the trash", err)
	_, err = s.bob.Group(s.group).Remove(ctx, "name")
	ok(t, "remove where every writer may", err)
	if inTrash, err = g.Trash(ctx); err != nil || len(inTrash) != 2 || !inTrash[0].Deleted.Until.IsZero() {
		t.Errorf("the trash holds %+v, %v", inTrash, err)
	}
	ok(t, "delete from the trash", second(g.Delete(ctx, newest.Ref)))
	is(t, "retrieve what was destroyed", retrieve(ctx, t, s.alice, inTrash[1]), sdk.ErrDeleted)
}

// trashNames removes and brings back names that are shown like others.
func trashNames(t *testing.T, s *suite) {
	ctx := t.Context()
	if !s.isOurs(t) {
		return
	}
	g := s.alice.Group(s.group)
	t.Run("one of two that are shown alike comes back", func(t *testing.T) {
		for _, name := range []string{"y\n", "y%0A"} { // the second is as young as its removal, and gets a suffix
			s.upload(t, s.alice, name, []byte(name))
			_, err := g.RemoveVersions(ctx, named(t, g, name))
			ok(t, "remove", err)
		}
		done, err := g.Restore(ctx, "y%0A")
		if err != nil || done.Versions != 1 || len(named(t, g, "y\n")) != 1 {
			t.Errorf("brought back %+v, %v", done, err)
		}
	})
	t.Run("two contents without a name, of one begin of a hash", func(t *testing.T) {
		var receipts []sdk.Receipt
		for _, content := range []string{"content 4794129", "content 6279270"} {
			receipts = append(receipts, s.upload(t, s.alice, "", []byte(content)))
		}
		if a, b := receipts[0].Hash.String(), receipts[1].Hash.String(); a[:12] != b[:12] {
			t.Fatalf("%s and %s", a, b)
		}
		done, err := g.RemoveVersions(ctx, named(t, g, ""))
		if err != nil || done.Versions != 2 {
			t.Errorf("removed %+v, %v", done, err)
		}
	})
}

// keptVersions asks and sets which older versions stay. The setting may be delayed.
func keptVersions(t *testing.T, s *suite) {
	ctx := t.Context()
	g, bobs := s.alice.Group(s.group), s.bob.Group(s.group)
	newest := s.upload(t, s.alice, "saved", []byte("first"))
	for _, content := range []string{"second", "third"} {
		newest = s.upload(t, s.alice, "saved", []byte(content))
	}
	if !s.isOurs(t) {
		is(t, "set", second(g.Settings().SetVersions(ctx, wire.Keep{Last: 1})), sdk.ErrUnsupported)
		is(t, "ask", second(g.Settings().Versions(ctx)), sdk.ErrUnsupported)
		is(t, "try", second(g.Settings().TryVersions(ctx, wire.Keep{Last: 1}, "")), sdk.ErrUnsupported)
		return
	}
	_, err := g.Add(ctx, s.world.Bob.ID)
	ok(t, "add", err)
	is(t, "set as a member", second(bobs.Settings().SetVersions(ctx, wire.Keep{Last: 1})), sdk.ErrNotAuthorized)
	is(t, "try as a member", second(bobs.Settings().TryVersions(ctx, wire.Keep{Last: 1}, "")), sdk.ErrNotAuthorized)
	is(t, "keep too many", second(g.Settings().SetVersions(ctx, wire.Keep{Last: 1 << 40})), sdk.ErrInvalid)
	would, err := g.Settings().TryVersions(ctx, wire.Keep{Last: 1}, "")
	if err != nil || would.Files != 1 || would.Versions != 2 || would.Bytes <= 0 || len(would.Names) != 1 || would.Names[0].Filename != "saved" {
		t.Errorf("it would take %+v, %v", would, err)
	}
	if would, err = g.Settings().TryVersions(ctx, wire.Keep{Last: 1}, "saved"); err != nil || would.Versions != 2 || len(would.Names) != 0 {
		t.Errorf("after the last name it would take %+v, %v", would, err)
	}
	if was, err := bobs.Settings().Versions(ctx); err != nil || was != (wire.VersionSettings{}) {
		t.Errorf("the default is %+v, %v", was, err)
	}
	_, err = g.Settings().SetVersions(ctx, wire.Keep{Last: 2})
	ok(t, "set", err)
	is2 := wire.Keep{Last: 2}
	set, err := bobs.Settings().Versions(ctx)
	if err != nil || set.Keep != is2 && (set.Next != is2 || set.NextAt.IsZero()) {
		t.Errorf("the setting is %+v, %v", set, err)
	}
	if p, err := bobs.Settings().Pending(ctx); s.isOurs(t) && (err != nil || p.VersionsKeep != set.Next || !p.VersionsAt.Equal(set.NextAt)) {
		t.Errorf("there waits %+v, %v, of %+v", p, err, set)
	}
	_, err = g.Settings().SetVersions(ctx, wire.Keep{})
	ok(t, "keep all", err)
	if set, err := bobs.Settings().Versions(ctx); err != nil || set != (wire.VersionSettings{}) {
		t.Errorf("after all are kept: %+v, %v", set, err)
	}
	e, err := bobs.Stat(ctx, "saved")
	if err != nil || e.Ref != newest.Ref {
		t.Errorf("the newest version is %+v, %v", e, err)
	}
}

// groupSettings asks and sets what applies at once, and reads what is saved with keys that are given sealed alone.
func groupSettings(t *testing.T, s *suite) {
	ctx := t.Context()
	g, bobs := s.alice.Group(s.group), s.bob.Group(s.group)
	if !s.isOurs(t) {
		is(t, "set", second(g.Settings().Set(ctx, wire.GroupSettings{Format: 1})), sdk.ErrUnsupported)
		is(t, "ask", second(g.Settings().Get(ctx)), sdk.ErrUnsupported)
		return
	}
	is(t, "ask as a stranger", second(bobs.Settings().Get(ctx)), sdk.ErrNotAuthorized)
	_, err := g.Add(ctx, s.world.Bob.ID)
	ok(t, "add", err)
	is(t, "set as a member", second(bobs.Settings().Set(ctx, wire.GroupSettings{Format: 1})), sdk.ErrNotAuthorized)
	for _, bad := range []wire.GroupSettings{{}, {Format: 3}, {Appends: "both"}, {Format: 1, Keys: "some"}} {
		is(t, fmt.Sprintf("set %+v", bad), second(g.Settings().Set(ctx, bad)), sdk.ErrInvalid)
	}
	want := wire.GroupSettings{Format: 2, Appends: wire.AppendsApart, Keys: wire.KeysAny}
	has := func() {
		t.Helper()
		if got, err := bobs.Settings().Get(ctx); err != nil || got != want {
			t.Errorf("the settings are %+v, %v, want %+v", got, err, want)
		}
	}
	has()
	for _, to := range []wire.GroupSettings{{Format: 1}, {Appends: wire.AppendsMerge}, want, {Keys: wire.KeysSealed}} {
		_, err := g.Settings().Set(ctx, to)
		ok(t, "set", err)
		want = wire.GroupSettings{Format: cmp.Or(to.Format, want.Format), Appends: cmp.Or(to.Appends, want.Appends),
			Keys: cmp.Or(to.Keys, want.Keys)}
		has()
		name := "after " + to.Appends + to.Keys
		_, err = g.Put(ctx, name, strings.NewReader(name))
		ok(t, "put", err)
		f, err := bobs.Open(ctx, name)
		ok(t, "open", err)
		content, err := io.ReadAll(f)
		if _ = f.Close(); err != nil || string(content) != name {
			t.Errorf("%q, %v", content, err)
		}
	}
}

// named are the living versions that are recorded under a name.
func named(t *testing.T, g sdk.Group, name string) []sdk.Entry {
	t.Helper()
	entries, err := g.Entries(t.Context())
	ok(t, "list", err)
	return slices.DeleteFunc(entries, func(e sdk.Entry) bool { return e.Name != name || e.Deleted != nil })
}

func watch(t *testing.T, s *suite) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for what does not come
	defer cancel()
	events, err := s.bob.Watch(ctx, 0)
	if !s.isOurs(t) {
		is(t, "watch", err, sdk.ErrUnsupported)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	mine, err := s.alice.Watch(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.upload(t, s.alice, "before bob", []byte("x"))
	expect(t, "alice", mine, sdk.Event{Kind: sdk.EventUploaded, Group: s.group, Account: s.world.Alice.ID})
	_, err = s.alice.Group(s.group).Add(ctx, s.world.Bob.ID)
	ok(t, "add", err)
	added := expect(t, "bob", events, sdk.Event{Kind: sdk.EventAdded, Group: s.group, Account: s.world.Bob.ID})
	r := s.upload(t, s.alice, "f", []byte("x"))
	expect(t, "bob", events, sdk.Event{Kind: sdk.EventUploaded, Group: s.group, Ref: r.Ref, Account: s.world.Alice.ID})
	ok(t, "rename", second(s.alice.Group(s.group).Rename(ctx, r.Ref, "g")))
	expect(t, "bob", events, sdk.Event{Kind: sdk.EventRenamed, Group: s.group, Ref: r.Ref, Account: s.world.Alice.ID})
	ok(t, "delete", second(s.alice.Group(s.group).Delete(ctx, r.Ref)))
	expect(t, "bob", events, sdk.Event{Kind: sdk.EventDeleted, Group: s.group, Ref: r.Ref, Account: s.world.Alice.ID})
	_, err = s.alice.Group(s.group).Revoke(ctx, s.world.Bob.ID)
	ok(t, "revoke", err)
	revoked := expect(t, "bob", events, sdk.Event{Kind: sdk.EventRevoked, Group: s.group, Account: s.world.Bob.ID})
	s.upload(t, s.alice, "after bob", []byte("x"))
	_, err = s.bob.Group(s.group + "-bob").Register(ctx)
	ok(t, "register", err)
	expect(t, "bob, no longer a member,", events, sdk.Event{Kind: sdk.EventRegistered, Group: s.group + "-bob", Account: s.world.Bob.ID})
	again, err := s.bob.Watch(ctx, added.Seq) // events that he may no longer see are not repeated
	if err != nil {
		t.Fatal(err)
	}
	if got := expect(t, "bob, from the middle,", again, sdk.Event{Kind: sdk.EventRevoked, Group: s.group, Account: s.world.Bob.ID}); got != revoked {
		t.Errorf("told %+v first and %+v then", revoked, got)
	}
	cancel()
	for _, watch := range []iter.Seq2[sdk.Event, error]{events, mine, again} {
		for _, err := range watch {
			if err != nil {
				is(t, "the end of a watch", err, sdk.ErrCanceled)
			}
		}
	}
}

// expect receives the next event, which must be want but for its sequences and
// time, and its reference where want has none.
func expect(t *testing.T, who string, events iter.Seq2[sdk.Event, error], want sdk.Event) sdk.Event {
	t.Helper()
	for got, err := range events {
		if want.Seq, want.ChangedSeq = got.Seq, got.ChangedSeq; want.Ref == "" {
			want.Ref = got.Ref
		}
		want.Time = got.Time
		if err != nil || got != want || got.Seq == 0 || got.ChangedSeq == 0 || got.Time.IsZero() {
			t.Fatalf("%s is told %+v, %v, want %+v", who, got, err, want)
		}
		return got
	}
	t.Fatalf("%s is not told %+v", who, want)
	return want
}

func lists(members []sdk.Member, account sdk.AccountID) bool {
	return slices.ContainsFunc(members, func(m sdk.Member) bool { return m.ID == account })
}
