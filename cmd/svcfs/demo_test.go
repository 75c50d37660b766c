package main

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/svcfs/svcfs/sdk"
)

// Another run fills the purse up to what it began with and not beyond.
func TestDemoTopsUp(t *testing.T) {
	dir := t.TempDir()
	d, err := startDemoService(t.Context(), filepath.Join(programs.Dir(t, serviceProgram), serviceProgram), dir, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.close(); err != nil {
			t.Error(err)
		}
	}()
	id, key, err := d.account(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	for run := range 3 {
		c, err := sdk.New(id, sdk.Config{URL: d.url, ContractID: demoContract, APIKey: key})
		if err != nil {
			t.Fatal(err)
		}
		if balance, err := c.Balance(t.Context(), id); err != nil || balance.Tokens() != demoBalance {
			t.Errorf("run %d begins with %s, %v; want %s", run, balance.Tokens(), err, demoBalance)
		}
		if _, err := c.Group(sdk.GroupID(itoa(run))).Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		if _, key, err = d.account(t.Context(), "alice"); err != nil {
			t.Fatal(err)
		}
	}
}
