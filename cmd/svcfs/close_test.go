package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/service/testkit"
)

// A command tells what comes out when its client ends: that the service showed another command another history, and
// that what was seen could not be saved. Another command changes here what this user remembers of the service.
func TestCommandsEndTheirClients(t *testing.T) {
	const history, unsaved = `("key":")[^"]*`, `("salt":")[^"]*`
	for _, tc := range []struct{ line, changed string }{
		{"put team f", history}, {"doctor", history},
		{"put team f", unsaved}, {"doctor", unsaved}, {"whoami", unsaved}, {"seal-key --yes", unsaved},
	} {
		t.Run(tc.line+" "+tc.changed, func(t *testing.T) {
			s := testkit.Start(t, testkit.Ours)
			alice := s.Account("alice", "10")
			state := t.TempDir()
			w := &barWorld{server: s, dir: t.TempDir(), env: clientEnv(t, s, alice, "XDG_STATE_HOME="+state)}
			ok(t, os.WriteFile(filepath.Join(w.dir, "f"), []byte("f"), 0o600))
			w.must(t, "group", "create", "team")
			if tc.changed == unsaved {
				ok(t, os.RemoveAll(filepath.Join(state, "svcfs"))) // there is something to save
			}
			s.Disturb("*", func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					files, _ := filepath.Glob(filepath.Join(state, "svcfs", "trust-*.json"))
					for _, file := range files {
						raw, err := os.ReadFile(file)
						ok(t, err)
						raw = regexp.MustCompile(tc.changed).ReplaceAll(raw, []byte("${1}AAAA"))
						ok(t, os.WriteFile(file, raw, 0o600))
					}
					next.ServeHTTP(rw, r)
				})
			})
			var out, errs bytes.Buffer
			cmd := w.command(t, &out, &errs, strings.Fields(tc.line)...)
			err := cmd.Run()
			if tc.changed == unsaved {
				if err != nil || !strings.Contains(errs.String(), "the next command trusts the service anew") {
					t.Errorf("%v\n%s", err, errs.String())
				}
			} else if all := out.String() + errs.String(); cmd.ProcessState.ExitCode() != int(exitProof) ||
				!strings.Contains(all, "the service showed this machine two histories") {
				t.Errorf("%v\n%s", err, all)
			}
		})
	}
}
