package trust

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/svcfs/svcfs/sdk/ownfile"
)

// touch schedules a save. The caller holds mu.
func (m *Memory) touch() {
	m.changed = true
	if m.path != "" && m.timer == nil && !m.closed {
		m.timer = time.AfterFunc(saveDelay, func() { _ = m.Save() })
	}
}

// Save writes what changed, merged with what other programs wrote meanwhile. Errors:
// [ErrDamaged], [ErrContradiction], and those of writing the file. After an error the
// changes stay in memory for the next Save. That two records had one number is written, and is
// an error of each Save.
func (m *Memory) Save() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
	if m.changed && m.path != "" {
		m.failed = m.save()
	}
	return cmp.Or(m.failed, m.now.twice())
}

// Close saves, see [Memory.Save].
func (m *Memory) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	return m.Save()
}

// begin creates the file, unless another program just did.
func (m *Memory) begin() error {
	if err := ownfile.MakeFolder(filepath.Dir(m.path)); err != nil {
		return err
	}
	unlock, err := ownfile.Lock(m.path + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if _, isNew, err := read(m.path); err != nil || !isNew {
		return err
	}
	return m.write(m.now)
}

func (m *Memory) write(c contents) error {
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return ownfile.Replace(m.path, append(raw, '\n'))
}

func (m *Memory) save() error {
	dir := filepath.Dir(m.path)
	if err := ownfile.MakeFolder(dir); err != nil {
		return fmt.Errorf("save the history of the service: %w", err)
	}
	unlock, err := ownfile.Lock(m.path + ".lock")
	if err != nil {
		return fmt.Errorf("save the history of the service: %w", err)
	}
	defer unlock()
	others, isNew, err := read(m.path)
	if err != nil {
		return err
	}
	merged := m.now
	if !isNew {
		if merged, err = merge(m.now, others); err != nil {
			return err
		}
	}
	if err := m.write(merged); err != nil {
		return fmt.Errorf("save the history of the service: %w", err)
	}
	m.now, m.changed = merged, false
	return nil
}

// merge merges our content with the content of the file. The newer epoch replaces the
// history of the older one.
func merge(ours, file contents) (contents, error) {
	switch {
	case !bytes.Equal(ours.Salt, file.Salt):
		return ours, fmt.Errorf("%w: another file was put in its place", ErrDamaged)
	case ours.Epoch < file.Epoch:
		return file, nil // another program has forgotten our history
	case ours.Epoch > file.Epoch:
		return ours, nil
	case ours.Key != "" && slices.Contains(file.Earlier, ours.Key): // another program knows the key that replaced ours
		ours.Key, ours.Earlier = file.Key, file.Earlier
	case file.Key != "" && slices.Contains(ours.Earlier, file.Key):
	case ours.Key != "" && file.Key != "" && ours.Key != file.Key:
		return ours, fmt.Errorf("%w: its log was signed with two keys", ErrContradiction)
	}
	out := ours
	if out.Key == "" {
		out.Key, out.Earlier = file.Key, file.Earlier
	}
	if file.Size > out.Size {
		out.Checkpoint, out.Size = file.Checkpoint, file.Size
	} else if file.Size == out.Size && out.Checkpoint == "" {
		out.Checkpoint = file.Checkpoint
	}
	out.Held, out.Sealed = ours.Held || file.Held, ours.Sealed || file.Sealed
	if out.Key == file.Key {
		for _, key := range file.Earlier {
			if !slices.Contains(out.Earlier, key) {
				out.Earlier = append(slices.Clone(out.Earlier), key)
			}
		}
	}
	out.Next, out.Vault = max(ours.Next, file.Next), max(ours.Vault, file.Vault)
	out.Twice = cmp.Or(ours.Twice, file.Twice)
	out.Groups = make(map[string]seen, len(ours.Groups))
	for id, s := range ours.Groups {
		out.Groups[id] = s
	}
	for id, theirs := range file.Groups {
		s := out.Groups[id]
		if s.Number == theirs.Number && s.Hash != theirs.Hash {
			out.Twice = s.Number
		}
		out.Groups[id] = s.with(theirs)
	}
	out.mergeNames(file)
	return out, nil
}

// with returns what both know of a group, none of which contradicts the other.
func (s seen) with(theirs seen) seen {
	if theirs.Number > s.Number {
		s.Number, s.Hash = theirs.Number, theirs.Hash
	}
	switch {
	case theirs.Proven > s.Proven:
		s.Proven, s.Since = theirs.Proven, theirs.Since
	case theirs.Proven == s.Proven && theirs.Since != 0 && (s.Since == 0 || theirs.Since < s.Since):
		s.Since = theirs.Since
	}
	if s.Number <= s.Proven {
		s.Since = 0
	}
	if theirs.Order != 0 { // the number in the file is older
		s.Order = theirs.Order
	}
	return s
}
