package integration

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Threats 2, 4, 32, 33: no plaintext, key or token is in anything either program
// writes: while mounted, after unmounting, and after kill -9.
func TestCanaryIsNowhereOnDisk(t *testing.T) {
	w, alice, bob := team(t)
	a, b := alice.mount("a", "--log-level", "debug"), bob.mount("b", "--log-level", "debug")
	canary := make([]byte, 48)
	if _, err := rand.Read(canary); err != nil {
		t.Fatal(err)
	}
	text := "canary-" + hex.EncodeToString(canary)
	content := []byte(strings.Repeat(text+"\n", 50))
	write(t, a.path("team/small"), content)
	write(t, a.path("team/large"), bytes.Repeat(content, 40)) // a raw transfer
	staged, err := os.Create(a.path("team/staged"))
	if err != nil {
		t.Fatal(err)
	}
	defer staged.Close()
	if _, err := staged.Write(content); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"small", "large"} {
		if got := read(t, b.path("team", name)); !bytes.Contains(got, []byte(text)) {
			t.Fatal("the canary did not arrive")
		}
	}
	out, _ := bob.try("get", "team", "nothing-of-the-kind")
	secrets := map[string][]byte{"plaintext": []byte(text), "alice's key": []byte(alice.key),
		"bob's key": []byte(bob.key), "a token": []byte("eyJhbGciOi")}
	look := func(when string) {
		t.Helper()
		for name, secret := range secrets {
			for form, needle := range map[string][]byte{"raw": secret,
				"base64": []byte(base64.StdEncoding.EncodeToString(secret))[:len(secret)],
				"hex":    []byte(hex.EncodeToString(secret))} {
				for file := range filesWith(t, w, needle) {
					t.Errorf("%s: %s (%s) is in %s", when, name, form, file)
				}
				for place, log := range map[string]string{"the service's log": w.log.String(),
					"a's log": a.log.String(), "b's log": b.log.String(), "an error": out} {
					if strings.Contains(log, string(needle)) {
						t.Errorf("%s: %s (%s) is in %s", when, name, form, place)
					}
				}
			}
		}
	}
	look("while mounted")
	a.kill()
	b.unmount()
	look("after kill -9 and unmount")
	w.kill()
	look("after kill -9 of the service")
	w.start()
	look("after the restart")
}

// filesWith returns the files below the test's directory that hold needle, but
// for the mounts themselves and the key files the test made.
func filesWith(t *testing.T, w *world, needle []byte) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if os.IsNotExist(err) {
				return nil
			}
			return err
		}
		if d.IsDir() {
			if path != w.dir && (isMounted(t, path) || d.Name() == "keys") {
				return fs.SkipDir
			}
			return nil
		}
		raw, err := os.ReadFile(path)
		if err == nil && bytes.Contains(raw, needle) {
			found[path] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
