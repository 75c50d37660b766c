package testkit

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// inRecord changes a field of the record that confirms a change.
func inRecord(name string, value any) Mutation {
	return changed(func(_ *World, m map[string]any) { m["record"].(map[string]any)[name] = value })
}

// falseReceipts are about any change: the record, and the receipt that the log signed for it.
func falseReceipts() told {
	return told{
		"none":          without("receipt"),
		"no record":     without("record"),
		"another group": inRecord("group_id", "other"),
		"signature": changed(func(_ *World, m map[string]any) {
			m["receipt"].(map[string]any)["signature"] = strings.Repeat("A", 86) + "=="
		}),
	}
}

// receiptLies are about uploads, which are sealed or not.
func receiptLies() (list []Lie) {
	rows := falseReceipts()
	rows["another name"] = inRecord("detail", "other.txt")
	rows["another chain"] = inRecord("chain", "account:bob")
	rows["another time"] = inRecord("timestamp", "7")
	row := func(name string, tell func(w *World)) {
		list = append(list, Lie{Name: name, On: OnReceipt, Threat: 13, Want: sdk.ErrCorrupt,
			Proven: "may be recorded or not", tell: tell})
	}
	for name, m := range rows {
		row("receipt: "+name, func(w *World) { w.atUploads(m) })
		row("receipt of an upload that is not sealed: "+name, func(w *World) {
			w.at(wire.PathCapabilities, func(w *World, next http.Handler) http.Handler { return w.keyless(next) })
			w.atUploads(m)
		})
	}
	return list
}

func (w *World) atUploads(m Mutation) {
	for _, path := range recording() {
		w.at(path, m)
	}
}

// folderLies are about renamed, made and removed folders.
func folderLies() (list []Lie) {
	rows := falseReceipts()
	rows["nothing"] = changed(func(_ *World, m map[string]any) { m["files"] = 0 })
	rows["another folder"] = inRecord("detail", "other")
	rows["another before"] = inRecord("tags", []any{"files", "1", "folder", "other"})
	rows["an old record"] = inRecord("seq", 1)
	rows["another kind"] = inRecord("kind", chain.KindRename)
	for name, m := range rows {
		list = append(list, Lie{Name: "renamed folder: " + name, On: OnFolder, Threat: 13,
			Path: wire.PathTools + wire.OpRenameFolder, Mutate: m, Want: sdk.ErrCorrupt})
	}
	for op, kind := range map[string]string{wire.OpMakeFolder: chain.KindRemoveFolder,
		wire.OpRemoveFolder: chain.KindMakeFolder} {
		rows := falseReceipts()
		rows["another folder"] = inRecord("detail", "other")
		rows["no reference"] = inRecord("ipfs_hash", "")
		rows["another kind"] = inRecord("kind", kind)
		for name, m := range rows {
			list = append(list, Lie{Name: op + ": " + name, On: OnFolder, Threat: 13, Path: wire.PathTools + op,
				Mutate: m, Want: sdk.ErrCorrupt})
		}
	}
	return list
}

// changeLies are about changes of the two versions of a file, or of one of them.
func changeLies() (list []Lie) {
	first := func(change func(row map[string]any)) Mutation {
		return changed(func(_ *World, m map[string]any) {
			if rows, _ := m["records"].([]any); len(rows) > 0 {
				change(rows[0].(map[string]any))
			}
		})
	}
	field := func(name string, value any) Mutation {
		return first(func(row map[string]any) { row[name] = value })
	}
	all := told{
		"no receipt": without("receipt"),
		"signature":  falseReceipts()["signature"],
		"twice": changed(func(_ *World, m map[string]any) {
			if rows, _ := m["records"].([]any); len(rows) > 0 {
				m["records"] = append(rows, rows[0])
			}
		}),
		"another group":    field("group_id", "other"),
		"another chain":    field("chain", "account:bob"),
		"another account":  field("user_id", "mallory"),
		"another kind":     field("kind", chain.KindRecord),
		"an old record":    field("number", 1),
		"another time":     field("timestamp", "7"),
		"another opening":  field("opening", "1 "+strings.Repeat("0", 64)+" "+strings.Repeat("0", 64)),
		"no upload":        first(func(row map[string]any) { delete(row, "upload_seq") }),
		"no tags":          first(func(row map[string]any) { delete(row, "tags") }),
		"another previous": field("prev_hash", strings.Repeat("0", 64)),
	}
	row := func(op, name string, m Mutation) {
		list = append(list, Lie{Name: op + ": " + name, On: OnChange, Threat: 13, Path: wire.PathTools + op, Mutate: m,
			Want: sdk.ErrCorrupt})
	}
	for _, op := range []string{wire.OpRenameFile, wire.OpSetAttributes, wire.OpDeleteFile, wire.OpRemoveFile,
		wire.OpRestoreFile} {
		for name, m := range all {
			row(op, name, m)
		}
	}
	for _, op := range []string{wire.OpRenameFile, wire.OpSetAttributes, wire.OpDeleteFile} {
		row(op, "another file", field("ipfs_hash", "other"))
	}
	row(wire.OpRenameFile, "nothing", without("records"))
	row(wire.OpRenameFile, "another name", field("detail", "other"))
	row(wire.OpDeleteFile, "another reason", field("detail", wire.ReasonVersionPolicy))
	for _, op := range []string{wire.OpRemoveFile, wire.OpRestoreFile} {
		row(op, "nothing", without("records"))
		row(op, "swapped", changed(func(_ *World, m map[string]any) {
			if rows, _ := m["records"].([]any); len(rows) > 1 {
				rows[0], rows[1] = rows[1], rows[0]
			}
		}))
		row(op, "fewer files", changed(func(_ *World, m map[string]any) { m["files"] = 1 }))
	}
	return list
}

