package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClientSecretOfTheProvider(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		ok(t, os.WriteFile(path, []byte("from-the-file\n"), mode))
		return path
	}
	const issuer = "https://id.example.org"
	for name, test := range map[string]struct {
		set           oidcSettings
		env           string
		want, refused string
	}{
		"off":                  {oidcSettings{}, "unused", "", ""},
		"from the environment": {oidcSettings{issuer: issuer}, "from-the-environment", "from-the-environment", ""},
		"from a file": {oidcSettings{issuer: issuer, secretFile: file("private", 0o600)}, "other",
			"from-the-file", ""},
		"public client": {oidcSettings{issuer: issuer}, "", "", ""},
		"a file that others read": {oidcSettings{issuer: issuer, secretFile: file("open", 0o644)}, "", "",
			"others may read it"},
		"no file": {oidcSettings{issuer: issuer, secretFile: filepath.Join(dir, "none")}, "", "",
			"no such file"},
		"client without an issuer": {oidcSettings{clientID: "svcd"}, "", "", "--oidc-issuer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(envClientSecret, test.env)
			got, err := test.set.config()
			if test.refused != "" {
				if err == nil || !strings.Contains(err.Error(), test.refused) {
					t.Fatalf("error %v, want %q", err, test.refused)
				}
				return
			}
			if err != nil || got.ClientSecret.Reveal() != test.want || got.Issuer != test.set.issuer {
				t.Errorf("%q, %v", got.ClientSecret.Reveal(), err)
			}
		})
	}
}
