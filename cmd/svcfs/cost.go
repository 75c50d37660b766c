package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs/tree"
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
	Looks   string `json:"looks,omitempty"` // tokens for one look at each group listed, where that costs
}

func (a *app) costCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cost PATH...",
		Short: "Show what reading files in a mount would cost now",
		Long: `Show what opening every file at or below PATH would cost now. Files that are in
memory, or were written and not uploaded yet, are free. The command opens no file: it
reads the attribute user.svcfs.price. Like find, it lists the folders below PATH. A large
file costs one retrieval however much of it is read; it is free while a program has it
open and for a minute after, and while all of it is in memory. Where a look at a group
costs, as on the hosted network, it shows the price of a look. A mount looks only while
programs use it, in the long run at most once a minute.`,
		Example: "  svcfs cost ~/groups/team/photos\n  svcfs cost --json ~/groups/team/photos/*.jpg",
		Args:    between(1, -1, "one PATH or more"),
		RunE:    a.simple(a.cost),
	}
}

func (a *app) cost(ctx context.Context, paths []string) error {
	var sum costDoc
	var total, looks sdk.Amount
	groups := make(map[string]bool) // folders of groups that are looked at
	for _, arg := range paths {
		if err := a.addCosts(ctx, arg, &sum, &total, groups); err != nil {
			return err
		}
	}
	for group := range groups {
		price, _, err := priceOf(group)
		if err != nil {
			return err
		}
		looks, _ = looks.Add(price)
	}
	sum.Tokens = total.Tokens()
	if !looks.IsZero() {
		sum.Looks = looks.Tokens()
	}
	if a.asJSON {
		return a.printJSON(sum)
	}
	a.printPairs([2]string{"files", itoa(sum.Files)}, [2]string{"size", sizeWords(sum.Bytes)},
		[2]string{"free", itoa(sum.Free)},
		[2]string{"charged", itoa(sum.Charged)}, [2]string{"tokens", sum.Tokens})
	if sum.Looks != "" {
		a.ui.notice("a look at what others changed there costs %s tokens; svcfs status tells how many were made",
			sum.Looks)
	}
	if sum.Unknown > 0 {
		a.ui.notice("the service does not tell its prices: %s more would be charged", plural(sum.Unknown, "file"))
	}
	return nil
}

// addCosts adds the files at a path of a mount and below it to sum and total, and the folders of their groups to
// groups.
func (a *app) addCosts(ctx context.Context, arg string, sum *costDoc, total *sdk.Amount,
	groups map[string]bool) error {
	start, err := a.mountPath(ctx, []string{arg})
	if err != nil {
		return err
	}
	mount, inside, err := mountHolding(start)
	if err != nil {
		return err
	}
	if group, _, _ := strings.Cut(inside[1:], "/"); group != "" {
		groups[filepath.Join(mount, group)] = true
	}
	err = filepath.WalkDir(start, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case d.IsDir():
			if inside == "/" && filepath.Dir(path) == filepath.Clean(start) {
				groups[filepath.Join(mount, d.Name())] = true
			}
			return nil
		}
		if info, err := d.Info(); err == nil {
			sum.Bytes += info.Size()
		}
		return sum.add(path, total)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return refuse(exitNotFound, "look with: ls -a", err)
	}
	return err
}

// maxPriceText bounds the attribute's value, in bytes.
const maxPriceText = 64

// priceOf reads the price of a file or folder, if it has one.
func priceOf(path string) (price sdk.Amount, known bool, err error) {
	text := make([]byte, maxPriceText)
	n, err := unix.Lgetxattr(path, tree.PriceAttribute, text)
	if errors.Is(err, syscall.ENODATA) {
		return price, false, nil
	}
	if err == nil {
		price, err = wire.ParseTokens(string(text[:n]))
	}
	if err != nil {
		return price, false, fmt.Errorf("ask the price of %s: %w", path, err)
	}
	return price, true, nil
}

// add adds one file.
func (c *costDoc) add(path string, total *sdk.Amount) error {
	c.Files++
	price, known, err := priceOf(path)
	if err != nil {
		return err
	}
	if !known {
		c.Unknown++
		return nil
	}
	if price.IsZero() {
		c.Free++
		return nil
	}
	c.Charged++
	*total, err = addPrice(*total, price)
	return err
}

// addPrice adds a price to a sum.
func addPrice(total, price sdk.Amount) (sdk.Amount, error) {
	sum, ok := total.Add(price)
	if !ok {
		return total, refuse(exitOther, "ask about fewer files at a time",
			errors.New("the sum of the prices is beyond what can be counted"))
	}
	return sum, nil
}
