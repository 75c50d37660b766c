package main

import (
	"context"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/sdk"
)

// search is what find looks for. The zero value finds every file.
type search struct {
	name, iname, path, uploader string
	kind                        fileKind
	size                        sizeRange
	newer, older                point
	days                        dayRange
}

// findFlags are the flags of find.
type findFlags struct {
	search
	show  columns
	nulls bool
}

func (a *app) findCommand() *cobra.Command {
	var f findFlags
	cmd := &cobra.Command{
		Use:   "find [GROUP [NAME...] | PLACE...] [--name PATTERN]...",
		Short: "Find files by name, size and time in proven lists; free",
		Long: `Find files in all groups of the account, in a group, or in folders of it, by what their
records tell: nothing is retrieved, and at a service that proves what it lists it is
free. ` + placeHelp + `

What is found is printed as GROUP/PATH, which every command takes. With several
conditions a file must fulfil all. The words of find work with one dash, too. Times are
those that a mount shows. A group of more than 1,000 records is read folder by folder:
what moves meanwhile may be found twice, or not at all.`,
		Example: "  svcfs find --name '*.pdf'\n  svcfs find team/docs --size +10M --newer 7d\n" +
			"  svcfs find team -iname 'report*' -mtime -30 -l\n" +
			"  svcfs find team --name '*.bak' --print0 | xargs -0 svcfs rm",
		Args: cobra.ArbitraryArgs,
		RunE: a.withPlaces(func(ctx context.Context, c *sdk.Client, places []place) error {
			return a.find(ctx, c, places, f)
		}),
		ValidArgsFunction: a.completePlace,
	}
	flags := cmd.Flags()
	flags.Bool("help", false, "help for find") // without -h
	flags.Var((*pattern)(&f.name), "name", "the last part of the path matches: * is any text, ? one character")
	flags.Var((*pattern)(&f.iname), "iname", "as --name, with small and capital letters alike")
	flags.Var((*pattern)(&f.path), "path", "the whole path in the group matches; * matches slashes, too")
	flags.Var(&f.kind, "type", "f for files, l for links, d for folders")
	flags.Var(&f.size, "size", "+10M for larger ones, -10M for smaller ones")
	flags.Var(&f.newer, "newer", "changed after this: 7d, 12h, 2026-11-28 or a time with zone")
	flags.Var(&f.older, "older", "changed before this")
	flags.Var(&f.days, "mtime", "changed -7 (less than), +7 (more than) days ago")
	flags.StringVar(&f.uploader, "user", "", "uploaded by this account: its whole id, or "+
		"what stands before the first dot")
	flags.BoolVarP(&f.show.long, "long", "l", false, "also size, uploader and time")
	flags.BoolVarP(&f.show.human, "human-readable", "h", false, "sizes as 1.5 MiB")
	flags.BoolVarP(&f.nulls, "print0", "0", false, "a zero byte behind each, for xargs -0")
	return cmd
}

// findWords are the words of find(1), which have one dash there.
func findWords() []string {
	return []string{"-name", "-iname", "-path", "-type", "-size", "-newer", "-mtime", "-user", "-print0"}
}

// withFindWords gives the words of find(1) their second dash in a command line of svcfs find.
func withFindWords(args []string) []string {
	if len(args) == 0 || args[0] != "find" {
		return args
	}
	return each(args, func(arg string) string {
		if word, _, _ := strings.Cut(arg, "="); slices.Contains(findWords(), word) {
			return "-" + arg
		}
		return arg
	})
}

// pattern is a flag value: what [path.Match] takes.
type pattern string

func (p *pattern) String() string { return string(*p) }

// Type names the value in help texts.
func (p *pattern) Type() string { return "PATTERN" }

// Set takes a pattern.
func (p *pattern) Set(text string) error {
	if _, err := path.Match(text, ""); err != nil || text == "" {
		return errors.New("want a pattern such as '*.pdf'")
	}
	*p = pattern(text)
	return nil
}

// fileKind is a flag value: f, l, d; "" = files and links.
type fileKind string

func (k *fileKind) String() string { return string(*k) }

// Type names the value in help texts.
func (k *fileKind) Type() string { return "f|l|d" }

