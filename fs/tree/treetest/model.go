// Package treetest holds a small model of one group in one mount, and drives it
// side by side with the real thing by random operations: the tree itself, or a
// mount of it. What they show must be equal after every step.
package treetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The outcomes of an operation.
const (
	OK      = "ok"
	NoEntry = "no such file"
	Exists  = "exists"
	Full    = "not empty"
	Refused = "refused by design"
	Revoked = "revoked"
	TooBig  = "too large"
	NoAttr  = "no such attribute"
	Away    = "the service is away"
)

// MaxBytes is the largest file of the mount.
const MaxBytes = 1 << 20

// version is an upload.
type version struct {
	name, data string
	link       bool // its data is the target of a symbolic link
	theirs     bool // another account uploaded it
	shown      Shown
	dead       bool // its key is destroyed
	trashed    bool // it was removed, and can be brought back
	waits      bool // in the outbox, to be recorded
	tried      bool // it was sent in vain
}

// Shown are the attributes of a file.
type Shown struct {
	Runs bool   // it may be executed
	Note string // of its one extended attribute; "" = none
	When int64  // modification time, in seconds; 0 = any
}

// node is a file as this mount sees it.
type node struct {
	main          string   // its name, the recorded one unless scratch
	data          string   // that programs read
	ver           *version // committed content; nil while never uploaded
	verName       string   // the name of ver when this file got it
	staged, dirty bool
	scratch       bool
	link          bool  // it is a symbolic link to its data
	unlinked      bool  // written content belongs to no name
	shortened     bool  // and not saved since, nor emptied
	emptied       bool  // and not saved since
	half          bool  // a write was refused, and no program changed the file since (W15)
	shown, base   Shown // its attributes, and those of the upload that it was made from
	timed         bool  // a program set the time, or saved bytes that were recorded before
	waits         bool  // it is empty, was closed, and is uploaded in a moment (W5)
	opens         int
}

func (v *version) lives() bool { return !v.dead && !v.trashed }

// isLink reports whether the mount shows a link: those of others only where they are safe. The
// machine makes links that lead nowhere, so that no program can open them.
func (v *version) isLink() bool { return v.link && !(v.theirs && strings.HasPrefix(v.data, "/")) }

// gone reports content that was deleted and can be read no more.
func (n *node) gone() bool { return !n.staged && n.ver != nil && n.ver.dead }

// model is one group: the ledger, and the names of one mount.
type model struct {
	ledger  []*version
	names   map[string]*node    // a node may have several
	folders map[string]bool     // true: made or renamed here, so that it stays while it is empty
	records map[string]bool     // the recorded folders, which stay, too
	hidden  map[string]*version // a backup was made of it: the name is free (W8)
	uploads int                 // by this mount
	away    bool                // the service records nothing
	allows  Allows
}

// Allows holds what the service offers to the owner of the group, whose mount this is.
type Allows struct {
	Ours   bool // it renames, has a trash and records attributes
	Delete bool // with Ours: the mount destroys what it removes
	Outbox bool // of the mount, whose service goes away now and then
	Blocks bool // a changed file loses what was not changed with the key of the version that it stands on
	// Asides: with Ours: the system shows the n-th save of NAME that has a name of its own (W11) as NAME!n. Else others
	// do nothing while a program stands on what they would change.
	Asides bool
}

func newModel(allows Allows) *model {
	return &model{allows: allows, names: map[string]*node{}, folders: map[string]bool{}, records: map[string]bool{}, hidden: map[string]*version{}}
}

func isScratch(name string) bool {
	return strings.HasSuffix(name, ".tmp") || strings.HasSuffix(name, "~")
}

func (m *model) newest(name string) *version {
	for i := len(m.ledger) - 1; i >= 0; i-- {
		if v := m.ledger[i]; v.name == name && v.lives() {
			return v
		}
	}
	return nil
}

