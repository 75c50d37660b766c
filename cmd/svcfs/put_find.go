package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
	"golang.org/x/sys/unix"
)

// localFile is a file to put.
type localFile struct {
	path string // "-" is standard input
	name string // in the group
	size int64  // or sdk.SizeUnknown
	link string // target of a symbolic link, else ""

	in    *os.Root    // of a file in a folder: that folder, open until the command ends
	below string      // the path there
	info  fs.FileInfo // what was found there
}

// into names files as they are called in a folder of a group.
func (p place) into(files []localFile) ([]localFile, error) {
	if p.group == "" {
		return nil, usage("name a group, or a folder in one", "these are all groups")
	}
	for i := range files {
		if p.path != "" {
			files[i].name = p.path + "/" + files[i].name
		}
		if err := checkNewName(files[i].name); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// findLocal lists what the arguments name. It refuses what cannot work before a
// secret is read or a token spent.
func (a *app) findLocal(args []string, f putFlags) ([]localFile, error) {
	if f.name != "" {
		if len(args) > 1 {
			return nil, usage("put them one by one, each with its --name", "--name was given with several files")
		}
		if err := checkNewName(f.name); err != nil {
			return nil, err
		}
	}
	for _, exclude := range f.exclude {
		// "/build" would match nothing, and what must stay here would be uploaded; "" would leave out everything.
		pattern := strings.TrimSuffix(exclude, "/")
		if _, err := path.Match(pattern, ""); err != nil || strings.Trim(pattern, "/") != pattern || pattern == "" {
			return nil, usage("give a pattern such as '*.tmp', docs/build, or build/ for folders alone; a path begins "+
				"below FILE, without a slash", fmt.Sprintf("--exclude cannot be %q", exclude))
		}
	}
	var files []localFile
	from := make(map[string]string)
	for _, arg := range args {
		found, err := a.findOne(arg, f)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if other, taken := from[f.name]; taken {
				return nil, usage("put them one by one, each with its --name",
					fmt.Sprintf("%s and %s have the same name, %s", other, f.path, f.name))
			}
			from[f.name] = f.path
		}
		files = append(files, found...)
	}
	if len(files) == 0 && !f.quiet {
		a.ui.notice("there is no file to upload")
	}
	return files, nil
}

// excludes reports whether the flags leave out a file or folder, by its name or by its path below what was named. A
// pattern with a slash at its end is for folders alone.
func (f putFlags) excludes(below string, isFolder bool) bool {
	return slices.ContainsFunc(f.exclude, func(pattern string) bool {
		pattern, forFolders := strings.CutSuffix(pattern, "/")
		if forFolders && !isFolder {
			return false
		}
		return isLike(pattern, below) || isLike(pattern, path.Base(below))
	})
}

// checkNewName refuses a name that a new file must not get.
func checkNewName(name string) error {
	if err := names.CheckNew(name); err != nil {
		return usage("use a name such as notes/today.txt: in UTF-8, no slash at its ends, no empty part, no . and .., "+
			"no control characters", err.Error())
	}
	return nil
}

func (a *app) findOne(arg string, f putFlags) ([]localFile, error) {
	name := f.name
	if arg == "-" {
		if name == "" {
			return nil, usage("add --name NAME", "standard input has no name")
		}
		return []localFile{{path: "-", name: name, size: sdk.SizeUnknown}}, nil
	}
	info, err := os.Stat(arg)
	if err != nil {
		return nil, refuse(exitNotFound, "check the path; ls shows what there is", err)
	}
	if name == "" {
		if name, err = ownName(arg); err != nil {
			return nil, err
		}
	}
	switch {
	case f.excludes(filepath.Base(arg), info.IsDir()):
		return nil, nil
	case info.Mode().IsRegular():
		return []localFile{{path: arg, name: name, size: info.Size()}}, nil
	case info.IsDir():
		return a.findBelow(arg, name, f)
	default:
		return nil, usage("put takes files and folders", fmt.Sprintf("%s is neither a file nor a folder", arg))
	}
}

// ownName is the last component of a path, also of "." and "docs/".
func ownName(arg string) (string, error) {
	full, err := filepath.Abs(arg)
	if err != nil {
		return "", usage("give an absolute path", err.Error())
	}
	name := filepath.Base(full)
	if name == string(filepath.Separator) {
		return "", usage("add --name NAME", "the root folder has no name")
	}
	return name, nil
}

// finding is a look through a folder that was named.
type finding struct {
	*app
	flags putFlags
	dir   string // as it was named
	name  string // of it in the group
	root  *os.Root
	files []localFile
}

// findBelow lists the files in a folder. It follows no link, nor one that somebody sets meanwhile.
func (a *app) findBelow(dir, name string, f putFlags) ([]localFile, error) {
	s := &finding{app: a, flags: f, dir: dir, name: name}
	list := s.folder
	if info, err := os.Lstat(dir); err == nil && info.Mode().Type() == fs.ModeSymlink {
		list = s.add
	}
	err := list(".", dir)
	if err == nil && len(s.files) == 0 {
		a.ui.notice("there is no file in %s", dir)
	}
	return s.files, err
}

// folder lists a folder, by its path below the one that was named. It can be looked up as self.
func (s *finding) folder(below, self string) error {
	folder, err := os.OpenFile(self, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return s.failed(below, err)
	}
	defer folder.Close()
	opened := fmt.Sprintf("/proc/self/fd/%d", folder.Fd()) // stays this folder, whatever takes its place
	if below == "." {
		if s.root, err = os.OpenRoot(opened); err != nil {
			return s.failed(below, err)
		}
	}
	entries, err := folder.ReadDir(-1)
	if err != nil {
		return s.failed(below, err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, d := range entries {
		at := path.Join(below, d.Name())
		if s.flags.excludes(at, d.IsDir()) {
			continue
		}
		if !utf8.ValidString(d.Name()) {
			s.ui.notice("left out, because its name is not UTF-8, and the ledger holds only text: %s",
				filepath.Join(s.dir, at))
			continue
		}
		list := s.add
		if d.IsDir() {
			list = s.folder
		}
		if err := list(at, filepath.Join(opened, d.Name())); err != nil {
			return err
		}
	}
	return nil
}

// add adds a file or a link, as folder does what is in a folder.
func (s *finding) add(below, self string) error {
	info, err := os.Lstat(self)
	if err != nil {
		return s.failed(below, err)
	}
	file := localFile{path: filepath.Join(s.dir, below), name: path.Join(s.name, below), size: info.Size(),
		in: s.root, below: below, info: info}
	switch info.Mode().Type() {
	case 0:
	case fs.ModeSymlink:
		if file.link, err = os.Readlink(self); err != nil {
			return s.failed(below, err)
		}
		file.size = int64(len(file.link))
	default:
		s.ui.notice("left out, because it is not a file: %s", file.path)
		return nil
	}
	if err := (sdk.Attributes{Target: file.link}).Check(); err != nil {
		s.ui.notice("left out, %v: %s", err, file.path)
		return nil
	}
	s.files = append(s.files, file)
	return nil
}

// restless is the next step where a folder is not as it was.
const restless = "do not change the folder meanwhile"

// failed refuses a folder of which a part cannot be read.
func (s *finding) failed(below string, err error) error {
	return unreadable(filepath.Join(s.dir, below), err)
}

// unreadable refuses what was found in a folder and cannot be read.
func unreadable(at string, err error) error {
	hint := restless
	if errors.Is(err, fs.ErrPermission) {
		hint = "check the permissions"
	}
	return refuse(exitNotFound, hint, onPath(at, err))
}

// onPath returns an error of the file system with the path that the user knows.
func onPath(at string, err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		err = of.Err
	}
	return &fs.PathError{Op: "open", Path: at, Err: err}
}
