package chain

import "math"

// Replay follows the living names of a group through the records of its chain. It applies what the records say: who
// may say it was checked before. The zero value is before the first record. It is not safe for concurrent use.
type Replay struct {
	Names
	Number int64 // of the newest record that was applied

	known   map[string]*followed // files that are not destroyed, and recorded folders, by reference
	folders Folders[string]      // of those that live
	bytes   int64
}

// followed is a file or folder that later records may be about.
type followed struct {
	Living
	name          string // of a folder with a slash at its end
	made, inTrash bool
}

// followedBytes is the memory of a followed file beside its name and [Names], in bytes.
const followedBytes = 250

// Footprint returns about how much memory p takes, in bytes.
func (p *Replay) Footprint() int64 { return p.Names.Footprint() + p.bytes }

// AddFile adds a file as a table of a state has it, in place of its records.
func (p *Replay) AddFile(name string, v Living, inTrash bool) {
	p.follow(&followed{Living: v, name: name, inTrash: inTrash})
}

// AddFolder adds a recorded folder, as AddFile does.
func (p *Replay) AddFolder(name string, v Living) {
	p.follow(&followed{Living: v, name: FolderName(name), made: true})
}

// follow does nothing for a reference that is known, or empty.
func (p *Replay) follow(f *followed) {
	if p.known[f.Ref] != nil || f.Ref == "" {
		return
	}
	if p.known == nil {
		p.known = make(map[string]*followed)
	}
	p.known[f.Ref] = f
	p.enter(f)
}

// enter shows a file or folder under its name, if it lives.
func (p *Replay) enter(f *followed) {
	p.bytes += followedBytes + int64(len(f.name))
	switch {
	case f.inTrash:
		return
	case f.made:
		p.Make(f.name[:len(f.name)-1], f.Living)
	default:
		p.Put(f.name, f.Living)
	}
	p.folders.Put(f.Ref, f.name)
}

// leave undoes enter.
func (p *Replay) leave(f *followed) {
	p.bytes -= followedBytes + int64(len(f.name))
	switch {
	case f.inTrash:
		return
	case f.made:
		p.Unmake(f.name[:len(f.name)-1], f.Living)
	default:
		p.Drop(f.name, f.Living)
	}
	p.folders.Drop(f.Ref, f.name)
}

// Apply applies the next record of the chain, with its hash.
func (p *Replay) Apply(r *Row) {
	p.Number = r.Number
	v := Living{Ref: r.Ref, Place: Place{Number: r.Number, Hash: r.Hash}}
	switch r.Kind {
	case KindRecord:
		v.Attributes = r.Tag(TagAttributes)
		p.AddFile(r.Detail, v, false)
	case KindMakeFolder:
		p.AddFolder(r.Detail, v)
	case KindRenameFolder:
		if before, after, ok := FolderOf(&r.Record); ok {
			p.move(before, after)
		}
	case KindRename, KindAttributes, KindRemove, KindRestore, KindTombstone, KindRemoveFolder:
		if f := p.known[r.Ref]; f != nil {
			p.change(f, r)
		}
	}
}

// change applies a record about what is known.
func (p *Replay) change(f *followed, r *Row) {
	p.leave(f)
	switch r.Kind {
	case KindRename:
		f.name = r.Detail
	case KindAttributes:
		f.Attributes = r.Tag(TagAttributes)
	case KindRemove:
		f.inTrash = true
	case KindRestore:
		f.inTrash = false
	case KindTombstone, KindRemoveFolder:
		delete(p.known, r.Ref)
		return
	}
	p.enter(f)
}

func (p *Replay) move(before, after string) {
	p.folders.Rename(before, after, math.MaxInt, func(ref, name string) {
		f := p.known[ref]
		p.bytes += int64(len(name) - len(f.name))
		f.name = name
	})
	p.Move(before, after)
}