// shown is the node of a recorded name, if any shows it.
func (m *model) shown(name string) *node {
	if n := m.names[name]; n != nil && !n.scratch && n.main == name {
		return n
	}
	return nil
}

// place makes a name show its newest upload, unless changes are staged.
func (m *model) place(name string) {
	old, newest := m.shown(name), m.newest(name)
	if old != nil && old.staged || newest != nil && newest == m.hidden[name] {
		return
	}
	delete(m.hidden, name)
	switch {
	case newest == nil && old != nil:
		delete(m.names, name)
		m.prune(name)
	case newest != nil && (old == nil || old.ver != newest):
		if at := folderOf(name); at != "" && !m.hasFolderOf(name) {
			m.folders[at] = false
		}
		m.names[name] = &node{main: name, data: newest.data, ver: newest, verName: name, link: newest.isLink(), shown: newest.shown, base: newest.shown}
	case newest != nil:
		old.verName = name
		old.learn()
	}
}

// overtaken reports whether others saved a name since the version that n stands on (W11).
func (m *model) overtaken(n *node, name string) bool {
	newest := m.newest(name)
	return m.allows.Ours && !n.scratch && n.ver != nil && n.ver.lives() && n.verName == name && newest != nil && newest != n.ver
}

// nameAside is the name of a save that others overtook.
func (m *model) nameAside(name string) string {
	for k := 1; ; k++ {
		if aside := fmt.Sprint(name, "!", k); m.newest(aside) == nil {
			return aside
		}
	}
}

// setAside shows a save under a name of its own.
func (m *model) setAside(n *node) {
	name, aside := n.main, n.ver.name
	here := m.shown(name) == n
	n.main = aside
	if here {
		delete(m.names, name)
	}
	if here || !m.isNamed(n) {
		m.names[aside] = n
	} else {
		m.place(aside)
	}
	m.place(name)
}

func (m *model) isNamed(n *node) bool {
	for _, other := range m.names {
		if other == n {
			return true
		}
	}
	return false
}

// learn takes the attributes of the upload that were not changed here (W16).
func (n *node) learn() {
	was, now := n.base, n.ver.shown
	n.base = now
	if n.shown.Runs == was.Runs {
		n.shown.Runs = now.Runs
	}
	if n.shown.Note == was.Note {
		n.shown.Note = now.Note
	}
	if n.timed = n.timed && (n.shown.When == 0 || n.shown.When != now.When); !n.timed {
		n.shown.When = now.When
	}
}

// keep records the attributes of a file, unless the next save has them.
func (m *model) keep(n *node) {
	if m.names[n.main] != n || n.scratch || n.unlinked || n.ver == nil || !n.ver.lives() || n.ver.waits || n.staged && n.dirty {
		return
	}
	n.learn()
	n.ver.shown, n.base, n.timed = n.shown, n.shown, false
}

// setAttribute is chmod, utimes, setxattr or removexattr.
func (m *model) setAttribute(name string, set func(s *Shown) string) string {
	n := m.names[name]
	if n == nil || n.link {
		return NoEntry
	}
	was := n.shown.When
	how := set(&n.shown)
	n.timed = n.timed || n.shown.When != was
	return how
}

func folderOf(name string) string {
	return strings.TrimSuffix(name[:strings.LastIndexByte(name, '/')+1], "/")
}

func (m *model) hasFolderOf(name string) bool {
	_, ok := m.folders[folderOf(name)]
	return ok || folderOf(name) == ""
}

// prune removes the folder of a name if nothing is left in it, unless it is recorded or was made here.
func (m *model) prune(name string) {
	if at := folderOf(name); !m.folders[at] && !m.records[at] && m.isEmpty(at) {
		delete(m.folders, at)
	}
}

func (m *model) isEmpty(folder string) bool {
	for name := range m.names {
		if folderOf(name) == folder {
			return false
		}
	}
	return true
}

