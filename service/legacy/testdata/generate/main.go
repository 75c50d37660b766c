// Command generate prints ../ids.txt: content ids as the reference importer makes
// them. It is a module of its own, because that importer is large:
// cd service/legacy/testdata/generate && go run . >../ids.txt
package main

import (
	"bytes"
	"fmt"
	"log"

	chunk "github.com/ipfs/boxo/chunker"
	dag "github.com/ipfs/boxo/ipld/merkledag"
	dagtest "github.com/ipfs/boxo/ipld/merkledag/test"
	"github.com/ipfs/boxo/ipld/unixfs/importer/balanced"
	"github.com/ipfs/boxo/ipld/unixfs/importer/helpers"
)

func main() {
	fmt.Println("# size version rawLeaves chunk links id; byte i of a file is i ^ i>>8 ^ i*i>>5. Made by " +
		"github.com/ipfs/boxo v0.39.0, see generate/.")
	for _, l := range []struct {
		version      int
		raw          bool
		chunk, links int
		most         int // size
	}{{0, false, 256 << 10, 174, 60 << 20}, {1, false, 256 << 10, 174, 4 << 20}, {0, true, 256 << 10, 174, 4 << 20},
		{1, true, 256 << 10, 174, 4 << 20},
		{0, false, 1 << 20, 174, 4 << 20}, {1, false, 1 << 20, 174, 4 << 20}, {1, true, 1 << 20, 174, 4 << 20},
		{1, true, 1 << 20, 1024, 4 << 20}, {1, false, 64 << 10, 3, 4 << 20}} {
		for _, size := range []int{0, 1, 28, 1000, 64 << 10, 64<<10 + 1, 256<<10 - 1, 256 << 10, 256<<10 + 1, 512 << 10,
			1<<20 - 1, 1 << 20, 1<<20 + 1, 3_333_333,
			174 * 256 << 10, 174*256<<10 + 1, 60 << 20} {
			if size <= l.most {
				fmt.Println(size, l.version, l.raw, l.chunk, l.links,
					id(content(size), l.version, l.raw, l.chunk, l.links))
			}
		}
	}
}

func content(size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i ^ i>>8 ^ i*i>>5)
	}
	return data
}

func id(data []byte, version int, raw bool, size, links int) string {
	prefix, err := dag.PrefixForCidVersion(version)
	if err != nil {
		log.Fatal(err)
	}
	params := helpers.DagBuilderParams{Maxlinks: links, RawLeaves: raw, CidBuilder: &prefix, Dagserv: dagtest.Mock()}
	b, err := params.New(chunk.NewSizeSplitter(bytes.NewReader(data), int64(size)))
	if err != nil {
		log.Fatal(err)
	}
	root, err := balanced.Layout(b)
	if err != nil {
		log.Fatal(err)
	}
	return root.Cid().String()
}
