package service_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

const nonce = "n0nce"

// chain lists a group's chain, with further fields of the request.
func (u *user) chain(group string, more object) ([]wire.TransactionRow, wire.ChainProof) {
	u.t.Helper()
	request := object{"group_id": group, "kinds": wire.KindsChain, "layouts": layouts(), "nonce": nonce}
	for name, value := range more {
		request[name] = value
	}
	status, body := u.tool(wire.OpGetGroupTransactions, request)
	rows, proof, ok := wire.ParseRows([]byte(body), 1000, 100)
	if status != http.StatusOK || !ok {
		u.t.Fatalf("chain of %s: %d %.300s", group, status, body)
	}
	return rows, proof
}

// hashed returns the record that a row of a chain tells of.
func hashed(t *testing.T, row wire.TransactionRow, group string, prev chain.Hash) *chain.Record {
	t.Helper()
	ns, err1 := strconv.ParseInt(*row.Timestamp, 10, 64)
	tags, err2 := chain.ParseTags(row.Tags)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return &chain.Record{Seq: row.Seq, TimeNS: ns, Tx: row.TransID, Kind: row.Kind, Account: row.UserID, Group: group,
		Ref:      row.IPFSHash,
		FileHash: commitmentOf(t, row), Detail: row.Detail, Fee: row.Fee, Request: row.Request, Prev: prev,
		Chain: row.Chain, Number: row.Number, Tags: tags}
}

// commitmentOf is what the record of a row has as its file hash.
func commitmentOf(t *testing.T, row wire.TransactionRow) string {
	t.Helper()
	if row.Opening == "" {
		return row.FileHash
	}
	o, err := chain.ParseOpening(row.Opening)
	if err != nil || row.FileHash != "" {
		t.Fatalf("opening %q beside file hash %q: %v", row.Opening, row.FileHash, err)
	}
	return o.Commitment()
}

// verifies checks rows that begin a chain, and their proof, as a client does, and
// returns the checkpoint.
func (r *running) verifies(group string, rows []wire.TransactionRow, proof wire.ChainProof) tlog.Tree {
	r.t.Helper()
	places := []chain.Place{{}}
	for _, row := range rows {
		last := places[len(places)-1]
		record := hashed(r.t.(*testing.T), row, group, last.Hash)
		if row.PrevHash != "" || row.Number != last.Number+1 || row.Chain != chain.OfGroup(group) {
			r.t.Errorf("row %d: number %d of %q with previous hash %q", row.Seq, row.Number, row.Chain, row.PrevHash)
		}
		if row.Hash != "" || row.GroupID != "" || row.Backend != nil || row.ChangedSeq != row.Seq {
			r.t.Errorf("row %d: %+v", row.Seq, row)
		}
		places = append(places, chain.PlaceOf(record))
	}
	head := places[len(places)-1]
	r.signed(proof.Head, chain.Statement{Chain: chain.OfGroup(group), Place: head},
		func(s chain.Statement) []byte { return s.HeadText(nonce) })

	verifier, err := note.NewVerifier(r.key())
	if err != nil {
		r.t.Fatal(err)
	}
	opened, err := note.Open([]byte(proof.Checkpoint), note.VerifierList(verifier))
	if err != nil {
		r.t.Fatal(err)
	}
	lines := strings.Split(opened.Text, "\n")
	root, err1 := tlog.ParseHash(strings.TrimPrefix(lines[3], wire.ChainsLine))
	size, err2 := strconv.ParseInt(lines[1], 10, 64)
	all, err3 := tlog.ParseHash(lines[2])
	if err1 != nil || err2 != nil || err3 != nil || len(lines) != 6 {
		r.t.Fatalf("checkpoint %q", opened.Text)
	}
	if in := proof.Chain; in == nil {
		if len(rows) > 0 && rows[0].Seq <= size {
			r.t.Errorf("a checkpoint of %d records lacks the chain", size)
		}
	} else {
		var path []chain.Hash
		for _, text := range in.Path {
			hash, err := tlog.ParseHash(text)
			if err != nil {
				r.t.Fatal(err)
			}
			path = append(path, chain.Hash(hash))
		}
		at := places[in.Number]
		if hex.EncodeToString(at.Hash[:]) != in.Hash ||
			!chain.Contains(chain.Hash(root), chain.OfGroup(group), at, path) {
			r.t.Errorf("the checkpoint does not prove record %d of the chain", in.Number)
		}
	}
	return tlog.Tree{N: size, Hash: all}
}

