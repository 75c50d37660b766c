package main

import (
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/svcfs/svcfs/fs/tree/report"
)

// A mount of the same account name at another service is not meant.
func TestMountIsOfAnAccountAtAService(t *testing.T) {
	const here = "http://127.0.0.1:8000"
	for _, tc := range []struct {
		status *report.Status
		is     bool
	}{
		{&report.Status{Account: "alice", Address: here}, true},
		{&report.Status{Account: "alice", Address: "http://127.0.0.1:8001"}, false},
		{&report.Status{Account: "bob", Address: here}, false},
		{nil, false},
	} {
		if got := (mountState{Status: tc.status}).isOf("alice", here); got != tc.is {
			t.Errorf("%+v: %t", tc.status, got)
		}
	}
}

// A mount that does not answer this user is not called stuck: it may be well.
func TestMountOfAnotherUserIsNotStuck(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{syscall.EACCES: stateOthers, syscall.EPERM: stateOthers,
		syscall.ENOTCONN: stateDead, syscall.EIO: stateStuck} {
		if m := stateOf("/mnt", nil, &fs.PathError{Op: "open", Path: "/mnt/.svcfs/status",
			Err: errno}); m.State != want {
			t.Errorf("%v: %q, want %q", errno, m.State, want)
		}
	}
	if m := stateOf("/mnt", nil, fmt.Errorf("the mount does not answer")); m.State != stateStuck {
		t.Errorf("no answer: %q", m.State)
	}
}
