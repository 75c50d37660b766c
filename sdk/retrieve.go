package sdk

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/google/uuid"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
)

// firstChunk is how much is allocated for a body before its bytes arrive.
const firstChunk = 1 << 20

// Retrieve fetches, decrypts and verifies e into b, which it resizes. The
// content is complete and equals e.Hash, or there is an error and b is empty.
//
// Costs one retrieve claim; repeated internally only where that is free. Needs
// membership in e.Group. Errors: [KindNotAuthorized], [KindNotFound],
// [KindDeleted], [KindInsufficient], [KindTooLarge], [KindCorrupt],
// [KindUnavailable], [KindTimeout]. Source: specification 4.3.
func (c *Client) Retrieve(ctx context.Context, e Entry, b *Buffer) (Plain, error) {
	plain, err := c.retrieve(ctx, e, b)
	if err != nil {
		_ = b.Resize(0) // shrinking cannot fail; it wipes
		return Plain{}, c.wrap("retrieve", e.Group, e.Ref, err)
	}
	return plain, nil
}

// RetrieveBytes finds what nameOrRef means in g and returns its content, which
// belongs to the caller. Costs one retrieve claim.
func (c *Client) RetrieveBytes(ctx context.Context, g GroupID, nameOrRef string) ([]byte, Plain, error) {
	e, err := c.Find(ctx, g, nameOrRef)
	if err != nil {
		return nil, Plain{}, err
	}
	b, err := c.pool.Get(0)
	if err != nil {
		return nil, Plain{}, c.wrap("retrieve", g, e.Ref, err)
	}
	defer b.Release()
	plain, err := c.Retrieve(ctx, e, b)
	if err != nil {
		return nil, Plain{}, err
	}
	return bytes.Clone(b.Bytes()), plain, nil
}

func (c *Client) retrieve(ctx context.Context, e Entry, b *Buffer) (Plain, error) {
	if e.Deleted != nil {
		return Plain{}, &Error{Op: "check", Kind: KindDeleted, Err: errors.New("the file was deleted and its key destroyed"), Hint: c.hint(KindDeleted)}
	}
	if err := c.checkSize(e.Size, 0); err != nil {
		return Plain{}, err
	}
	raw, err := c.offers(ctx, wire.CapRaw)
	if err != nil {
		return Plain{}, err
	}
	request := wire.PrepareRetrieveRequest{GroupID: string(e.Group), IPFSHash: string(e.Ref), ClaimID: uuid.NewString()}
	if raw {
		request.Transfer = wire.TransferRaw
	}
	var answer retrieveAnswer
	// Repeating is free: our service knows the claim id, the hosted one does not
	// charge retrievals.
	err = c.retry(ctx, func(ctx context.Context) error { return c.prepareRetrieve(ctx, request, &answer) })
	if err != nil {
		return Plain{}, err
	}
	return c.openAnswer(ctx, e, answer, b)
}

// retrieveAnswer is a PrepareRetrieveResult whose base64 stays undecoded bytes.
type retrieveAnswer struct {
	wire.PrepareRetrieveResult
	EncryptedB64 json.RawMessage `json:"encrypted_b64"`
}

func (c *Client) prepareRetrieve(ctx context.Context, request wire.PrepareRetrieveRequest, answer *retrieveAnswer) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	limit := int64(wire.MaxJSONBytes)
	if request.Transfer == "" {
		limit += c.cfg.MaxFileBytes / 3 * 4
	}
	return c.authorized(ctx, func(token Secret) error {
		req, cancel, err := c.transferRequest(ctx, http.MethodPost, wire.PathTools+wire.OpPrepareRetrieve, limit-wire.MaxJSONBytes, token)
		if err != nil {
			return err
		}
		defer cancel()
		req.Header.Set("Content-Type", "application/json")
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		resp, err := c.send(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		raw, err := readBounded(resp.Body, limit)
		if err != nil {
			return err
		}
		*answer = retrieveAnswer{}
		return unwrap(raw, answer)
	})
}

// openAnswer gets the ciphertext into b, opens it there and verifies it.
func (c *Client) openAnswer(ctx context.Context, e Entry, a retrieveAnswer, b *Buffer) (Plain, error) {
	meta, err := format.ParseMetadata(a.Format)
	if err != nil {
		return Plain{}, err
	}
	key, err := format.ParseKey(a.Key)
	if err != nil {
		return Plain{}, malformed(err)
	}
	defer key.Wipe()
	var nonce [format.NonceBytes]byte
	if a.DataURL != "" {
		err = c.fetchBlob(ctx, a.DataURL, a.DataSize, &nonce, b)
	} else {
		err = decodeBlob(a.EncryptedB64, c.cfg.MaxFileBytes, &nonce, b)
	}
	if err != nil {
		return Plain{}, err
	}
	plain, err := format.Open(key, nonce[:], b.Bytes())
	if err != nil {
		return Plain{}, err
	}
	if err := b.Resize(int64(len(plain))); err != nil {
		return Plain{}, err
	}
	if meta.Compression == format.CompressionDeflate {
		if err := c.inflate(meta, b); err != nil {
			return Plain{}, err
		}
	}
	return c.verify(e, meta, a.Fee, b)
}

