package outbox

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"sync"

	"github.com/svcfs/svcfs/sdk/saving"
)

// maxPartsBytes bounds the list of parts that is read, in bytes: about 100,000 parts.
const maxPartsBytes = 64 << 20

// partsFile lists the parts of a large save that the service has, one a line of base64, so that they are not sent again
// after a restart. Each is encrypted for this save: with a line of somebody else's the file that is recorded would not
// open. It is not synced: what a loss of power takes of it is sent again. It is safe for concurrent use.
type partsFile struct {
	disk   disk
	name   string
	key    derive
	domain string

	mu sync.Mutex
	f  newFile // nil = nothing was written
}

// partsOf returns the list of an item.
func (s *store) partsOf(c *Clear, journal derive) *partsFile {
	return &partsFile{disk: s.disk, name: cmp.Or(c.File, c.ID) + partsSuffix, key: journal,
		domain: c.bound(partDomain)}
}

// read returns the parts, as far as they can be read.
func (p *partsFile) read() (parts []saving.Part) {
	f, err := p.disk.open(p.name)
	if err != nil {
		return nil
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil
	}
	raw := make([]byte, min(size, maxPartsBytes))
	n, _ := readSome(f, raw, 0)
	for line := range bytes.Lines(raw[:n]) {
		sealed, err := base64.StdEncoding.AppendDecode(nil, bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			continue
		}
		text, err := p.key.open(p.domain, sealed)
		var part saving.Part
		if err == nil && json.Unmarshal(text, &part) == nil {
			parts = append(parts, part)
		}
	}
	return parts
}

// keep adds a part. What cannot be written is sent again.
func (p *partsFile) keep(part saving.Part) {
	text, err := json.Marshal(part)
	if err != nil {
		return
	}
	sealed, err := p.key.seal(p.domain, text)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.f == nil {
		f, err := p.disk.extend(p.name)
		if err != nil {
			return
		}
		p.f = f
	}
	_, _ = p.f.Write(base64.StdEncoding.AppendEncode([]byte("\n"), sealed)) // a line that a kill cut stays alone
}

func (p *partsFile) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.f != nil {
		_ = p.f.Close()
		p.f = nil
	}
}

// prepareLarge opens the content of a large item.
func (o *Outbox) prepareLarge(c *Clear, m *meta, d derive, open OpenBase) (u *LargeUpload, end func(), err error) {
	w, err := o.store.openLarge(c, m, d)
	if err != nil {
		return nil, nil, err
	}
	parts := o.store.partsOf(c, d)
	return &LargeUpload{Layout: w.layout, Changed: w.changed, From: w.from, Open: open, Read: w.Read,
			Sent: parts.read(),
			Keep: parts.keep}, func() {
			parts.close()
			_ = w.Close() // it was read only
			o.mu.Lock()
			here := o.items[c.ID] != nil
			o.mu.Unlock()
			if c.File == "" && !here { // else it goes with the blocks
				_ = o.store.disk.remove(parts.name) // or at the next start
			}
		}, nil
}
