package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imageUser is the user and group of the service in the image.
const imageUser = 65532

// image writes an OCI layout with svcd for each architecture, as one tar: nothing but the
// program, its user and its folder.
func (j *job) image() error {
	dir := filepath.Join(j.work, "oci")
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	for _, arch := range j.arches {
		img, err := j.imageFor(arch)
		if err != nil {
			return err
		}
		platform := layout.WithPlatform(v1.Platform{OS: "linux", Architecture: arch})
		// the rules of a tag
		name := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": strings.NewReplacer("~",
			"-", "+", "-").Replace(j.version) + "-" + arch})
		if err := at.AppendImage(img, platform, name); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error { // in the order of the names
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return j.tarEntry(w, name, entry{content: text, mode: 0o644})
	})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return err
	}
	return j.write(fmt.Sprintf("svcd_%s_oci.tar", j.version), b.Bytes())
}

func (j *job) imageFor(arch string) (v1.Image, error) {
	program, err := os.ReadFile(filepath.Join(j.programs(arch), "svcd"))
	if err != nil {
		return nil, err
	}
	vault, err := os.ReadFile(filepath.Join(j.programs(arch), "svcvault"))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, d := range []tar.Header{
		{Name: "etc/", Mode: 0o755}, {Name: "tmp/", Mode: 0o1777}, {Name: "usr/", Mode: 0o755},
		{Name: "usr/bin/", Mode: 0o755},
		{Name: "var/", Mode: 0o755}, {Name: "var/lib/", Mode: 0o755},
		{Name: "var/lib/svcd/", Mode: 0o700, Uid: imageUser, Gid: imageUser},
	} {
		d.Typeflag, d.ModTime = tar.TypeDir, j.made
		if err := w.WriteHeader(&d); err != nil {
			return nil, err
		}
	}
	for _, f := range []struct {
		name string
		e    entry
	}{
		{"etc/passwd", entry{mode: 0o644,
			content: fmt.Appendf(nil, "svcd:x:%d:%[1]d:svcd:/var/lib/svcd:/nonexistent\n", imageUser)}},
		{"etc/group", entry{mode: 0o644, content: fmt.Appendf(nil, "svcd:x:%d:\n", imageUser)}},
		{"usr/bin/svcd", entry{mode: 0o755, content: program}},
		{"usr/bin/svcvault", entry{mode: 0o755, content: vault}},
	} {
		if err := j.tarEntry(w, f.name, f.e); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	img, err = mutate.Append(img, mutate.Addendum{Layer: layer,
		History: v1.History{Created: v1.Time{Time: j.made}, CreatedBy: "packaging of svcfs"}})
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(img, j.config(img, arch))
}

// config says how the image starts.
func (j *job) config(img v1.Image, arch string) *v1.ConfigFile {
	c, err := img.ConfigFile()
	if err != nil { // of an image in memory
		c = &v1.ConfigFile{}
	}
	c = c.DeepCopy()
	c.Architecture, c.OS, c.Created = arch, "linux", v1.Time{Time: j.made}
	c.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/svcd"},
		Cmd:        []string{"serve", "--data", "/var/lib/svcd", "--listen", "0.0.0.0:8000"},
		User:       fmt.Sprintf("%d:%[1]d", imageUser), WorkingDir: "/var/lib/svcd", Env: []string{"PATH=/usr/bin"},
		ExposedPorts: map[string]struct{}{"8000/tcp": {}}, Volumes: map[string]struct{}{"/var/lib/svcd": {}},
		Labels: map[string]string{"org.opencontainers.image.title": "svcd",
			"org.opencontainers.image.version": j.version, "org.opencontainers.image.licenses": "MIT"},
	}
	return c
}
