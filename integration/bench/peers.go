package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// gocryptfs encrypts a local folder: no network, no server, the closest relative.
func (w *world) gocryptfs() ([]*system, error) {
	s := &system{name: "gocryptfs", note: "local: no server, nothing is synced at close",
		stored: []string{w.path("gocryptfs")}}
	program, missing := found("gocryptfs", "apt-get install gocryptfs")
	if s.missing = missing; missing != "" || !w.wants(s.name) {
		return w.chosen(s), nil
	}
	var err error
	if s.version, err = commandOutput(program, "-version"); err != nil {
		return nil, err
	}
	secret := w.path("gocryptfs.pass")
	if err := os.WriteFile(secret, []byte("benchmark\n"), 0o600); err != nil {
		return nil, err
	}
	s.mount = func(dir string) *exec.Cmd {
		return exec.Command(program, "-fg", "-q", "-passfile", secret, s.stored[0], dir)
	}
	s.fill = func() error {
		if err := os.Mkdir(s.stored[0], 0o700); err != nil {
			return err
		}
		if _, err := commandOutput(program, "-init", "-q", "-passfile", secret, s.stored[0]); err != nil {
			return err
		}
		return w.fillThrough(s)
	}
	return []*system{s}, nil
}

// chosen returns the systems that were asked for.
func (w *world) chosen(list ...*system) (wanted []*system) {
	for _, s := range list {
		if w.wants(s.name) {
			wanted = append(wanted, s)
		}
	}
	return wanted
}

// fillThrough writes the data set through the mount.
func (w *world) fillThrough(s *system) error {
	if err := s.up(false); err != nil {
		return err
	}
	if err := w.writeTo(s.root); err != nil {
		return err
	}
	return s.down()
}

// rclone with its cache sends what was closed after rcloneWriteBack, and an
// unmount does not wait for it: rcloneLinger does.
const (
	rcloneWriteBack = time.Second
	rcloneLinger    = 4 * time.Second
)

// rclone encrypts in front of a WebDAV server of its own, without and with its
// cache of decrypted files on the disk.
func (w *world) rclone() ([]*system, error) {
	const install = "apt-get install rclone"
	program, missing := found(orDefault(os.Getenv("RCLONE"), "rclone"), install)
	var list []*system
	for _, mode := range []struct{ flag, note string }{
		{"off", "over rclone serve webdav; cannot write at random"},
		{"full", "over rclone serve webdav; decrypted files on the disk; close returns before the upload"},
	} {
		s := &system{name: "rclone crypt (cache " + mode.flag + ")", note: mode.note, missing: missing,
			stored: []string{w.path("rclone")}}
		if mode.flag == "full" {
			s.linger = rcloneLinger
		}
		list = append(list, s)
	}
	if list = w.chosen(list...); missing != "" || len(list) == 0 {
		return list, nil
	}
	version, err := commandOutput(program, "version")
	if err != nil {
		return nil, err
	}
	password, err := commandOutput(program, "obscure", "benchmark")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	addr, config := fmt.Sprintf("127.0.0.1:%d", port), w.path("rclone.conf")
	text := "[dav]\ntype = webdav\nurl = http://" + addr +
		"\nvendor = other\n\n[remote]\ntype = crypt\nremote = dav:\npassword = " + password +
		"\n\n[local]\ntype = crypt\nremote = " + w.path("rclone") + "\npassword = " + password + "\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if err := os.Mkdir(w.path("rclone"), 0o700); err != nil {
		return nil, err
	}
	server, err := w.serve(exec.Command(program, "serve", "webdav", w.path("rclone"), "--addr", addr, "--config",
		config), addr)
	if err != nil {
		return nil, err
	}
	for i, s := range list {
		cache := w.path(fmt.Sprintf("rclone-cache-%d", i))
		mode := strings.TrimSuffix(s.name[strings.LastIndexByte(s.name, ' ')+1:], ")")
		s.version, s.servers, s.forget, s.addr = version, []*process{server}, []string{cache}, addr
		s.mount = func(dir string) *exec.Cmd {
			return exec.Command(program, "mount", "remote:", dir, "--config", config, "--vfs-cache-mode", mode,
				"--cache-dir", cache,
				"--vfs-write-back", rcloneWriteBack.String(),
				"--webdav-url", "http://"+s.server())
		}
	}
	list[0].add = func(name, path string) error { // for both
		_, err := commandOutput(program, "copyto", "--config", config, path, "remote:"+setBig+"/"+name)
		return err
	}
	for _, s := range list[1:] {
		s.add = func(string, string) error { return nil }
	}
	list[0].fill = func() error { // for both: into what the server serves
		plain := w.path("plain")
		if err := w.writeTo(plain); err != nil {
			return err
		}
		_, err := commandOutput(program, "copy", "--create-empty-src-dirs", "--transfers", "16", "--config", config,
			plain, "local:")
		return err
	}
	return list, nil
}

// sshfs shows a folder of a server over SSH: encrypted on the way, not at rest.
func (w *world) sshfs() ([]*system, error) {
	s := &system{name: "sshfs", note: "encrypted on the way only; the server stores plaintext",
		stored: []string{w.path("sshfs")}}
	program, missing := found("sshfs", "apt-get install sshfs")
	if missing == "" {
		_, missing = found("sshd", "apt-get install openssh-server")
	}
	if s.missing = missing; missing != "" || !w.wants(s.name) {
		return w.chosen(s), nil
	}
	version, err := commandOutput(program, "--version")
	if err != nil {
		return nil, err
	}
	s.version = version
	addr, err := w.sshd(s)
	if err != nil {
		return nil, err
	}
	me, err := user.Current()
	if err != nil {
		return nil, err
	}
	s.addr = addr
	s.mount = func(dir string) *exec.Cmd {
		_, port, _ := strings.Cut(s.server(), ":")
		return exec.Command(program, "-f", "-p", port, "-o", "IdentityFile="+w.path("ssh", "user"), "-o",
			"StrictHostKeyChecking=no",
			"-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", me.Username+"@127.0.0.1:"+s.stored[0], dir)
	}
	s.fill = func() error { return w.writeTo(s.stored[0]) }
	s.add = func(name, path string) error {
		_, err := commandOutput("cp", path, filepath.Join(s.stored[0], setBig, name))
		return err
	}
	return []*system{s}, nil
}

