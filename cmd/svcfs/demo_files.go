package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/svcfs/svcfs/sdk"
)

// demoFile is one file that the demo sends through the mounts.
type demoFile struct {
	name string // below the group, with / for folders
	size int64
	open func() (io.ReadCloser, error)
}

const (
	// demoBinaryBytes is the size of the generated binary file.
	demoBinaryBytes = 1 << 20
	// demoFileBytes bounds a document that is picked up by itself, in bytes.
	demoFileBytes = 16 << 20
)

// demoCorpus is what the demo sends: documents and images of the repository
// around here, generated files of awkward sizes, and the tree from, if any.
func demoCorpus(from string) ([]demoFile, error) {
	files := generatedFiles()
	root := repositoryRoot()
	if root != "" {
		found, err := documents(root)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	if from != "" {
		found, err := treeFiles(from)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	return files, nil
}

// repositoryRoot finds the repository around the working directory, or around
// this program; "" when there is none.
func repositoryRoot() string {
	starts := []string{}
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	if self, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(self), filepath.Dir(filepath.Dir(self)))
	}
	for _, dir := range starts {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(text, []byte("module github.com/svcfs/svcfs\n")) {
			return dir
		}
	}
	return ""
}

// documents lists Markdown files, licences and images below root.
func documents(root string) ([]demoFile, error) {
	return walkFiles(root, "", []string{".git", "node_modules", "testdata"}, func(name string, size int64) bool {
		if size > demoFileBytes {
			return false
		}
		switch strings.ToLower(path.Ext(name)) {
		case ".md", ".png", ".jpg", ".jpeg", ".svg", ".gif":
			return true
		}
		return path.Base(name) == "LICENSE"
	})
}

// treeFiles lists every regular file below dir, under dir's own name.
func treeFiles(dir string) ([]demoFile, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, usage("give a folder", err.Error())
	}
	info, err := os.Stat(abs)
	if err != nil {
		return nil, refuse(exitUsage, "give a folder that you can read", err)
	}
	if !info.IsDir() {
		return nil, usage("give a folder", abs+" is not a folder")
	}
	return walkFiles(abs, filepath.Base(abs), []string{".git"}, func(string, int64) bool { return true })
}

// walkFiles lists the regular files below root that want passes, under prefix. It
// follows no symbolic link, and enters no folder below root whose name is in skip.
func walkFiles(root, prefix string, skip []string, want func(name string, size int64) bool) ([]demoFile, error) {
	var files []demoFile
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains(skip, d.Name()) && at != root {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		name := path.Join(prefix, filepath.ToSlash(rel))
		if want(name, info.Size()) {
			files = append(files, demoFile{name: name, size: info.Size(), open: func() (io.ReadCloser, error) { return os.Open(at) }})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("collect files for the demo: %w", err)
	}
	return files, nil
}

// generatedFiles are the sizes that break things: nothing, one byte, and more
// than one request of the kernel; and a picture.
func generatedFiles() []demoFile {
	memory := func(name string, content []byte) demoFile {
		return demoFile{name: name, size: int64(len(content)), open: func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(content)), nil
		}}
	}
	binaryFile := make([]byte, demoBinaryBytes)
	source := rand.NewPCG(1, 2) // the same in every run, so that a second run uploads nothing
	for at := 0; at < len(binaryFile); at += 8 {
		binary.LittleEndian.PutUint64(binaryFile[at:], source.Uint64())
	}
	return []demoFile{
		memory("sizes/empty.txt", nil),
		memory("sizes/one-byte.bin", []byte{0}),
		memory("sizes/one-mebibyte.bin", binaryFile),
		memory("hello.txt", []byte("Hello. This line was encrypted on the machine that wrote it.\n")),
		memory("picture.png", demoPicture()),
	}
}

// demoPicture draws a small image.
func demoPicture() []byte {
	const side = 256
	img := image.NewNRGBA(image.Rect(0, 0, side, side))
	for y := range side {
		for x := range side {
			img.SetNRGBA(x, y, color.NRGBA{R: uint8(x), G: uint8(y), B: uint8(x ^ y), A: 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		return nil // never: it is written to memory
	}
	return b.Bytes()
}

// copyTo writes the file to path, with the folders above it, and returns the
// SHA-256 of what was written.
func (f demoFile) copyTo(path string) (sum sdk.Digest, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return sum, err
	}
	from, err := f.open()
	if err != nil {
		return sum, err
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return sum, err
	}
	if sum, err = sdk.ComputeHashReader(io.TeeReader(from, to)); err != nil {
		_ = to.Close()
		return sum, err
	}
	if f.size == 0 {
		err = to.Sync() // an empty file that nobody syncs waits two seconds for its first bytes
	}
	if err = errors.Join(err, to.Close()); err != nil { // here the upload happens
		return sum, err
	}
	return sum, nil
}

// sumOf reads a file to its end and returns its SHA-256.
func sumOf(path string) (sum sdk.Digest, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, 0, err
	}
	defer f.Close()
	if sum, err = sdk.ComputeHashReader(f); err == nil {
		size, err = f.Seek(0, io.SeekCurrent)
	}
	return sum, size, err
}
