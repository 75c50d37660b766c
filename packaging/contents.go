package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// pack is one package, named like its program if it has one.
type pack struct {
	name, summary, description string
	needs, wants               []string // packages of Debian
	rpmNeeds                   string   // package of Fedora
	also                       []string // programs beside the one of this name
	noProgram                  bool     // it is the same for each architecture
}

func packages() []pack {
	return []pack{
		{name: "svcfs", summary: "encrypted groups of files as a folder",
			description: "Mounts the encrypted groups of an account as a folder: groups are directories,\nfiles are " +
				"entries. Reading decrypts on this machine, closing a written file\nencrypts it here and uploads " +
				"only ciphertext.",
			needs: []string{"fuse3"}, wants: []string{"ca-certificates"}, rpmNeeds: "fuse3"},
		{name: "svcd", summary: "service for encrypted groups of files",
			description: "The whole service of svcfs: ciphertext, key custody by group, and a ledger\nof who " +
				"did what. A second program, svcvault, keeps the keys. It needs one\ndirectory.",
			needs: []string{"adduser"}, wants: []string{"ca-certificates"}, rpmNeeds: "shadow-utils",
			also: []string{"svcvault"}},
		{name: "svcfs-desktop", summary: "encrypted groups of files on the desktop", noProgram: true,
			description: "Notifications of the desktop tell what goes wrong in the mounts of svcfs:\na save that is " +
				"not uploaded, a conflict, a lost group, a spent budget,\na mount that died. Menus of Dolphin, " +
				"Nautilus, Nemo and Thunar tell why,\nversions, members and the reference of a file. Nautilus and " +
				"Nemo show\nemblems, with python3-nautilus and nemo-python.",
			needs: []string{"svcfs"}, rpmNeeds: "svcfs"},
	}
}

// entry is one file of a package.
type entry struct {
	path     string // in the package, absolute
	content  []byte
	mode     os.FileMode
	link     string // target of a symbolic link
	settings bool   // the administrator's: an update asks before it replaces it
	debian   bool   // for Debian alone
}

// contents lists the files of a package.
func (j *job) contents(p pack, arch string) ([]entry, error) {
	c := collector{job: j}
	doc := "/usr/share/doc/" + p.name + "/"
	c.add(doc+"copyright", 0o644, c.copyright())
	c.add(doc+"changelog.gz", 0o644, c.pressed(j.changelog(p)))
	c.last().debian = true
	c.add("/usr/share/lintian/overrides/"+p.name, 0o644, c.ours(p.name+".lintian"))
	c.last().debian = true
	if p.noProgram {
		c.desktop()
		return c.entries, c.err
	}
	c.add("/usr/bin/"+p.name, 0o755, c.read(filepath.Join(j.programs(arch), p.name)))
	pages, err := os.ReadDir(j.manual(p))
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		c.add("/usr/share/man/man1/"+page.Name()+".gz", 0o644,
			c.pressed(c.read(filepath.Join(j.manual(p), page.Name()))))
	}
	c.add("/usr/share/bash-completion/completions/"+p.name, 0o644, c.read(j.completion(p, "bash")))
	c.add("/usr/share/zsh/vendor-completions/_"+p.name, 0o644, c.read(j.completion(p, "zsh")))
	c.add("/usr/share/fish/vendor_completions.d/"+p.name+".fish", 0o644, c.read(j.completion(p, "fish")))
	c.add("/etc/apparmor.d/usr.bin."+p.name, 0o644, c.ours("usr.bin."+p.name))
	c.last().settings, c.last().debian = true, true
	switch p.name {
	case "svcfs":
		c.add("/usr/sbin/mount.svcfs", 0o777, nil)
		c.last().link = "../bin/svcfs"
		c.add("/usr/sbin/mount.fuse.svcfs", 0o777, nil)
		c.last().link = "../bin/svcfs"
		for _, name := range []string{"mount.svcfs", "mount.fuse.svcfs"} {
			c.add("/usr/share/man/man8/"+name+".8.gz", 0o777, nil)
			c.last().link = "../man1/svcfs-mount.1.gz"
		}
		c.add("/usr/lib/systemd/user/svcfs@.service", 0o644, installed(c.sources("cmd/svcfs/systemd/svcfs@.service")))
		for _, name := range []string{"mnt-team.mount", "mnt-team.automount"} {
			c.add(doc+"examples/"+name, 0o644, installed(c.sources("cmd/svcfs/systemd/"+name)))
		}
	case "svcd":
		c.add("/usr/bin/svcvault", 0o755, c.read(filepath.Join(j.programs(arch), "svcvault")))
		c.add("/usr/share/man/man1/svcvault.1.gz", 0o644, c.pressed(c.sources("cmd/svcvault/svcvault.1")))
		c.add("/usr/lib/systemd/system/svcvault.service", 0o644,
			installed(c.sources("service/examples/svcvault.service")))
		unit := installed(c.sources("service/examples/svcd.service"))
		c.add("/usr/lib/systemd/system/svcd@.service", 0o644, unit)
		c.add("/usr/lib/systemd/system/svcd.service", 0o644, single(unit))
		for _, name := range []string{"svcd.toml", "nginx.conf", "Caddyfile"} {
			c.add(doc+"examples/"+name, 0o644, c.sources("service/examples/"+name))
		}
	}
	return c.entries, c.err
}

