package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/svcfs/svcfs/cmd/internal/cli"
)

// execute runs a command line in this process.
func execute(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return out.String(), errs.String(), code
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "svcd.toml")
	ok(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// effective returns the settings as svcd config shows them.
func effective(t *testing.T, args ...string) map[string]setting {
	t.Helper()
	out, errs, code := execute(t, append([]string{"config", "--json"}, args...)...)
	var list []setting
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != exitOK {
		t.Fatalf("svcd config: exit %d, %v\n%s%s", code, err, out, errs)
	}
	byName := make(map[string]setting)
	for _, s := range list {
		byName[s.Name] = s
	}
	return byName
}

func TestFlagBeforeEnvironmentBeforeFileBeforeDefault(t *testing.T) {
	file := configFile(t, `
# comments are fine
data = "/from/file"
listen = "127.0.0.1:1"
public-url = "https://file.example.org"
max-file-bytes = 1000
trusted-proxy = ["10.0.0.0/8", "127.0.0.1/32"]
[fees]
upload = "0.5"
`)
	t.Setenv("SVCD_CONFIG", file)
	t.Setenv("SVCD_LISTEN", "127.0.0.1:2")
	t.Setenv("SVCD_PUBLIC_URL", "https://environment.example.org")
	t.Setenv("SVCD_LOG_LEVEL", "") // empty is unset
	got := effective(t, "--public-url", "https://flag.example.org")
	for _, want := range []setting{
		{"config", file, "environment SVCD_CONFIG", ""},
		{"data", "/from/file", "file " + file, ""},
		{"listen", "127.0.0.1:2", "environment SVCD_LISTEN", ""},
		{"public-url", "https://flag.example.org", "flag", ""},
		{"max-file-bytes", "1000", "file " + file, ""},
		{"trusted-proxy", "10.0.0.0/8,127.0.0.1/32", "file " + file, ""},
		{"log-level", "warn", "default", ""},
		{"memory", "0", "default", "a quarter of the memory of the machine, or of its control group"},
		{"max-group-bytes", "0", "default", "1/2 of the disk of --blobs, any number in a bucket"},
	} {
		if got[want.Name] != want {
			t.Errorf("got %+v, want %+v", got[want.Name], want)
		}
	}
	for _, want := range []setting{{"fees.upload", "0.5", "file " + file, ""},
		{"fees.retrieve", "0.013", "default", ""}} {
		if got[want.Name] != want {
			t.Errorf("got %+v, want %+v", got[want.Name], want)
		}
	}
}

func TestRefusedSettings(t *testing.T) {
	for _, tc := range []struct {
		name, file string
		args       []string
		want       string
	}{
		{"unknown key", "listn = 'x'", nil, `did you mean "listen"`},
		{"unknown table", "[fee]\nupload = '1'", nil, `did you mean "fees"`},
		{"config in the file", "config = 'x'", nil, "unknown setting"},
		{"not TOML", "data = /x", nil, "line 1 is not TOML"},
		{"a fee that is a float", "[fees]\nupload = 0.1", nil, "in quotes"},
		{"a list of numbers", "trusted-proxy = [1]", nil, "holds strings"},
		{"wrong type", "max-file-bytes = 'many'", nil, "max-file-bytes, file "},
		{"unknown action", "", []string{"--fees", "uplod=1"}, `did you mean "upload"`},
		{"negative fee", "", []string{"--fees", "upload=-1"}, "upload"},
		{"no data", "", []string{"--data", ""}, "svcd serve refuses these settings: no data directory\nhint: give " +
			"--data DIR, set SVCD_DATA, or write data = "},
		{"log level", "", []string{"--log-level", "loud"}, "want debug"},
		{"log format", "", []string{"--log-format", "xml"}, "want text or json"},
		{"proxy", "", []string{"--trusted-proxy", "localhost"}, "want a network"},
		{"listen", "", []string{"--listen", "8000"}, "want HOST:PORT"},
		{"metrics", "", []string{"--metrics-listen", "9000"}, "want HOST:PORT"},
		{"half a certificate", "", []string{"--tls-cert", "x"}, "together"},
		{"public url", "", []string{"--public-url", "files.example.org"}, "want http://HOST"},
		{"public url with a password", "", []string{"--public-url", "https://a:hunter2@files.example.org"},
			"want http://HOST"},
		{"token lifetime", "", []string{"--token-lifetime", "25h"}, "at most 24h"},
		{"drain delay", "", []string{"--drain-delay", "61s"}, "want 0 to 1m"},
		{"drain delay below 0", "", []string{"--drain-delay", "-1s"}, "want 0 to 1m"},
		{"destruction delay", "", []string{"--destruction-delay", "-1s"}, "want 0 or more"},
		{"connections", "", []string{"--max-connections", "0"}, "above 0"},
		{"connections of an address", "", []string{"--max-connections", "10", "--max-connections-per-address", "11"},
			"at most --max-connections: 10"},
		{"memory", "", []string{"--memory", "1000000"}, "at least 67108864 bytes"},
		{"open bytes", "", []string{"--max-file-bytes", "1000", "--max-open-bytes", "1000"}, "at least one file"},
		{"no file", "", []string{"--config", "/does/not/exist"}, "read configuration"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := append([]string{"config", "--data", "/x", "--config", configFile(t, tc.file)}, tc.args...)
			out, errs, code := execute(t, args...)
			if code != exitUsage || !strings.Contains(errs, tc.want) || strings.Count(errs, "\nhint: ") != 1 {
				t.Errorf("exit %d, %q: want %d, %q and a hint", code, errs, exitUsage, tc.want)
			}
			if strings.Contains(out+errs, "hunter2") {
				t.Errorf("the password is shown: %s%s", out, errs)
			}
		})
	}
}

