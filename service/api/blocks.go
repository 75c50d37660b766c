package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/files"
)

// The requests of format version 2, see [wire.PathBlocks].

// partMemory is the memory of a part that comes, beside that of the store: a block.
const partMemory = format.MaxBlockBytes + format.Overhead

// putPart stores a part of an upload.
func (s *server) putPart(w http.ResponseWriter, r *http.Request, account string) error {
	p, err := partRequest(r)
	if err != nil {
		return err
	}
	if err := s.holdForBody(r, partMemory+s.PutMemory(r.ContentLength)); err != nil {
		return err
	}
	part, err := s.Files.PutPart(r.Context(), account, p, r.Body)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", strconv.Quote(part.ETag))
	writeJSON(w, http.StatusOK, part)
	return nil
}

// partRequest reads what a request says about its part, before its body.
func partRequest(r *http.Request) (p files.PartRequest, err error) {
	q := r.URL.Query()
	p = files.PartRequest{Upload: r.PathValue("id"), Part: r.PathValue("part"), Group: q.Get("group_id"),
		Blocks: q.Get("blocks"), Size: r.ContentLength}
	if r.ContentLength > wire.PartBytes { // before a byte of it is read
		return p, &http.MaxBytesError{Limit: wire.PartBytes}
	}
	if text := q.Get("block_size"); text != "" {
		if p.BlockBytes, err = strconv.ParseInt(text, 10, 64); err != nil {
			return p, fault.New(wire.CodeValidation, "block_size: want a number of bytes")
		}
	}
	p.Sum, err = digestOf(r.Header.Values("Repr-Digest"))
	return p, err
}

// digestOf reads the SHA-256 of a Repr-Digest (RFC 9530), nil if there is none.
func digestOf(values []string) (*[sha256.Size]byte, error) {
	for member := range strings.SplitSeq(strings.Join(values, ","), ",") {
		text, ok := strings.CutPrefix(strings.TrimSpace(member), "sha-256=")
		if !ok {
			continue
		}
		raw, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSuffix(strings.TrimPrefix(text, ":"), ":"))
		if err != nil || len(raw) != sha256.Size || len(text) < 2 || text[0] != ':' || text[len(text)-1] != ':' {
			return nil, fault.New(wire.CodeValidation, "Repr-Digest: want sha-256=:BASE64:")
		}
		return (*[sha256.Size]byte)(raw), nil
	}
	return nil, nil
}

// getParts lists the parts of an upload, piece by piece.
func (s *server) getParts(w http.ResponseWriter, r *http.Request, account string) error {
	if err := s.holdMemory(r, files.PartsMemory); err != nil {
		return err
	}
	before := `{"parts":[`
	err := s.Files.Parts(r.Context(), account, r.PathValue("id"), r.URL.Query().Get("part"),
		func(list []wire.Part) error {
			if before != "," {
				w.Header().Set("Content-Type", "application/json")
			}
			for _, part := range list {
				raw, err := json.Marshal(part)
				if err == nil {
					_, err = io.WriteString(w, before+string(raw))
				}
				if err != nil {
					return err
				}
				before = ","
			}
			return nil
		})
	if err == nil {
		if before != "," {
			_, err = io.WriteString(w, before)
		}
		if err == nil {
			_, err = io.WriteString(w, "]}")
		}
	}
	if err != nil && before == "," {
		s.cutOff(r, "list of parts", err)
	}
	return err
}

// offerBlocks adds to the answer of a retrieval what a file in blocks needs.
func (s *server) offerBlocks(account string, req wire.PrepareRetrieveRequest, b *files.InBlocks,
	out *wire.PrepareRetrieveResult) {
	ticket := s.ticket(account, req.GroupID, req.IPFSHash, true)
	out.DataURL, out.DataSize, out.TilesURL = wire.PathBlocks+ticket, b.Size, wire.PathTiles+ticket
	out.Tiles = make(map[string]string, len(b.Edges))
	for path, raw := range b.Edges {
		out.Tiles[path] = base64.StdEncoding.EncodeToString(raw)
	}
	if len(b.Manifest) > wire.InlineManifestBytes {
		out.ManifestURL = wire.PathManifest + ticket
	} else {
		out.Manifest = base64.StdEncoding.EncodeToString(b.Manifest)
	}
}

// sendFirst answers a retrieval with the first blocks behind it, see [wire.TypeFirstBlocks]. It reports whether
// it did: not where no block is short enough, or the first cannot be read. The charge is in the ledger.
func (s *server) sendFirst(w http.ResponseWriter, r *http.Request, b *files.InBlocks, most int64,
	out wire.PrepareRetrieveResult) bool {
	var size int64
	if out.FirstBlocks, size = b.Within(min(most, wire.MaxFirstBytes)); out.FirstBlocks == 0 {
		return false
	}
	blocks := b.Reader(r.Context())
	defer blocks.Close()
	if blocks.Open() != nil {
		return false
	}
	head := append(resultOf(r, out), '\n')
	w.Header().Set("Content-Type", wire.TypeFirstBlocks)
	w.Header().Set("Content-Length", strconv.FormatInt(int64(len(head))+size, 10))
	_, err := w.Write(head)
	if err == nil {
		_, err = io.CopyN(w, blocks, size)
	}
	if err != nil {
		s.cutOff(r, "first blocks", err)
	}
	return true
}

// openBlocks opens the file of a ticket, if the account may read it still.
func (s *server) openBlocks(r *http.Request, account string) (t ticketBody, b *files.InBlocks, err error) {
	if t, err = s.openTicket(r.PathValue("ticket"), account, true); err != nil {
		return t, nil, err
	}
	b, err = s.Files.OpenBlocks(r.Context(), account, t.Group, t.Ref)
	return t, b, err
}

// getBlocks streams sealed blocks to the holder of a ticket, with ranges.
func (s *server) getBlocks(w http.ResponseWriter, r *http.Request, account string) error {
	t, b, err := s.openBlocks(r, account)
	if err != nil {
		return err
	}
	oneRange(r)
	blocks := b.Reader(r.Context())
	defer blocks.Close()
	if _, err := blocks.Seek(firstByte(r.Header.Get("Range"), b.Size), io.SeekStart); err != nil {
		return err
	}
	if err := blocks.Open(); err != nil { // as long as an error can be answered
		return err
	}
	return s.serveContent(w, r, t, b.Content, b.Size, blocks)
}

// firstByte returns where a range begins, 0 for one that is not understood.
func firstByte(ranges string, size int64) int64 {
	from, to, _ := strings.Cut(strings.TrimPrefix(ranges, "bytes="), "-")
	if first, err := strconv.ParseInt(from, 10, 64); err == nil && first >= 0 && first < size {
		return first
	}
	if last, err := strconv.ParseInt(to, 10, 64); err == nil && from == "" && ranges != "" && last > 0 && last <= size {
		return size - last
	}
	return 0
}

// getTile answers hashes of the tree over the blocks.
func (s *server) getTile(w http.ResponseWriter, r *http.Request, account string) error {
	_, b, err := s.openBlocks(r, account)
	if err != nil {
		return err
	}
	raw, err := b.Tile(r.Context(), r.PathValue("tile"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	_, _ = w.Write(raw) // the caller may be gone
	return nil
}

// getManifest answers the manifest of a file.
func (s *server) getManifest(w http.ResponseWriter, r *http.Request, account string) error {
	_, b, err := s.openBlocks(r, account)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", strconv.Quote(b.Content))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b.Manifest))
	return nil
}
