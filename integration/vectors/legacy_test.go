package vectors

import (
	"bytes"
	"math/rand/v2"
	"testing"

	chunk "github.com/ipfs/boxo/chunker"
	dag "github.com/ipfs/boxo/ipld/merkledag"
	dagtest "github.com/ipfs/boxo/ipld/merkledag/test"
	"github.com/ipfs/boxo/ipld/unixfs/importer/balanced"
	"github.com/ipfs/boxo/ipld/unixfs/importer/helpers"

	"github.com/svcfs/svcfs/service/legacy"
)

// The content ids we compute are those of the reference importer, whichever way
// it cuts.
func TestContentIDs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	sizes := []int{0, 1, 28, 1 << 10, 256 << 10, 256<<10 + 1, 512 << 10, 1<<20 - 1, 1 << 20, 1<<20 + 1, 174 * 256 << 10, 174*256<<10 + 1, 60 << 20}
	for range 20 {
		sizes = append(sizes, random.IntN(5<<20))
	}
	for _, size := range sizes {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		for _, l := range []legacy.Layout{legacy.Default(0), legacy.Default(1), {Version: 1, RawLeaves: true, Chunk: 256 << 10, Links: 174},
			{Version: 1, RawLeaves: true, Chunk: 1 << 20, Links: 1024}, {Version: 0, Chunk: 1 << 20, Links: 174}, {Version: 1, Chunk: 64 << 10, Links: 3}} {
			if size > 10<<20 && l.Version == 1 && l.Links == 3 {
				continue
			}
			want := reference(t, data, l)
			if got := legacy.Sum(data, l).String(); got != want {
				t.Errorf("%d bytes, %+v: %s, want %s", size, l, got, want)
			}
		}
	}
}

func reference(t *testing.T, data []byte, l legacy.Layout) string {
	t.Helper()
	prefix, err := dag.PrefixForCidVersion(l.Version)
	if err != nil {
		t.Fatal(err)
	}
	params := helpers.DagBuilderParams{Maxlinks: l.Links, RawLeaves: l.RawLeaves, CidBuilder: &prefix, Dagserv: dagtest.Mock()}
	b, err := params.New(chunk.NewSizeSplitter(bytes.NewReader(data), int64(l.Chunk)))
	if err != nil {
		t.Fatal(err)
	}
	root, err := balanced.Layout(b)
	if err != nil {
		t.Fatal(err)
	}
	return root.Cid().String()
}
