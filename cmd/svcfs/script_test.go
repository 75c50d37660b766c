package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/service/testkit"
	"golang.org/x/sys/unix"
)

// update rewrites the expected output in the scripts: go test -update.
var update = flag.Bool("update", false, "rewrite the expected output of the scripts")

// programRaces is GORACE for the programs of the tests: without the race detector's
// pause at exit, a second for each.
const programRaces = "halt_on_error=1 atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	proctest.ActAsSweeper()
	if home := os.Getenv(envConfined); home != "" {
		os.Exit(actConfined(home))
	}
	if os.Getenv(envWaits) != "" {
		os.Exit(actWaiting())
	}
	_ = os.Setenv("GORACE", programRaces)
	if err := programs.InPath("svcfs", serviceProgram); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(programs.Run(m))
}

// programs holds the programs of the scripts.
var programs proctest.Programs

// ok ends the test unless a step of it went well.
func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestScript runs the command lines of testdata/script with the real programs,
// each script with a home of its own. Commands beside those of testscript:
//
//	service                start svcd on a free port; sets SVC_URL and SVCD
//	service stop           end it
//	account NAME TOKENS    make an account; its key goes to $WORK/NAME.key
//	as NAME                be that account from here on
//	exits CODE svcfs ...   run a command and check its exit code; before the
//	                       command may stand where it runs:
//	                       apart SCRIPT: a shell with mounts of its own
//	                       denied: bound by file modes, also when run by root
//	                       stranger: another user, who may look at every file
//	lie KIND               put a proxy that tells a lie before SVC_URL
//	need NAME ...          leave the script out where the machine lacks one, see [proctest.Need]
//	until COMMAND ...      repeat a command until it succeeds
//	unmounted DIR          check that nothing is mounted on DIR
//	hosted                 the hosted network, in the test's process; sets SVC_URL
//	world                  the service that this run of the script is about
//	stable FILE            write the last output to FILE, with what differs from
//	                       run to run replaced
func TestScript(t *testing.T) {
	runScripts(t, "testdata/script", serviceWorld)
}

// The worlds that a script may run against.
const (
	serviceWorld = "svcd"
	hostedWorld  = "hosted"
)

// TestGenerations runs testdata/generations against svcd and against the hosted service; the
// condition [hosted] tells which.
func TestGenerations(t *testing.T) {
	for _, world := range []string{serviceWorld, hostedWorld} {
		t.Run(world, func(t *testing.T) { runScripts(t, "testdata/generations", world) })
	}
}

// hostedKey finds, in a script's values, the *testkit.Server it runs against.
const hostedKey = "hosted"

// testKey finds, in a script's values, its test.
const testKey = "test"

func runScripts(t *testing.T, dir, world string) {
	svcd := filepath.Join(programs.Dir(t, serviceProgram), serviceProgram)
	service := func(ts *testscript.TestScript, _ bool, args []string) { serviceCmd(ts, svcd, args) }
	hosted := func(ts *testscript.TestScript, _ bool, args []string) { hostedCmd(t, ts, args) }
	testscript.Run(t, testscript.Params{
		Dir:           dir,
		UpdateScripts: *update,
		Setup:         setupScript,
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "fuse":
				return proctest.Lacks("mount") == "", nil
			case "root":
				return proctest.Lacks("root") == "", nil
			case "allow-other": // whether this user may share a mount
				conf, _ := os.ReadFile("/etc/fuse.conf")
				return os.Geteuid() == 0 || slices.Contains(strings.Split(string(conf), "\n"), "user_allow_other"), nil
			case hostedWorld:
				return world == hostedWorld, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"service": service,
			"hosted":  hosted,
			"world": func(ts *testscript.TestScript, neg bool, _ []string) {
				if world == serviceWorld {
					service(ts, neg, nil)
				} else {
					hosted(ts, neg, nil)
				}
			},
			"account": func(ts *testscript.TestScript, _ bool, args []string) {
				accountCmd(ts, svcd, args)
			},
			"as": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Setenv(envAccount, args[0]+".svc.testnet")
				ts.Setenv(envKeyFile, ts.MkAbs(args[0]+".key"))
			},
			"need":   needCmd,
			"stable": stableCmd,
			"exits":  exitsCmd,
			"lie":    func(ts *testscript.TestScript, _ bool, args []string) { lieCmd(t, ts, args) },
			"until":  untilCmd,
			"unmounted": func(ts *testscript.TestScript, _ bool, args []string) {
				if list := proctest.MountsBelow(ts.MkAbs(args[0])); len(list) > 0 {
					ts.Fatalf("still mounted: %v", list)
				}
			},
		},
	})
}

