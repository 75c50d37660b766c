package tree

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/svcfs/svcfs/sdk"
)

// bringBack takes a name of GROUP/.svcfs/trash, or all names beneath a folder of it,
// out of the trash, when a program moves it to where it was (W9).
func (d *Dir) bringBack(ctx context.Context, name string, to *Dir, newName string) error {
	if err := to.changeable(ctx, "rename", newName); err != nil {
		return err
	}
	g := d.group
	if err := g.list.Refresh(ctx, 0); err != nil { // which records are the newest decides
		return d.failed("rename", name, err)
	}
	names, err := d.removedNames(name, to, newName)
	if err != nil {
		return d.failed("rename", name, err)
	}
	for _, list := range names {
		var restored []sdk.Entry
		err := d.t.spent.Spend(sdk.EventRestored, func() (_ sdk.Amount, err error) {
			restored, err = d.t.remote.RestoreVersions(ctx, g.id, list)
			return sdk.Amount{}, err
		})
		if sdk.KindOf(err) == sdk.ErrNotAuthorized {
			err = uploadedBy(list[len(list)-1].Uploader, "bring back")
		}
		if err != nil {
			return d.failed("rename", name, err)
		}
		g.applyOwn(ctx, list, restored)
	}
	d.t.tell([]notice{entryChanged(d, name), entryChanged(to, newName)}) // the kernel moves what it knew as the name
	return nil
}

// removedNames returns the versions in the trash of each name at or beneath name, when
// newName in to is where they were.
func (d *Dir) removedNames(name string, to *Dir, newName string) (list [][]sdk.Entry, err error) {
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
	d.group.learnPast()
	next := d.past.under[name]
	if next == nil || !next.lives() {
		return nil, &Error{Class: ClassNotExist, Err: errors.New("it is not in the trash")}
	}
	target := ""
	if to.group == d.group {
		if newName == name { // as it is shown, which may be with escapes
			newName = next.raw
		}
		target = to.rawPath(newName)
	}
	for _, v := range next.all(nil) {
		if v.raw != target && !strings.HasPrefix(v.raw, target+"/") {
			return nil, &Error{Class: ClassByDesign, Err: errors.New("a removed file comes back under the name it had"),
				Hint: "Move it to that name, or bring it back with: svcfs restore --trash GROUP NAME"}
		}
		var versions []sdk.Entry
		for _, e := range v.entries {
			if next.shows(e) {
				versions = append(versions, *e)
			}
		}
		if len(versions) > 0 {
			list = append(list, versions)
		}
	}
	return list, nil
}

// all collects the names at p and beneath.
func (p *past) all(list []*versions) []*versions {
	if p.v != nil && slices.ContainsFunc(p.v.entries, p.shows) {
		list = append(list, p.v)
	}
	for _, next := range p.under {
		list = next.all(list)
	}
	return list
}
