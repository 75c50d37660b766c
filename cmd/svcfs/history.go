package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// pastVersion is a version of a file in a mount, and what history prints as JSON.
type pastVersion struct {
	Version  int64      `json:"version"`
	Size     int64      `json:"size"`
	Time     *time.Time `json:"time"` // when it was recorded; null when unknown
	Uploader string     `json:"uploader"`
	Price    string     `json:"price,omitempty"` // tokens for reading it now, where the service tells
	Newest   bool       `json:"newest,omitempty"`
	Path     string     `json:"path,omitempty"` // where it can be read, in a mount
	CID      sdk.Ref    `json:"cid,omitempty"`  // without a mount: its reference
}

func (a *app) historyCommand() *cobra.Command {
	return a.offerNotify(&cobra.Command{
		Use: "history PATH | GROUP NAME", SuggestFor: []string{"log", "versions"},
		Short: "List the versions of a file; free",
		Long: `List the versions of a file, the newest last: the number of each, its size, when it was
recorded, and who uploaded it. The number stays when older versions go. The command is
free. In a mount the versions are files in .svcfs/history of the group: 'cp' copies one out,
'svcfs restore' brings one back. 'svcfs group config' shows which ones a group keeps.
A removed file comes back with 'svcfs restore --trash'.

A GROUP with a NAME, or GROUP/PATH, is looked for in the mounts of the account that run here.
Where it is in none the service is asked, as svcfs ls does; --json then has the reference of
each version, which svcfs get takes.`,
		Example: "  svcfs history ~/groups/team/report.pdf\n  svcfs history --json team/report.pdf",
		Args:    between(1, 2, "one PATH, or a GROUP and a NAME"),
		RunE: a.simple(func(ctx context.Context, args []string) error {
			versions, err := a.history(ctx, args)
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.printJSON(versions)
			}
			var rows [][]string
			for _, v := range versions {
				mark := ""
				if v.Newest {
					mark = "newest"
				}
				rows = append(rows, []string{fmt.Sprint(v.Version), fmt.Sprint(v.Size), timeText(timeOf(v.Time)),
					v.Uploader, mark})
			}
			a.printTable(rows)
			return nil
		}),
	}, answerVersions)
}

// history lists the versions of the file that arguments name, the newest last: by a mount, or without one by the
// service.
func (a *app) history(ctx context.Context, args []string) ([]pastVersion, error) {
	path, err := a.mountPath(ctx, args)
	if err == nil {
		return versionsAt(path)
	}
	if !errors.Is(err, errNotMounted) {
		return nil, err
	}
	places, unread := placesOf(args)
	if unread != nil || places[0].path == "" {
		return nil, cmp.Or(unread, refuse(exitNotFound,
			"name a file: a path in a mount, GROUP NAME or GROUP/PATH", err))
	}
	c, _, err := a.client(ctx)
	if err != nil {
		return nil, err
	}
	versions, err := listedVersions(ctx, c.Group(places[0].group), places[0].path)
	return versions, errors.Join(err, a.closeClient(c))
}

// listedVersions lists the versions of a file by the list of its group, the newest last.
func listedVersions(ctx context.Context, g sdk.Group, what string) ([]pastVersion, error) {
	list, err := listOf(ctx, g)
	if err != nil {
		return nil, err
	}
	chosen, ok := list.choose(what)
	if !ok && !list.hasFolder(what) {
		return nil, list.absent(g.ID, what)
	}
	chosen.ref = "" // a reference stands for its name
	of := list.chosen(chosen, lives)
	if len(of) != 1 || chosen.whole {
		return nil, refuse(exitNotFound, "name one file: a folder has no versions, its files have",
			fmt.Errorf("%s in group %s is not one file", escapeName(what), escapeName(string(g.ID))))
	}
	versions := make([]pastVersion, 0, len(of[0]))
	for i := range of[0] {
		e := &of[0][i]
		versions = append(versions, pastVersion{Version: cmp.Or(int64(e.Seq), int64(i+1)), Size: e.Size,
			Time: timeOrNil(e.Time), Uploader: escapeName(string(e.Uploader)), CID: e.Ref})
	}
	versions[len(versions)-1].Newest = true
	return versions, nil
}

