package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// Import fills an empty service from a full archive and its increments, in order, or leaves it empty and returns an
// error. [ErrImported] means that an earlier import of the last one was complete, even if it was killed before
// it could report that. To salvage is to take all that is whole from damaged archives; the summary names the damage.
func Import(ctx context.Context, s Service, salvage bool, archives ...io.Reader) (sum Summary, err error) {
	i := &importer{Service: s, salvage: salvage, pages: make(map[[sha256.Size]byte]extent),
		blobs: make(map[string][]arrived), used: make(map[string]bool), lost: make(map[string]int64),
		missing: make(map[string]bool)}
	if i.file, err = s.spool(); err != nil {
		return sum, fmt.Errorf("import: %w", err)
	}
	defer i.file.Close()
	sum, err = i.run(ctx, archives)
	if !errors.Is(err, store.ErrUnavailable) { // or the rows may be there
		i.removeUnused(ctx, err != nil)
	}
	if err != nil {
		return sum, fmt.Errorf("import: %w", err)
	}
	return sum, nil
}

type importer struct {
	Service
	salvage bool
	file    *os.File // has the pages
	end     int64    // of file
	pages   map[[sha256.Size]byte]extent
	blobs   map[string][]arrived // by the id they had; a forged one may come before the right one
	used    map[string]bool      // ids here
	damage  []string
	lost    map[string]int64 // rows, by table
	missing map[string]bool  // blobs that rows name and no archive has whole
	states  []*index         // of the archives, in order
}

// extent is the place of a page in the spool.
type extent struct{ at, size int64 }

// arrived is a blob of an archive.
type arrived struct {
	blob.Info
	root []byte // of the leaves of a part; nil = the archive does not say how long its blocks are
}

// opened is an archive whose beginning was read.
type opened struct {
	*reader
	name  string
	head  *Head    // nil = it is damaged
	first *section // that was found instead
	all   indexes
}

// run reads the archives, and loads the state of the last one.
func (i *importer) run(ctx context.Context, archives []io.Reader) (sum Summary, err error) {
	list := make([]*opened, len(archives))
	for n, from := range archives {
		o := &opened{reader: newReader(from), name: fmt.Sprintf("archive %d", n+1), all: indexes{}}
		if file, ok := from.(interface{ Name() string }); ok {
			o.name = file.Name()
		}
		if err := i.open(o); err != nil {
			return sum, fmt.Errorf("%s: %w", o.name, err)
		}
		list[n] = o
	}
	last := list[len(list)-1]
	if err := i.Store.Read(ctx, func(tx *store.Tx) error { return requireEmpty(ctx, tx, last.head) }); err != nil {
		return sum, err
	}
	if err := i.inOrder(list); err != nil {
		return sum, err
	}
	for _, o := range list {
		if err := i.read(ctx, o); err != nil {
			return sum, fmt.Errorf("%s: %w", o.name, err)
		}
		if newest := o.all.newest(); newest != nil {
			i.states = append(i.states, newest)
		}
	}
	if err := i.refuse(); err != nil {
		return sum, err
	}
	if len(i.states) == 0 {
		return sum, errors.New("without an index nothing can be restored: use an earlier archive")
	}
	x := i.states[len(i.states)-1]
	if schema := i.Store.SchemaVersion(); x.Schema != schema {
		return sum, fmt.Errorf("the archive was made by svcd %s with schema %d of the database, which is %d here: "+
			"import it with that svcd, then upgrade", x.Program, x.Schema, schema)
	}
	err = i.Store.Load(ctx, func(tx *store.Tx) error { return i.fill(ctx, tx, x) })
	sum = x.summary()
	for _, id := range slices.Sorted(maps.Keys(i.missing)) {
		i.damaged("blob %s is lost", id)
	}
	for _, table := range slices.Sorted(maps.Keys(i.lost)) {
		i.damaged("%d rows of %s are lost, but for those that an earlier archive has in their place", i.lost[table],
			table)
	}
	sum.Damage = i.damage
	return sum, err
}

func (i *importer) damaged(format string, args ...any) {
	i.damage = append(i.damage, fmt.Sprintf(format, args...))
}

// damageShown is how much damage a refusal lists.
const damageShown = 20