// setupScript gives a script a home of its own.
func setupScript(e *testscript.Env) error {
	home := filepath.Join(e.WorkDir, "home")
	e.Setenv("HOME", home)
	e.Setenv("GORACE", programRaces)
	for _, name := range []string{"XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"} {
		e.Setenv(name, "")
	}
	program, err := exec.LookPath("svcfs")
	if err != nil {
		return err
	}
	e.Setenv("SVCFS", program)
	e.Setenv("STRANGER", strings.Join(runsIn()["stranger"], " ")) // for scripts of exits apart
	e.Setenv("OPEN_FUSE", openFuse(filepath.Join(e.WorkDir, ".fuse")))
	e.Values[hostedKey] = new(*testkit.Server)
	e.Values[testKey] = e.T()
	stop, err := proctest.SweepWhenKilled(e.WorkDir)
	if err != nil {
		return err
	}
	e.Defer(func() {
		proctest.UnmountBelow(e.WorkDir)
		stop()
	})
	return os.Mkdir(home, 0o700)
}

func serviceCmd(ts *testscript.TestScript, svcd string, args []string) {
	if len(args) == 1 && args[0] == "stop" {
		stopService(ts)
		return
	}
	listen := "127.0.0.1:0"
	if url := ts.Getenv("SVC_URL"); url != "" { // again where it was
		listen = strings.TrimPrefix(url, "http://")
	}
	ts.Setenv("SVCD", svcd)
	cmd := exec.Command(svcd, append([]string{"serve", "--data", ts.MkAbs("service"), "--listen", listen}, args...)...)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Setenv("SERVICE_PID", fmt.Sprint(cmd.Process.Pid))
	done := make(chan struct{})
	line, _ := bufio.NewReader(out).ReadString('\n')
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	ts.Defer(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-done:
		case <-time.After(proctest.Hang):
			_ = cmd.Process.Kill()
			<-done
		}
	})
	_, url, ok := strings.Cut(strings.TrimSpace(line), "listening on ")
	if !ok {
		<-done
		ts.Fatalf("svcd serve said %q\n%s", line, log.String())
	}
	ts.Setenv("SVC_URL", url)
}

func stopService(ts *testscript.TestScript) {
	var pid int
	_, err := fmt.Sscan(ts.Getenv("SERVICE_PID"), &pid)
	ts.Check(err)
	ts.Check(syscall.Kill(pid, syscall.SIGTERM))
	for deadline := time.Now().Add(proctest.Hang); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if syscall.Kill(pid, 0) != nil {
			return
		}
	}
	ts.Fatalf("svcd did not end within %s of SIGTERM", proctest.Hang)
}

func accountCmd(ts *testscript.TestScript, svcd string, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: account NAME TOKENS")
	}
	id, key := args[0]+".svc.testnet", ""
	if s := *ts.Value(hostedKey).(**testkit.Server); s != nil {
		key = s.Account(args[0], args[1]).Key.Reveal()
	} else {
		key = createAccount(ts, svcd, id, args)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".key"), []byte(key+"\n"), 0o600))
}

// createAccount makes an account of the svcd in the script's folder service.
func createAccount(ts *testscript.TestScript, svcd, id string, args []string) (key string) {
	out, err := exec.Command(svcd, "account", "create", args[0], "--data", ts.MkAbs("service"), "--balance",
		args[1]).Output()
	ts.Check(err)
	var made struct {
		AccountID string `json:"account_id"`
		APIKey    string `json:"api_key"`
	}
	ts.Check(json.Unmarshal(out, &made))
	if made.AccountID != id {
		ts.Fatalf("account create made %q", made.AccountID)
	}
	return made.APIKey
}

