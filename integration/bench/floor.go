package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/format"
)

// The bare pipeline is what any client of this design must do for a small file, and
// nothing else (floorblocks.go has that of a large one): receive it over loopback HTTP, AES-256-GCM in place, SHA-256;
// or SHA-256, seal in place, send, and a server that writes, syncs and renames. No
// ledger, no fees, no file system. Client and server are processes of their own,
// so that their time and memory can be told apart. A save (floorsave.go) also seals the
// key of the file, and ends in a database.

// floorResult is what a floor client prints.
type floorResult struct {
	Seconds float64 `json:"seconds"`
	Peak    int64   `json:"peak"` // bytes
	CPU     float64 `json:"cpu"`  // seconds of the client, without its start; 0 = not measured
}

// pipeline is the server and how to run clients against it.
type pipeline struct {
	server *process
	url    string
	dir    string
	self   string
}

func (w *world) newPipeline() (*pipeline, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	f := &pipeline{dir: w.path("pipeline"), self: self}
	if err := os.Mkdir(f.dir, 0o700); err != nil {
		return nil, err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	f.url = "http://" + addr + "/"
	if f.server, err = w.serve(exec.Command(self, "floor-serve", addr, f.dir), addr); err != nil {
		return nil, err
	}
	if _, err = f.client("write", w.small, smallBytes); err == nil {
		_, err = f.client("write-blocks", 1, w.big)
	}
	return f, err
}

// client runs one client: action is read or write, of count files of size bytes; or
// read-blocks or write-blocks, of one.
func (f *pipeline) client(action string, count int, size int64) (floorResult, error) {
	var r floorResult
	out, err := exec.Command(f.self, "floor-"+action, f.url, strconv.Itoa(count), strconv.FormatInt(size, 10)).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return r, fmt.Errorf("bare pipeline: %w", err)
	}
	return r, json.Unmarshal(out, &r)
}

func floorMain(action string, args []string) error {
	if action == "floor-serve" {
		return serveFloor(args[0], args[1])
	}
	count, err1 := strconv.Atoi(args[1])
	size, err2 := strconv.ParseInt(args[2], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	switch action {
	case "floor-read-blocks":
		return timed(func() error { return readBlocks(args[0], size) })
	case "floor-write-blocks":
		return timed(func() error { return writeParts(args[0], size) })
	}
	c, err := newFloorClient(args[0], size)
	if err != nil {
		return err
	}
	run := map[string]func(string) error{"floor-read": c.read, "floor-write": c.write, "floor-save": c.save}[action]
	var took time.Duration
	cpu := ownCPU()
	for i := range count {
		c.prepare(action != "floor-read", uint64(i))
		begin := time.Now()
		if err := run(fmt.Sprintf("%d-%d", size, i)); err != nil {
			return err
		}
		took += time.Since(begin)
	}
	return json.NewEncoder(os.Stdout).Encode(floorResult{took.Seconds(), statusBytes(os.Getpid(), "VmHWM:"),
		(ownCPU() - cpu).Seconds()})
}

func serveFloor(addr, dir string) error {
	saves, err := newFloorSaves(dir)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", floorServer(dir))
	mux.Handle("PUT "+pathFloorSave+"{id}", saves)
	return http.ListenAndServe(addr, mux)
}

// floorServer stores what is PUT as durably as svcd does, and gives it back.
func floorServer(dir string) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		name := filepath.Join(dir, filepath.Base(r.URL.Path))
		if r.Method != http.MethodPut {
			http.ServeFile(rw, r, name)
			return
		}
		if err := storeDurably(dir, name, r.Body); err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
		}
	})
}

func storeDurably(dir, name string, body io.Reader) error {
	f, err := os.CreateTemp(dir, "tmp-")
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, body, make([]byte, 256<<10))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// floorClient holds one file in memory like svcfs: outside the Go heap, with room
// for the tag.
type floorClient struct {
	url  string
	http *http.Client
	key  *format.Key
	mem  []byte
	size int64

	vault *format.VaultPublic // that keys of saves are sealed to
}

func newFloorClient(url string, size int64) (*floorClient, error) {
	key, err := format.NewKey(bytes.Repeat([]byte{1}, format.KeyBytes)) // protects nothing
	if err != nil {
		return nil, err
	}
	secret, err := floorVault()
	if err != nil {
		return nil, err
	}
	vault, err := format.NewVaultPublic(secret.Public())
	if err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(-1, 0, int(size)+format.TagBytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // only speed
	transport := &http.Transport{DisableCompression: true, ReadBufferSize: 64 << 10, WriteBufferSize: 64 << 10}
	return &floorClient{url, &http.Client{Transport: transport}, key, mem, size, vault}, nil
}

// prepare fills the memory with content to write.
func (c *floorClient) prepare(random bool, seed uint64) {
	if random {
		_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1}).Read(c.mem[:c.size])
	}
}

func (c *floorClient) read(name string) error {
	resp, err := c.http.Get(c.url + name)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	var nonce [format.NonceBytes]byte
	if _, err := io.ReadFull(resp.Body, nonce[:]); err != nil {
		return err
	}
	if _, err := io.ReadFull(resp.Body, c.mem); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body) // its end, so that the connection is kept
	plain, err := format.Open(c.key, nonce[:], c.mem)
	if err != nil {
		return err
	}
	_ = sha256.Sum256(plain)
	return nil
}

func (c *floorClient) write(name string) error {
	_ = sha256.Sum256(c.mem[:c.size])
	nonce, sealed, err := format.Seal(c.key, c.mem[:c.size])
	if err != nil {
		return err
	}
	return c.put(name, nonce[:], sealed)
}

// put sends parts in one request.
func (c *floorClient) put(name string, parts ...[]byte) error {
	var readers []io.Reader
	length := 0
	for _, p := range parts {
		readers = append(readers, bytes.NewReader(p))
		length += len(p)
	}
	req, err := http.NewRequest(http.MethodPut, c.url+name, io.MultiReader(readers...))
	if err != nil {
		return err
	}
	req.ContentLength = int64(length)
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}
