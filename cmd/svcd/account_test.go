package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Columns of the list are in line, and a name does nothing to a terminal.
func TestAccountListIsATable(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"al", "a-much-longer-name"} {
		mustRun(t, "account", "create", name, "--data", dir)
	}
	if out := mustRun(t, "account", "list", "--data",
		dir); !regexp.MustCompile(`(?m)^al\.\S+ {2,}\S+ +0 bytes$`).MatchString(out) {
		t.Errorf("not a table:\n%s", out)
	}
	var list []struct {
		AccountID string `json:"account_id"`
		Balance   string `json:"balance"`
		Disabled  bool   `json:"disabled"`
	}
	if err := json.Unmarshal([]byte(mustRun(t, "account", "list", "--json", "--data", dir)), &list); err != nil ||
		len(list) != 2 ||
		list[1].AccountID != "al.svc.testnet" || list[1].Balance != "10000000000000000000000000" || list[1].Disabled {
		t.Errorf("as JSON: %+v, %v", list, err)
	}
	if got := printable("a\x1b[2J\tb"); got != `a\x1b[2J\tb` {
		t.Errorf("shown as %q", got)
	}
}

// A name that no account has is told how to make one, whichever command it is given to.
func TestUnknownAccounts(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, "account", "create", "alice", "--data", dir)
	for _, args := range [][]string{{"fund", "bob", "5"}, {"transfer", "bob", "alice", "1"},
		{"transfer", "alice", "bob", "1"}, {"rotate-key", "bob"}, {"disable", "bob"}} {
		refused(t, exitNotFound, "account bob.svc.testnet not found: create it with: svcd account create NAME",
			append(append([]string{"account"}, args...), "--data", dir)...)
	}
}

// An account is disabled before it is deleted, and its name is not given again.
func TestAccountDelete(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, "account", "create", "alice", "--data", dir)
	refused(t, exitOther, "disable it first with: svcd account disable NAME", "account", "delete", "alice", "--data",
		dir)
	if _, errs, _ := execute(t, "account", "delete", "alice", "--data", dir); strings.Contains(errs, "doctor") {
		t.Errorf("a refusal that says the next step names another one: %s", errs)
	}
	mustRun(t, "account", "disable", "alice", "--data", dir)
	if out := mustRun(t, "account", "delete", "alice", "--data", dir); !strings.Contains(out,
		`{"account_id":"alice.svc.testnet","left":[],"balance":"10000000000000000000000000"}`) {
		t.Errorf("printed %s", out)
	}
	if out := mustRun(t, "account", "list", "--data", dir); out != "" {
		t.Errorf("it is listed: %s", out)
	}
	refused(t, exitOther, "nobody gets its name again", "account", "create", "alice", "--data", dir)
	for _, args := range [][]string{{"fund", "alice", "5"}, {"enable", "alice"}, {"delete", "alice"},
		{"rotate-key", "alice"}, {"link", "alice", "--public-url", "http://h"}} {
		refused(t, exitNotFound, "account alice.svc.testnet not found",
			append(append([]string{"account"}, args...), "--data", dir)...)
	}
	mustRun(t, "audit", "--data", dir)
}

// Accounts may be named after the host of a new service. The ending is for good with the first one, whatever a later
// command says or leaves out, and it travels with an archive.
func TestAccountDomain(t *testing.T) {
	dir := t.TempDir()
	data, at := filepath.Join(dir, "data"), filepath.Join(dir, "archive")
	makeData(t, data)
	created := func(name, data, want string, more ...string) {
		t.Helper()
		if out := mustRun(t, append([]string{"account", "create", name, "--data", data},
			more...)...); !strings.Contains(out, `{"account_id":"`+want+`"`) {
			t.Errorf("made %s", out)
		}
	}
	mustRun(t, "account", "list", "--data", data, "--account-domain", "typo.example.org")
	for _, wrong := range []string{"Files.example.org", ".example.org", "a..b", "x y"} {
		refused(t, exitOther, "cannot end the names of accounts", "account", "list", "--data", data, "--account-domain",
			wrong)
	}
	created("alice", data, "alice.files.example.org", "--account-domain", "files.example.org")
	created("bob", data, "bob.files.example.org")
	refused(t, exitOther, "give --account-domain files.example.org", "account", "list", "--data", data,
		"--account-domain", "other.example.org")
	mustRun(t, "account", "fund", "alice.files.example.org", "1", "--data", data)
	mustRun(t, "export", at, "--data", data)
	restored := filepath.Join(dir, "restored")
	ok(t, os.Mkdir(restored, 0o700))
	key, err := os.ReadFile(filepath.Join(data, "master.key"))
	ok(t, err)
	ok(t, os.WriteFile(filepath.Join(restored, "master.key"), key, 0o600))
	mustRun(t, "import", at, "--data", restored)
	created("carol", restored, "carol.files.example.org")

	old := filepath.Join(dir, "old") // whose accounts are named as ever
	ok(t, os.Mkdir(old, 0o700))
	created("alice", old, "alice.svc.testnet")
	refused(t, exitOther, "end in svc.testnet, not in files.example.org", "account", "list", "--data", old,
		"--account-domain", "files.example.org")
}