// signed checks the signed parts of a chain.
func (r *running) signed(got wire.ChainHead, want chain.Statement, text func(chain.Statement) []byte) {
	r.t.Helper()
	parts := strings.SplitN(r.key(), "+", 3)
	raw, err1 := base64.StdEncoding.DecodeString(parts[2])
	signature, err2 := base64.StdEncoding.DecodeString(got.Signature)
	ns, err3 := strconv.ParseInt(got.Timestamp, 10, 64)
	if err1 != nil || err2 != nil || err3 != nil {
		r.t.Fatal(err1, err2, err3)
	}
	want.Origin, want.TimeNS = parts[0], ns
	if got.Number != want.Number || got.Hash != hex.EncodeToString(want.Hash[:]) {
		r.t.Errorf("signed was place %d, %s, want %d, %x", got.Number, got.Hash, want.Number, want.Hash)
	}
	if !ed25519.Verify(raw[1:], text(want), signature) {
		r.t.Errorf("the signature of %q is not the log's", text(want))
	}
}

func tag(row wire.TransactionRow, name string) string {
	tags, err := chain.ParseTags(row.Tags)
	if err != nil {
		return err.Error()
	}
	return (&chain.Record{Tags: tags}).Tag(name)
}

// Every record of a group's chain is complete, linked, and proven by a signed head and a
// checkpoint; retrievals are not in the chain.
func TestThreat26ChainOfAGroupIsProven(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	upload := alice.upload("g", "a.txt", []byte("content"))
	alice.retrieve("g", upload.Location)
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "other"})
	must[string](alice, wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": upload.Location, "filename": "b.txt"})
	rows, proof := alice.chain("g", nil)
	r.verifies("g", rows, proof)
	for _, row := range rows[1:] {
		if o, err := chain.ParseOpening(row.Opening); err != nil || o.Size != 7 ||
			o.Hash != sha256.Sum256([]byte("content")) {
			t.Errorf("%s opens to %+v, %v", row.Kind, o, err)
		}
	}
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": upload.Location})
	rows, proof = alice.chain("g", nil)
	var kinds []string
	for _, row := range rows {
		kinds = append(kinds, row.Kind)
	}
	if want := []string{chain.KindRegister, chain.KindRecord, chain.KindRename,
		chain.KindTombstone}; !slices.Equal(kinds, want) {
		t.Fatalf("kinds %q, want %q", kinds, want)
	}
	r.verifies("g", rows, proof)
	if rows[1].Detail != "a.txt" || rows[1].Opening != "" {
		t.Errorf("upload: %+v", rows[1])
	}
	for _, row := range rows[2:] {
		if tag(row, chain.TagUploader) != "alice.svc.testnet" || tag(row, chain.TagUploaded) != *rows[1].Timestamp ||
			tag(row, chain.TagUpload) != fmt.Sprint(rows[1].Number) || row.UploadSeq != rows[1].Seq ||
			row.Opening != "" || row.FileHash != rows[1].FileHash {
			t.Errorf("%s: %+v", row.Kind, row)
		}
	}
	if tag(rows[3], chain.TagName) != "b.txt" {
		t.Errorf("deleted was %q", tag(rows[3], chain.TagName))
	}
	if status, body := bob.tool(wire.OpGetGroupTransactions,
		object{"group_id": "g", "kinds": wire.KindsChain, "layouts": layouts(),
			"nonce": nonce}); status != http.StatusForbidden {
		t.Errorf("a stranger lists the chain: %d %s", status, body)
	}

	until := fmt.Sprint(time.Now().Add(time.Hour).UnixNano())
	must[string](alice, wire.OpCreateHackathonGroup, object{"group_id": "open", "expires_at": until})
	open, proof := bob.chain("open", nil)
	r.verifies("open", open, proof)
}

