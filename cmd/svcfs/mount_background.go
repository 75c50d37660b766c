package main

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/svcfs/svcfs/sdk"
)

// mountChild is a mount in a process of its own. The API key reaches it through
// a pipe on its standard input: neither its arguments nor its environment hold it.
type mountChild struct {
	args  []string // after "svcfs mount", without the key's source
	env   []string // settings that replace those of this process; nil keeps them
	key   sdk.Secret
	log   io.Writer // its standard output and error
	attrs *syscall.SysProcAttr
	// mounter mounts for it, see [fs.StartMounter]; nil = it mounts itself.
	mounter *os.File
}

// start runs the child and returns once it is mounted, or with its error.
func (m mountChild) start() (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	ready, report, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ready.Close()
	args, files := []string{"mount", "--ready-fd=3", "--api-key-file=-"}, []*os.File{report}
	if m.mounter != nil {
		args, files = append(args, "--"+mounterFlag+"=4"), append(files, m.mounter)
	}
	args = append(args, m.args...)
	cmd := exec.Command(self, args...)
	cmd.Dir = "/"
	cmd.Env = childEnv(os.Environ(), m.env)
	cmd.Stdin = strings.NewReader(m.key.Reveal() + "\n")
	cmd.Stdout, cmd.Stderr = m.log, m.log
	cmd.ExtraFiles = files // descriptors 3 and up
	cmd.SysProcAttr = m.attrs
	if err := cmd.Start(); err != nil {
		_ = report.Close()
		return nil, fmt.Errorf("start the mount process: %w", err)
	}
	_ = report.Close()
	if err := readReport(ready); err != nil {
		_ = cmd.Wait()
		return nil, err
	}
	return cmd, nil
}

// childEnv is environ without the API key, and with the settings replaced when
// there are others.
func childEnv(environ, settings []string) []string {
	dropped := []string{envKey}
	if settings != nil {
		dropped = settingNames()
	}
	kept := slices.DeleteFunc(slices.Clone(environ), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return slices.Contains(dropped, name)
	})
	return append(kept, settings...)
}

// readReport waits for the child's report.
func readReport(ready io.Reader) error {
	line, _ := bufio.NewReader(ready).ReadString('\n')
	var r readyReport
	if json.Unmarshal([]byte(line), &r) != nil {
		return refuse(exitOther, "run it without --background to see why",
			errors.New("the mount process ended before it was ready"))
	}
	if !r.OK {
		return refuse(r.Code, r.Hint, errors.New(r.Error))
	}
	return nil
}

// mountInBackground runs this command again as a child in a session of its own
// and returns once that is mounted.
func (a *app) mountInBackground(cmd *cobra.Command, p mountPlan) error {
	s, err := a.accountSettings()
	if err != nil {
		return err
	}
	if err := a.resolveKey(cmd.Context(), &s); err != nil {
		return err
	}
	a.tellOthersThan(cmd.Context(), s, p)
	args, err := childArgs(cmd.Flags())
	if err != nil {
		return err
	}
	path := p.flags.logFile
	if path == "" {
		if path, err = a.logPath(p.dir); err != nil {
			return err
		}
		if path != os.DevNull {
			args = append(args, "--log-file="+path)
		}
	}
	log, err := openLog(path)
	if err != nil {
		return err
	}
	defer log.Close()
	if place := a.keyPlace(s); place != "" {
		args = append(args, "--"+keyPlaceFlag+"="+place)
	}
	child := mountChild{args: append(args, "--", p.dir), key: s.config.APIKey, log: log,
		attrs: &syscall.SysProcAttr{Setsid: true}}
	if p.flags.mounterFD >= 0 {
		child.mounter = os.NewFile(uintptr(p.flags.mounterFD), "mounter")
		defer child.mounter.Close()
	}
	answered := a.waitsFor(cmp.Or(s.config.URL, s.config.MCPURL, "the hosted service"))
	started, err := child.start()
	answered()
	if err != nil {
		return err
	}
	if err := a.printMounted(s.account, p, started.Process.Pid); err != nil {
		return err
	}
	return started.Process.Release()
}

// childArgs repeats the flags that were given, but for those the parent acts on.
func childArgs(set *pflag.FlagSet) (args []string, err error) {
	set.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "background", "api-key-file", "api-key-command", "ready-fd", mounterFlag, keyPlaceFlag, "json":
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if f.Name == "config" || f.Name == "log-file" { // the child runs in /
			if values[0], err = filepath.Abs(values[0]); err != nil {
				return
			}
		}
		for _, v := range values {
			args = append(args, "--"+f.Name+"="+v)
		}
	})
	return args, err
}

// logPath returns the log of a background mount on dir, and makes its folder. Without
// a home directory the mount keeps no log.
func (a *app) logPath(dir string) (string, error) {
	path := a.mountFile(dir, ".log")
	if path == "" {
		a.ui.notice("neither HOME nor XDG_STATE_HOME is set: this mount keeps no log")
		return os.DevNull, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("make the log's folder: %w", err)
	}
	return path, nil
}

// mountFile is the file of a mount on dir in the state folder, one for each ending; "" without
// a home directory.
func (a *app) mountFile(dir, ending string) string {
	sum := sha256.Sum256([]byte(dir))
	return a.userDir("XDG_STATE_HOME", ".local/state", fmt.Sprintf("mount-%s-%s%s", safeFileName(filepath.Base(dir)),
		hex.EncodeToString(sum[:4]), ending))
}

// openLog opens the file for the standard error of a background mount: panics, and
// messages from before the log takes over.
func openLog(path string) (*os.File, error) {
	if path == os.DevNull {
		return os.OpenFile(path, os.O_WRONLY, 0)
	}
	log, err := openLogFile(path, maxLogBytes)
	if err != nil {
		return nil, err
	}
	return log.f, nil
}

// safeFileName keeps what is harmless in a file name.
func safeFileName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, s)
}

// readyReport is the one line a mount process writes on its readiness pipe.
type readyReport struct {
	OK    bool     `json:"ok"`
	PID   int      `json:"pid,omitempty"`
	Error string   `json:"error,omitempty"`
	Hint  string   `json:"hint,omitempty"`
	Code  exitCode `json:"code,omitempty"`
}

// reportReady writes one report and closes the pipe; without a pipe it does nothing.
func reportReady(fd int, report readyReport) {
	if fd < 0 {
		return
	}
	f := os.NewFile(uintptr(fd), "ready")
	_ = json.NewEncoder(f).Encode(report) // a parent that is gone needs no report
	_ = f.Close()
}
