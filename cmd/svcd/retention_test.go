package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/service/groups"
)

// A dry run lists what is expired, and what waits: deletions in bulk, and windows.
func TestRetentionDryRunListsWhatWaits(t *testing.T) {
	dir, url := serving(t)
	var made struct {
		ID  string `json:"account_id"`
		Key string `json:"api_key"`
	}
	ok(t, json.Unmarshal([]byte(mustRun(t, "account", "create", "alice", "--data", dir, "--balance", "100")), &made))
	cfg := sdk.Config{URL: url, APIKey: sdk.NewSecret(made.Key)}
	c, err := sdk.New(sdk.AccountID(made.ID), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Group("g").Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out := mustRun(t, "retention", "--dry-run", "--data", dir); out != "files: 0 would be deleted\n" {
		t.Errorf("with nothing to destroy it says %q", out)
	}
	for i := range groups.BulkFiles + 1 {
		receipt, err := c.Group("g").Put(t.Context(), fmt.Sprintf("file\t%d", i), bytes.NewReader([]byte{1}))
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Group("g").Delete(t.Context(), receipt.Ref)
		if waits := i == groups.BulkFiles; waits != errors.Is(err, sdk.ErrPending) || !waits && err != nil {
			t.Fatalf("deletion %d: %v", i, err)
		}
	}
	zero := int64(0)
	if _, err := c.Group("g").Settings().SetRetention(t.Context(), zero); err != nil {
		t.Fatal(err)
	}
	const at = `20\d\d-\S+Z\n`
	want := regexp.MustCompile(`^files: 0 would be deleted\n"g"\t\S+\t"file\\t100"\tat ` + at +
		`"g"\tretention\t0 days\tfrom ` + at + `waiting: 2; .* svcfs group keep GROUP\n$`)
	if out := mustRun(t, "retention", "--dry-run", "--data", dir); !want.MatchString(out) {
		t.Errorf("it says\n%s", out)
	}
	if _, err := c.Group("g").Settings().Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out := mustRun(t, "retention", "--dry-run", "--data", dir); out != "files: 0 would be deleted\n" {
		t.Errorf("after all was taken back it says %q", out)
	}
	if _, err := c.Group("g").Remove(t.Context(), "file\t100"); err != nil {
		t.Fatal(err)
	}
	want = regexp.MustCompile(`^files: 0 would be deleted\n"g"\t\S+\t"file\\t100"\tat ` + at +
		`in the trash: 1; .* svcfs restore --trash GROUP NAME\n$`)
	if out := mustRun(t, "retention", "--dry-run", "--data", dir); !want.MatchString(out) {
		t.Errorf("with a file in the trash it says\n%s", out)
	}
}