// exitsCmd runs a command that must end with exactly the code given; its output
// is there for stdout and stderr as after exec.
func exitsCmd(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	command := args[1:]
	if before, ok := runsIn()[command[0]]; ok {
		command = append(before, command[1:]...)
	}
	err := ts.Exec(command[0], command[1:]...)
	got := "0"
	if failed, ok := err.(*exec.ExitError); ok {
		got = fmt.Sprint(failed.ExitCode())
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s\n[stdout]\n%s[stderr]\n%s", got, args[0], ts.ReadFile("stdout"),
			ts.ReadFile("stderr"))
	}
}

// openFuse is a command for scripts of exits apart: there every user may open
// /dev/fuse, as on most machines. Only root can make the device for it.
func openFuse(device string) string {
	const mode, fuse = unix.S_IFCHR | 0o666, 10<<8 | 229
	if unix.Mknod(device, mode, fuse) != nil || os.Chmod(device, 0o666) != nil {
		return "true"
	}
	return "mount --bind " + device + " /dev/fuse"
}

// runsIn are the places that exits knows for a command, as what is put before it.
// A user who is not root gets mounts of his own through a namespace of users, and
// file modes bind him anyway.
func runsIn() map[string][]string {
	apart := []string{"unshare", "--mount", "sh", "-e", "-c"}
	if os.Geteuid() != 0 {
		return map[string][]string{"apart": slices.Insert(apart, 1, "--map-current-user", "--keep-caps"),
			"denied": {"env"}}
	}
	return map[string][]string{
		"apart":  apart,
		"denied": {"setpriv", "--bounding-set=-dac_override,-dac_read_search"},
		"stranger": {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all,+dac_read_search",
			"--ambient-caps=-all,+dac_read_search"},
	}
}

// hostedCmd serves from the test's own process.
func hostedCmd(t *testing.T, ts *testscript.TestScript, args []string) {
	if len(args) != 0 {
		ts.Fatalf("usage: hosted")
	}
	s := testkit.Start(t, testkit.Hosted)
	*ts.Value(hostedKey).(**testkit.Server) = s
	ts.Setenv(envURL, s.URL)
}

// changing is what differs from run to run in an output.
var changing = []struct{ pattern, replacement string }{
	{`"cid": "[^"]*"`, `"cid": "CID"`},
	{`"(trans_id)": "[0-9a-f]{64}"`, `"$1": "HEX64"`},
	{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`, "TIME"},
	{`127\.0\.0\.1:\d+`, "HOST"},
	{`"(pid|cache_limit|cached|seq|before|since)": \d+`, `"$1": N`}, // before hangs on when the ledger was last checked
	{`"(files|bytes)": \d+`, `"$1": N`},
	{`"root": "[A-Za-z0-9+/=]+"`, `"root": "ROOT"`},
	{`"names": "[0-9a-f]{64}"`, `"names": "ROOT"`},
	{`\+[0-9a-f]{8}\+[A-Za-z0-9+/=]+`, "+KEY"},
	{`demo-once-\d+`, "demo-once"},
	{`"([a-z]+\.svc\.testnet)": "[0-9.]+"`, `"$1": "TOKENS"`},
}

func needCmd(ts *testscript.TestScript, _ bool, names []string) {
	proctest.Need(ts.Value(testKey).(testscript.T), names...)
}

func stableCmd(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: stable FILE")
	}
	text := strings.ReplaceAll(ts.ReadFile("stdout"), ts.Getenv("WORK"), "WORK")
	for _, c := range changing {
		text = regexp.MustCompile(c.pattern).ReplaceAllString(text, c.replacement)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

func untilCmd(ts *testscript.TestScript, _ bool, args []string) {
	var err error
	for deadline := time.Now().Add(proctest.Hang); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if err = ts.Exec(args[0], args[1:]...); err == nil {
			return
		}
	}
	ts.Fatalf("never succeeded: %v\n%s", err, ts.ReadFile("stderr"))
}