// versionsAt lists the versions of the file at a path in a mount, the newest last.
func versionsAt(file string) ([]pastVersion, error) {
	dir, inside, err := mountHolding(file)
	if err != nil {
		return nil, err
	}
	if inside == "/" || path.Dir(inside) == "/" {
		return nil, usage("name a file in a group", inside+" is no file")
	}
	in := dir + historyOf(inside)
	entries, err := os.ReadDir(in)
	if errors.Is(err, fs.ErrNotExist) {
		entries, err = nil, nil
	}
	if err != nil {
		return nil, mountRefused(err, file)
	}
	var versions []pastVersion
	for _, e := range entries {
		v, isVersion, err := pastVersionOf(in, e, path.Ext(inside))
		if err != nil {
			return nil, mountRefused(err, file)
		}
		if isVersion {
			versions = append(versions, v)
		}
	}
	if len(versions) == 0 {
		return nil, refuse(exitNotFound, "a folder has no versions, its files have; a removed file comes back with: "+
			"svcfs restore --trash "+placeWord(file), fmt.Errorf("no version of %s is recorded", file))
	}
	slices.SortFunc(versions, func(x, y pastVersion) int { return cmp.Compare(x.Version, y.Version) })
	versions[len(versions)-1].Newest = true
	return versions, nil
}

// pastVersionOf reads a version from its name, NUMBER-DATE-UPLOADER and the extension of the
// file; what else is in a folder of versions is none.
func pastVersionOf(in string, e fs.DirEntry, extension string) (v pastVersion, isVersion bool, err error) {
	number, rest, _ := strings.Cut(e.Name(), "-")
	date, uploader, isVersion := strings.Cut(rest, "-")
	v.Version, err = strconv.ParseInt(number, 10, 64)
	if e.IsDir() || !isVersion || err != nil {
		return v, false, nil
	}
	info, err := e.Info()
	if errors.Is(err, fs.ErrNotExist) { // it left the history meanwhile
		return v, false, nil
	}
	if err != nil {
		return v, false, err
	}
	v.Size, v.Path, v.Uploader = info.Size(), filepath.Join(in, e.Name()), strings.TrimSuffix(uploader, extension)
	if at, err := time.Parse("20060102T150405Z", date); err == nil {
		v.Time = &at
	}
	price, known, err := priceOf(v.Path)
	if err != nil {
		return v, false, err
	}
	if known {
		v.Price = price.Tokens()
	}
	return v, true, nil
}

// timeOf is the zero time for nil.
func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// restoredVersion is what restore prints as JSON.
type restoredVersion struct {
	Path    string `json:"path"`
	Version int64  `json:"version"` // that was brought back
	Size    int64  `json:"size"`
}

