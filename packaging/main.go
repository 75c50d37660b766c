// Packaging makes the packages of svcfs and svcd: tar.gz, deb and rpm for each
// architecture, an OCI image of svcd, a list of what is in each program, and the hashes
// of all. What it makes hangs on the sources, the version and the time alone, not on the
// folder, the machine or the clock.
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"aead.dev/minisign"
)

// job is one run: what is made, from where, to where.
type job struct {
	root    string    // of the sources
	out     string    // folder of the packages; emptied first
	work    string    // scratch folder
	version string    // as Debian compares versions; "" = what the programs say of their commit
	made    time.Time // of the commit: every time in a package
	stamp   string    // value of go build -buildvcs
	arches  []string
	formats []string
	key     string // file with the key that signs; "" = the files say that they are unsigned
}

// The formats.
const (
	formatTar = "tar"
	formatDeb = "deb"
	formatRPM = "rpm"
	formatOCI = "oci"
)

// anyArch is the architecture of packages without a program.
const anyArch = "all"

func main() {
	log.SetFlags(0)
	log.SetPrefix("packaging: ")
	var j job
	var arches, formats string
	var seconds int64
	flag.StringVar(&j.root, "root", "..", "folder of the sources")
	flag.StringVar(&j.out, "out", "../dist", "folder of the packages; what was in it is removed")
	flag.StringVar(&j.version, "version", "", "version of programs and packages, such as 1.2.0; "+
		"without it the programs tell that of their commit")
	flag.Int64Var(&seconds, "time", 0, "seconds since 1970 of the commit, SOURCE_DATE_EPOCH")
	flag.StringVar(&j.stamp, "buildvcs", "auto", "whether the programs tell the commit: true, false or auto")
	flag.StringVar(&arches, "arch", "amd64,arm64", "architectures")
	flag.StringVar(&formats, "formats", "tar,deb,rpm,oci", "formats")
	flag.StringVar(&j.key, "minisign-key", "", "file with a minisign key without a password, which signs the hashes; "+
		"without it the names of the files say unsigned")
	flag.Parse()
	j.made = time.Unix(seconds, 0).UTC()
	j.arches, j.formats = strings.Split(arches, ","), strings.Split(formats, ",")
	if seconds <= 0 {
		log.Fatal("give -time")
	}
	if err := j.run(); err != nil {
		log.Fatal(err)
	}
}