// verify compares the plaintext with the ledger: the tag proves that the bytes
// are unchanged, only the hash proves that they are this file.
func (c *Client) verify(e Entry, meta format.Metadata, fee string, b *Buffer) (Plain, error) {
	p := Plain{Size: b.Len(), Hash: ComputeHash(b.Bytes()), Name: meta.Filename, ContentType: meta.ContentType}
	if p.Hash != e.Hash {
		return Plain{}, malformed(fmt.Errorf("content has hash %s, the ledger recorded %s", p.Hash, e.Hash))
	}
	if e.Size != SizeUnknown && e.Size != p.Size {
		return Plain{}, malformed(fmt.Errorf("content has %d bytes, the ledger recorded %d", p.Size, e.Size))
	}
	if fee != "" {
		var err error
		if p.Fee, err = ParseAmount(fee); err != nil {
			return Plain{}, malformed(err)
		}
	}
	return p, nil
}

// inflate replaces the compressed content of b by the original.
func (c *Client) inflate(meta format.Metadata, b *Buffer) error {
	size, err := format.InflatedSize(meta, c.cfg.MaxFileBytes)
	if err != nil {
		return err
	}
	compressed, err := c.pool.Get(b.Len())
	if err != nil {
		return err
	}
	defer compressed.Release()
	copy(compressed.Bytes(), b.Bytes())
	// A zlib stream expands at most about 1032-fold: a size beyond that is a lie,
	// and memory for it is not taken.
	if size > 1100*(compressed.Len()+1) {
		return malformed(errors.New("original_size is larger than the compressed content can hold"))
	}
	if err := b.Resize(size); err != nil {
		return err
	}
	return format.Inflate(b.Bytes(), compressed.Bytes())
}

// fetchBlob reads a raw transfer: the nonce, then the rest straight into b.
func (c *Client) fetchBlob(ctx context.Context, target string, size int64, nonce *[format.NonceBytes]byte, b *Buffer) error {
	if size < format.Overhead || size-format.Overhead > c.cfg.MaxFileBytes {
		return malformed(fmt.Errorf("data of %d bytes: want %d to %d", size, format.Overhead, c.cfg.MaxFileBytes+format.Overhead))
	}
	return c.retry(ctx, func(ctx context.Context) error {
		return c.authorized(ctx, func(token Secret) error {
			req, cancel, err := c.transferRequest(ctx, http.MethodGet, target, size, token)
			if err != nil {
				return err
			}
			defer cancel()
			resp, err := c.send(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			return readBlob(resp.Body, size, nonce, b)
		})
	})
}

func readBlob(r io.Reader, size int64, nonce *[format.NonceBytes]byte, b *Buffer) error {
	if _, err := io.ReadFull(r, nonce[:]); err != nil {
		return err
	}
	rest := size - format.NonceBytes
	for have := int64(0); have < rest; {
		next := min(rest, max(firstChunk, 2*have))
		if err := b.Resize(next); err != nil {
			return err
		}
		n, err := io.ReadFull(r, b.Bytes()[have:next])
		have += int64(n)
		if err != nil {
			return err
		}
	}
	if n, _ := r.Read(make([]byte, 1)); n != 0 {
		return malformed(errors.New("more data than announced"))
	}
	return nil
}

// decodeBlob decodes a JSON string of base64: the nonce, then the rest straight
// into b.
func decodeBlob(quoted json.RawMessage, maxFile int64, nonce *[format.NonceBytes]byte, b *Buffer) error {
	if len(quoted) < 2 || quoted[0] != '"' {
		return malformed(errors.New("no encrypted data"))
	}
	text := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		var plain string // "\/" for "/" is legal JSON
		if err := json.Unmarshal(quoted, &plain); err != nil {
			return malformed(describeJSON(err))
		}
		text = []byte(plain)
	}
	encoding := base64.StdEncoding.Strict()
	nonceText := encoding.EncodedLen(format.NonceBytes)
	if len(text) < nonceText || bytes.ContainsAny(text, "\r\n") {
		return malformed(errors.New("encrypted data is too short, or not base64"))
	}
	if _, err := encoding.Decode(nonce[:], text[:nonceText]); err != nil {
		return malformed(errors.New("encrypted data is not base64"))
	}
	text = text[nonceText:]
	size := encoding.DecodedLen(len(text))
	if int64(size) > maxFile+format.TagBytes+2 {
		return fmt.Errorf("encrypted data of %d bytes: %w", size, format.ErrTooLarge)
	}
	if err := b.Resize(int64(size)); err != nil {
		return err
	}
	n, err := encoding.Decode(b.Bytes(), text)
	if err != nil {
		return malformed(errors.New("encrypted data is not base64"))
	}
	return b.Resize(int64(n))
}
