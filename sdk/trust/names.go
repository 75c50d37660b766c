package trust

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/svcfs/svcfs/sdk/wire"
)

// maxNames bounds the roots of names that are remembered of a group. One takes about 350 bytes.
const maxNames = 8

// Names is a root of the living names of a group at a place of its chain: one that the service signed for a request,
// or, without a signature, one that the records give. Nonce is that of the request, so that whoever has the key of the
// log can check the signature.
type Names struct {
	wire.SignedNames
	Nonce string `json:"nonce,omitempty"`
}

// SawNames remembers a root of names. Of a group it keeps 8: where there are more, a random one goes but for the
// newest, so that a service cannot count on it. Errors: [ErrContradiction] if another root, or another record, is
// remembered at this place. Both are kept then, and [Memory.Problem] says so until [Memory.Forget].
func (m *Memory) SawNames(name string, n Names) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := m.now.keyed(name)
	list, isFork := withNames(m.now.Names[id], n)
	if len(list) != len(m.now.Names[id]) || !slices.Contains(m.now.Names[id], n) {
		if m.now.Names == nil {
			m.now.Names = map[string][]Names{}
		}
		m.now.Names[id] = list
		m.touch()
	}
	if isFork {
		m.now.Forked = n.Number
		return m.now.forked()
	}
	return nil
}

// Names returns the roots of names that are remembered of a group, by their places. The slice belongs to the caller.
func (m *Memory) Names(name string) []Names {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.now.Names[m.now.keyed(name)])
}

// withNames returns a new list with one more, and whether it contradicts another one.
func withNames(list []Names, n Names) (out []Names, isFork bool) {
	for i, known := range list {
		if known.Number != n.Number {
			continue
		}
		if known.Hash == n.Hash && known.Root == n.Root {
			if known.Signature != "" || n.Signature == "" {
				return list, false
			}
			out = slices.Clone(list)
			out[i] = n
			return out, false
		}
		isFork = true
	}
	out = slices.Clone(list)
	if len(out) >= maxNames && !isFork {
		at := rand.IntN(len(out) - 1)
		out = slices.Delete(out, at, at+1)
	}
	out = append(out, n)
	slices.SortStableFunc(out, func(a, b Names) int { return cmp.Compare(a.Number, b.Number) })
	return out, isFork
}

// mergeNames adds the roots of names that the file has.
func (c *contents) mergeNames(file contents) {
	all := make(map[string][]Names, len(c.Names))
	for id, list := range c.Names {
		all[id] = list
	}
	c.Forked = cmp.Or(c.Forked, file.Forked)
	for id, list := range file.Names {
		for _, n := range list {
			isFork := false
			if all[id], isFork = withNames(all[id], n); isFork {
				c.Forked = n.Number
			}
		}
	}
	c.Names = all
}

// forked is the error of a service that signed two roots of names; nil = it did not.
func (c *contents) forked() error {
	if c.Forked == 0 {
		return nil
	}
	return fmt.Errorf("%w: as the names of one group after its record %d it signed others than the records give, or "+
		"than it signed for another question", ErrContradiction, c.Forked)
}