// list returns the names that all listings together show.
func (m *model) list() []string {
	list := slices.Collect(maps.Keys(m.names))
	for folder := range m.folders {
		list = append(list, folder+"/")
	}
	slices.Sort(list)
	return list
}

func (m *model) mkdir(name string) string {
	if _, ok := m.folders[name]; ok {
		return Exists
	}
	m.folders[name] = true
	m.recordFolder(name)
	return OK
}

func (m *model) rmdir(name string) string {
	if _, ok := m.folders[name]; !ok {
		return NoEntry
	}
	if !m.isEmpty(name) || m.records[name] && m.holdsRecorded(name) {
		return Full
	}
	delete(m.folders, name)
	delete(m.records, name)
	return OK
}

// renameFolder is N5: the service has to rename the uploads beneath the folder.
func (m *model) renameFolder(from, to string) string {
	_, ok := m.folders[from]
	switch _, taken := m.folders[to]; {
	case !ok:
		return NoEntry
	case from == to:
		return OK
	case taken && !m.isEmpty(to):
		return Full
	}
	var uploads []*version
	for _, v := range m.ledger {
		if folderOf(v.name) == from && v.lives() {
			uploads = append(uploads, v)
		}
	}
	moved := func(name string) string { return to + strings.TrimPrefix(name, from) }
	for _, v := range uploads {
		if there := m.newest(moved(v.name)); !m.allows.Ours || there != nil && m.index(there) > m.index(m.newest(v.name)) {
			return Refused
		}
	}
	if m.records[from] && m.records[to] && m.holdsRecorded(to) {
		return Full
	}
	for _, v := range uploads {
		v.name = moved(v.name)
	}
	for name, n := range maps.Clone(m.names) {
		if folderOf(name) == from {
			delete(m.names, name)
			m.names[moved(name)] = n
			if n.main == name {
				n.main = moved(name)
			}
		}
	}
	for name, v := range maps.Clone(m.hidden) {
		if v != nil && folderOf(name) == from && v.name == moved(name) {
			delete(m.hidden, name)
			m.hidden[v.name] = v
		}
	}
	delete(m.folders, from)
	m.folders[to] = true
	if m.records[from] || m.records[to] || !m.holdsUploaded(to) {
		m.recordFolder(to)
	}
	delete(m.records, from)
	for _, v := range uploads {
		m.place(v.name)
	}
	return OK
}

// recordFolder has the service record a folder, where it does so: then the folder stays for that alone.
func (m *model) recordFolder(name string) {
	if m.allows.Ours {
		m.records[name], m.folders[name] = true, false
	}
}

// holdsRecorded reports whether others see a file in a folder.
func (m *model) holdsRecorded(folder string) bool {
	return slices.ContainsFunc(m.ledger, func(v *version) bool { return folderOf(v.name) == folder && v.lives() && !v.waits })
}

// holdsUploaded reports whether a folder shows a file that was uploaded.
func (m *model) holdsUploaded(folder string) bool {
	for name, n := range m.names {
		if folderOf(name) == folder && n.ver != nil && !n.scratch {
			return true
		}
	}
	return false
}

func (m *model) create(name string) (*node, string) {
	if !m.hasFolderOf(name) {
		return nil, NoEntry
	}
	n := m.names[name]
	switch {
	case n != nil && n.link:
		return nil, NoEntry
	case n == nil:
		n = &node{main: name, scratch: isScratch(name), staged: true, dirty: true}
		m.names[name] = n
	case !n.staged:
		n.change("")
	case n.data != "":
		n.change("")
	}
	n.opens++
	n.half = false
	return n, OK
}

func (m *model) open(name string) (*node, string) {
	n := m.names[name]
	if n == nil || n.link || n.gone() {
		return nil, NoEntry
	}
	n.opens++
	return n, OK
}

