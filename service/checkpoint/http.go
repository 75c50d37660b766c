package checkpoint

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

const (
	// height is log2 of the width of a tile (c2sp.org/tlog-tiles).
	height = 8
	width  = 1 << height
	// maxWait bounds how long a checkpoint request waits for the newest rows.
	maxWait = 3 * time.Second
	// entrySize of a record in an entry bundle: its hash, with the length in front.
	entrySize = 2 + tlog.HashSize

	textType = "text/plain; charset=utf-8"
	tileType = "application/octet-stream"
)

// Handler serves checkpoint, tiles and verifier key below [wire.PathTlog], and
// answers errors with refuse. It needs no authentication: they hold hashes only.
func (l *Log) Handler(refuse func(http.ResponseWriter, *http.Request, error)) http.Handler {
	serve := func(contentType string, read func(*http.Request) ([]byte, error)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			data, err := read(r)
			if err != nil {
				refuse(w, r, err)
				return
			}
			if contentType == tileType {
				// a tile of one width never changes
				w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			}
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write(data) // the caller may be gone
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+wire.PathTlog+"checkpoint", serve(textType, l.checkpoint))
	mux.HandleFunc("GET "+wire.PathTlog+"key", serve(textType, func(r *http.Request) ([]byte, error) {
		key, err := l.VerifierKey(r.Context())
		return []byte(key + "\n"), err
	}))
	mux.HandleFunc("GET "+wire.PathTlog+wire.TlogKeys, serve("application/json", func(r *http.Request) ([]byte, error) {
		return l.statements(r.Context())
	}))
	mux.HandleFunc("GET "+wire.PathTlog+"tile/{tile...}", serve(tileType, func(r *http.Request) ([]byte, error) {
		return l.tile(r.Context(), r.PathValue("tile"))
	}))
	mux.HandleFunc(wire.PathTlog, func(w http.ResponseWriter, r *http.Request) { refuse(w, r, errNoTile()) })
	return mux
}

// checkpoint returns a checkpoint with every record from before the request, so that no
// process shows an older tree than another one did. A log that has stopped shows the last one that it signed.
func (l *Log) checkpoint(r *http.Request) ([]byte, error) {
	if err := l.updateSoon(r.Context()); err != nil { // Run reports it
		return nil, err
	}
	signed, _ := l.newest()
	if signed.Note == nil {
		return nil, unproven("no checkpoint has been signed yet: ask again in a moment", l.Problem())
	}
	return signed.Note, nil
}

// errNoTile is a path outside the signed tree.
func errNoTile() error {
	return fault.New(wire.CodeUnsupported, "not found: the signed tree has no such tile")
}

// has reports whether the signed tree has a tile.
func (c Checkpoint) has(t tlog.Tile) bool {
	inLevel := c.N >> (height * max(t.L, 0)) // hashes there are at this level
	return c.Note != nil && t.N <= inLevel/width && t.N*width+int64(t.W) <= inLevel
}

// tile reads L/N, L/N.p/W, entries/N or entries/N.p/W of the signed tree.
func (l *Log) tile(ctx context.Context, path string) ([]byte, error) {
	// x/mod spells the same coordinates with the height and "data" in them.
	if rest, ok := strings.CutPrefix(path, "entries/"); ok {
		path = "data/" + rest
	} else if strings.HasPrefix(path, "data/") {
		return nil, errNoTile()
	}
	t, err := tlog.ParseTilePath(fmt.Sprintf("tile/%d/%s", height, path))
	if err != nil {
		return nil, errNoTile()
	}
	signed, file := l.newest()
	if !signed.has(t) { // it may be of the checkpoint that another process showed
		if err := l.updateSoon(ctx); err != nil {
			return nil, err
		}
		if signed, file = l.newest(); !signed.has(t) {
			return nil, errNoTile()
		}
	}
	if t.L < 0 {
		return l.entries(ctx, t.N*width, t.W)
	}
	return tlog.ReadTileData(t, hashReader(file))
}

// entries reads the hashes of n records after a row as an entry bundle.
func (l *Log) entries(ctx context.Context, after int64, n int) ([]byte, error) {
	bundle := make([]byte, 0, n*entrySize)
	err := l.store.Read(ctx, func(tx *store.Tx) error {
		rows, err := ledger.Placed(ctx, tx, after, n)
		for _, r := range rows {
			bundle = binary.BigEndian.AppendUint16(bundle, uint16(len(r.Hash)))
			bundle = append(bundle, r.Hash[:]...)
		}
		return err
	})
	return bundle, err
}
