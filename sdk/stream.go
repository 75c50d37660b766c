package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/svcfs/svcfs/sdk/ownfile"
)

// fillStep is how much room is made at least for what comes next, in bytes.
const fillStep = 64 << 10

// UploadReader reads r to its end and uploads that as name: it is held in memory
// once, outside the garbage-collected heap, because a file is sealed as a whole.
// More than the largest allowed file is [KindTooLarge] without reading on.
//
// Costs one upload. Needs the API key and membership in g. Errors are those of r, which can be
// tested with errors.Is, and those of [Client.Upload].
func (c *Client) UploadReader(ctx context.Context, g GroupID, name string, r io.Reader) (Receipt, error) {
	return c.uploadReader(ctx, g, name, r, 0)
}

// UploadFile uploads the file at path as name, or under its own name when name
// is empty. See [Client.UploadReader].
func (c *Client) UploadFile(ctx context.Context, g GroupID, name, path string) (Receipt, error) {
	if name == "" {
		name = filepath.Base(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return Receipt{}, c.wrap("upload "+quote(name), g, "", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Receipt{}, c.wrap("upload "+quote(name), g, "", err)
	}
	return c.uploadReader(ctx, g, name, f, info.Size())
}

func (c *Client) uploadReader(ctx context.Context, g GroupID, name string, r io.Reader, expected int64) (Receipt, error) {
	b, err := c.pool.Get(0)
	if err != nil {
		return Receipt{}, c.wrap("upload "+quote(name), g, "", err)
	}
	defer b.Release()
	if err := c.fill(ctx, b, r, expected); err != nil {
		return Receipt{}, c.wrap("upload "+quote(name), g, "", err)
	}
	return c.Upload(ctx, g, name, b)
}

// fill reads r to its end into b, expecting about expected bytes.
func (c *Client) fill(ctx context.Context, b *Buffer, r io.Reader, expected int64) error {
	limit, err := c.MaxUpload(ctx)
	if err != nil {
		return err
	}
	if err := checkSize(expected, limit); err != nil {
		return err
	}
	if err := b.Resize(expected + 1); err != nil {
		return err
	}
	var n int64
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := checkSize(n, limit); err != nil {
			return err
		}
		if n == b.Len() {
			if err := b.Resize(n + max(fillStep, n/2)); err != nil {
				return err
			}
		}
		got, err := r.Read(b.Bytes()[n:])
		n += int64(got)
		if errors.Is(err, io.EOF) {
			return b.Resize(n)
		}
		if err != nil {
			return fmt.Errorf("read the content: %w", err)
		}
	}
}

// RetrieveTo finds what nameOrRef means in g and writes its content to w: all of
// it, once it is verified, or nothing. It is held in memory once meanwhile.
//
// Costs one retrieve claim, also when w fails. Needs the API key and membership
// in g. Errors are those of w, of [Client.Find] and of [Client.Retrieve].
func (c *Client) RetrieveTo(ctx context.Context, g GroupID, nameOrRef string, w io.Writer) (Plain, error) {
	e, err := c.Find(ctx, g, nameOrRef)
	if err != nil {
		return Plain{}, err
	}
	b, err := c.pool.Get(0)
	if err != nil {
		return Plain{}, c.wrap("retrieve", g, e.Ref, err)
	}
	defer b.Release()
	plain, err := c.Retrieve(ctx, e, b)
	if err != nil {
		return Plain{}, err
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return Plain{}, c.wrap("retrieve", g, e.Ref, fmt.Errorf("write the content: %w", err))
	}
	return plain, nil
}

// RetrieveFile is [Client.RetrieveTo] into a file at path (mode 0600), which
// appears, or is replaced, only when it is complete, verified and on the disk. What is
// no file, such as a link, stays, and is an error.
func (c *Client) RetrieveFile(ctx context.Context, g GroupID, nameOrRef, path string) (plain Plain, err error) {
	f, err := ownfile.New(path)
	if err != nil {
		return Plain{}, c.wrap("retrieve "+quote(nameOrRef), g, "", err)
	}
	defer f.Discard()
	if plain, err = c.RetrieveTo(ctx, g, nameOrRef, f); err != nil {
		return Plain{}, err
	}
	err = f.Replace()
	return plain, c.wrap("retrieve "+quote(nameOrRef), g, "", err)
}
