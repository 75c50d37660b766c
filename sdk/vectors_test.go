package sdk_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format/formattest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// The client reads every frozen vector of format version 2, and nothing of a block that was
// not proven.
func TestFrozenVectorsAreRead(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Ours)
	vectors := formattest.Read(t, os.DirFS("../format/testdata/blocks"))
	data := map[string][]byte{}
	for name, v := range vectors {
		data[name] = v.Bytes(t)
	}
	s.Answer(wire.PathTools+wire.OpPrepareRetrieve, func(w http.ResponseWriter, r *http.Request) {
		var req wire.PrepareRetrieveRequest
		asked, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(asked, &req)
		v := vectors[req.IPFSHash]
		_ = json.NewEncoder(w).Encode(map[string]any{"result": wire.PrepareRetrieveResult{IPFSHash: req.IPFSHash,
			GroupID: req.GroupID, SealedKey: s.SealedKey(r, asked, v.Key), Format: v.Format,
			DataURL: wire.PathBlocks + req.IPFSHash, DataSize: int64(len(data[req.IPFSHash])), TilesURL: wire.PathTiles + req.IPFSHash,
			Manifest: base64.StdEncoding.EncodeToString(v.Manifest)}})
	})
	serve := func(prefix string, answer func(w http.ResponseWriter, r *http.Request, name, rest string)) {
		s.Answer(prefix+"*", func(w http.ResponseWriter, r *http.Request) {
			name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, prefix), "/")
			answer(w, r, name, rest)
		})
	}
	serve(wire.PathBlocks, func(w http.ResponseWriter, r *http.Request, name, _ string) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data[name]))
	})
	serve(wire.PathTiles, func(w http.ResponseWriter, _ *http.Request, name, path string) {
		tile, ok := vectors[name].Tiles[path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(tile)
	})
	for name, v := range vectors {
		if v.Content == "" { // the client reads it as an earlier version
			continue
		}
		t.Run(name, func(t *testing.T) {
			e := sdk.Entry{Ref: sdk.Ref(name), Name: name, Size: -1}
			_, err1 := hex.Decode(e.Content[:], []byte(v.Content))
			_, err2 := hex.Decode(e.Hash[:], []byte(v.FileHash))
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			f, err := s.g.OpenEntry(t.Context(), e)
			var got []byte
			if err == nil {
				got, err = io.ReadAll(f)
				_ = f.Close()
			}
			if v.Result == "ok" {
				if err != nil || sdk.ComputeHash(got).String() != v.SHA256 {
					t.Errorf("read gives %d bytes, %v", len(got), err)
				}
				return
			}
			if err == nil || !errors.Is(err, sdk.ErrCorrupt) && !errors.Is(err, sdk.ErrUnsupported) && name != "tile-absent" {
				t.Errorf("%s: read gives %d bytes, %v", v.Result, len(got), err)
			}
		})
	}
}
