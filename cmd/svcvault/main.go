// Command svcvault keeps the keys of a service: the master key, the roots, and the keys that sign its log and its
// sessions. svcd asks it over a Unix socket. It opens no network, no database and no file but the master key.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/svcfs/svcfs/sdk/confine"
	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/vault"
	"github.com/svcfs/svcfs/service/vaultwire"
)

const usage = `svcvault keeps the keys of a service. svcd starts it by itself, or uses one that runs:

  svcvault --socket /run/svcvault/socket --master-key-file /var/lib/svcvault/master.key
  svcd serve --vault unix:/run/svcvault/socket

Whoever may connect to the socket may use the keys: give its folder to the user of svcd alone.
`

// memoryLimit is the memory beyond which garbage is collected at once, in bytes: below MemoryMax of the unit.
const memoryLimit = 192 << 20

func main() {
	debug.SetMemoryLimit(memoryLimit)
	var socket string
	var own vaultwire.Setup
	flags := flag.NewFlagSet("svcvault", flag.ExitOnError)
	flags.StringVar(&socket, "socket", "", "Unix socket to listen at")
	flags.StringVar(&own.From.File, "master-key-file", "", "file with the master key, 32 bytes or base64 of them")
	flags.BoolVar(&own.From.Make, "make", false, "make the master key, if its file is missing")
	flags.StringVar(&own.From.Command, "master-key-command", "", "command that prints the master key, run by /bin/sh")
	flags.StringVar(&own.Next.File, "next-master-key-file", "", "file with another master key, which "+
		"svcd rotate-master-key may bring in")
	flags.BoolVar(&own.Legacy, "legacy", false, "give the keys of files from before this service, while "+
		"svcd import-legacy runs")
	flags.BoolVar(&own.Confine, "confine", false, "open no other file than the master key from then on (landlock)")
	child := flags.Bool("child", false, "do what standard input says, and listen at file 3: as svcd starts it")
	version := flags.Bool("version", false, "print the version")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage+"\n")
		flags.PrintDefaults()
	}
	_ = flags.Parse(os.Args[1:]) // exits
	if *version {
		fmt.Println("svcvault version " + wire.Version())
		return
	}
	err := confine.Harden() // before a key is read
	switch {
	case err != nil:
	case *child:
		if err = runChild(); err != nil {
			if !errors.Is(err, errTold) {
				tell(vaultwire.Start{Failed: err.Error(), Hint: ownfile.MendOf(err)})
			}
			os.Exit(1)
		}
	default:
		err = runAlone(socket, own)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "svcvault: "+err.Error())
		if hint := ownfile.MendOf(err); hint != "" {
			fmt.Fprintln(os.Stderr, "hint: "+hint)
		}
		os.Exit(1)
	}
}

// tell says in a line how the start went. svcd reads it.
func tell(s vaultwire.Start) { _ = json.NewEncoder(os.Stdout).Encode(s) }

// runAlone serves a socket until a signal.
func runAlone(path string, s vaultwire.Setup) error {
	switch {
	case s.From.File == "" && s.From.Command == "":
		return errors.New("give --master-key-file or --master-key-command")
	case path == "":
		return errors.New("give --socket")
	case s.Confine && s.From.Command != "":
		return errors.New("--confine is for a master key in a file: it would not let the command run again")
	case s.From.Make && s.Next.File != "":
		return errors.New("--make is for a service that begins: leave out --next-master-key-file")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	l, unlock, err := listen(ctx, path)
	if err != nil {
		return err
	}
	defer unlock()
	return serve(ctx, l, s)
}

// listen opens the socket, for this user and its group. One that nobody listens at is replaced. unlock lets another
// vault listen there.
func listen(ctx context.Context, path string) (l *net.UnixListener, unlock func(), err error) {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("listen: %w", err)
	}
	defer func() {
		if err != nil {
			_ = lock.Close()
		}
	}()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, nil, fmt.Errorf("another vault listens at %s", path)
	}
	before := syscall.Umask(0o117)
	defer syscall.Umask(before)
	address := &net.UnixAddr{Name: path, Net: "unix"}
	l, err = net.ListenUnix("unix", address)
	if errors.Is(err, syscall.EADDRINUSE) && isLeft(ctx, path) {
		if err := os.Remove(path); err != nil {
			return nil, nil, fmt.Errorf("remove a socket that nobody listens at: %w", err)
		}
		l, err = net.ListenUnix("unix", address)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("listen: %w", err)
	}
	return l, func() { _ = lock.Close() }, nil
}

// isLeft reports that a path is a socket that nobody listens at.
func isLeft(ctx context.Context, path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return false
	}
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// serve reads the master key, says so in a line, and answers until ctx ends.
func serve(ctx context.Context, l net.Listener, s vaultwire.Setup) error {
	measurement, err := measure()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	v, err := vault.New(ctx, s.From, s.Next, measurement, time.Now)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if s.Legacy {
		v.AllowLegacy()
	}
	if s.Confine && s.From.Command == "" {
		limits := confine.Limits{Read: confine.WithTarget(s.From.File)}
		if s.Next.File != "" {
			limits.Read = append(limits.Read, confine.WithTarget(s.Next.File)...)
		}
		if err := limits.Apply(); err != nil && !errors.Is(err, confine.ErrUnsupported) {
			return errors.Join(err, l.Close())
		}
	}
	tell(vaultwire.Start{})
	return vaultwire.Serve(ctx, l, v)
}

// measure returns hex SHA-256 of the program that this process runs, also where its file was replaced since.
func measure() (string, error) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", fmt.Errorf("measure this program: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("measure this program: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
