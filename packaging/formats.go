package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/rpmpack"
	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
)

// tarball writes the files below one folder, to be put anywhere.
func (j *job) tarball(p pack, arch string, contents []entry) error {
	folder := fmt.Sprintf("%s_%s_linux_%s", p.name, j.version, arch)
	var b bytes.Buffer
	pressed := gzip.NewWriter(&b)
	w := tar.NewWriter(pressed)
	for _, e := range contents {
		if e.debian {
			continue
		}
		if err := j.tarEntry(w, folder+e.path, e); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := pressed.Close(); err != nil {
		return err
	}
	return j.write(folder+".tar.gz", b.Bytes())
}

// tarEntry writes an entry as root's file.
func (j *job) tarEntry(w *tar.Writer, name string, e entry) error {
	h := tar.Header{Name: name, Mode: int64(e.mode.Perm()), Size: int64(len(e.content)), ModTime: j.made,
		Typeflag: tar.TypeReg, Format: tar.FormatPAX}
	if e.link != "" {
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
	}
	if err := w.WriteHeader(&h); err != nil {
		return err
	}
	_, err := w.Write(e.content)
	return err
}

func (j *job) deb(p pack, arch string, contents []entry) error {
	info := &nfpm.Info{Name: p.name, Arch: arch, Platform: "linux", Version: j.version, VersionSchema: "none",
		Section: "utils", Priority: "optional",
		Maintainer: maintainer, Description: p.summary + "\n" + p.description, Homepage: homepage, License: "MIT",
		DisableGlobbing: true, MTime: j.made}
	info.Depends, info.Recommends = p.needs, p.wants
	for _, e := range contents {
		c := &files.Content{Destination: e.path,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: e.mode, MTime: j.made}}
		info.Contents = append(info.Contents, c)
		if e.link != "" {
			c.Source, c.Type = e.link, files.TypeSymlink
			continue
		}
		c.Source, c.Type = filepath.Join(j.work, "files", p.name, arch, e.path), files.TypeFile
		if e.settings {
			c.Type = files.TypeConfigNoReplace
		}
		if err := os.MkdirAll(filepath.Dir(c.Source), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(c.Source, e.content, 0o600); err != nil {
			return err
		}
	}
	scripts := filepath.Join(j.root, "packaging/files", p.name)
	for field, suffix := range map[*string]string{&info.Scripts.PostInstall: ".postinst",
		&info.Scripts.PreRemove: ".prerm", &info.Scripts.PostRemove: ".postrm"} {
		if _, err := os.Stat(scripts + suffix); err == nil {
			*field = scripts + suffix
		}
	}
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, formatDeb); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := deb.Default.Package(info, &b); err != nil {
		return err
	}
	return j.write(deb.Default.ConventionalFileName(info), b.Bytes())
}

func (j *job) rpm(p pack, arch string, contents []entry) error {
	var needs rpmpack.Relations
	if err := needs.Set(p.rpmNeeds); err != nil {
		return err
	}
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64", anyArch: "noarch"}[arch]
	r, err := rpmpack.NewRPM(rpmpack.RPMMetaData{Name: p.name, Version: j.version, Release: "1", Arch: machine,
		OS: "linux", Summary: p.summary,
		Description: p.description, Licence: "MIT", URL: homepage, Packager: maintainer, BuildHost: "localhost",
		BuildTime: j.made, Compressor: "gzip", Requires: needs, Epoch: rpmpack.NoEpoch})
	if err != nil {
		return err
	}
	doc := rpmpack.RPMFile{Name: "/usr/share/doc/" + p.name, Mode: 0o40755, Owner: "root", Group: "root",
		MTime: uint32(j.made.Unix())}
	r.AddFile(doc) // rpm removes only the folders that a package names
	for _, e := range contents {
		if e.debian {
			continue
		}
		if path.Dir(e.path) == doc.Name+"/examples" {
			examples := doc
			examples.Name += "/examples"
			r.AddFile(examples)
		}
		if name, ok := strings.CutPrefix(e.path, "/usr/share/zsh/vendor-completions/"); ok {
			e.path = "/usr/share/zsh/site-functions/" + name
		}
		f := rpmpack.RPMFile{Name: e.path, Body: e.content, Mode: uint(e.mode), Owner: "root", Group: "root",
			MTime: uint32(j.made.Unix())}
		if e.link != "" {
			f.Mode, f.Body = 0o120777, []byte(e.link)
		}
		r.AddFile(f)
	}
	script, err := os.ReadFile(filepath.Join(j.root, "packaging/files", p.name+".rpm-pre"))
	if err == nil {
		r.AddPrein(string(script))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		return err
	}
	return j.write(fmt.Sprintf("%s-%s-1.%s.rpm", p.name, j.version, machine), b.Bytes())
}
