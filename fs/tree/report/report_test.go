package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/network"
)

// The newest failure of each path is told, and what failed at a path concerns the name that the file got later.
func TestErrorsOfAPath(t *testing.T) {
	var l Errors
	err := errors.New("full")
	for _, path := range []string{"/g/a", "/g/.tmp", "/g/a"} {
		l.Add(Failure{Path: path, Op: "close", Text: "no\nroom", Err: err})
	}
	l.Renamed("/g/.tmp", "/g/b", errors.New("an everyday answer"))
	l.Renamed("/g/.tmp", "/g/c", err)
	l.Renamed("/g/c", "/g/d", nil)
	var told []string
	for _, f := range l.Last() {
		told = append(told, f.Path+" "+f.Name)
	}
	if !slices.Equal(told, []string{"/g/.tmp /g/d", "/g/a "}) {
		t.Errorf("told: %q", told)
	}
	if text := string(l.Show()); strings.Count(text, "\n") != 3 || !strings.Contains(text, "\t/g/a\tclose\t\tno room\t\n") {
		t.Errorf("shown: %q", text)
	}
}

// The list of errors, and each line, is bounded.
func TestErrorsAreBounded(t *testing.T) {
	var l Errors
	for i := range keptErrors + 1 {
		l.Add(Failure{Path: fmt.Sprint(i), Text: strings.Repeat("x", 2*maxErrorText)})
	}
	list := l.Last()
	if len(list) != keptErrors || list[0].Path != "1" || l.Total() != keptErrors+1 {
		t.Errorf("%d paths from %s on, %d in all", len(list), list[0].Path, l.Total())
	}
	if text := ReasonOf(list[0], "").Error; len(text) != maxErrorText+len("…") {
		t.Errorf("a sentence of %d bytes", len(text))
	}
}

func TestByteText(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1024: "1 KiB", 3 << 19: "1.5 MiB", 1 << 40: "1 TiB", 1 << 51: "2048 TiB"} {
		if got := ByteText(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

func TestServiceWord(t *testing.T) {
	for _, tc := range []struct {
		connection network.Connection
		reachable  bool
		want       string
	}{
		{network.Connected, true, ServiceReachable}, {network.Connected, false, ServiceUnreachable},
		{network.Reconnecting, true, ServiceReconnecting}, {network.Disconnected, true, ServiceUnreachable},
	} {
		if got := ServiceWord(tc.connection, tc.reachable); got != tc.want {
			t.Errorf("%v, %v: %s", tc.connection, tc.reachable, got)
		}
	}
}

// A record shows what is known, and nothing for what is not.
func TestLedger(t *testing.T) {
	at := time.Unix(0, 0)
	text := Ledger(slices.Values([]*sdk.Entry{
		{Seq: 1, Ref: "r", Name: "a", Size: sdk.SizeUnknown},
		{Seq: 2, Ref: "s", Name: "b", Size: 3, Time: at, Hash: sdk.ComputeHash(nil), Deleted: &sdk.Deletion{By: "alice"}},
	}))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var row ledgerRow
	if len(lines) != 2 || json.Unmarshal([]byte(lines[1]), &row) != nil || row.SHA256 == "" || *row.Size != 3 || row.Deleted.By != "alice" {
		t.Fatalf("%s", text)
	}
	for _, unknown := range []string{"time", "size", "sha256", "deleted"} {
		if strings.Contains(lines[0], unknown) {
			t.Errorf("it shows %s: %s", unknown, lines[0])
		}
	}
}

// What is pending is one line each, with the attributes of those of which no more is.
func TestPending(t *testing.T) {
	text := string(ShowPending([]Pending{{Path: "/g/a", Size: 5, Error: "no\troom"}, {Path: "/g/b", Attributes: true}}))
	if !strings.Contains(text, "\t5\t/g/a\tno room\n") || !strings.Contains(text, "\tattributes\t/g/b\t\n") {
		t.Errorf("%q", text)
	}
	if ShowReasons([]Reason{{Path: "/g/a"}})[0] != '{' || (Status{}).Show()[0] != '{' {
		t.Error("no JSON")
	}
}
