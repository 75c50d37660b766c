package nameroots

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire/chain"
)

const places = 4

// history is what lives at each place, and the changes that say so.
func history(files int, random *rand.Rand) (trees [places]chain.Names, changes []Change) {
	for i := range files {
		at := chain.Place{Number: int64(i + 1), Hash: chain.Hash{byte(i)}}
		v := chain.Living{Ref: fmt.Sprint("secret-", i), Place: at}
		name, lives, made := "", false, random.IntN(5) == 0
		for at := range places {
			change := func(gone bool) {
				changes = append(changes, Change{Item: chain.NewItem(name, made, v), At: at, Gone: gone})
			}
			if at == 0 || random.IntN(4) == 0 { // else all is as before
				if lives {
					change(true)
				}
				name = fmt.Sprintf("folder/%d/%d", random.IntN(9), random.IntN(20))
				v.Attributes = fmt.Sprint(random.IntN(2))
				if random.IntN(10) == 0 && !made {
					name = ""
				}
				if lives = random.IntN(3) > 0; lives {
					change(false)
				}
			}
			switch {
			case lives && made:
				trees[at].Make(name, v)
			case lives:
				trees[at].Put(name, v)
			}
		}
	}
	return trees, changes
}

// split splits changes by their files into parts.
func split(changes []Change, parts int) [][]Change {
	out := make([][]Change, parts)
	for _, c := range changes {
		i := int(c.Number) % parts
		out[i] = append(out[i], c)
	}
	return out
}

func added(t *testing.T, parts [][]Change) *Roots {
	t.Helper()
	r := New(places, t.TempDir())
	t.Cleanup(r.Close)
	for i, part := range parts {
		if err := r.Add(part, i < len(parts)-1); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// The roots of parts, in memory and on disk, are those of the trees of all that lives.
func TestRootsOfParts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, files := range []int{0, 1, 2, 30, 3000} {
		trees, changes := history(files, random)
		for _, parts := range []int{1, 2, 7} {
			roots, err := added(t, split(slices.Clone(changes), parts)).Sum(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for at := range trees {
				if roots[at] != trees[at].Root() {
					t.Errorf("%d files in %d parts have another root at place %d", files, parts, at)
				}
			}
		}
	}
}

// One part needs no disk. Several lie in no folder, and the disk does not tell what it has: nor does anybody change it
// unnoticed.
func TestPartsOnDisk(t *testing.T) {
	_, changes := history(3000, rand.New(rand.NewPCG(3, 4)))
	none := filepath.Join(t.TempDir(), "none")
	if err := os.WriteFile(none, nil, 0o600); err != nil { // no folder
		t.Fatal(err)
	}
	if err := New(places, none).Add(slices.Clone(changes), false); err != nil {
		t.Error(err)
	}
	if err := New(places, none).Add(slices.Clone(changes), true); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("without a folder: %v", err)
	}
	for name, damage := range map[string]func(*spool) error{
		"changed": func(s *spool) error {
			b := make([]byte, 1)
			_, err := s.file.ReadAt(b, s.end/2)
			b[0] ^= 1
			_, err2 := s.file.WriteAt(b, s.end/2)
			return errors.Join(err, err2)
		},
		"cut": func(s *spool) error { return s.file.Truncate(s.end - blockBytes) },
		"moved": func(s *spool) error {
			block := make([]byte, blockBytes)
			_, err := s.file.ReadAt(block, 0)
			_, err2 := s.file.WriteAt(block, blockBytes+28)
			return errors.Join(err, err2)
		},
	} {
		r := added(t, split(slices.Clone(changes), 3))
		if list, err := os.ReadDir(r.dir); err != nil || len(list) != 0 {
			t.Errorf("in the folder is %v, %v", list, err)
		}
		raw := make([]byte, r.spool.end)
		_, err := r.spool.file.ReadAt(raw, 0)
		if err != nil || len(raw) < 3*blockBytes || bytes.Contains(raw, []byte("secret-")) {
			t.Errorf("on disk are %d bytes, %v", len(raw), err)
		}
		if err := damage(r.spool); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Sum(t.Context()); err == nil {
			t.Errorf("%s: it is read all the same", name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := added(t, split(changes, 3)).Sum(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up gets %v", err)
	}
}
