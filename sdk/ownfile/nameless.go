package ownfile

import "os"

// Nameless makes a file without a name in a folder, with mode 0600: nothing is left of it once it is closed, also when
// the process is killed. Where the filesystem cannot, the file has a name until it is open.
func Nameless(dir string) (*os.File, error) { return nameless(dir) }

// unnamed makes a file and takes its name away.
func unnamed(dir string) (*os.File, error) {
	file, err := os.CreateTemp(dir, ".spool-*") // 0600
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}