// Pages come with proofs of their own; an answer continues the checkpoint that the
// client knows.
func TestThreat26ChainProofContinuesWhatIsKnown(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	rows, proof := alice.chain("g", nil)
	before := r.verifies("g", rows, proof)
	for i := range 9 {
		alice.upload("g", fmt.Sprint(i), nil)
	}
	first, _ := alice.chain("g", object{"limit": 4})
	rest, _ := alice.chain("g", object{"after_seq": first[3].Seq, "known_size": before.N})
	all := append(first, rest...)
	if len(first) != 4 || len(all) != 10 {
		t.Fatalf("%d and %d rows", len(first), len(rest))
	}
	r.checkpoint() // everything is signed now
	_, proof = alice.chain("g", object{"known_size": before.N})
	now := r.verifies("g", all, proof)
	var path tlog.TreeProof
	for _, text := range proof.Consistency {
		hash, err := tlog.ParseHash(text)
		if err != nil {
			t.Fatal(err)
		}
		path = append(path, hash)
	}
	if err := tlog.CheckTree(path, now.N, now.Hash, before.N, before.Hash); err != nil || now.N != 11 ||
		proof.Chain == nil || proof.Chain.Number != 10 {
		t.Errorf("from %d to %d records: %v; %+v", before.N, now.N, err, proof.Chain)
	}
	// More than there is: the newest all the same, for the client to call rolled back.
	if _, proof := alice.chain("g", object{"known_size": 1000}); r.verifies("g", all, proof) != now ||
		len(proof.Consistency) != 0 {
		t.Errorf("beyond the end: %+v", proof)
	}
	for name, bad := range map[string]object{"none": {"nonce": ""},
		"long": {"nonce": strings.Repeat("a", wire.MaxNonceBytes+1)}, "line": {"nonce": "a\nb"},
		"size": {"known_size": -1}} {
		request := object{"group_id": "g", "kinds": wire.KindsChain, "layouts": layouts(), "nonce": nonce}
		for field, value := range bad {
			request[field] = value
		}
		if status, body := alice.tool(wire.OpGetGroupTransactions, request); status != http.StatusBadRequest {
			t.Errorf("nonce %s: %d %s", name, status, body)
		}
	}
}

// A log that has stopped proves nothing, and gives no list that is not proven.
func TestThreat26NoProofNoList(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	r.checkpoint()
	if _, err := r.openDatabase().Exec(r.withoutTriggers() + "UPDATE ledger SET fee = '0' WHERE seq = 2"); err != nil {
		t.Fatal(err)
	}
	again := r.again()
	status, body := alice.at(again).tool(wire.OpGetGroupTransactions,
		object{"group_id": "g", "kinds": wire.KindsChain, "layouts": layouts(), "nonce": nonce})
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "svcd audit") {
		t.Errorf("a ledger that was changed: %d %s", status, body)
	}
	if status, _ := alice.at(again).tool(wire.OpGetGroupTransactions,
		object{"group_id": "g"}); status != http.StatusOK {
		t.Errorf("the plain list: %d", status)
	}
}