func (m *model) write(n *node, data string, off int) string {
	if n.gone() {
		return Revoked
	}
	old := resized(n.data, max(len(n.data), off+len(data)))
	n.change(old[:off] + data + old[off+len(data):])
	return OK
}

func (m *model) truncate(n *node, size int) string {
	if n.gone() && size > 0 {
		return Revoked
	}
	if n.gone() || len(n.data) != size || size == 0 && !n.staged {
		n.change(resized(n.data, size))
	}
	n.half = false
	return OK
}

func (n *node) change(data string) {
	n.shortened = data != "" && (n.shortened || len(data) < len(n.data))
	n.emptied = n.emptied || data == ""
	n.data, n.staged, n.dirty, n.waits, n.half = data, true, true, false, false
	n.shown.When, n.timed = 0, false
}

// touch opens a file for writing only, and closes it. Nothing is retrieved, so it does not
// matter whether the content is gone.
func (m *model) touch(name string) string {
	n := m.names[name]
	if n != nil && !n.link {
		n.opens++
	} else if n, _ = m.create(name); n == nil {
		return NoEntry
	}
	return m.close(n)
}

// resize truncates by name, which saves at once, unless a program is writing to the file:
// then its close saves.
func (m *model) resize(name string, size int) string {
	n := m.names[name]
	if n == nil || n.link || n.gone() && size > 0 {
		return NoEntry
	}
	later := n.opens > 0 && n.dirty && !n.waits
	m.truncate(n, size)
	if later {
		return OK
	}
	return m.commit(n, false)
}

func resized(s string, size int) string {
	if len(s) >= size {
		return s[:size]
	}
	return s + strings.Repeat("\x00", size-len(s))
}

// commit records the staged content. now is fsync; at close an empty file waits (W5), unless
// it is recorded as empty.
func (m *model) commit(n *node, now bool) string {
	if n.scratch || n.unlinked || !n.staged || !n.dirty {
		return OK
	}
	if n.half {
		return TooBig
	}
	if newest := m.newest(n.main); n.data == "" && !now && (newest == nil || newest.data != "") {
		n.waits = true
		return OK
	}
	if m.record(n, n.main); n.ver.name != n.main {
		m.setAside(n)
		return OK
	}
	m.showAgain(n)
	if m.names[n.main] == n {
		delete(m.hidden, n.main)
	}
	m.place(n.main)
	return OK
}

// showAgain gives a name back to a file that lost it to others and has the newest upload now (A4).
func (m *model) showAgain(n *node) {
	if m.isNamed(n) {
		return
	}
	if old := m.names[n.main]; m.newest(n.main) != n.ver || old != nil && old.staged {
		return
	}
	if at := folderOf(n.main); at != "" && !m.hasFolderOf(n.main) {
		m.folders[at] = false
	}
	m.names[n.main] = n
}

// record buys a version unless the name holds the bytes already (W3).
func (m *model) record(n *node, name string) {
	if newest := m.newest(name); newest != nil && newest.data == n.data && newest.link == n.link && !(newest.theirs && (n.link || m.isCut(newest) && (n.emptied || n.ver != newest))) {
		if n.ver == nil {
			n.base = newest.shown
		}
		n.ver, n.verName, n.timed = newest, name, true
		n.learn()
	} else {
		saved := name
		if m.overtaken(n, name) {
			saved = m.nameAside(name)
		}
		n.ver, n.verName = &version{name: saved, data: n.data, link: n.link, shown: n.shown}, saved
		n.base, n.timed = n.shown, false
		m.buy(n.ver)
	}
	n.staged, n.dirty, n.shortened, n.emptied = false, false, false, false
}

// BlocksAbove is the size of the largest file that is kept whole where [Allows].Blocks is set, in bytes.
const BlocksAbove = 3

// isCut reports whether a version is kept in blocks: nobody compares its hash with its content.
func (m *model) isCut(v *version) bool { return m.allows.Blocks && len(v.data) > BlocksAbove }