// Set takes a letter.
func (k *fileKind) Set(text string) error {
	if len(text) != 1 || !strings.Contains("fld", text) {
		return errors.New("want f, l or d")
	}
	*k = fileKind(text)
	return nil
}

// sizeRange is a flag value: +10M or -10M, or a size that must be met; "" = any.
type sizeRange struct {
	text  string
	bytes byteSize
}

func (r *sizeRange) String() string { return r.text }

// Type names the value in help texts.
func (r *sizeRange) Type() string { return "[+|-]SIZE" }

// Set takes a size with a sign, or without.
func (r *sizeRange) Set(text string) error {
	if err := r.bytes.Set(strings.TrimLeft(text, "+-")); err != nil {
		return errors.New("want a size such as +10M or -64K")
	}
	r.text = text
	return nil
}

// has reports whether a size is in the range; one that nobody knows is in none.
func (r *sizeRange) has(size int64) bool {
	switch {
	case r.text == "":
		return true
	case size == sdk.SizeUnknown:
		return false
	case r.text[0] == '+':
		return size > int64(r.bytes)
	case r.text[0] == '-':
		return size < int64(r.bytes)
	}
	return size == int64(r.bytes)
}

// point is a flag value: an age such as 7d, a date, or a time.
type point struct{ time.Time }

func (p *point) String() string {
	if p.IsZero() {
		return ""
	}
	return timeText(p.Time)
}

// Type names the value in help texts.
func (p *point) Type() string { return "TIME" }

// Set takes an age, a date of this time zone, or a time.
func (p *point) Set(text string) (err error) {
	var age timeSpan
	if age.Set(text) == nil {
		p.Time = time.Now().Add(-time.Duration(age))
		return nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if p.Time, err = time.ParseInLocation(layout, text, time.Local); err == nil {
			return nil
		}
	}
	return errors.New("want an age such as 7d or 12h, or a date such as 2026-11-28")
}

// dayRange is a flag value: -7 for less, +7 for more than seven days ago, 7 for that day.
type dayRange struct {
	text string
	days int64
}

func (r *dayRange) String() string { return r.text }

// Type names the value in help texts.
func (r *dayRange) Type() string { return "[+|-]DAYS" }

// Set takes a number of days with a sign, or without.
func (r *dayRange) Set(text string) (err error) {
	if r.days, err = strconv.ParseInt(strings.TrimLeft(text, "+-"), 10, 32); err != nil || r.days > maxDays {
		return errors.New("want a number of days such as -7 or +30")
	}
	r.text = text
	return nil
}

func (r *dayRange) has(at, now time.Time) bool {
	switch days := int64(now.Sub(at).Hours() / 24); {
	case r.text == "":
		return true
	case r.text[0] == '-':
		return days < r.days
	case r.text[0] == '+':
		return days > r.days
	default:
		return days == r.days
	}
}

// changedAt is the time that a mount shows for a file.
func changedAt(e *sdk.Entry) time.Time {
	if a := e.Attributes; a != nil && !a.ModTime.IsZero() {
		return a.ModTime
	}
	return e.Time
}

// fits reports whether a file at a path is what is looked for.
func (s *search) fits(e *sdk.Entry, shown string, now time.Time) bool {
	switch at := changedAt(e); {
	case s.kind == "d", s.kind == "f" && linkOf(e) != "", s.kind == "l" && linkOf(e) == "":
		return false
	case s.uploader != "" && s.uploader != string(e.Uploader) && s.uploader != nameOf(e.Uploader),
		!s.size.has(e.Size), !s.days.has(at, now):
		return false
	case !s.newer.IsZero() && !at.After(s.newer.Time), !s.older.IsZero() && !at.Before(s.older.Time):
		return false
	}
	return s.isNamed(shown)
}

// isNamed reports whether a path has the name that is looked for.
func (s *search) isNamed(shown string) bool {
	last := shown[strings.LastIndexByte(shown, '/')+1:]
	return isLike(s.name, last) && isLike(strings.ToLower(s.iname), strings.ToLower(last)) &&
		isLike(strings.ReplaceAll(s.path, "/", "\x01"), strings.ReplaceAll(shown, "/", "\x01"))
}

