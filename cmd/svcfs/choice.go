package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
)

// choice is what one argument names in a listing.
type choice struct {
	names []string // recorded, in alphabetical order
	ref   sdk.Ref  // of the one version that was named by its reference, whose name is in names; else ""
	depth int      // how many folders of their paths the argument named: what is fetched loses these
	whole bool     // the group, or a folder: more than the files that were named
	many  bool     // a pattern: it may name any number
}

// choose returns what an argument names: the version of that reference; else the file that is shown or recorded
// so; else the files in that folder; else the newest file whose hash begins so; else what the pattern matches.
// "" is the whole group. ok is false if there is nothing of the kind.
func (l listing) choose(what string) (c choice, ok bool) {
	if what == "" {
		return choice{names: l.Names(), whole: true, depth: -1}, true
	}
	for i := range l.Entries {
		if e := &l.Entries[i]; string(e.Ref) == what {
			name := e.Named().Recorded
			return choice{names: []string{name}, ref: e.Ref, depth: strings.Count(name, "/")}, true
		}
	}
	c.depth = strings.Count(what, "/")
	if name := l.Resolve(what); l.has(name) {
		c.names = []string{name}
		return c, true
	}
	if folder, is := l.Folder(what); is {
		outside := func(name string) bool { return !strings.HasPrefix(name, folder+"/") }
		c.names, c.whole = slices.DeleteFunc(l.Names(), outside), true
		return c, true
	}
	if i := l.ofHash(what); i >= 0 {
		name := l.Entries[i].Named().Recorded
		return choice{names: []string{name}, ref: l.Entries[i].Ref, depth: strings.Count(name, "/")}, true
	}
	if !strings.ContainsAny(what, `*?[`) {
		return c, false
	}
	c.many = true
	for _, name := range l.Names() {
		parts := strings.SplitAfterN(l.Shown(name), "/", c.depth+2)
		if len(parts) <= c.depth {
			continue
		}
		head := strings.TrimSuffix(strings.Join(parts[:c.depth+1], ""), "/")
		if matches(what, head) {
			c.names, c.whole = append(c.names, name), c.whole || len(parts) > c.depth+1
		}
	}
	return c, len(c.names) > 0
}

// isOf reports whether a folder is, or is in, what an argument names.
func (c choice) isOf(what, folder string) bool {
	if !c.many {
		return what == "" || folder == what || strings.HasPrefix(folder, what+"/")
	}
	parts := strings.SplitN(folder, "/", c.depth+2)
	return len(parts) > c.depth && matches(what, strings.Join(parts[:c.depth+1], "/"))
}

// matches reports whether a path matches a pattern of as many parts: * and ? match no slash, and no dot that
// hides a name.
func matches(pattern, shown string) bool {
	if is, err := path.Match(pattern, shown); err != nil || !is {
		return false
	}
	patterns := strings.Split(pattern, "/")
	for i, part := range strings.Split(shown, "/") {
		if strings.HasPrefix(part, ".") && !strings.HasPrefix(patterns[i], ".") {
			return false
		}
	}
	return true
}

// holds reports whether an argument names what is there, also an empty folder.
func (l listing) holds(what string) bool {
	_, ok := l.choose(what)
	return ok || slices.ContainsFunc(l.folders, func(folder string) bool { return names.Show(folder, "") == what })
}

// has reports whether the listing shows a file of a recorded name.
func (l listing) has(recorded string) bool {
	_, ok := l.Newest(recorded)
	return ok
}

// ofHash returns the index of the newest living version whose hash begins with digits, or -1.
func (l listing) ofHash(digits string) int {
	best := -1
	if digits = strings.ToLower(digits); len(digits) < names.HashDigits {
		return best
	}
	for i := range l.Entries {
		e := &l.Entries[i]
		if lives(e) && strings.HasPrefix(hashText(e.Hash), digits) && (best < 0 || l.Entries[best].Seq <= e.Seq) {
			best = i
		}
	}
	return best
}

// chosen returns the entries of a choice, in upload order: all versions of each name that are as they must be, or
// the one version that was named.
func (l listing) chosen(c choice, must func(*sdk.Entry) bool) [][]sdk.Entry {
	at := make(map[string]int, len(c.names))
	for i, name := range c.names {
		at[name] = i
	}
	versions := make([][]sdk.Entry, len(c.names))
	for i := range l.Entries {
		e := &l.Entries[i]
		if n, ok := at[e.Named().Recorded]; ok && must(e) && (c.ref == "" || c.ref == e.Ref) {
			versions[n] = append(versions[n], *e)
		}
	}
	return slices.DeleteFunc(versions, func(v []sdk.Entry) bool { return len(v) == 0 })
}

// absent is the error of a name of a group that is not there.
func (l listing) absent(group sdk.GroupID, what string) error {
	text, hint := "not found: no file, folder or reference %s in group %s", "see what there is with: svcfs ls "
	if slices.ContainsFunc(l.Entries, func(e sdk.Entry) bool {
		return e.Deleted != nil && (string(e.Ref) == what || e.Named().Recorded == what || shownName(&e) == what)
	}) {
		text, hint = "%s in group %s was deleted already", "see what can be brought back with: svcfs ls --trash "
	}
	return refuse(exitNotFound, hint+shellWord(escapeName(string(group))),
		fmt.Errorf(text, escapeName(what), escapeName(string(group))))
}
