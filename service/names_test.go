package service_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// rootOfNames checks that the signed root of names of group g is the one that the records of its chain give.
func (u *user) rootOfNames(t *testing.T) {
	t.Helper()
	rows, proof := u.chain("g", object{"names": true})
	var replay chain.Replay
	at := chain.Place{}
	for _, row := range rows {
		r := chain.Row{Record: *hashed(t, row, "g", at.Hash)}
		at = chain.PlaceOf(&r.Record)
		r.Hash = at.Hash
		replay.Apply(&r)
	}
	if proof.Names == nil {
		t.Fatal("the list has no root of names")
	}
	root := replay.Root()
	if proof.Names.Root != hex.EncodeToString(root[:]) {
		t.Errorf("after %s the root of names is %s, want %x", rows[len(rows)-1].Kind, proof.Names.Root, root)
	}
	u.signed(proof.Names.ChainHead, chain.Statement{Chain: chain.OfGroup("g"), Place: at},
		func(s chain.Statement) []byte { return s.NamesText(nonce, root) })
}

// Whatever changes a group, the root of names that the service signs then follows from the records, and the audit finds
// the same in the tables. A list that does not ask has none.
func TestThreat26RootOfNames(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	alice, owner := g.alice, g.owner
	alice.rootOfNames(t)
	first := alice.upload("g", "a/x", []byte("1"))
	second := alice.upload("g", "a/x", []byte("2"))
	alice.rootOfNames(t)
	for _, change := range []func(){
		func() { alice.upload("g", "a/deep/y", []byte("y")) },
		func() { alice.upload("g", "", []byte("without a name")) },
		func() { alice.makesFolder("empty"); alice.makesFolder("a/deep/made") },
		func() {
			must[string](alice, wire.OpSetAttributes, attributesRequest(second.CID, `{"executable":true}`))
		},
		func() { alice.renamesFolder("a", "b", alice.lastSeq()) },
		func() {
			must[string](alice, wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": first.CID, "filename": "b"})
		},
		func() { alice.removes("b/x", alice.lastSeq()) },
		func() { alice.renamesFolder("b", "c/d", alice.lastSeq()) },
		func() { alice.restores("b/x", alice.lastSeq()) },
		func() { alice.removesFolder("empty") },
		func() { must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": first.CID}) },
		func() { alice.removes("b/x", alice.lastSeq()); g.wait(40); g.running.removes(1) },
	} {
		change()
		owner.rootOfNames(t)
	}
	g.audits()
	if _, proof := alice.chain("g", nil); proof.Names != nil {
		t.Error("a list that did not ask has a root of names")
	}
}

// The audit names the group whose tables and records differ in what lives.
func TestThreat26AuditOfNames(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	alice.upload("g", "a/x", []byte("1"))
	alice.makesFolder("made")
	s, err := store.Open(t.Context(), r.dir, r.database)
	ok(t, err)
	defer s.Close()
	alice.rootOfNames(t)
	compare := func() error {
		return s.Read(t.Context(), func(tx *store.Tx) error { return ledger.CompareNames(t.Context(), tx) })
	}
	ok(t, compare())
	for what, change := range map[string][2]string{
		"another name":     {"UPDATE files SET filename = 'b'", "UPDATE files SET filename = 'a/x'"},
		"a removed file":   {"UPDATE files SET trash_ns = 1", "UPDATE files SET trash_ns = NULL"},
		"other attributes": {"UPDATE files SET attributes = '{}'", "UPDATE files SET attributes = ''"},
		"another folder":   {"UPDATE folders SET path = 'b/'", "UPDATE folders SET path = 'made/'"},
	} {
		r.exec(change[0] + " WHERE group_id = 'g'")
		if err := compare(); !errors.Is(err, ledger.ErrBroken) {
			t.Errorf("%s: %v", what, err)
		}
		refused(t, what, compare(), `group "g"`)
		r.exec(change[1] + " WHERE group_id = 'g'")
	}
	ok(t, compare())
}

// A kept tree of names that somebody changed proves nothing: it is built anew.
func TestThreat26DamagedNamesAreBuiltAnew(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	for i := range 40 {
		alice.upload("g", fmt.Sprint("a/", i), []byte("1"))
	}
	alice.rootOfNames(t)
	for what, change := range map[string]string{
		"other pages":   "UPDATE name_pages SET data = ?",
		"missing pages": "DELETE FROM name_pages WHERE data <> ?",
		"another root":  "UPDATE name_trees SET root = ?",
	} {
		r.exec(change, []byte("else"))
		alice.rootOfNames(t)
		alice.upload("g", what, []byte("1"))
		answer := alice.part(object{"name": "a/7"})
		if replay := alice.living(t, answer); !bytes.Equal(answer.Names, replay.Prove("a/7", 1).Encode()) {
			t.Errorf("%s: another proof", what)
		}
	}
}