// Every setting of serve has an environment variable and a key in the file.
func TestEverySettingHasThreeSources(t *testing.T) {
	names := settingNames()
	serve, _, err := newRoot(&bytes.Buffer{}, &bytes.Buffer{}).Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	check := func(f *pflag.Flag) {
		if f.Name != "help" && !f.Hidden && !slices.Contains(names, f.Name) {
			t.Errorf("--%s is not among the settings", f.Name)
		}
	}
	serve.LocalFlags().VisitAll(check)
	serve.InheritedFlags().VisitAll(check)
	if envName("public-url") != "SVCD_PUBLIC_URL" {
		t.Error(envName("public-url"))
	}
}

func TestRedactURL(t *testing.T) {
	for given, want := range map[string]string{
		"":                                  "",
		"postgres://svc@db.example.org/svc": "postgres://svc@db.example.org/svc",
		"postgres://svc:hunter2@db.example.org:5432/svc?sslmode=verify-full": "postgres://svc:redacted@db.example.org:5432/svc?sslmode=verify-full",
		"postgres://db/svc?password=hunter2":                                 "postgres://db/svc?password=redacted",
		"s3://bucket/prefix?secret_key=hunter2":                              "s3://bucket/prefix?secret_key=redacted",
		"host=db password=hunter2":                                           "redacted",
		"postgres://svc:hunt%er2@db":                                         "redacted",
	} {
		if got := redactURL(given); got != want {
			t.Errorf("%q is shown as %q, want %q", given, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	for given, want := range map[string]string{"lisen": "listen", "publicurl": "public-url", "dat": "data"} {
		if got := cli.Nearest(given, settingNames()); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}

// Commands and flags have a description, and every example runs through the parser.
func TestEveryCommandIsDescribed(t *testing.T) {
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Short == "" {
			t.Errorf("%s has no description", cmd.CommandPath())
		}
		if cmd.Example == "" && !cmd.Hidden {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		takesFiles := strings.Contains(cmd.Use, "DIR") || strings.Contains(cmd.Use, "FILE")
		if offersFiles := cmd.ValidArgsFunction == nil; cmd.HasParent() && offersFiles != takesFiles {
			t.Errorf("a shell offers files to %q: %v", cmd.UseLine(), offersFiles)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s has no description", cmd.CommandPath(), f.Name)
			}
		})
		for line := range strings.Lines(strings.ReplaceAll(cmd.Example, "\\\n", "")) {
			command, _, _ := strings.Cut(line, " | ")
			words := strings.Fields(command)
			found, rest, err := newRoot(&bytes.Buffer{}, &bytes.Buffer{}).Find(words[1:])
			if err != nil || !strings.HasPrefix(found.CommandPath(), cmd.CommandPath()) {
				t.Errorf("example %q: %v", line, err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("example %q: %v", line, err)
			}
		}
		for _, child := range cmd.Commands() {
			visit(child)
		}
	}
	visit(newRoot(&bytes.Buffer{}, &bytes.Buffer{}))
}

// Without --data and --config a command is about the packaged service, with its settings; with --data it
// is not. A file that this user may not read stops only what needs data.
func TestPackagedServiceIsFound(t *testing.T) {
	dir := t.TempDir()
	place := places{filepath.Join(t.TempDir(), "svcd.toml"), filepath.Join(dir, "data")}
	config := func(args ...string) (byName map[string]setting, code int) {
		var out, errs strings.Builder
		root := rootOf(&settings{stdout: &out, stderr: &errs,
			lookupEnv: func(string) (string, bool) { return "", false }, packaged: place})
		root.SetArgs(append([]string{"config", "--json"}, args...))
		err := root.ExecuteContext(t.Context())
		var list []setting
		_ = json.Unmarshal([]byte(out.String()), &list)
		byName = make(map[string]setting)
		for _, s := range list {
			byName[s.Name] = s
		}
		if err != nil {
			return byName, int(exitCode(err))
		}
		return byName, exitOK
	}
	if _, code := config(); code != exitUsage {
		t.Errorf("nothing is there: exit code %d", code)
	}
	ok(t, os.Mkdir(place.data, 0o700))
	if got, code := config(); code != exitOK || got["data"] != (setting{"data", place.data, "default", ""}) {
		t.Errorf("the data is there: exit code %d, %+v", code, got["data"])
	}
	ok(t, os.WriteFile(place.config, []byte("listen = '127.0.0.1:9'\n"), 0o600))
	if got, code := config(); code != exitOK || got["listen"].Value != "127.0.0.1:9" ||
		got["data"].Value != place.data {
		t.Errorf("the settings are there: exit code %d, %+v", code, got)
	}
	if got, code := config("--data", dir); code != exitOK || got["listen"].From != "default" ||
		got["data"].Value != dir {
		t.Errorf("another directory: exit code %d, %+v", code, got)
	}
	ok(t, os.WriteFile(place.config, []byte("nonsense"), 0o600))
	if _, code := config(); code != exitUsage {
		t.Errorf("a damaged file: exit code %d", code)
	}
	var out strings.Builder
	root := rootOf(&settings{stdout: &out, stderr: io.Discard, lookupEnv: os.LookupEnv, packaged: place})
	root.SetArgs([]string{"man", filepath.Join(dir, "man")})
	ok(t, root.ExecuteContext(t.Context()))
}
