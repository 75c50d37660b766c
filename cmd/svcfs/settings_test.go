package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// testApp is an app over a made-up environment.
func testApp(t *testing.T, env map[string]string, stdin string) *app {
	t.Helper()
	return newApp(strings.NewReader(stdin), new(bytes.Buffer), new(bytes.Buffer), environment{
		lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		unset:  func(name string) error { delete(env, name); return nil },
	})
}

func writeFile(t *testing.T, name, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	ok(t, os.WriteFile(path, []byte(content), mode))
	return path
}

func TestSettingsPrecedence(t *testing.T) {
	file := writeFile(t, "config",
		"# mine\nSVC_ACCOUNT_ID=file.testnet\nSVC_URL=\"http://file\"\nSVC_API_KEY=svc_sk_file\n", 0o600)
	for _, tc := range []struct {
		name                   string
		flags                  settingFlags
		env                    map[string]string
		account, url, key, mcp string
	}{
		{"file alone", settingFlags{config: file}, nil, "file.testnet", "http://file", "svc_sk_file", ""},
		{"environment before file", settingFlags{config: file},
			map[string]string{envAccount: "env.testnet", envURL: "http://env", envKey: "svc_sk_env"}, "env.testnet",
			"http://env", "svc_sk_env", ""},
		{"flag before environment", settingFlags{config: file, account: "flag.testnet", url: "http://flag"},
			map[string]string{envAccount: "env.testnet", envURL: "http://env", envKey: "svc_sk_env"}, "flag.testnet",
			"http://flag", "svc_sk_env", ""},
		{"a single address beside the one for all", settingFlags{},
			map[string]string{envAccount: "a", envURL: "http://env", envMCPURL: "http://mcp"}, "a", "http://env", "",
			"http://mcp"},
		{"a nearer address for all replaces a single one", settingFlags{url: "http://flag"},
			map[string]string{envAccount: "a", envMCPURL: "http://mcp"}, "a", "http://flag", "", ""},
		{"a network on the command line before addresses of the environment", settingFlags{network: "testnet"},
			map[string]string{envAccount: "a", envURL: "http://env", envMCPURL: "http://mcp"}, "a", "", "", ""},
		{"a network of the environment before the address of the file", settingFlags{config: file},
			map[string]string{envNetwork: "testnet", envMCPURL: "http://mcp"}, "file.testnet", "", "svc_sk_file",
			"http://mcp"},
		{"an address on the command line before a network of the environment", settingFlags{url: "http://flag"},
			map[string]string{envAccount: "a", envNetwork: "testnet"}, "a", "http://flag", "", ""},
		{"the key's file on the command line wins over the key in the environment",
			settingFlags{account: "a", keyFile: "/k"},
			map[string]string{envKey: "svc_sk_env"}, "a", "", "/k", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := testApp(t, tc.env, "")
			a.flags = tc.flags
			got, err := a.loadSettings()
			if err != nil {
				t.Fatal(err)
			}
			if string(got.account) != tc.account || got.config.URL != tc.url || got.key.value != tc.key ||
				got.config.MCPURL != tc.mcp {
				t.Errorf("got %q %q %q %q, want %q %q %q %q", got.account, got.config.URL, got.key.value,
					got.config.MCPURL,
					tc.account, tc.url, tc.key, tc.mcp)
			}
			if _, still := tc.env[envKey]; still {
				t.Error("the API key stayed in the environment")
			}
		})
	}
}

func TestWitnessAge(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "1h": time.Hour, "24h": 24 * time.Hour, "25h": -1,
		"soon": -1, "-1m": -1, "0": -1} {
		a := testApp(t, map[string]string{envAccount: "a", envWitness: "w+00000000+x"}, "")
		a.flags.witnessAge = text
		got, err := a.loadSettings()
		if want < 0 && exitCodeOf(err) != exitUsage || want >= 0 && (err != nil || got.config.WitnessAge != want) {
			t.Errorf("%q: %s, %v", text, got.config.WitnessAge, err)
		}
	}
	a := testApp(t, map[string]string{envAccount: "a", envWitnessAge: "1h"}, "")
	if _, err := a.loadSettings(); err != nil {
		t.Errorf("for every command, without a witness: %v", err)
	}
	a.flags.witnessAge = "1h"
	if _, err := a.loadSettings(); exitCodeOf(err) != exitUsage {
		t.Errorf("for one command, without a witness: %v", err)
	}
}