func (j *job) run() (err error) {
	if j.root, err = filepath.Abs(j.root); err != nil {
		return err
	}
	if j.work, err = os.MkdirTemp("", "svcfs-packaging-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(j.work)) }()
	if err := errors.Join(os.RemoveAll(j.out), os.MkdirAll(j.out, 0o755)); err != nil {
		return err
	}
	if err := j.documents(); err != nil {
		return err
	}
	if j.version, err = j.told("svcfs"); err != nil {
		return err
	}
	for _, arch := range j.arches {
		if err := j.build(arch); err != nil {
			return err
		}
		for _, p := range packages() {
			if p.noProgram {
				continue
			}
			if err := j.pack(p, arch); err != nil {
				return fmt.Errorf("%s for %s: %w", p.name, arch, err)
			}
		}
	}
	for _, p := range packages() {
		if p.noProgram {
			if err := j.pack(p, anyArch); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	if slices.Contains(j.formats, formatOCI) {
		if err := j.image(); err != nil {
			return fmt.Errorf("image: %w", err)
		}
	}
	return j.sum()
}

// pack makes one package in each format, and says what is in its program.
func (j *job) pack(p pack, arch string) error {
	contents, err := j.contents(p, arch)
	if err != nil {
		return err
	}
	for format, write := range map[string]func(pack, string, []entry) error{formatTar: j.tarball, formatDeb: j.deb,
		formatRPM: j.rpm} {
		if slices.Contains(j.formats, format) {
			if err := write(p, arch, contents); err != nil {
				return fmt.Errorf("%s: %w", format, err)
			}
		}
	}
	if p.noProgram {
		return nil
	}
	for _, program := range append([]string{p.name}, p.also...) {
		if err := j.bill(program, arch); err != nil {
			return fmt.Errorf("bill of %s: %w", program, err)
		}
	}
	return nil
}

// bill says what is in a program, and its SHA-256.
func (j *job) bill(name, arch string) error {
	program := filepath.Join(j.programs(arch), name)
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	bom, err := billOf(name, j.version, j.made, info, sha256.Sum256(text))
	if err != nil {
		return err
	}
	return j.write(fmt.Sprintf("%s_%s_%s.cdx.json", name, j.version, arch), bom)
}

// programs is where the programs for an architecture are.
func (j *job) programs(arch string) string { return filepath.Join(j.work, "bin", arch) }

// build compiles all programs, once for each architecture, with the compiler's flags of the Makefile: what make build
// compiled is not compiled again.
func (j *job) build(arch string) error {
	if _, err := os.Stat(j.programs(arch)); err == nil {
		return nil
	}
	cmd := exec.Command("go", "build", "-C", j.root, "-trimpath", "-gcflags=all=-dwarf=false", "-buildvcs="+j.stamp,
		"-ldflags=-s -w -X github.com/svcfs/svcfs/sdk/wire.stamped="+j.version,
		"-o", j.programs(arch)+"/", "./cmd/...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS=linux", "GOARCH="+arch)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build for %q: %w", arch, err)
	}
	return nil
}

// told is the version that a program which runs here says.
func (j *job) told(program string) (string, error) {
	out, err := exec.Command(filepath.Join(j.programs(runtime.GOARCH), program), "--version").Output()
	version, is := strings.CutPrefix(strings.TrimSpace(string(out)), program+" version ")
	if err == nil && !is {
		err = fmt.Errorf("it printed %q", out)
	}
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", program, err)
	}
	return version, nil
}

// documents makes manual pages and completions, with programs that run here.
func (j *job) documents() error {
	here := j.programs(runtime.GOARCH)
	if err := j.build(runtime.GOARCH); err != nil {
		return err
	}
	for _, p := range packages() {
		if p.noProgram {
			continue
		}
		program := filepath.Join(here, p.name)
		if out, err := exec.Command(program, "man", j.manual(p)).CombinedOutput(); err != nil {
			return fmt.Errorf("%s man: %w: %s", p.name, err, out)
		}
		for _, shell := range []string{"bash", "zsh", "fish"} {
			text, err := exec.Command(program, "completion", shell).Output()
			if err == nil {
				err = os.WriteFile(j.completion(p, shell), text, 0o600)
			}
			if err != nil {
				return fmt.Errorf("%s completion %s: %w", p.name, shell, err)
			}
		}
	}
	return nil
}

func (j *job) manual(p pack) string { return filepath.Join(j.work, "man-"+p.name) }

func (j *job) completion(p pack, shell string) string {
	return filepath.Join(j.work, p.name+"."+shell)
}

// unsigned stands behind the version in the name of each file that no signature covers.
const unsigned = "-unsigned"

// write writes a file of the result, whose name has the version.
func (j *job) write(name string, content []byte) error {
	if j.key == "" {
		name = strings.Replace(name, j.version, j.version+unsigned, 1)
	}
	return os.WriteFile(filepath.Join(j.out, name), content, 0o644)
}

// sum writes the hashes of all that was made, and signs them where there is a key.
func (j *job) sum() error {
	files, err := os.ReadDir(j.out) // sorted
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(j.out, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(text), f.Name())
	}
	if err := j.write("SHA256SUMS", sums.Bytes()); err != nil || j.key == "" {
		return err
	}
	text, err := os.ReadFile(j.key)
	if err != nil {
		return err
	}
	var private minisign.PrivateKey
	if err := private.UnmarshalText(text); err != nil {
		return fmt.Errorf("read the minisign key, which has no password (minisign -G -W): %w", err)
	}
	return j.write("SHA256SUMS.minisig", minisign.SignWithComments(private, sums.Bytes(), "svcfs "+j.version,
		"signature of SHA256SUMS"))
}
