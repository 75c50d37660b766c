package view

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Walk visits what is beneath a folder of a large group, "" = all of the group: it asks for one folder after the
// other, and holds those on its way, however much else the group has. It shows no single moment of the group: what
// moves meanwhile may be visited twice, or not at all.
//
// Files are visited in the order of their paths, and a folder, with a nil file, before what is in it. visit may return
// [fs.SkipDir] for a folder that is not to be entered, and [fs.SkipAll] to end. The entry belongs to visit.
//
// Walk is free. Errors: that of visit, and those of [sdk.Group.Children]. Of these ErrNotFound is about this folder.
// ErrUnsupported may come after something was visited: then the group is to be listed from the beginning.
func Walk(ctx context.Context, g sdk.Group, folder string, visit func(path string, file *sdk.Entry) error) error {
	children, err := g.Children(ctx, folder)
	if err == nil {
		err = walk(ctx, g, folder, children, visit)
	}
	if err == fs.SkipAll {
		return nil
	}
	return err
}

func walk(ctx context.Context, g sdk.Group, folder string, children []sdk.Child,
	visit func(path string, file *sdk.Entry) error) error {
	order := func(c sdk.Child) string { // the paths beneath a folder go on with a slash
		if c.File == nil {
			return c.Name + "/"
		}
		return c.Name
	}
	slices.SortFunc(children, func(a, b sdk.Child) int { return cmp.Compare(order(a), order(b)) })
	for i, c := range children {
		children[i] = sdk.Child{} // nothing here holds it any more
		path := strings.TrimPrefix(folder+"/"+c.Name, "/")
		err := visit(path, c.File)
		if c.File == nil && err == nil {
			var inside []sdk.Child
			if inside, err = childrenIfThere(ctx, g, path); err == nil {
				err = walk(ctx, g, path, inside, visit)
			}
		}
		if err != nil && (err != fs.SkipDir || c.File != nil) {
			return err
		}
	}
	return nil
}

// childrenIfThere returns what is in a folder, nothing if it went meanwhile.
func childrenIfThere(ctx context.Context, g sdk.Group, folder string) ([]sdk.Child, error) {
	children, err := g.Children(ctx, folder)
	var refused *sdk.Error
	if errors.As(err, &refused) && refused.Code == wire.CodeFileNotFound {
		return nil, nil
	}
	return children, err
}
