package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/sdk"
)

func (a *app) putCommand() *cobra.Command {
	var name string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "put GROUP FILE...",
		Short: "Encrypt files here and upload them to a group; costs one upload each",
		Long: `Encrypt files here and upload them to a group; costs one upload each. Prints
cid, trans_id and file_hash of each file once the ledger has recorded it.
FILE - reads standard input and needs --name.`,
		Example: "  svcfs put team report.pdf\n  svcfs put team *.jpg\n  tar c src | svcfs put team - --name src.tar",
		Args:    between(2, -1, "a GROUP and at least one FILE"),
		RunE: a.simple(func(ctx context.Context, args []string) error {
			group, files := sdk.GroupID(args[0]), args[1:]
			if err := checkPut(files, name); err != nil {
				return err
			}
			c, _, err := a.client(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			for _, file := range files {
				if err := a.put(ctx, c, group, file, name, asJSON, len(files) > 1); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&name, "name", "", "name in the group, with / for folders (default: the file's own name)")
	addJSON(cmd, &asJSON)
	return cmd
}

// checkPut refuses what cannot work before a secret is read or a token spent.
func checkPut(files []string, name string) error {
	if name != "" && len(files) > 1 {
		return usage("put them one by one, each with its --name", "--name was given with several files")
	}
	for _, file := range files {
		if file == "-" {
			if name == "" {
				return usage("add --name NAME", "standard input has no name")
			}
			continue
		}
		info, err := os.Stat(file)
		if err != nil {
			return refuse(exitNotFound, "check the path", err)
		}
		if !info.Mode().IsRegular() {
			return usage("put takes files; mount the group to copy folders", fmt.Sprintf("%s is not a regular file", file))
		}
	}
	return nil
}

// receipt is what put prints as JSON, one document per file.
type receipt struct {
	Name     string   `json:"name"`
	CID      sdk.Ref  `json:"cid"`
	TransID  sdk.TxID `json:"trans_id"`
	FileHash string   `json:"file_hash"`
	Size     int64    `json:"size"`
	Fee      string   `json:"fee,omitempty"` // tokens, where the service tells
}

func (a *app) put(ctx context.Context, c *sdk.Client, group sdk.GroupID, file, name string, asJSON, several bool) error {
	if name == "" {
		name = filepath.Base(file)
	}
	a.ui.progress("uploading %s", name)
	b, err := c.Pool().Get(0)
	if err != nil {
		return fmt.Errorf("memory for %s: %w", file, err)
	}
	defer b.Release()
	if err := a.load(b, file); err != nil {
		return err
	}
	got, err := c.Upload(ctx, group, name, b)
	if err != nil {
		return err
	}
	r := receipt{Name: name, CID: got.Ref, TransID: got.Tx, FileHash: got.Hash.String(), Size: got.Size}
	if !got.Fee.IsZero() {
		r.Fee = got.Fee.Tokens()
	}
	if asJSON {
		return a.printJSON(r)
	}
	if several {
		a.ui.printf("name       %s\n", escapeName(name))
	}
	a.printPairs([][2]string{{"cid", escapeText(string(r.CID))}, {"trans_id", escapeText(string(r.TransID))}, {"file_hash", r.FileHash}}...)
	return nil
}

// load reads a file, or standard input, into b.
func (a *app) load(b *sdk.Buffer, file string) error {
	if file == "-" {
		return fill(b, a.stdin, 0)
	}
	f, err := os.Open(file)
	if err != nil {
		return refuse(exitNotFound, "check the path and its permissions", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return fill(b, f, info.Size())
}

// fillStep is how much room is made for what comes next, in bytes.
const fillStep = 64 << 10

// fill reads r to its end, expecting about size bytes.
func fill(b *sdk.Buffer, r io.Reader, size int64) error {
	var n int64
	if err := b.Resize(max(size+1, fillStep)); err != nil {
		return refuse(exitOther, "the file must fit into memory", err)
	}
	for {
		if n > sdk.DefaultMaxFileBytes {
			return refuse(exitOther, "split the file", fmt.Errorf("larger than %d bytes", sdk.DefaultMaxFileBytes))
		}
		if n == b.Len() {
			if err := b.Resize(n + fillStep); err != nil {
				return refuse(exitOther, "the file must fit into memory", err)
			}
		}
		got, err := r.Read(b.Bytes()[n:])
		n += int64(got)
		if errors.Is(err, io.EOF) {
			return b.Resize(n)
		}
		if err != nil {
			return err
		}
	}
}

func (a *app) getCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "get GROUP REF|NAME",
		Short: "Fetch a file, decrypt it here and verify it; costs one retrieval",
		Long: `Fetch a file, decrypt it here and verify it against the ledger; costs one
retrieval. NAME means the newest version of that name. The content goes to
standard output, or with -o into a file (mode 0600) that appears only when it
is complete and verified.`,
		Example: "  svcfs get team report.pdf -o report.pdf\n  svcfs get team notes/todo.txt | less",
		Args:    exactly(2, "a GROUP and a REF or NAME"),
		RunE: a.simple(func(ctx context.Context, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			c, _, err := a.client(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			return a.get(ctx, c, sdk.GroupID(args[0]), args[1], output)
		}),
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "file to write (default standard output)")
	return cmd
}

// checkOutput refuses an output that cannot work before a token is spent.
func checkOutput(output string) error {
	if output == "" || output == "-" {
		return nil
	}
	if info, err := os.Stat(output); err == nil && !info.Mode().IsRegular() {
		return usage("name a file", fmt.Sprintf("%s is not a regular file", output))
	}
	if _, err := os.Stat(filepath.Dir(output)); err != nil {
		return refuse(exitUsage, "create the folder first", err)
	}
	return nil
}

func (a *app) get(ctx context.Context, c *sdk.Client, group sdk.GroupID, what, output string) error {
	entry, err := c.Find(ctx, group, what)
	if err != nil {
		return err
	}
	a.ui.progress("fetching %s", what)
	b, err := c.Pool().Get(0)
	if err != nil {
		return err
	}
	defer b.Release()
	if _, err := c.Retrieve(ctx, entry, b); err != nil {
		return err
	}
	a.ui.progress("")
	if output != "" && output != "-" {
		return writeWhole(output, b.Bytes())
	}
	if _, err := a.ui.out.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write standard output: %w", err)
	}
	return nil
}

// writeWhole makes path hold content, or leaves it as it was.
func writeWhole(path string, content []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".svcfs-get-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