// mayBuy reports whether a change leads to bytes whose save is bought or not, as the service cuts the file: those
// that were recorded, after the file was shortened (W17).
func (m *model) mayBuy(n *node, data string) bool {
	return m.allows.Blocks && n.shortened && slices.ContainsFunc(m.ledger, func(v *version) bool { return v.data == data })
}

// buy records a version. While the service is away it waits, and takes the place of one of its name that
// waits and was not sent yet (O4). What waits first is sent in vain.
func (m *model) buy(v *version) {
	if !m.away {
		m.uploads++
	} else {
		v.waits, v.tried = true, !slices.ContainsFunc(m.ledger, func(other *version) bool { return other.waits })
		m.ledger = slices.DeleteFunc(m.ledger, func(other *version) bool { return other.name == v.name && other.waits && !other.tried })
	}
	m.ledger = append(m.ledger, v)
}

// back is the service, which records all that waits.
func (m *model) back() {
	m.away = false
	for _, v := range m.ledger {
		if v.waits {
			v.waits, v.tried = false, false
			m.uploads++
		}
	}
}

// waitsOf tells what waits under the recorded name of n: anything, and whether it is alone there, and was
// sent in vain.
func (m *model) waitsOf(n *node) (waits, alone, tried bool) {
	if n == nil || n.ver == nil {
		return false, true, false
	}
	alone = true
	for _, v := range m.living(n.ver.name) {
		waits, alone, tried = waits || v.waits, alone && v.waits, tried || v.tried
	}
	return waits, alone, tried
}

// symlink makes a link, which waits as an empty file does.
func (m *model) symlink(target, name string) string {
	switch {
	case !m.hasFolderOf(name):
		return NoEntry
	case m.names[name] != nil:
		return Exists
	}
	m.names[name] = &node{main: name, data: target, link: true, scratch: isScratch(name), staged: true, dirty: true, waits: true}
	return OK
}

func (m *model) close(n *node) string {
	defer func() { n.opens-- }()
	return m.commit(n, false)
}

// halfSave is a program that goes on after a write was refused. Its close says so again.
func (m *model) halfSave(n *node, data string) {
	if data != "" {
		m.write(n, data, 0)
	}
	n.half = true
	n.opens--
}

// other is the name of n beside its main one, "" when there is none: the machine
// makes at most one link of a file.
func (m *model) other(n *node) string {
	for name, at := range m.names {
		if at == n && name != n.main {
			return name
		}
	}
	return ""
}

// dropName takes one name from n (W9, N5).
func (m *model) dropName(n *node, name string) {
	delete(m.names, name)
	if name != n.main {
		n.unlinked = n.unlinked || m.names[n.main] != n // others took the main one: that was its last
		return
	}
	main, wasReal, other := n.main, !n.scratch, m.other(n)
	if other != "" {
		n.main, n.scratch = other, true
	} else {
		n.unlinked = true
	}
	switch {
	case wasReal:
		m.place(main)
	case other == "" && n.ver != nil && m.hidden[n.ver.name] == n.ver:
		delete(m.hidden, n.ver.name)
		m.place(n.ver.name)
	}
}

func (m *model) unlink(name string) string {
	n := m.names[name]
	switch {
	case n == nil:
		return NoEntry
	case n.ver == nil || n.scratch || name != n.main:
		m.keepFolder(name)
	case m.allows.Ours && m.needsRecords(n):
		return Away
	case m.allows.Delete:
		m.keepFolder(name)
		m.deleteAll(name)
	case m.allows.Ours:
		m.keepFolder(name)
		m.remove(name)
	default:
		return Refused
	}
	m.dropName(n, name)
	return OK
}

// needsRecords reports whether a file can be removed only after what waits is recorded (O10).
func (m *model) needsRecords(n *node) bool {
	waits, alone, tried := m.waitsOf(n)
	return waits && (tried || !alone)
}