// isLike reports whether a text matches a pattern; "" matches all.
func isLike(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	is, err := path.Match(pattern, text)
	return err == nil && is
}

// found is what one group has of what is looked for.
type found struct {
	entry *sdk.Entry // nil for a folder
	path  string
}

// find returns what a choice has of what is looked for, by path.
func (l listing) find(s *search, what string, c choice, now time.Time) (list []found) {
	inside := make(map[string]bool) // folders
	for _, name := range c.names {
		if s.kind != "d" {
			if shown := l.Shown(name); shown != "" && !s.isNamed(shown) {
				continue
			}
			if e, shown := l.one(c, name); s.fits(e, shown, now) {
				list = append(list, found{e, shown})
			}
			continue
		}
		shown := l.Shown(name)
		for at := range shown {
			if shown[at] == '/' {
				inside[shown[:at]] = true
			}
		}
	}
	if s.kind != "d" {
		return list
	}
	for _, f := range l.folders {
		inside[f] = true
	}
	for folder := range inside {
		if c.isOf(what, folder) && s.isNamed(folder) {
			list = append(list, found{path: folder})
		}
	}
	slices.SortFunc(list, func(x, y found) int { return strings.Compare(x.path, y.path) })
	return list
}

// find prints what places have of what is looked for.
func (a *app) find(ctx context.Context, c *sdk.Client, places []place, f findFlags) error {
	places, err := orAllGroups(ctx, c, places)
	if err != nil {
		return err
	}
	docs := []foundEntry{}
	var rows [][]string
	f.show.long = f.show.long && !f.nulls
	err = byGroup(places, func(group sdk.GroupID, paths []string) error {
		all, err := searchIn(ctx, c.Group(group), paths, &f.search)
		for _, one := range all {
			at := escapeName(string(group)) + "/" + one.path
			if a.asJSON {
				docs = append(docs, one.doc(at))
			} else {
				rows = append(rows, one.row(at, f.show))
			}
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case a.asJSON:
		return a.printJSON(docs)
	case f.nulls:
		a.ui.items(each(rows, func(row []string) string { return row[len(row)-1] }))
		return nil
	}
	a.printTable(rows)
	return nil
}

// searchIn returns what is looked for at some paths of a group. Of a large group it holds no more than that, and the
// folders on the way to it.
func searchIn(ctx context.Context, g sdk.Group, paths []string, s *search) (all []found, err error) {
	now := time.Now()
	for _, what := range paths {
		here := len(all)
		ok, err := walk(ctx, g, what, true, func(path string, file *sdk.Entry) error {
			switch {
			case file == nil && s.kind == "d" && s.isNamed(path), file != nil && s.fits(file, path, now):
				all = append(all, found{file, path})
			}
			return nil
		})
		if !ok && err == nil {
			var list listing
			if list, err = listOf(ctx, g); err == nil {
				return list.findIn(g.ID, paths, s)
			}
		}
		if err != nil {
			return nil, err
		}
		if s.kind == "d" {
			slices.SortFunc(all[here:], func(x, y found) int { return strings.Compare(x.path, y.path) })
		}
	}
	return all, nil
}

// findIn returns what is looked for at some paths of a list.
func (l listing) findIn(group sdk.GroupID, paths []string, s *search) (all []found, err error) {
	now := time.Now()
	for _, what := range paths {
		chosen, ok := l.choose(what)
		if !ok && !l.hasFolder(what) {
			return nil, l.absent(group, what)
		}
		all = append(all, l.find(s, what, chosen, now)...)
	}
	return all, nil
}

func (f found) row(at string, show columns) []string {
	if f.entry == nil {
		return show.row("", at, "-", "-", "-")
	}
	return show.file(f.entry, at)
}

func (f found) doc(at string) foundEntry {
	if f.entry == nil {
		return foundEntry{Place: at, Folder: true}
	}
	record := listed(*f.entry, f.path)
	return foundEntry{Place: at, listedEntry: &record}
}

// foundEntry is what find prints as JSON.
type foundEntry struct {
	Place  string `json:"place"` // GROUP/PATH
	Folder bool   `json:"folder,omitempty"`
	*listedEntry
}