// refuse refuses damage, unless it is to be left out.
func (i *importer) refuse() error {
	if len(i.damage) == 0 || i.salvage {
		return nil
	}
	more := ""
	if len(i.damage) > damageShown {
		more = fmt.Sprintf("\n  and %d more", len(i.damage)-damageShown)
	}
	return fmt.Errorf("nothing was imported, because of damage:\n  %s%s\n"+
		"use another copy, or restore what is whole: svcd import --salvage",
		strings.Join(i.damage[:min(len(i.damage), damageShown)], "\n  "), more)
}

// open reads the head of an archive.
func (i *importer) open(o *opened) error {
	s, skipped, err := o.next()
	switch {
	case errors.Is(err, io.EOF):
		return errNoArchive
	case err != nil:
		return fmt.Errorf("read: %w", err)
	case s.kind != kindHead:
		i.damaged("%s: its beginning, %d bytes", o.name, skipped)
		o.first = s
		return nil
	case skipped > 0:
		i.damaged("%s: %d bytes before byte %d", o.name, skipped, s.at)
	}
	text, _, err := s.text()
	if err != nil {
		i.damaged("%s: its beginning: %v", o.name, err)
		return nil
	}
	if err := i.acceptText(text); err != nil {
		return err
	}
	o.head = &Head{}
	return json.Unmarshal(text, o.head)
}

// inOrder refuses archives that are not a full one and its increments, in order.
func (i *importer) inOrder(list []*opened) error {
	given := make(map[string]string)
	for _, o := range list {
		if o.head != nil {
			given[o.head.ID] = o.name
		}
	}
	for n, o := range list {
		switch {
		case o.head == nil || n > 0 && list[n-1].head == nil: // it is damaged
		case n == 0 && o.head.Since == "" || n > 0 && o.head.Since == list[n-1].head.ID:
		case o.head.Since == "":
			return fault.New(wire.CodeValidation, "%s is a full archive: give one full archive first, and after it "+
				"only its increments", o.name)
		case given[o.head.Since] != "":
			return fault.New(wire.CodeValidation, "%s continues %s: give the archives in the order in which they "+
				"were made", o.name, given[o.head.Since])
		case i.salvage:
			i.damaged("%s continues the archive %s, which is not given", o.name, o.head.Since)
		default:
			return fault.New(wire.CodeValidation, "%s continues the archive %s, which is not given: give the full "+
				"archive and all increments since, in order", o.name, o.head.Since)
		}
	}
	return nil
}

// ErrImported means that the service was filled from the archive before.
var ErrImported = errors.New("this archive was completely imported here before: nothing is left to do")

var errHoldsAccounts = fault.New(wire.CodeConflict,
	"this service holds accounts already: import into a new --data directory or --db database")

// metaImported names the archive that a service was filled from.
const metaImported = "imported"

// MetaMark names the mark of what the service stores, see [blob.Open]. It is not exported: an import that is tried
// beside the service that was exported must not sweep its blobs.
const MetaMark = "blob_mark"

// requireEmpty refuses a service that holds anything.
func requireEmpty(ctx context.Context, tx *store.Tx, last *Head) error {
	records, err := ledger.Size(ctx, tx)
	if err != nil {
		return err
	}
	var accounts int64
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM accounts").Scan(&accounts); err != nil {
		return fmt.Errorf("look for rows: %w", err)
	}
	if accounts+records == 0 {
		return nil
	}
	var before string
	err = tx.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = ?", metaImported).Scan(&before)
	switch {
	case err == nil && last != nil && before == last.ID:
		return ErrImported
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("look for an earlier import: %w", err)
	}
	return errHoldsAccounts
}

// read reads an archive. Pages go to the spool, blobs to the store.
func (i *importer) read(ctx context.Context, o *opened) error {
	complete := false
	for s := o.first; ; s = nil {
		if s == nil {
			var skipped int64
			var err error
			if s, skipped, err = o.next(); skipped > 0 {
				i.damaged("%s: %d bytes before byte %d", o.name, skipped, o.at)
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("read: %w", err)
			}
		}
		var err error
		complete, err = i.section(ctx, o, s)
		if errors.Is(err, errChanged) || errors.Is(err, errCut) || errors.Is(err, errSeal) && i.salvage {
			i.damaged("%s: %s at byte %d: %v", o.name, s.what(), s.at, err)
		} else if err != nil {
			return fmt.Errorf("%s at byte %d: %w", s.what(), s.at, err)
		}
	}
	if !complete {
		i.damaged("%s: it is not complete, because it does not end with its index", o.name)
	}
	return nil
}