// keepFolder lets the folder of a name stay until it is removed itself.
func (m *model) keepFolder(name string) {
	if at := folderOf(name); at != "" && !m.records[at] {
		m.folders[at] = true
	}
}

// remove is W9 with a trash: every version goes there. What waits is never recorded.
func (m *model) remove(name string) {
	for _, v := range m.living(name) {
		v.trashed = true
	}
	m.ledger = slices.DeleteFunc(m.ledger, func(v *version) bool { return v.waits && v.trashed })
	m.place(name)
}

// restore brings every version of a name back, seen.
func (m *model) restore(name string) {
	for _, v := range m.ledger {
		if v.name == name {
			v.trashed = false
		}
	}
	m.place(name)
}

// deleteAll is W9 with deletion: every version goes.
func (m *model) deleteAll(name string) {
	for _, v := range m.living(name) {
		v.dead = !v.waits
	}
	m.ledger = slices.DeleteFunc(m.ledger, func(v *version) bool { return v.waits && v.name == name })
	m.place(name)
}

func (m *model) living(name string) (list []*version) {
	for _, v := range m.ledger {
		if v.name == name && v.lives() {
			list = append(list, v)
		}
	}
	return list
}

func (m *model) link(from, to string) string {
	n := m.names[from]
	real := !isScratch(to)
	switch {
	case n == nil, !m.hasFolderOf(to):
		return NoEntry
	case m.names[to] != nil:
		return Exists
	case n.link:
		return Refused
	case n.ver != nil && (real || !n.scratch), real && !n.scratch:
		return Refused
	}
	if real && n.half {
		return TooBig
	}
	m.names[to] = n
	if real {
		m.record(n, to)
		n.main, n.scratch = to, false
		delete(m.hidden, to)
		m.place(to)
	}
	return OK
}

func (m *model) rename(from, to string) string {
	n, target := m.names[from], m.names[to]
	switch {
	case n == nil, !m.hasFolderOf(to):
		return NoEntry
	case n == target:
		return OK
	}
	waits, alone, tried := m.waitsOf(n)
	if replaces, _, _ := m.waitsOf(target); waits && !alone || replaces && !n.staged {
		return Away
	}
	switch {
	case from != n.main && !n.scratch: // a link of a file with a real name
		if !isScratch(to) {
			return Refused
		}
		m.replace(target, to)
		delete(m.names, from)
		m.names[to] = n
		return OK
	}
	if how := m.mayRename(n, to); how != OK {
		return how
	}
	ver := n.record()
	back := ver != nil && !n.staged && ver == m.newest(to)
	records := ver != nil && !isScratch(to) && m.renamesRecord(n, to)
	if records && tried {
		return Away
	}
	if !isScratch(to) && !back && !records {
		if n.half {
			return TooBig
		}
		m.record(n, to)
	}
	var versions []*version
	if records {
		versions = m.living(ver.name)
	}
	m.leave(n, from, isScratch(to))
	m.replace(target, to)
	n.main, n.scratch = to, isScratch(to)
	m.names[to] = n
	if records {
		old := versions[0].name
		for _, v := range versions {
			v.name = to
		}
		m.place(old)
	}
	if !n.scratch && n.ver != nil && n.ver.name != to && !records && !back {
		m.setAside(n)
	} else if !n.scratch {
		delete(m.hidden, to)
		m.place(to)
	}
	if records {
		m.prune(from)
	}
	return OK
}

// record returns the upload of n, nil when none has its name: others may have renamed the
// upload while the file was changed here.
func (n *node) record() *version {
	if n.ver != nil && n.staged && !n.scratch && n.ver.name != n.main {
		return nil
	}
	return n.ver
}

// renamesRecord reports whether the service has to rename n's uploads.
func (m *model) renamesRecord(n *node, to string) bool {
	return !n.scratch || !n.staged && n.ver.name != to
}