func TestListMemory(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "1G": 1 << 30, "8MiB": 8 << 20, "1M": -1, "much": -1, "-1": -1} {
		a := testApp(t, map[string]string{envAccount: "a", envListMemory: text}, "")
		got, err := a.loadSettings()
		if want < 0 && exitCodeOf(err) != exitUsage || want >= 0 && (err != nil || got.config.ListMemory != want) {
			t.Errorf("%q: %d, %v", text, got.config.ListMemory, err)
		}
	}
	a := testApp(t, map[string]string{envAccount: "a", envListMemory: "1G"}, "")
	a.flags.listMemory = "2G"
	if got, err := a.loadSettings(); err != nil || got.config.ListMemory != 2<<30 {
		t.Errorf("the flag wins: %d, %v", got.config.ListMemory, err)
	}
}

func TestSettingsRefusals(t *testing.T) {
	for _, tc := range []struct{ name, content, want string }{
		{"unknown setting", "SVC_COLOUR=red\n", "line 1"},
		{"not a setting", "hello\n", "line 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := testApp(t, map[string]string{}, "")
			a.flags.config = writeFile(t, "config", tc.content, 0o600)
			_, err := a.loadSettings()
			if err == nil || !strings.Contains(err.Error(), tc.want) || exitCodeOf(err) != exitUsage {
				t.Errorf("got %v, exit %d", err, exitCodeOf(err))
			}
		})
	}
	t.Run("loose file with a key", func(t *testing.T) {
		a := testApp(t, map[string]string{}, "")
		a.flags.config = writeFile(t, "config", "SVC_API_KEY=svc_sk_canary\n", 0o644)
		_, err := a.loadSettings()
		if exitCodeOf(err) != exitUsage || strings.Contains(fmt.Sprint(err), "canary") ||
			!strings.Contains(hintFor(err), "chmod 600") {
			t.Errorf("got %v, exit %d, hint %q", err, exitCodeOf(err), hintFor(err))
		}
	})
	t.Run("loose file without a key", func(t *testing.T) {
		a := testApp(t, map[string]string{}, "")
		a.flags.config = writeFile(t, "config", "SVC_ACCOUNT_ID=a\n", 0o644)
		if _, err := a.loadSettings(); err != nil {
			t.Error(err)
		}
	})
	t.Run("no home at all", func(t *testing.T) {
		a := testApp(t, map[string]string{envAccount: "a"}, "")
		if s, err := a.loadSettings(); err != nil || s.account != "a" {
			t.Errorf("got %v, %v", s.account, err)
		}
	})
}

func TestReadKey(t *testing.T) {
	open := writeFile(t, "open", "svc_sk_canary\n", 0o644)
	closed := writeFile(t, "closed", "svc_sk_filed\nsecond line\n", 0o600)
	for _, tc := range []struct {
		name, stdin string
		from        keySource
		want        string
		code        exitCode
	}{
		{"environment", "", keySource{envKey, "svc_sk_env", "environment"}, "svc_sk_env", exitOK},
		{"file", "", keySource{envKeyFile, closed, "command line"}, "svc_sk_filed", exitOK},
		{"standard input", "svc_sk_piped\n", keySource{envKeyFile, "-", "command line"}, "svc_sk_piped", exitOK},
		{"command", "", keySource{envKeyCommand, "printf 'svc_sk_%s\\nmore' told", "command line"}, "svc_sk_told",
			exitOK},
		{"open file", "", keySource{envKeyFile, open, "command line"}, "", exitUsage},
		{"no file", "", keySource{envKeyFile, closed + "x", "command line"}, "", exitUsage},
		{"empty input", "", keySource{envKeyFile, "-", "command line"}, "", exitAuth},
		{"command fails", "", keySource{envKeyCommand, "exit 3", "command line"}, "", exitAuth},
		{"two words", "", keySource{envKey, "svc_sk canary", "environment"}, "", exitUsage},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := testApp(t, map[string]string{}, tc.stdin).readKey(t.Context(), tc.from)
			if got.Reveal() != tc.want || exitCodeOf(err) != tc.code {
				t.Errorf("got %q, %v (exit %d), want %q, exit %d", got.Reveal(), err, exitCodeOf(err), tc.want, tc.code)
			}
			if strings.Contains(fmt.Sprint(err), "canary") {
				t.Errorf("the key is in the message: %v", err)
			}
		})
	}
}

func TestChildNeverInheritsTheKey(t *testing.T) {
	parent := []string{"PATH=/bin", "SVC_API_KEY=svc_sk_canary", "SVC_URL=http://x"}
	if got, want := childEnv(parent, nil), []string{"PATH=/bin", "SVC_URL=http://x"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := childEnv(parent, []string{"SVC_CONTRACT_ID=c"}),
		[]string{"PATH=/bin", "SVC_CONTRACT_ID=c"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
