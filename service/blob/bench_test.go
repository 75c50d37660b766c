package blob_test

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/blob/s3test"
)

// A put and a get of one blob, one after the other.
func BenchmarkStores(b *testing.B) {
	server := s3test.Start(b)
	s3test.SetEnv(b)
	for name, location := range map[string]string{"directory": filepath.Join(b.TempDir(), "blobs"),
		"S3": server.Location(server.NewBucket(b))} {
		s, err := blob.Open(b.Context(), location, "")
		if err != nil {
			b.Fatal(err)
		}
		for _, size := range []int{4 << 10, 16 << 20} {
			data := content(size)
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					info, err := s.Put(b.Context(), bytes.NewReader(data), int64(size))
					if err != nil {
						b.Fatal(err)
					}
					r, _, err := s.Open(b.Context(), info.ID)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := io.Copy(io.Discard, r); err != nil {
						b.Fatal(err)
					}
					if err := r.Close(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}
}