// desktop adds what desktops find in their folders.
func (c *collector) desktop() {
	const from = "packaging/desktop/"
	for to, name := range map[string]string{
		"/usr/share/applications/svcfs.desktop":            from + "svcfs.desktop",
		"/usr/share/kio/servicemenus/svcfs.desktop":        from + "dolphin/svcfs.desktop",
		"/usr/share/icons/hicolor/scalable/apps/svcfs.svg": "service/web/static/icon.svg",
	} {
		c.add(to, 0o644, c.sources(name))
	}
	for to, pattern := range map[string]string{"/usr/share/Thunar/sendto/": "sendto/*.desktop",
		"/usr/share/icons/hicolor/scalable/emblems/": "emblems/*.svg"} {
		files, err := filepath.Glob(filepath.Join(c.job.root, from, pattern))
		if err != nil && c.err == nil {
			c.err = err
		}
		for _, file := range files {
			c.add(to+filepath.Base(file), 0o644, c.read(file))
		}
	}
	for _, manager := range []string{"Nautilus", "Nemo"} {
		text := bytes.Replace(c.sources(from+"svcfs.py"), []byte(`API = "Nautilus"`),
			fmt.Appendf(nil, "API = %q", manager), 1)
		c.add("/usr/share/"+strings.ToLower(manager)+"-python/extensions/svcfs.py", 0o644, text)
	}
	slices.SortFunc(c.entries, func(x, y entry) int { return strings.Compare(x.path, y.path) })
	c.add("/etc/xdg/autostart/svcfs-notify.desktop", 0o644, c.sources(from+"svcfs-notify.desktop"))
	c.last().settings = true
}

// installed names the program where a package has it, in a text of the sources.
func installed(text []byte) []byte {
	return bytes.ReplaceAll(text, []byte("/usr/local/bin/"), []byte("/usr/bin/"))
}

// single makes the unit of one service of the template for several. It needs no settings: svcd finds
// /etc/svcd/svcd.toml, where it exists, and /var/lib/svcd by itself.
func single(template []byte) []byte {
	text := bytes.ReplaceAll(template, []byte("svcd@8001 listens on port 8001"),
		[]byte("settings are in /etc/svcd/svcd.toml, where it exists"))
	text = bytes.ReplaceAll(text, []byte("/etc/systemd/system/svcd@.service"), []byte("svcd.service"))
	text = bytes.ReplaceAll(text,
		[]byte(" --config /etc/svcd/svcd.toml --listen 127.0.0.1:%i --metrics-listen 127.0.0.1:1%i"), nil)
	return bytes.ReplaceAll(text, []byte("svcd on port %i"), []byte("svcd, the service of svcfs"))
}

// collector collects entries; its first error is kept.
type collector struct {
	job     *job
	entries []entry
	err     error
}

func (c *collector) add(at string, mode os.FileMode, content []byte) {
	c.entries = append(c.entries, entry{path: path.Clean(at), content: content, mode: mode})
}

func (c *collector) last() *entry { return &c.entries[len(c.entries)-1] }

func (c *collector) read(file string) []byte {
	text, err := os.ReadFile(file)
	if err != nil && c.err == nil {
		c.err = err
	}
	return text
}

// sources reads a file of the sources, ours one of this folder.
func (c *collector) sources(name string) []byte { return c.read(filepath.Join(c.job.root, name)) }
func (c *collector) ours(name string) []byte    { return c.sources("packaging/files/" + name) }

// pressed compresses text, without a name and a time.
func (c *collector) pressed(text []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil && c.err == nil {
		c.err = err
	}
	return b.Bytes()
}

// copyright is the licence in the form of Debian.
func (c *collector) copyright() []byte {
	licence := strings.TrimSpace(string(c.sources("LICENSE")))
	holder := "The svcfs authors"
	for line := range strings.Lines(licence) {
		if rest, ok := strings.CutPrefix(line, "Copyright (c) "); ok {
			holder = strings.TrimSpace(rest)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: "+
		"*\nCopyright: %s\nLicense: Expat\n", holder)
	_, terms, _ := strings.Cut(licence, "\n\n")
	_, terms, _ = strings.Cut(terms, "\n\n")
	for line := range strings.Lines(terms + "\n") {
		if strings.TrimSpace(line) == "" {
			line = ".\n"
		}
		b.WriteString(" " + line)
	}
	return []byte(b.String())
}

// changelog is the one entry that Debian wants; CHANGELOG.md is for people.
func (j *job) changelog(p pack) []byte {
	return fmt.Appendf(nil, "%s (%s) unstable; urgency=medium\n\n  * Built from the sources of that version; "+
		"CHANGELOG.md there says what is new.\n\n -- %s  %s\n",
		p.name, j.version, maintainer, j.made.Format("Mon, 02 Jan 2006 15:04:05 -0700"))
}

const homepage = "https://github.com/svcfs/svcfs"

// maintainer is who made the packages.
const maintainer = "The svcfs authors <svcfs@users.noreply.github.com>"
