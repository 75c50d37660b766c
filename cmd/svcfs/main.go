package main

import (
	"context"
	"os"
)

func main() { os.Exit(int(run())) }

// run is main without the exit, for the script tests.
func run() exitCode {
	a := newApp(os.Stdin, os.Stdout, os.Stderr, processEnv())
	return a.execute(context.Background(), os.Args[1:])
}
