package main

import (
	"encoding/json"
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
	if out := mustRun(t, "account", "list", "--data", dir); !regexp.MustCompile(`(?m)^al\.\S+ {2,}\S+ +0 bytes$`).MatchString(out) {
		t.Errorf("not a table:\n%s", out)
	}
	var list []struct {
		AccountID string `json:"account_id"`
		Balance   string `json:"balance"`
		Disabled  bool   `json:"disabled"`
	}
	if err := json.Unmarshal([]byte(mustRun(t, "account", "list", "--json", "--data", dir)), &list); err != nil || len(list) != 2 ||
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
	for _, args := range [][]string{{"fund", "bob", "5"}, {"transfer", "bob", "alice", "1"}, {"transfer", "alice", "bob", "1"}, {"rotate-key", "bob"}, {"disable", "bob"}} {
		refused(t, exitNotFound, "account bob.svc.testnet not found: create it with: svcd account create NAME", append(append([]string{"account"}, args...), "--data", dir)...)
	}
}

// An account is disabled before it is deleted, and its name is not given again.
func TestAccountDelete(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, "account", "create", "alice", "--data", dir)
	refused(t, exitOther, "disable it first with: svcd account disable NAME", "account", "delete", "alice", "--data", dir)
	mustRun(t, "account", "disable", "alice", "--data", dir)
	if out := mustRun(t, "account", "delete", "alice", "--data", dir); !strings.Contains(out,
		`{"account_id":"alice.svc.testnet","left":[],"balance":"10000000000000000000000000"}`) {
		t.Errorf("printed %s", out)
	}
	if out := mustRun(t, "account", "list", "--data", dir); out != "" {
		t.Errorf("it is listed: %s", out)
	}
	refused(t, exitOther, "nobody gets its name again", "account", "create", "alice", "--data", dir)
	for _, args := range [][]string{{"fund", "alice", "5"}, {"enable", "alice"}, {"delete", "alice"}, {"rotate-key", "alice"}, {"link", "alice", "--public-url", "http://h"}} {
		refused(t, exitNotFound, "account alice.svc.testnet not found", append(append([]string{"account"}, args...), "--data", dir)...)
	}
	mustRun(t, "audit", "--data", dir)
}