// batchLies are about four uploads in one request: what the service swaps, leaves out, doubles or invents.
func batchLies() (list []Lie) {
	type answers = []wire.SealedAnswer
	row := func(name string, unconfirmed int, change func(answers) answers) {
		list = append(list, Lie{Name: "batch: " + name, On: OnBatch, Threat: 13,
			Path: wire.PathTools + wire.OpFinalizeUploads, Want: sdk.ErrCorrupt, Unconfirmed: unconfirmed,
			Mutate: func(_ *World, next http.Handler) http.Handler {
				type batch struct {
					Result wire.FinalizeUploadsResult `json:"result"`
				}
				return Changed(next, func(b *batch) { b.Result.Uploads = change(b.Result.Uploads) })
			}})
	}
	row("fewer", 4, func(a answers) answers { return a[:3] })
	row("none", 4, func(answers) answers { return nil })
	row("more", 4, func(a answers) answers { return append(a, a[0]) })
	row("swapped", 2, func(a answers) answers { a[0], a[1] = a[1], a[0]; return a })
	row("swapped ids", 2, func(a answers) answers { a[0].ID, a[1].ID = a[1].ID, a[0].ID; return a })
	row("records", 2, func(a answers) answers { a[0].Result, a[1].Result = a[1].Result, a[0].Result; return a })
	row("one for all", 3, func(a answers) answers { return answers{a[0], a[0], a[0], a[0]} })
	row("other id", 1, func(a answers) answers { a[2].ID = strings.Repeat("0", 32); return a })
	row("nothing", 1, func(a answers) answers { a[3].Result = nil; return a })
	row("both", 1, func(a answers) answers { a[3].Error = &wire.Error{Error: "no"}; return a })
	row("no receipt", 1, func(a answers) answers { a[3].Result.Receipt = nil; return a })
	row("ok and error", 1, func(a answers) answers {
		a[3] = wire.SealedAnswer{ID: a[3].ID, Error: &wire.Error{}, Status: 200}
		return a
	})
	row("no base was named", 1, func(a answers) answers {
		a[3] = wire.SealedAnswer{ID: a[3].ID, Error: &wire.Error{Error: "changed", Code: wire.CodeHead}, Status: 409}
		return a
	})
	return list
}

// vaultLies are about the key of the vault that clients seal to. Its third epoch has begun.
func vaultLies() (list []Lie) {
	secret, err := format.NewVaultSecret(bytes.Repeat([]byte{9}, 32))
	if err != nil {
		panic(err) // a constant of this file
	}
	other := secret.Public()
	row := func(name, proven string, change func(w *World, k *wire.VaultKey)) {
		list = append(list, Lie{Name: "vault's key: " + name, On: OnVault, Threat: 51, Path: wire.PathCapabilities,
			Want: sdk.ErrCorrupt, Proven: proven,
			Mutate: func(w *World, next http.Handler) http.Handler {
				return Changed(next, func(c *wire.Capabilities) { change(w, &c.Vault.VaultKey) })
			}})
	}
	signed := func(name, proven string, change func(k *wire.VaultKey)) { // the log of the service itself signs it
		row(name, proven, func(w *World, k *wire.VaultKey) {
			change(k)
			w.Log().SignVault(k, other)
		})
	}
	const unsigned = "was not signed with the key"
	row("another", unsigned, func(_ *World, k *wire.VaultKey) {
		k.PublicKey = base64.StdEncoding.EncodeToString(other)
	})
	row("of another log", unsigned, func(_ *World, k *wire.VaultKey) {
		emptyLog("elsewhere/"+ContractID,
			ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, ed25519.SeedSize))).SignVault(k, other)
	})
	row("another end", unsigned, func(_ *World, k *wire.VaultKey) { k.NotAfter++ })
	row("another epoch", unsigned, func(_ *World, k *wire.VaultKey) { k.Epoch++ })
	row("no signature", unsigned, func(_ *World, k *wire.VaultKey) { k.Signature = "" })
	row("no base64", "is not base64", func(_ *World, k *wire.VaultKey) { k.PublicKey = "!" })
	row("short", "it has 1215 bytes", func(w *World, k *wire.VaultKey) { w.Log().SignVault(k, other[1:]) })
	signed("another kind", "update svcfs", func(k *wire.VaultKey) { k.KEM = 0x20 })
	signed("it ended", "look at the clock of this machine",
		func(k *wire.VaultKey) { k.NotAfter = time.Now().Add(-time.Minute).Unix() })
	signed("an old epoch", "number 3 was seen before", func(k *wire.VaultKey) { k.Epoch = 2 })
	signed("no epoch", "its number is 0", func(k *wire.VaultKey) { k.Epoch = 0 })
	return list
}

// Changed lets the honest service answer and changes the answer, if it is a success.
func Changed[T any](next http.Handler, change func(*T)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		honest := record(next, r)
		answer := new(T)
		if honest.Code != http.StatusOK || json.Unmarshal(honest.Body.Bytes(), answer) != nil {
			forward(w, honest)
			return
		}
		change(answer)
		writeJSON(w, http.StatusOK, answer)
	})
}
