package main

import (
	"testing"

	"github.com/svcfs/svcfs/fs/tree"
)

// A mount of the same account name at another service is not meant.
func TestMountIsOfAnAccountAtAService(t *testing.T) {
	const here = "http://127.0.0.1:8000"
	for _, tc := range []struct {
		status *tree.Status
		is     bool
	}{
		{&tree.Status{Account: "alice", Address: here}, true},
		{&tree.Status{Account: "alice", Address: "http://127.0.0.1:8001"}, false},
		{&tree.Status{Account: "bob", Address: here}, false},
		{nil, false},
	} {
		if got := (mountState{Status: tc.status}).isOf("alice", here); got != tc.is {
			t.Errorf("%+v: %t", tc.status, got)
		}
	}
}
