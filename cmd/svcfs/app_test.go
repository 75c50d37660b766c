package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/integration/proctest"
)

// envWaits makes the test program the command of [actWaiting].
const envWaits = "SVCFS_TEST_WAITS"

// actWaiting is a command that hears of an interrupt and then waits in a system call.
func actWaiting() int {
	a := newApp(os.Stdin, os.Stdout, os.Stderr, processEnv())
	cmd := &cobra.Command{RunE: a.simple(func(ctx context.Context, _ []string) error {
		fmt.Println("runs")
		<-ctx.Done()
		fmt.Println("cleans up")
		_, err := io.Copy(io.Discard, a.stdin)
		return err
	})}
	cmd.SetArgs(nil)
	_ = cmd.ExecuteContext(context.Background())
	return 0
}

// The first Ctrl-C or SIGTERM is for the command, which may clean up; the second ends it, whatever it waits for.
func TestSecondInterruptEndsACommand(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), envWaits+"=1")
			in, err := cmd.StdinPipe()
			ok(t, err)
			defer in.Close()
			out, err := cmd.StdoutPipe()
			ok(t, err)
			ok(t, cmd.Start())
			said := bufio.NewScanner(out)
			for _, want := range []string{"runs", "cleans up"} {
				if !said.Scan() || said.Text() != want {
					t.Fatalf("it says %q, want %q", said.Text(), want)
				}
				ok(t, cmd.Process.Signal(signal))
			}
			ended := make(chan struct{})
			go func() {
				_ = cmd.Wait()
				close(ended)
			}()
			proctest.Eventually(t, "the command ends", func() bool {
				_ = cmd.Process.Signal(signal) // one that comes too early is still for the context
				select {
				case <-ended:
					return true
				default:
					return false
				}
			})
			if state := cmd.ProcessState.Sys().(syscall.WaitStatus); !state.Signaled() || state.Signal() != signal {
				t.Errorf("it ended by %v", cmd.ProcessState)
			}
		})
	}
}
