package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/ownfile"
)

// The first source that has a setting wins, also with an empty value; an empty
// variable is not set.
func TestSourcesInOrder(t *testing.T) {
	env := map[string]string{"X_A": "env", "X_B": ""}
	variable := func(name string) string { return "X_" + strings.ToUpper(name) }
	sources := Sources{
		FromEnvironment(func(v string) (string, bool) { value, ok := env[v]; return value, ok },
			[]string{"a", "b", "c"}, variable),
		{"file", map[string]string{"a": "file", "b": "file", "c": ""}},
	}
	for name, want := range map[string][2]string{"a": {"env", "environment"}, "b": {"file", "file"}, "c": {"", "file"},
		"d": {"", ""}} {
		if value, from := sources.Find(name); value != want[0] || from != want[1] {
			t.Errorf("%s: %q from %q, want %q", name, value, from, want)
		}
	}
}

// A file that others may write to is not obeyed, one with a secret must be closed to
// them, and a longer one than can be meant is not read in part.
func TestReadFileObeysTheOwnersFileOnly(t *testing.T) {
	parse := func(text []byte) (map[string]string, error) { return map[string]string{"text": string(text)}, nil }
	holds := func(values map[string]string) string {
		if strings.Contains(values["text"], "key") {
			return "a key"
		}
		return ""
	}
	for name, tc := range map[string]struct {
		text string
		mode os.FileMode
		want string // in the error; "" = it is read
	}{
		"plain":                   {"a", 0o644, ""},
		"secret, closed":          {"key", 0o600, ""},
		"secret, open":            {"key", 0o644, "it holds a key: "},
		"written by others":       {"a", 0o666, "others may write"},
		"longer than can be read": {strings.Repeat("a", maxFileBytes+1), 0o600, "is longer than"},
	} {
		path := filepath.Join(t.TempDir(), "config")
		if err := ownfile.Replace(path, []byte(tc.text)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, tc.mode); err != nil {
			t.Fatal(err)
		}
		values, err := ReadFile(path, parse, holds)
		if tc.want == "" && (err != nil || values["text"] != tc.text) || tc.want != "" &&
			(err == nil || values != nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q in it", name, err, tc.want)
		}
	}
}

// The clocks are compared by the Date of an answer, which may come from a place that
// redirects elsewhere.
func TestAskHealthComparesClocks(t *testing.T) {
	date := time.Now().Add(-time.Hour)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", date.UTC().Format(http.TimeFormat))
		w.Header().Set("Location", "http://127.0.0.1:1")
		w.WriteHeader(http.StatusFound)
	}))
	defer s.Close()
	h, err := AskHealth(t.Context(), s.URL+"/")
	if err != nil || h.Status != "302 Found" || h.Apart() < time.Hour-time.Second {
		t.Errorf("%+v, %s apart, %v", h, h.Apart(), err)
	}
	if apart := (Health{}).Apart(); apart != 0 {
		t.Errorf("unknown clocks are %s apart", apart)
	}
}

func TestFirstFailure(t *testing.T) {
	findings := []Finding{Passed("a", ""), Warned("b", "", "do"), Failed("c", "", ""), Failed("d", "", "")}
	if f, found := FirstFailure(findings); !found || f.Check != "c" {
		t.Errorf("%+v %v", f, found)
	}
	if f, found := FirstFailure(findings[:2]); found {
		t.Errorf("%+v", f)
	}
}

func TestNearest(t *testing.T) {
	if got := Nearest("lisen", []string{"log-level", "listen", "data"}); got != "listen" {
		t.Errorf("%q", got)
	}
}

// The page of the settings lists every exit code as the help does.
func TestExitCodesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Exit codes\n\n| Code | Meaning |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var want []string
	for _, m := range ExitMeanings() {
		want = append(want, fmt.Sprintf("| %d | %s |", m.Code, m.Meaning))
	}
	if strings.Join(want, "\n") != table {
		t.Errorf("the page has\n%s\nwant\n%s", table, strings.Join(want, "\n"))
	}
}

// The several lines of an error, as those of a database that refuses each way in, are one line of words.
func TestFailureIsOneLine(t *testing.T) {
	err := errors.New("connect:\n\tfirst: no TLS\n\tsecond: wrong password\nthe end")
	if got, want := FailureText("svcd", err, ""),
		"svcd: connect: first: no TLS; second: wrong password; the end\n"; got != want {
		t.Errorf("the failure is told as %q, want %q", got, want)
	}
}
