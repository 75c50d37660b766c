package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// costDoc is what cost prints: what reading everything would cost now.
type costDoc struct {
	Files   int    `json:"files"`
	Bytes   int64  `json:"bytes"` // of the files whose size is known
	Free    int    `json:"free"`  // in memory or not uploaded yet
	Charged int    `json:"charged"`
	Unknown int    `json:"unknown,omitempty"` // price not told by the service
	Tokens  string `json:"tokens"`
}

func (a *app) costCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cost PATH...",
		Short: "Tell what reading files in a mount would cost now; free",
		Long: `Tell what opening every file at or below PATH would cost now. Files that are in
memory, or were written and not uploaded yet, are free. Asking is free: it reads
the attribute user.svcfs.price, which never opens a file.`,
		Example: "  svcfs cost ~/team/photos\n  svcfs cost --json ~/team/photos/*.jpg",
		Args:    between(1, -1, "one PATH or more"),
		RunE: a.simple(func(ctx context.Context, args []string) error {
			return a.cost(ctx, args, asJSON)
		}),
	}
	addJSON(cmd, &asJSON)
	return cmd
}

func (a *app) cost(ctx context.Context, paths []string, asJSON bool) error {
	var sum costDoc
	var total sdk.Amount
	for _, path := range paths {
		if _, _, err := mountHolding(path); err != nil {
			return err
		}
		err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case ctx.Err() != nil:
				return ctx.Err()
			case d.IsDir():
				return nil
			}
			if info, err := d.Info(); err == nil {
				sum.Bytes += info.Size()
			}
			return sum.add(path, &total)
		})
		if errors.Is(err, fs.ErrNotExist) {
			return refuse(exitNotFound, "look with: ls -a", err)
		}
		if err != nil {
			return err
		}
	}
	sum.Tokens = total.Tokens()
	if asJSON {
		return a.printJSON(sum)
	}
	a.printPairs([2]string{"files", itoa(sum.Files)}, [2]string{"size", sizeWords(sum.Bytes)}, [2]string{"free", itoa(sum.Free)},
		[2]string{"charged", itoa(sum.Charged)}, [2]string{"tokens", sum.Tokens})
	if sum.Unknown > 0 {
		a.ui.notice("the service does not tell its prices: %s more would be charged", plural(sum.Unknown, "file"))
	}
	return nil
}

// maxPriceText bounds the attribute's value, in bytes.
const maxPriceText = 64

// add adds one file.
func (c *costDoc) add(path string, total *sdk.Amount) error {
	c.Files++
	text := make([]byte, maxPriceText)
	n, err := unix.Lgetxattr(path, "user.svcfs.price", text)
	if errors.Is(err, syscall.ENODATA) {
		c.Unknown++
		return nil
	}
	if err != nil {
		return fmt.Errorf("ask the price of %s: %w", path, err)
	}
	price, err := wire.ParseTokens(string(text[:n]))
	if err != nil {
		return fmt.Errorf("price of %s: %w", path, err)
	}
	if price.IsZero() {
		c.Free++
		return nil
	}
	c.Charged++
	sum, ok := total.Add(price)
	if !ok {
		return fmt.Errorf("the sum of the prices is beyond what can be counted")
	}
	*total = sum
	return nil
}

func (a *app) refreshCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "refresh [DIR]",
		Short:   "Make the mounts, or the one on DIR, look at the ledger now; free",
		Long:    "Make the mounts of this user, or the one on DIR, look at the ledger now and wait until\nthey have. They look every few seconds by themselves while they are used.",
		Example: "  svcfs refresh ~/team",
		Args:    between(0, 1, "at most one DIR"),
		RunE: a.simple(func(ctx context.Context, args []string) error {
			return a.refresh(ctx, args)
		}),
	}
}

func (a *app) refresh(ctx context.Context, args []string) error {
	dirs, err := findMounts()
	if len(args) == 1 {
		var dir string
		dir, err = mountAt(args[0])
		dirs = []string{dir}
	}
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		m := inspect(ctx, dir)
		if m.Status == nil || !isOurProcess(m.Status.PID) {
			if len(args) == 1 {
				return refuse(exitOther, "see: svcfs status "+dir, fmt.Errorf("the mount on %s does not answer", dir))
			}
			continue
		}
		if err := a.refreshOne(ctx, dir, m.Status.PID, m.Status.Refreshed); err != nil {
			return err
		}
	}
	return nil
}

// refreshOne signals a mount and waits until it has looked since.
func (a *app) refreshOne(ctx context.Context, dir string, pid int, before time.Time) error {
	if err := syscall.Kill(pid, syscall.SIGUSR2); err != nil {
		return refuse(exitOther, "do it as the user who mounted it", fmt.Errorf("tell process %d: %w", pid, err))
	}
	ctx, cancel := context.WithTimeout(ctx, refreshLimit)
	defer cancel()
	for {
		if m := inspect(ctx, dir); m.Status != nil && m.Status.Refreshed.After(before) {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return refuse(exitUnreachable, "see: svcfs status "+dir, fmt.Errorf("%s could not look at the ledger", dir))
		}
	}
}