// mayRename is W8.
func (m *model) mayRename(n *node, to string) string {
	switch {
	case isScratch(to), n.record() == nil, n.scratch && n.staged:
		return OK
	case n.scratch && n.ver.name == to:
		if n.gone() {
			return NoEntry // the content of the backup was deleted
		}
		return OK
	case !m.allows.Ours, n.scratch && n.ver != m.newest(n.ver.name):
		return Refused
	}
	return m.mayRecord(n, to)
}

// mayRecord removes what a name shows whose newest upload is later than all of n's, once that is recorded (O10).
func (m *model) mayRecord(n *node, to string) string {
	versions, there := m.living(n.ver.name), m.newest(to)
	switch {
	case len(versions) == 0:
		return NoEntry
	case there != nil && m.index(there) > m.index(versions[len(versions)-1]):
		if slices.ContainsFunc(m.living(to), func(v *version) bool { return v.waits }) {
			return Away
		}
		for _, v := range m.living(to) {
			v.trashed = true
		}
	}
	return OK
}

func (m *model) index(v *version) int { return slices.Index(m.ledger, v) }

// leave takes n from the name it is renamed from.
func (m *model) leave(n *node, from string, toScratch bool) {
	delete(m.names, from)
	switch {
	case n.scratch:
	case n.ver != nil && toScratch:
		m.hidden[from] = m.newest(from)
	default:
		m.place(from)
	}
}

// replace takes the name to from the node that has it, for another node.
func (m *model) replace(target *node, to string) {
	switch {
	case target == nil:
	case isScratch(to):
		m.dropName(target, to)
	case m.other(target) != "":
		target.main, target.scratch = m.other(target), true
	default:
		target.unlinked = true
	}
}

// put is an upload by another member, which the mount has seen.
func (m *model) put(name, data string, link bool) {
	m.ledger = append(m.ledger, &version{name: name, data: data, link: link, theirs: true})
	m.place(name)
}

// shred deletes an upload, which the mount has seen.
func (m *model) shred(v *version) {
	v.dead = true
	m.place(v.name)
}

// moved is a rename by another member, which the mount has seen.
func (m *model) moved(v *version, name string) {
	old := v.name
	v.name = name
	m.place(old)
	m.place(name)
}

// movedFolder is a rename of a folder by another member, which the mount has seen: one
// record, whole or not at all.
func (m *model) movedFolder(from, to string) {
	renamed := func(name string) string { return to + strings.TrimPrefix(name, from) }
	var uploads []*version
	for _, v := range m.ledger {
		if folderOf(v.name) == from && v.lives() {
			uploads = append(uploads, v)
		}
	}
	for _, v := range uploads {
		if from == to || m.newest(renamed(v.name)) != nil {
			return
		}
	}
	if from == to || m.records[from] && m.records[to] {
		return
	}
	olds := map[string]bool{}
	for _, v := range uploads {
		olds[v.name] = true
		v.name = renamed(v.name)
	}
	if m.records[from] {
		delete(m.records, from)
		m.recordFolder(to)
		defer m.prune(from + "/")
	}
	for old := range olds {
		m.place(renamed(old))
		m.place(old)
	}
}

// madeFolder is a folder that another member records, which the mount has seen.
func (m *model) madeFolder(name string) {
	if !m.records[name] {
		m.recordFolder(name)
	}
}

// removedFolder is a folder whose record another member removes, which the mount has seen.
func (m *model) removedFolder(name string) {
	if m.records[name] && !m.holdsRecorded(name) {
		delete(m.records, name)
		m.prune(name + "/")
	}
}

// forget is losing the group and getting it back: only the ledger is left.
func (m *model) forget() {
	m.names, m.hidden, m.folders = map[string]*node{}, map[string]*version{}, map[string]bool{}
	for name := range m.records {
		m.folders[name] = false
	}
	for _, v := range m.ledger {
		m.place(v.name)
	}
}