// sshd starts a server with keys of its own on a free port.
func (w *world) sshd(s *system) (addr string, err error) {
	dir := w.path("ssh")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if os.Geteuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // privilege separation wants it
			return "", err
		}
	}
	for _, name := range []string{"host", "user"} {
		if _, err := commandOutput("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
			filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	if err := os.Rename(filepath.Join(dir, "user.pub"), filepath.Join(dir, "authorized")); err != nil {
		return "", err
	}
	port, err := freePort()
	if err != nil {
		return "", err
	}
	addr = fmt.Sprintf("127.0.0.1:%d", port)
	config := fmt.Sprintf("ListenAddress 127.0.0.1\nPort %d\nHostKey %s\nAuthorizedKeysFile %s\nPidFile "+
		"none\nStrictModes no\nUsePAM no\n"+
		"PasswordAuthentication no\nPermitRootLogin prohibit-password\nSubsystem sftp internal-sftp\n", port,
		filepath.Join(dir, "host"), filepath.Join(dir, "authorized"))
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600); err != nil {
		return "", err
	}
	sshd, _ := found("sshd", "")
	server, err := w.serve(exec.Command(sshd, "-D", "-e", "-f", filepath.Join(dir, "config")), addr)
	if err != nil {
		return "", err
	}
	s.servers = []*process{server}
	return addr, nil
}

const (
	s3Key    = "bench"
	s3Secret = "only-for-the-benchmark"
	s3Bucket = "bench"
)

// s3fs shows a bucket: encrypted nowhere here.
func (w *world) s3fs() ([]*system, error) {
	s := &system{name: "s3fs", note: "over versitygw; nothing is encrypted, nothing is synced",
		stored: []string{w.path("s3", "buckets")}}
	program, missing := found("s3fs", "apt-get install s3fs")
	gateway, missingGateway := findVersity()
	if missing == "" {
		missing = missingGateway
	}
	if s.missing = missing; missing != "" || !w.wants(s.name) {
		return w.chosen(s), nil
	}
	var err error
	if s.version, err = commandOutput(program, "--version"); err != nil {
		return nil, err
	}
	addr, server, err := w.versity(gateway)
	if err != nil {
		return nil, err
	}
	s.servers = []*process{server}
	secret, cache := w.path("s3fs.pass"), w.path("s3fs-cache")
	if err := os.WriteFile(secret, []byte(s3Key+":"+s3Secret+"\n"), 0o600); err != nil {
		return nil, err
	}
	s.forget = []string{cache}
	s.mount = func(dir string) *exec.Cmd {
		return exec.Command(program, s3Bucket, dir, "-f", "-o", "passwd_file="+secret, "-o", "url=http://"+addr, "-o",
			"use_path_request_style",
			"-o", "use_cache="+cache, "-o", "stat_cache_expire=900", "-o", "max_stat_cache_size=100000", "-o",
			"umask=0022")
	}
	s.fill = func() error { return w.fillBucket(addr) }
	return []*system{s}, nil
}

func findVersity() (path, missing string) {
	const install = "not installed: make s3-server (versitygw)"
	if path := os.Getenv("VERSITYGW"); path != "" {
		return path, ""
	}
	if path, err := exec.LookPath("versitygw"); err == nil {
		return path, ""
	}
	gopath, err := commandOutput("go", "env", "GOPATH")
	if err != nil {
		return "", install
	}
	path = filepath.Join(filepath.SplitList(gopath)[0], "bin", "versitygw")
	if _, err := os.Stat(path); err != nil {
		return "", install
	}
	return path, ""
}

// versity starts an S3 server with one bucket.
func (w *world) versity(program string) (addr string, p *process, err error) {
	buckets, sidecar := w.path("s3", "buckets"), w.path("s3", "metadata")
	for _, dir := range []string{filepath.Join(buckets, s3Bucket), sidecar} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", nil, err
		}
	}
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	addr = fmt.Sprintf("127.0.0.1:%d", port)
	cmd := exec.Command(program, "--port", addr, "--keep-alive", "--quiet", "posix", "--sidecar", sidecar, buckets)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+s3Key, "ROOT_SECRET_KEY="+s3Secret)
	p, err = w.serve(cmd, addr)
	return addr, p, err
}

func newS3(addr string) (*minio.Client, error) {
	return minio.New(addr, &minio.Options{Creds: credentials.NewStaticV4(s3Key, s3Secret, ""),
		BucketLookup: minio.BucketLookupPath, Region: "us-east-1"})
}

func (w *world) fillBucket(addr string) error {
	c, err := newS3(addr)
	if err != nil {
		return err
	}
	put := func(name string, data []byte) error {
		_, err := c.PutObject(context.Background(), s3Bucket, name, bytes.NewReader(data), int64(len(data)),
			minio.PutObjectOptions{})
		return err
	}
	for folder, files := range w.dataSet() {
		if err := inParallel(16, len(files), func(i int) error {
			return put(folder+"/"+files[i].name, files[i].data)
		}); err != nil {
			return err
		}
	}
	return put(setWrite+"/keep", []byte("a folder is what lies in it\n"))
}
