package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
)

// localFile is a file to put.
type localFile struct {
	path string // "-" is standard input
	name string // in the group
	size int64  // or sdk.SizeUnknown
	link string // target of a symbolic link, else ""
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
		return usage("use a name such as notes/today.txt: no slash at its ends, no empty part, no . and .., no "+
			"control characters", err.Error())
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

// findBelow lists the files in a folder, links not followed.
func (a *app) findBelow(dir, name string, f putFlags) ([]localFile, error) {
	var files []localFile
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return refuse(exitNotFound, "check the permissions", err)
		}
		if below, err := filepath.Rel(dir, at); err == nil && at != dir &&
			f.excludes(filepath.ToSlash(below), d.IsDir()) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		if d.Type()&^fs.ModeSymlink != 0 {
			a.ui.notice("left out, because it is not a file: %s", at)
			return nil
		}
		file, err := findIn(dir, at, d)
		if err != nil {
			return refuse(exitNotFound, "do not change the folder meanwhile", err)
		}
		if err := (sdk.Attributes{Target: file.link}).Check(); err != nil {
			a.ui.notice("left out, %v: %s", err, at)
			return nil
		}
		file.name = path.Join(name, file.name)
		files = append(files, file)
		return nil
	})
	if err == nil && len(files) == 0 {
		a.ui.notice("there is no file in %s", dir)
	}
	return files, err
}

// findIn describes a file or link in dir. Its name is that below dir.
func findIn(dir, at string, d fs.DirEntry) (file localFile, err error) {
	info, err := d.Info()
	if err != nil {
		return file, err
	}
	below, err := filepath.Rel(dir, at)
	if err != nil {
		return file, err
	}
	file = localFile{path: at, name: filepath.ToSlash(below), size: info.Size()}
	if d.Type() == fs.ModeSymlink {
		file.link, err = os.Readlink(at)
		file.size = int64(len(file.link))
	}
	return file, err
}