func (a *app) restoreCommand() *cobra.Command {
	var number int64
	var sure, trash bool
	version := a.simple(func(ctx context.Context, args []string) error {
		path, err := a.mountPath(ctx, args)
		if err != nil {
			return err
		}
		return a.restore(ctx, path, number, sure)
	})
	removed := a.changePlaces(func(ctx context.Context, c *sdk.Client, places []place) error {
		return byGroup(places, func(group sdk.GroupID, paths []string) error {
			return a.restoreFromTrash(ctx, c.Group(group), paths)
		})
	})
	cmd := &cobra.Command{
		Use: "restore PATH --version N | --trash PLACE...", SuggestFor: []string{"undelete", "recover", "trash"},
		Short: "Bring back an older version of a file in a mount, or removed files",
		Long: `Bring an older version of a file in a mount back: its content is saved again, as the
newest version, with its attributes and the time of now; whether the file may be executed
stays as it is. No version is lost. It costs one retrieval and one upload. The command says
so and asks first; --yes answers. The file changes as a whole or not at all. What was
written to the file and is not uploaded yet is replaced. 'svcfs history PATH' lists the
versions. PATH may be GROUP/PATH, or a GROUP and a NAME, while a mount here has the group.

With --trash, bring removed files, folders, or what a pattern matches, back from the trash of
a group, with all their versions; it is free. A PLACE is where it was: a path in a mount (./NAME
in a folder of one) or GROUP/PATH; or give the GROUP and then each NAME. A folder that was
empty comes back, too, and the empty ones in it that were removed with it; 'svcfs ls --trash'
does not list these. The uploader and the owner of the group can, and every writer where the
owner lets every writer remove files. 'svcfs ls --trash GROUP' lists what can be brought back.`,
		Example: "  svcfs restore ~/groups/team/report.pdf --version 17\n" +
			"  svcfs restore ~/groups/team/report.pdf --version 17 --yes --json\n" +
			"  svcfs restore --trash ~/groups/team/docs\n" +
			"  svcfs restore --trash team draft.txt docs",
		Args: func(cmd *cobra.Command, args []string) error {
			if trash {
				return inGroups("a GROUP and at least one NAME with --trash")(cmd, args)
			}
			return between(1, 2, "one PATH, or a GROUP and a NAME")(cmd, args)
		},
		PreRunE: first(func(args []string) error { return checkRestore(args, trash, number, sure) }),
		RunE: func(cmd *cobra.Command, args []string) error {
			if trash {
				return removed(cmd, args)
			}
			return version(cmd, args)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if trash {
				return a.completeRemoved(cmd, args, typed)
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	cmd.Flags().BoolVar(&trash, "trash", false, "bring back what was removed there")
	cmd.Flags().Int64Var(&number, "version", 0, "number of the version, as 'svcfs history' shows it")
	cmd.Flags().BoolVarP(&sure, "yes", "y", false, "do not ask")
	return cmd
}

// versionAt says which file and version a path in the history of a group is, in the words of restore.
func versionAt(arg string) (words string, is bool) {
	folder, at, is := strings.Cut(arg, ".svcfs/history/")
	number, _, _ := strings.Cut(path.Base(at), "-")
	n, err := strconv.ParseInt(number, 10, 64)
	return fmt.Sprintf("%s --version %d", placeWord(folder+path.Dir(at)), n), is && err == nil
}

// checkRestore refuses flags of restore that do not go together.
func checkRestore(args []string, trash bool, number int64, sure bool) error {
	switch {
	case trash && (number != 0 || sure):
		return usage("leave them out: all versions of a removed file come back",
			"--version and --yes are about a version, not about --trash")
	case !trash && number < 1:
		if of, is := versionAt(args[0]); is && len(args) == 1 {
			return usage("bring it back with: svcfs restore "+of, "restore wants --version N")
		}
		named := strings.Join(each(args, shellWord), " ")
		if len(args) == 1 {
			named = placeWord(args[0])
		}
		return usage("see the numbers with: svcfs history "+named+"; a removed file comes back with: svcfs "+
			"restore --trash "+named, "restore wants --version N")
	}
	return nil
}

func (a *app) restore(ctx context.Context, file string, number int64, sure bool) error {
	versions, err := versionsAt(file)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(versions, func(v pastVersion) bool { return v.Version == number })
	if i < 0 {
		return refuse(exitNotFound, "see what there is: svcfs history "+shellWord(file),
			fmt.Errorf("%s has no version %d", file, number))
	}
	v := versions[i]
	if err := mustBeNoLink(v.Path, file); err != nil {
		return err
	}
	a.ui.notice("bringing version %d back costs %s and one upload", v.Version, retrievalWords(v.Price))
	if err := a.mustAgree(ctx, sure, "Shall it be the newest version?"); err != nil {
		return err
	}
	if err := saveAgain(ctx, v.Path, file); err != nil {
		return mountRefused(err, file)
	}
	if a.asJSON {
		return a.printJSON(restoredVersion{file, v.Version, v.Size})
	}
	a.ui.printf("brought back version %d of %s\n", v.Version, escapeName(file))
	return nil
}

// mustBeNoLink refuses a version that was a symbolic link, which a mount shows as a file that
// holds the target: one of another account could lead out of the group once it is ours.
func mustBeNoLink(version, file string) error {
	_, err := unix.Lgetxattr(version, tree.LinkAttribute, nil)
	if errors.Is(err, syscall.ENODATA) {
		return nil
	}
	if err != nil {
		return mountRefused(err, file)
	}
	return refuse(exitOther, fmt.Sprintf("look where it leads: cat %s; then: ln -sfn TARGET %s", shellWord(version),
		shellWord(file)), errors.New("that version is a symbolic link"))
}

// retrievalWords tells what reading a version costs; price is "" when that is not known.
func retrievalWords(price string) string {
	switch amount, err := wire.ParseTokens(price); {
	case price == "" || err != nil:
		return "one retrieval"
	case amount.IsZero():
		return "no retrieval, because it is in memory,"
	}
	return fmt.Sprintf("one retrieval (%s tokens)", price)
}

// saveAgain saves the version at from as the file to, both in one mount, with its
// attributes: under a temporary name, which is never uploaded, and then by a rename.
func saveAgain(ctx context.Context, from, to string) (err error) {
	scratch := filepath.Join(filepath.Dir(to), fmt.Sprintf(".svcfs-restore-%d.tmp", os.Getpid()))
	defer func() {
		if err != nil {
			_ = os.Remove(scratch)
		}
	}()
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(scratch, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	// A plain copy: the kernel's own would not end with ctx.
	_, err = io.Copy(struct{ io.Writer }{out}, readUntil{ctx, in})
	if err == nil {
		err = copyMarks(in, out, to)
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Rename(scratch, to)
}

// readUntil reads until ctx ends.
type readUntil struct {
	ctx context.Context
	r   io.Reader
}

func (r readUntil) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// maxXAttr is the largest list of attributes, and the largest value, in bytes.
const maxXAttr = 64 << 10

// copyMarks gives out the recorded attributes of in, and the execute bit that the file
// current has: a mount shows none of a version.
func copyMarks(in, out *os.File, current string) error {
	if info, err := os.Lstat(current); err == nil && info.Mode().IsRegular() && info.Mode()&0o100 != 0 {
		if err := out.Chmod(0o700); err != nil {
			return err
		}
	}
	list := make([]byte, maxXAttr)
	n, err := unix.Flistxattr(int(in.Fd()), list)
	if err != nil {
		return fmt.Errorf("list its attributes: %w", err)
	}
	value := make([]byte, maxXAttr)
	for name := range strings.SplitSeq(string(list[:n]), "\x00") {
		if name == "" || strings.HasPrefix(name, "user.svcfs.") {
			continue
		}
		size, err := unix.Fgetxattr(int(in.Fd()), name, value)
		if err == nil {
			err = unix.Fsetxattr(int(out.Fd()), name, value[:size], 0)
		}
		if err != nil {
			return fmt.Errorf("copy its attribute %s: %w", escapeName(name), err)
		}
	}
	return nil
}

// mountRefused is the error of a mount about a file, with the exit code that its errno
// stands for.
func mountRefused(err error, file string) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	code := exitOther
	for errno, of := range map[syscall.Errno]exitCode{syscall.EACCES: exitAuth, syscall.EPERM: exitAuth,
		syscall.EROFS: exitAuth, syscall.ENOENT: exitNotFound,
		syscall.EDQUOT: exitMoney, syscall.EHOSTUNREACH: exitUnreachable, syscall.ETIMEDOUT: exitUnreachable} {
		if errors.Is(err, errno) {
			code = of
		}
	}
	return refuse(code, "svcfs why "+shellWord(file), err)
}