// what names a section to an operator.
func (s *section) what() string {
	switch s.kind {
	case kindRows:
		return fmt.Sprintf("rows of %.80q", s.name)
	case kindBlob:
		return fmt.Sprintf("blob %.80q", s.name)
	}
	return map[kind]string{kindHead: "the head", kindIndex: "the index"}[s.kind]
}

// section reads a section. complete means that the archive may end there.
func (i *importer) section(ctx context.Context, o *opened, s *section) (complete bool, err error) {
	if s.kind == kindBlob {
		return false, i.blob(ctx, s)
	}
	text, sum, err := s.text()
	switch {
	case err != nil:
		return false, err
	case s.kind == kindIndex:
		return o.all.read(text, i.Service)
	case s.kind == kindRows && i.pages[sum] == extent{}:
		if _, err := i.file.WriteAt(text, i.end); err != nil {
			return false, err
		}
		i.pages[sum] = extent{i.end, int64(len(text))}
		i.end += int64(len(text))
	}
	return false, nil
}

func (i *importer) blob(ctx context.Context, s *section) error {
	id, blocks, isPart := strings.Cut(s.name, "/")
	var root *format.RootHash
	content := io.Reader(s)
	if isPart {
		sealed, err := strconv.ParseInt(blocks, 10, 64)
		if err != nil || sealed < format.MinBlockBytes+format.Overhead ||
			sealed > format.MaxBlockBytes+format.Overhead {
			return errors.New("it has blocks of a size which svcd does not write")
		}
		root = format.NewRootHash(sealed)
		content = io.TeeReader(s, root)
	}
	info, err := i.Blobs.Put(ctx, content, s.size)
	if err == nil {
		_, err = io.Copy(io.Discard, s) // nothing, but its checksum
		if err != nil {
			_ = i.Blobs.Delete(context.WithoutCancel(ctx), info.ID)
		}
	}
	if err != nil {
		return err
	}
	got := arrived{Info: info}
	if root != nil {
		got.root = root.Sum(nil)
	}
	i.blobs[id] = append(i.blobs[id], got)
	return nil
}

// moveBlob gives a row the new id of its blob, after comparing the blob with the row. One that was
// salvaged keeps the id of a blob that is missing.
func (i *importer) moveBlob(row map[string]any) error {
	id, ok := row["blob_id"].(string)
	// none, or elsewhere: a legacy reference without bytes, or a row
	if !ok || row["ref"] == id || row["deleted_ns"] != nil || strings.HasPrefix(id, files.SmallPrefix) {
		return nil
	}
	for _, info := range i.blobs[id] {
		if row["blob_size"] == info.Size && info.isProvedBy(row) {
			row["blob_id"] = info.ID
			i.used[info.ID] = true
			return nil
		}
	}
	_, had := i.states[len(i.states)-1].blobs[id]
	switch {
	case !had: // the service that was exported lacked it too
		return nil
	case i.salvage:
		i.missing[id] = true
		return nil
	case len(i.blobs[id]) > 0:
		return fmt.Errorf("blob %s was changed on the way", id)
	}
	return fmt.Errorf("blob %s is in none of the archives", id)
}

// isProvedBy compares a blob with its row: that of a part by its leaves.
func (a *arrived) isProvedBy(row map[string]any) bool {
	if leaves, ok := row["leaves"].([]byte); ok {
		root := rootOf(leaves)
		return bytes.Equal(a.root, root[:])
	}
	sum, _ := row["blob_sum"].([]byte)
	return bytes.Equal(sum, a.Sum[:])
}

// removeUnused removes blobs that no row refers to, or all after a failure.
func (i *importer) removeUnused(ctx context.Context, all bool) {
	for _, list := range i.blobs {
		for _, info := range list {
			if all || !i.used[info.ID] {
				_ = i.Blobs.Delete(context.WithoutCancel(ctx), info.ID) // the sweep repeats it
			}
		}
	}
}
