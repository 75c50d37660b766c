package main

import (
	"bytes"
	"testing"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// svcd audit names each record that lets somebody in and that nobody asked for, on a line of its own, whatever is in
// it, and says so with its exit code.
func TestAuditNamesWhatNobodyAskedFor(t *testing.T) {
	var out bytes.Buffer
	s := &settings{stdout: &out}
	if err := s.notAskedFor(nil); err != nil || out.Len() > 0 {
		t.Errorf("%q, %v", out.String(), err)
	}
	err := s.notAskedFor([]chain.Record{
		{Group: "a\nb", Number: 7, Kind: chain.KindAdd, Account: "alice.svc", Detail: "eve.svc"},
		{Group: "c", Number: 9, Kind: chain.KindKeys, Account: "bob.svc", Detail: "any"}})
	const want = "not asked for\tgroup \"a\\nb\"\trecord 7\tadd_group_member\t\"alice.svc\"\t\"eve.svc\"\n" +
		"not asked for\tgroup \"c\"\trecord 9\tset_group_keys\t\"bob.svc\"\t\"any\"\n"
	if out.String() != want {
		t.Errorf("%s", out.String())
	}
	if f := cli.FailureOf(err); f == nil || f.Code != cli.ExitProof {
		t.Errorf("%v", err)
	}
}
