package main

import (
	"context"
	"os"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/fs"
)

func main() { os.Exit(int(run())) }

// run is main without the exit, for the script tests.
func run() exitCode {
	cli.RelaxTimers("mount")
	a := newApp(os.Stdin, os.Stdout, os.Stderr, processEnv())
	args := os.Args[1:]
	if len(args) == 1 && args[0] == fs.OutsideCommand {
		if err := fs.ServeOutside(readKeyAgain); err != nil {
			a.ui.fail(err, a.hints.of(err))
			return exitOther
		}
		return exitOK
	}
	if isMountHelper(os.Args[0]) {
		return a.mountHelper(context.Background(), args)
	}
	return a.execute(context.Background(), args)
}
