package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// setFormat sets the format. With --existing it then saves anew what is there in blocks.
func setFormat(ctx context.Context, c *settingChange) (done sdk.Change, err error) {
	newest, err := strconv.ParseInt(c.value, 10, 64)
	if err != nil {
		return done, err
	}
	var inBlocks []sdk.Entry
	if c.existing {
		if inBlocks, err = c.toSaveWhole(ctx); err != nil || c.dryRun {
			return done, err
		}
	}
	if done, err = c.group.Settings().Set(ctx, wire.GroupSettings{Format: newest}); err != nil {
		return done, err
	}
	for _, e := range inBlocks {
		if err := saveOneWhole(ctx, c.group, e); err != nil {
			return done, fmt.Errorf("%s: %w", shownName(&e), err)
		}
		c.done.Saved = append(c.done.Saved, shownName(&e))
		if !c.asJSON {
			c.ui.printf("saved anew  %s\n", shownName(&e))
		}
	}
	return done, nil
}

// toSaveWhole lists the newest version of each file in blocks, tells what it costs to save them anew, and
// asks the user.
func (c *settingChange) toSaveWhole(ctx context.Context) (inBlocks []sdk.Entry, err error) {
	list, err := listOf(ctx, c.group)
	if err != nil {
		return nil, err
	}
	var bytes int64
	current, _ := list.Current()
	for _, e := range current {
		if e.Content != (sdk.Digest{}) {
			inBlocks, bytes = append(inBlocks, e), bytes+e.Size
		}
	}
	if len(inBlocks) == 0 {
		c.ui.notice("no file of the group is kept in blocks")
		return nil, nil
	}
	var price sdk.Amount
	for _, action := range []string{"retrieve", "upload"} {
		each, err := c.client.EstimateFee(ctx, action)
		if err != nil {
			return nil, err
		}
		for range inBlocks {
			if price, err = addPrice(price, each); err != nil {
				return nil, err
			}
		}
	}
	c.ui.notice("%s, %s, are saved anew for %s tokens, by this account; earlier versions stay as they are",
		plural(len(inBlocks), "file"), roughSize(bytes), price.Tokens())
	return inBlocks, c.mustAgree(ctx, c.dryRun || c.sure, "Save them anew?")
}

// saveOneWhole saves a version anew, if it still is the newest of its name, which the service compares.
func saveOneWhole(ctx context.Context, g sdk.Group, e sdk.Entry) error {
	now, err := g.Stat(ctx, e.Name)
	if err != nil {
		return err
	}
	if now.Ref != e.Ref {
		return refuse(exitOther, "run the command again", errors.New("it was saved meanwhile"))
	}
	f, err := g.OpenEntry(ctx, e)
	if err != nil {
		return err
	}
	defer f.Close()
	o := sdk.PutOptions{Base: &e.Ref}
	if e.Attributes != nil {
		o.Attributes = *e.Attributes
	}
	_, err = g.Put(ctx, e.Name, f, o)
	return err
}