// The answer to an upload holds its record and a receipt, and so does its
// repetition. The record has the name, also when it came last.
func TestThreat26UploadIsAnsweredWithAReceipt(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	ready := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g"})
	request := object{"upload_id": ready.UploadID, "encrypted_data": seal(t, ready.Key, []byte("content")),
		"file_hash": hash([]byte("content")),
		"format":    object{"version": 1, "filename": "late.txt", "content_type": "text/plain", "original_size": 7}}
	first := must[wire.FinalizeUploadResult](alice, wire.OpFinalizeUpload, request)
	again := must[wire.FinalizeUploadResult](alice, wire.OpFinalizeUpload, request)
	one, _ := json.Marshal(first)
	if two, _ := json.Marshal(again); string(one) != string(two) {
		t.Errorf("repeated:\n%s\n%s", one, two)
	}
	var kept int
	if err := r.openDatabase().QueryRow("SELECT length(result) FROM uploads").Scan(&kept); err != nil || kept == 0 ||
		kept > 400 {
		t.Errorf("%d bytes are kept of the answer, %v: the ledger has its record", kept, err)
	}
	row := first.Record
	if row == nil || first.Receipt == nil || row.GroupID != "g" || row.Detail != "late.txt" ||
		tag(*row, chain.TagType) != "text/plain" {
		t.Fatalf("answer %s", one)
	}
	prev, err := hex.DecodeString(row.PrevHash)
	if err != nil || len(prev) != 32 {
		t.Fatalf("previous hash %q", row.PrevHash)
	}
	record := hashed(t, *row, "g", chain.Hash(prev))
	r.signed(*first.Receipt, chain.Statement{Chain: row.Chain,
		Place: chain.Place{Number: row.Number, Hash: record.Sum()}}, chain.Statement.ReceiptText)
	rows, proof := alice.chain("g", nil)
	r.verifies("g", rows, proof)
	row.PrevHash, row.GroupID = "", ""
	if commitmentOf(t, rows[1]) != row.FileHash {
		t.Errorf("answered %s\nlisted %+v", row.FileHash, rows[1])
	}
	rows[1].FileHash, rows[1].Opening = row.FileHash, ""
	listed, _ := json.Marshal(rows[1])
	if answered, _ := json.Marshal(row); string(answered) != string(listed) {
		t.Errorf("answered %s\nlisted %s", answered, listed)
	}
}

// A client that does not know the layout gets a sentence, not rows that it would
// call forged.
func TestOldVerifiersAreToldToUpdate(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	for _, more := range []object{{}, {"limit": 1}, {"layouts": []string{"svc-ledger-1", chain.KindMakeFolder}},
		{"kinds": wire.KindsChain}, {"kinds": wire.KindsChain, "layouts": []string{"svc-ledger-1"}}} {
		request := object{"group_id": "g", "kinds": wire.KindsAll, "nonce": nonce}
		for field, value := range more {
			request[field] = value
		}
		status, body := alice.tool(wire.OpGetGroupTransactions, request)
		if status != http.StatusBadRequest ||
			!strings.Contains(body, "these records have the layout svc-ledger-3: update svcfs") {
			t.Errorf("%v: %d %s", more, status, body)
		}
	}
	if rows := must[[]wire.TransactionRow](alice, wire.OpGetGroupTransactions,
		object{"group_id": "g", "kinds": wire.KindsAll, "layouts": layouts(), "after_seq": 99}); len(rows) != 0 {
		t.Errorf("behind the end: %d rows", len(rows))
	}
}

// Threat 8: a list of any length is signed page by page, for the request, so that a client holds little that
// nothing proves.
func TestThreat8ChainIsSignedInPages(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice := r.user("alice", "100")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	alice.recorded("g", 700, func(i int) string { return fmt.Sprint(i) })
	rows, proof := alice.chain("g", nil)
	r.verifies("g", rows, proof)
	at, since := chain.Place{}, 0
	for i := range rows {
		at = chain.PlaceOf(hashed(t, rows[i], "g", at.Hash))
		if since++; since > 256 {
			t.Fatalf("%d records up to number %d come without a signature", since, at.Number)
		}
		if page := rows[i].Page; page != nil {
			r.signed(*page, chain.Statement{Chain: chain.OfGroup("g"), Place: at},
				func(s chain.Statement) []byte { return s.PageText(nonce) })
			since = 0
		}
	}
	if since == len(rows) {
		t.Error("no page is signed")
	}
}
