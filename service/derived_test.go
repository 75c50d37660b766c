package service_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/ledger"
)

// told is a service whose ledger derives rows of every table, and three of its files.
type told struct {
	*running
	named, renamed, deleted, removed, folder string
}

func tellOfEveryTable(t *testing.T) told {
	t.Helper()
	r := run(t)
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	until := fmt.Sprint(time.Now().Add(time.Hour).UnixNano())
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	must[string](alice, wire.OpCreateHackathonGroup,
		object{"group_id": "open", "expires_at": until, "max_uses": 3, "role": wire.RoleReader})
	must[string](bob, wire.OpJoinGroup, object{"group_id": "open"})
	must[string](alice, wire.OpAddGroupMember, object{"group_id": "g", "member_id": "bob", "role": wire.RoleReader})
	must[string](alice, wire.OpAddGroupMember, object{"group_id": "g", "member_id": "carol"})
	must[string](alice, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": "carol"})
	must[string](alice, wire.OpSetGroupRetention, object{"group_id": "g", "retention_days": 30})
	named := alice.upload("g", "named", []byte("content")).Location
	renamed := alice.upload("g", "before", []byte("content")).Location
	deleted := alice.upload("g", "deleted", []byte("content")).Location
	folder := alice.makesFolder("folder")
	must[string](alice, wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": renamed, "filename": "after"})
	must[string](alice, wire.OpSetAttributes, attributesRequest(named, `{"mtime":"1"}`))
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": deleted})
	removed := alice.upload("g", "removed", []byte("content"))
	must[string](alice, wire.OpSetGroupTrash, object{"group_id": "g", "days": 7})
	must[wire.NameResult](alice, wire.OpRemoveFile, object{"group_id": "g", "filename": "removed", "seq": removed.Seq})
	must[string](alice, wire.OpSetGroupVersions, object{"group_id": "g", "keep": "9"})
	must[string](alice, wire.OpSetGroupSettings, object{"group_id": "g", "format": 1})
	must[string](alice, wire.OpOfferGroup, object{"group_id": "g", "member_id": "bob"})
	must[string](alice, wire.OpDeleteGroup, object{"group_id": "open"})
	alice.retrieve("g", named)
	amount, err := wire.ParseTokens("1.5")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.svc.Transfer(t.Context(), "alice", "bob", amount); err != nil {
		t.Fatal(err)
	}
	if _, err := r.svc.Fund(t.Context(), "alice", amount); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.svc.RotateKey(t.Context(), "bob"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.svc.CreateAccount(t.Context(), "dave", wire.Amount{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.svc.DisableAccount(t.Context(), "dave"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.svc.Audit(t.Context()); err != nil {
		t.Fatalf("of the true tables: %v", err)
	}
	return told{r, named, renamed, deleted, removed.Location, folder.Record.IPFSHash}
}

// Threat 26: the audit finds a changed row of a derived table, and names table, row,
// column and both values.
func TestThreat26AuditComparesEveryTableWithTheLedger(t *testing.T) {
	r := tellOfEveryTable(t)
	named, renamed, deleted, removed, folder := r.named, r.renamed, r.deleted, r.removed, r.folder
	db := r.openDatabase()
	// literal reads a column as a literal, to put it back.
	literal := func(table, column, where string) string {
		var kind string
		var value any
		ok(t, db.QueryRow("SELECT "+column+" FROM "+table+" WHERE "+where).Scan(&value))
		switch v := value.(type) {
		case nil:
			kind = "NULL"
		case string:
			kind = "'" + v + "'"
		case []byte:
			kind = fmt.Sprintf("x'%x'", v)
			if r.database != "" {
				kind = fmt.Sprintf(`'\x%x'`, v)
			}
		default:
			kind = fmt.Sprint(v)
		}
		return kind
	}
	set := func(table, column, where, value string) {
		t.Helper()
		if _, err := db.Exec("UPDATE " + table + " SET " + column + " = " + value + " WHERE " + where); err != nil {
			t.Fatalf("%s.%s: %v", table, column, err)
		}
	}
	other := map[string]string{"joinable": "1", "hash": "x'00'"}
	if r.database != "" {
		other = map[string]string{"joinable": "true", "hash": `'\x00'`}
	}
	file := func(ref string) string { return "ref = '" + ref + "'" }
	for _, tc := range []struct{ table, column, where, value, key string }{
		{"accounts", "balance", "id = 'bob.svc.testnet'", "'1'", "bob.svc.testnet"},
		{"accounts", "key_generation", "id = 'bob.svc.testnet'", "1", "bob.svc.testnet"},
		{"accounts", "disabled_ns", "id = 'dave.svc.testnet'", "NULL", "dave.svc.testnet"},
		{"accounts", "disabled_ns", "id = 'bob.svc.testnet'", "7", "bob.svc.testnet"},
		{"groups", "owner", "id = 'g'", "'bob.svc.testnet'", "g"},
		{"groups", "joinable", "id = 'g'", other["joinable"], "g"},
		{"groups", "join_expires", "id = 'open'", "7", "open"},
		{"groups", "join_expires", "id = 'g'", "7", "g"},
		{"groups", "join_max_uses", "id = 'open'", "NULL", "open"},
		{"groups", "join_uses", "id = 'open'", "0", "open"},
		{"groups", "join_role", "id = 'open'", "'writer'", "open"},
		{"groups", "retention_days", "id = 'g'", "0", "g"},
		{"groups", "pending_retention", "id = 'g'", "0", "g"},
		{"groups", "pending_retention_ns", "id = 'g'", "1", "g"},
		{"groups", "key_version", "id = 'g'", "1", "g"},
		{"groups", "trash_days", "id = 'g'", "1", "g"},
		{"groups", "trash_who", "id = 'g'", "'writers'", "g"},
		{"groups", "format", "id = 'g'", "2", "g"},
		{"groups", "format", "id = 'open'", "1", "open"},
		{"groups", "versions", "id = 'g'", "'8'", "g"},
		{"groups", "pending_versions", "id = 'g'", "'8'", "g"},
		{"groups", "pending_versions_ns", "id = 'g'", "1", "g"},
		{"groups", "offer_to", "id = 'g'", "'carol.svc.testnet'", "g"},
		{"groups", "offer_to", "id = 'g'", "NULL", "g"},
		{"groups", "offer_from_ns", "id = 'g'", "7", "g"},
		{"groups", "offer_until_ns", "id = 'g'", "7", "g"},
		{"groups", "pending_end_ns", "id = 'open'", "7", "open"},
		{"groups", "pending_end_ns", "id = 'g'", "7", "g"},
		{"groups", "ended_ns", "id = 'g'", "7", "g"},
		{"files", "versioned", file(named), other["joinable"], named},
		{"files", "trash_ns", file(removed), "NULL", removed},
		{"files", "trash_ns", file(removed), "7", removed},
		{"files", "trash_by", file(removed), "'bob.svc.testnet'", removed},
		{"files", "trash_until_ns", file(removed), "7", removed},
		{"files", "trash_until_ns", file(removed), "NULL", removed},
		{"files", "trash_ns", file(named), "7", named},
		{"members", "since", "group_id = 'g' AND account = 'bob.svc.testnet'", "1", "g/bob.svc.testnet"},
		{"members", "role", "group_id = 'g' AND account = 'bob.svc.testnet'", "'writer'", "g/bob.svc.testnet"},
		{"files", "group_id", file(named), "'open'", named},
		{"files", "seq", file(named), "1", named},
		{"files", "changed_seq", file(named), "1", named},
		{"files", "tx_id", file(named), "'x'", named},
		{"files", "uploader", file(named), "'bob.svc.testnet'", named},
		{"files", "file_hash", file(named), "'x'", named},
		{"files", "time_ns", file(named), "1", named},
		{"files", "filename", file(named), "'other'", named},
		{"files", "filename", file(renamed), "'before'", renamed},
		{"files", "filename", file(named), "'\x1b]0;x\a\u202e'", named},
		{"files", "attributes", file(named), "''", named},
		{"files", "content", file(named), "'00'", named},
		{"files", "content_type", file(named), "'text/html'", named},
		{"files", "deleted_ns", file(deleted), "NULL", deleted},
		{"files", "deleted_by", file(deleted), "'bob.svc.testnet'", deleted},
		{"files", "deleted_why", file(deleted), "'RetentionPolicy'", deleted},
		{"files", "deleted_ns", file(named), "7", named},
		{"files", "key_id", file(deleted), "7", deleted},
		{"folders", "group_id", file(folder), "'open'", folder},
		{"folders", "account", file(folder), "'bob.svc.testnet'", folder},
		{"folders", "seq", file(folder), "1", folder},
		{"folders", "time_ns", file(folder), "1", folder},
		{"folders", "path", file(folder), "'other/'", folder},
		{"chains", "number", "chain = 'group:g'", "1", "group:g"},
		{"chains", "hash", "chain = 'group:g'", other["hash"], "group:g"},
	} {
		t.Run(tc.table+"."+tc.column, func(t *testing.T) {
			was := literal(tc.table, tc.column, tc.where)
			set(tc.table, tc.column, tc.where, tc.value)
			defer set(tc.table, tc.column, tc.where, was)
			_, err := r.svc.Audit(t.Context())
			if !errors.Is(err, ledger.ErrBroken) ||
				!strings.Contains(err.Error(), fmt.Sprintf("table %s, %q: ", tc.table, tc.key)) ||
				tc.table != "chains" && !strings.Contains(err.Error(), tc.column) {
				t.Errorf("audit says %v", err)
			}
			if again := r.svc.AuditInParts(t.Context()); fmt.Sprint(again) != fmt.Sprint(err) {
				t.Errorf("in parts audit says %v", again)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\x1b\a\u202e") {
				t.Errorf("a name reaches the terminal: %q", err)
			}
		})
	}
}

// Threat 26: the audit finds an invented and a missing row too.
func TestThreat26AuditFindsInventedAndMissingRows(t *testing.T) {
	r := tellOfEveryTable(t)
	named, db := r.named, r.openDatabase()
	for name, tc := range map[string]struct{ statement, undo, want string }{
		"a member that nobody added": {"INSERT INTO members (group_id, account, since) VALUES ('g', " +
			"'eve.svc.testnet', 5)", "DELETE FROM members WHERE account = 'eve.svc.testnet'",
			`table members, "g/eve.svc.testnet": the ledger is broken: the ledger knows nothing of it`},
		"a deletion that nobody asked for": {"INSERT INTO pending_deletions (ref, group_id, account, due_ns) " +
			"VALUES ('" + named + "', 'g', 'alice.svc.testnet', 5)",
			"DELETE FROM pending_deletions", "table pending_deletions, \"" + named +
				"\": the ledger is broken: the ledger knows nothing of it"},
		"a folder that nobody made": {"INSERT INTO folders (ref, group_id, account, seq, time_ns, path) VALUES ('f', " +
			"'g', 'alice.svc.testnet', 5, 5, 'f/')", "DELETE FROM folders WHERE ref = 'f'",
			`table folders, "f": the ledger is broken: the ledger knows nothing of it`},
		"a member is missing": {"UPDATE members SET account = 'zed' WHERE group_id = 'open' AND account = " +
			"'bob.svc.testnet'", "", `table members, "open/zed"`},
	} {
		if _, err := db.Exec(tc.statement); err != nil {
			t.Fatal(err)
		}
		refused(t, name, errOf(r.svc.Audit(t.Context())), tc.want)
		if tc.undo == "" {
			tc.undo = "UPDATE members SET account = 'bob.svc.testnet' WHERE account = 'zed'"
		}
		if _, err := db.Exec(tc.undo); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Exec("DELETE FROM members WHERE group_id = 'open' AND account = 'bob.svc.testnet'"); err != nil {
		t.Fatal(err)
	}
	refused(t, "a row is gone", errOf(r.svc.Audit(t.Context())),
		`table members, "open/bob.svc.testnet": the ledger is broken: it is missing`)
}
