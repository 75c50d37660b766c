package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vault"
)

const (
	// pageRows is how many files or records one request returns.
	pageRows = 100
	// pageGroups is how many groups one request returns.
	pageGroups = 500
	// maxNames is how many names one request looks at.
	maxNames = 20
	// costDays is how far back the costs go.
	costDays = 30
	// maxWindowHours bounds a join window: a year.
	maxWindowHours = 366 * 24
)

// reads are the free questions of the page.
func (p *page) reads() map[string]action {
	return map[string]action{
		"groups": p.listGroups, "group": p.group, "folder": p.folder, "file": p.file, "trash": p.trash, "ledger": p.history, "costs": p.costs,
		"versions": p.tryVersions, "names": p.lookAtNames,
	}
}

// actions change something, and may cost.
func (p *page) actions() map[string]action {
	return map[string]action{
		"key": with(p.newKey), "retrieve": with(p.retrieve),
		"groups/create": with(p.createGroup), "groups/open": with(p.openWindow), "groups/add": with(p.addMember),
		"groups/revoke": said(p.Groups.Revoke), "groups/join": said(p.Groups.Join), "groups/close": said(p.Groups.CloseJoin),
		"groups/keep": said(p.Groups.Keep), "groups/trash": said(p.Groups.SetTrash), "restore": with(p.restore), "remove": with(p.remove),
		"groups/leave": said(p.Groups.Leave), "groups/offer": said(p.Groups.Offer), "groups/accept": said(p.Groups.Accept), "groups/delete": with(p.deleteGroup),
		"groups/retention": said(p.Groups.SetRetention), "groups/versions": said(p.Groups.SetVersions),
	}
}

// keyRequest is the request of newKey.
type keyRequest struct {
	Replace bool `json:"replace"`
}

// createRequest is the request of createGroup.
type createRequest struct {
	GroupID string       `json:"group_id"`
	Window  *windowHours `json:"window"` // nil = only the owner can ever add members
}

// windowRequest is the request of openWindow.
type windowRequest struct {
	wire.GroupRequest
	windowHours
}

// with reads the request of an action into its shape.
func with[T any](do func(r *http.Request, account string, req T) (any, error)) action {
	return func(r *http.Request, account string) (any, error) {
		req, err := decode[T](r)
		if err != nil {
			return nil, err
		}
		return do(r, account, req)
	}
}

// said is an operation that answers with a sentence.
func said[T any](do func(ctx context.Context, account string, req T) (string, error)) action {
	return with(func(r *http.Request, account string, req T) (any, error) {
		text, err := do(r.Context(), account, req)
		return map[string]string{"message": text}, err
	})
}

// newKey makes the account's API key, or replaces the key when the request says so. Only
// this one answer holds the key.
func (p *page) newKey(r *http.Request, account string, req keyRequest) (any, error) {
	has, err := p.Accounts.HasKey(r.Context(), account)
	if err != nil {
		return nil, err
	}
	if has && !req.Replace {
		return nil, fault.New(wire.CodeConflict, "the account has a key already: it cannot be shown again, only rotated")
	}
	session, _ := p.secretOf(r, cookieName)
	_, key, err := p.Accounts.Rotate(r.Context(), account, session)
	if err != nil {
		return nil, err
	}
	return map[string]string{"api_key": key.Reveal()}, nil
}

// groupView is a group as the page shows it.
type groupView struct {
	ID            string      `json:"id"`
	Owner         string      `json:"owner"`
	Role          wire.Role   `json:"role"`      // "" = not a member
	JoinRole      wire.Role   `json:"join_role"` // of accounts that join
	Members       int64       `json:"members"`
	Joinable      bool        `json:"joinable"`
	Window        *windowView `json:"window"` // nil = closed
	RetentionDays *int64      `json:"retention_days"`
	Keep          string      `json:"keep"` // which older versions stay: the text of a wire.Keep
	Checksum      string      `json:"checksum"`
}

type windowView struct {
	ExpiresMS int64  `json:"expires_ms"`
	MaxUses   *int64 `json:"max_uses"` // nil = unlimited
	Uses      int64  `json:"uses"`
}

func viewGroup(g groups.Summary, now time.Time) groupView {
	v := groupView{ID: g.ID, Owner: g.Owner, Role: g.Role, JoinRole: g.JoinRole, Members: g.Members, Joinable: g.Joinable,
		Keep: g.Versions, Checksum: vault.Checksum(g.ID, g.KeyVersion)}
	if g.JoinExpires.Valid && g.JoinExpires.Int64 > now.UnixNano() {
		v.Window = &windowView{ExpiresMS: g.JoinExpires.Int64 / int64(time.Millisecond), Uses: g.JoinUses}
		if g.JoinMaxUses.Valid {
			v.Window.MaxUses = &g.JoinMaxUses.Int64
		}
	}
	if g.RetentionDays.Valid {
		v.RetentionDays = &g.RetentionDays.Int64
	}
	return v
}

func (p *page) listGroups(r *http.Request, account string) (any, error) {
	mine, err := p.Groups.Overview(r.Context(), account, r.FormValue("after"), pageGroups+1)
	if err != nil {
		return nil, err
	}
	mine, more := firstOf(mine, pageGroups)
	open, err := p.Groups.OpenTo(r.Context(), account)
	if err != nil {
		return nil, err
	}
	view := func(list []groups.Summary) []groupView {
		out := make([]groupView, 0, len(list))
		for _, g := range list {
			out = append(out, viewGroup(g, p.Ledger.Now()))
		}
		return out
	}
	return map[string]any{"mine": view(mine), "open": view(open), "more": more}, nil
}

func (p *page) group(r *http.Request, account string) (any, error) {
	asked := wire.GroupRequest{GroupID: r.FormValue("group")}
	members, err := p.Groups.Members(r.Context(), account, asked)
	if err != nil {
		return nil, err
	}
	g, role, err := p.Groups.View(r.Context(), asked.GroupID, account)
	if err != nil {
		return nil, err
	}
	var pending wire.PendingResult
	var trash wire.TrashResult
	if role != "" {
		if pending, err = p.Groups.Pending(r.Context(), account, asked); err != nil {
			return nil, err
		}
		if trash, err = p.Groups.Trash(r.Context(), account, asked); err != nil {
			return nil, err
		}
	}
	return struct {
		groupView
		MemberIDs   []string           `json:"member_ids"`
		MemberRoles []wire.Role        `json:"member_roles"` // in the same order
		Pending     wire.PendingResult `json:"pending"`
		Trash       wire.TrashResult   `json:"trash"`
	}{viewGroup(groups.Summary{Group: g, Role: role, Members: int64(len(members.Names))}, p.Ledger.Now()), members.Names, members.Roles, pending, trash}, nil
}

// windowHours is a join window in a request.
type windowHours struct {
	Hours   int64     `json:"hours"`
	MaxUses *int64    `json:"max_uses"`
	Role    wire.Role `json:"role"` // of accounts that join; "" = as before
}

func (p *page) createGroup(r *http.Request, account string, req createRequest) (any, error) {
	if req.Window != nil {
		if _, _, err := p.Groups.View(r.Context(), req.GroupID, account); err == nil {
			return nil, fault.New(wire.CodeGroupExists, "Group exists: %q", req.GroupID)
		}
		return p.openJoin(r, account, req.GroupID, *req.Window)
	}
	text, err := p.Groups.Register(r.Context(), account, req.GroupID, false)
	return map[string]string{"message": text}, err
}

func (p *page) openWindow(r *http.Request, account string, req windowRequest) (any, error) {
	if _, _, err := p.Groups.View(r.Context(), req.GroupID, account); err != nil { // opening would register it
		return nil, err
	}
	return p.openJoin(r, account, req.GroupID, req.windowHours)
}

func (p *page) openJoin(r *http.Request, account, group string, w windowHours) (any, error) {
	if w.Hours < 1 || w.Hours > maxWindowHours {
		return nil, fault.New(wire.CodeValidation, "a join window lasts 1 to %d hours", maxWindowHours)
	}
	expires := p.Ledger.Now().Add(time.Duration(w.Hours) * time.Hour)
	text, err := p.Groups.OpenJoin(r.Context(), account, wire.OpenJoinRequest{GroupID: group, ExpiresAt: strconv.FormatInt(expires.UnixNano(), 10),
		MaxUses: w.MaxUses, Role: w.Role})
	return map[string]string{"message": text}, err
}

func (p *page) addMember(r *http.Request, account string, req wire.MemberRequest) (any, error) {
	added, err := p.Groups.Add(r.Context(), account, req)
	return map[string]any{"message": added.Text, "exists": added.Exists}, err
}

// deleteGroup also tells whether the group has ended, or waits.
func (p *page) deleteGroup(r *http.Request, account string, req wire.GroupRequest) (any, error) {
	text, err := p.Groups.Delete(r.Context(), account, req)
	if err != nil {
		return nil, err
	}
	_, _, err = p.Groups.View(r.Context(), req.GroupID, account)
	return map[string]any{"message": text, "ended": err != nil && fault.Of(err).Code == wire.CodeGroupDeleted}, nil
}

// before is the sequence that a page of rows ends below; 0 = the first page.
func before(r *http.Request) (int64, error) {
	text := r.FormValue("before")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, fault.New(wire.CodeValidation, "before must be a sequence number")
	}
	return n, nil
}

// firstOf returns a page of a list that was read with one row more.
func firstOf[T any](list []T, n int) (page []T, more bool) {
	return list[:min(len(list), n)], len(list) > n
}

// folder answers a page of what lies directly in a folder.
func (p *page) folder(r *http.Request, account string) (any, error) {
	folder := r.FormValue("folder")
	level, err := p.Files.Level(r.Context(), account, r.FormValue("group"), folder, r.FormValue("after"), pageRows)
	if err != nil {
		return nil, err
	}
	out := struct {
		Path    []string     `json:"path"`    // of the folder, as a mount shows it
		Folders []folderView `json:"folders"` // in it
		Files   []fileView   `json:"files"`
		After   string       `json:"after"` // "" = nothing more
	}{[]string{}, make([]folderView, 0, len(level.Folders)), viewFiles(level.Files), level.After}
	for part := range strings.SplitSeq(strings.TrimSuffix(folder, "/"), "/") {
		if folder != "" {
			out.Path = append(out.Path, names.Component(part))
		}
	}
	for _, recorded := range level.Folders {
		out.Folders = append(out.Folders, folderView{recorded, names.Component(recorded[strings.LastIndexByte(recorded, '/')+1:])})
	}
	return out, nil
}

// folderView is a folder as the page shows it.
type folderView struct {
	Folder string `json:"folder"` // the recorded path
	Shown  string `json:"shown"`  // its last component in a mount
}

// file answers the versions of a name.
func (p *page) file(r *http.Request, account string) (any, error) {
	return pageOf(r, func(from int64, limit int) ([]wire.TransactionRow, error) {
		return p.Files.Versions(r.Context(), account, r.FormValue("group"), r.FormValue("name"), from, limit)
	})
}

func (p *page) trash(r *http.Request, account string) (any, error) {
	return pageOf(r, func(from int64, limit int) ([]wire.TransactionRow, error) {
		return p.Files.Trash(r.Context(), account, r.FormValue("group"), from, limit)
	})
}

// pageOf answers a page of file records that list reads.
func pageOf(r *http.Request, list func(before int64, limit int) ([]wire.TransactionRow, error)) (any, error) {
	from, err := before(r)
	if err != nil {
		return nil, err
	}
	rows, err := list(from, pageRows+1)
	if err != nil {
		return nil, err
	}
	rows, more := firstOf(rows, pageRows)
	return map[string]any{"files": viewFiles(rows), "more": more}, nil
}

func viewFiles(rows []wire.TransactionRow) []fileView {
	views := make([]fileView, 0, len(rows))
	for _, row := range rows {
		views = append(views, viewFile(row))
	}
	return views
}

// tryVersions answers what a setting would destroy.
func (p *page) tryVersions(r *http.Request, account string) (any, error) {
	return p.Groups.TryVersions(r.Context(), account, wire.SetVersionsRequest{GroupID: r.FormValue("group"), Keep: r.FormValue("keep")})
}

func (p *page) restore(r *http.Request, account string, req wire.NameRequest) (any, error) {
	return p.Files.Restore(r.Context(), account, req)
}

func (p *page) remove(r *http.Request, account string, req wire.NameRequest) (any, error) {
	return p.Files.Remove(r.Context(), account, req)
}

// fileView is a file record as the page shows it.
type fileView struct {
	wire.TransactionRow
	Shown string `json:"shown"` // the path in a mount
}

func viewFile(row wire.TransactionRow) fileView {
	var hash [sha256.Size]byte
	_, _ = hex.Decode(hash[:], []byte(row.FileHash)) // as the service recorded it
	var name, contentType string
	if row.Filename != nil {
		name = *row.Filename
	}
	if row.ContentType != nil {
		contentType = *row.ContentType
	}
	return fileView{row, names.Show(names.Recorded(name, contentType, hash), row.IPFSHash)}
}

// retrieve charges one retrieval and hands the key to the page, with the
// ciphertext when it is small; the page decrypts and compares.
func (p *page) retrieve(r *http.Request, account string, req wire.PrepareRetrieveRequest) (any, error) {
	stored, err := p.Files.Retrieve(r.Context(), account, req, wire.InlineBlobBytes)
	if err != nil {
		return nil, err
	}
	out := struct {
		Key    string          `json:"key"`
		Format json.RawMessage `json:"format"`
		Inline []byte          `json:"inline,omitempty"` // absent = ask for the blob
		Size   int64           `json:"size"`             // of the blob, or of all sealed blocks
		Fee    string          `json:"fee"`              // tokens

		// Of a file in blocks.
		Manifest []byte            `json:"manifest,omitempty"` // absent = ask for it
		Tiles    map[string][]byte `json:"tiles,omitempty"`    // some, by path
	}{Key: stored.Key.Base64(), Format: stored.Format, Inline: stored.Inline, Size: stored.BlobSize, Fee: stored.Fee.Tokens()}
	if b := stored.InBlocks; b != nil {
		out.Size, out.Tiles = b.Size, b.Edges
		if len(b.Manifest) <= wire.InlineManifestBytes {
			out.Manifest = b.Manifest
		}
	}
	return out, nil
}

// blob streams ciphertext to a member. It is of no use without the key.
func (p *page) blob(w http.ResponseWriter, r *http.Request) {
	account, err := p.caller(r)
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	f, info, err := p.Files.OpenBlob(r.Context(), account, r.FormValue("group"), r.FormValue("ref"))
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", strconv.Quote(hex.EncodeToString(info.Sum[:])))
	r.Header.Del("Range") // the page asks for the whole
	http.ServeContent(w, r, "", time.Time{}, f)
}

// inBlocks opens a file in blocks for a member.
func (p *page) inBlocks(r *http.Request) (*files.InBlocks, error) {
	account, err := p.caller(r)
	if err != nil {
		return nil, err
	}
	return p.Files.OpenBlocks(r.Context(), account, r.FormValue("group"), r.FormValue("ref"))
}

// bytesOf answers a part of what describes a file in blocks.
func (p *page) bytesOf(read func(*http.Request, *files.InBlocks) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b, err := p.inBlocks(r)
		var raw []byte
		if err == nil {
			raw, err = read(r, b)
		}
		if err != nil {
			p.refuse(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
		_, _ = w.Write(raw) // the caller may be gone
	}
}

func manifest(_ *http.Request, b *files.InBlocks) ([]byte, error) { return b.Manifest, nil }

func tile(r *http.Request, b *files.InBlocks) ([]byte, error) {
	return b.Tile(r.Context(), r.FormValue("path"))
}

// blocks streams the sealed blocks of a file to a member, from the byte "from" on.
func (p *page) blocks(w http.ResponseWriter, r *http.Request) {
	b, err := p.inBlocks(r)
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	from, err := strconv.ParseInt(r.FormValue("from"), 10, 64)
	if err != nil || from < 0 || from >= b.Size {
		p.refuse(w, r, fault.New(wire.CodeValidation, "from must be a byte of the file"))
		return
	}
	reader := b.Reader(r.Context())
	defer reader.Close()
	if _, err = reader.Seek(from, io.SeekStart); err == nil {
		err = reader.Open()
	}
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(b.Size-from, 10))
	_, _ = io.Copy(w, reader) // an answer that is too short is asked for again
}

// lookAtNames answers, before an upload, whether names are in use.
func (p *page) lookAtNames(r *http.Request, account string) (any, error) {
	if err := r.ParseForm(); err != nil || len(r.Form["name"]) > maxNames {
		return nil, fault.New(wire.CodeValidation, "at most %d names are looked at", maxNames)
	}
	found, err := p.Files.LookAtNames(r.Context(), account, r.FormValue("group"), r.Form["name"])
	return map[string]any{"names": found}, err
}

// recordView is a row of the ledger.
type recordView struct {
	Seq      int64  `json:"seq"`
	TxID     string `json:"tx_id"`
	Kind     string `json:"kind"`
	TimeMS   int64  `json:"time_ms"`
	Account  string `json:"account"`
	Group    string `json:"group"`
	Ref      string `json:"ref"`
	FileHash string `json:"file_hash"`
	Detail   string `json:"detail"`
	Folder   string `json:"folder,omitempty"` // of a renamed folder: its name before
	Files    string `json:"files,omitempty"`  // and how many versions of files it holds
	Fee      string `json:"fee"`              // tokens
	Hash     string `json:"hash"`

	Name       string `json:"name,omitempty"`       // of a file, where Detail tells something else
	Attributes string `json:"attributes,omitempty"` // of a file: their canonical text
}

func (p *page) history(r *http.Request, account string) (any, error) {
	from, err := before(r)
	if err != nil {
		return nil, err
	}
	var records []chain.Row
	err = p.Store.Read(r.Context(), func(tx *store.Tx) error {
		records, err = ledger.History(r.Context(), tx, account, from, pageRows+1)
		return err
	})
	if err != nil {
		return nil, err
	}
	records, more := firstOf(records, pageRows)
	out := make([]recordView, 0, len(records))
	for _, l := range records {
		v := recordView{l.Seq, l.Tx, l.Kind, l.TimeNS / int64(time.Millisecond), l.Account, l.Group, l.Ref, l.FileHash, l.Detail,
			l.Tag(chain.TagFolder), l.Tag(chain.TagFiles), tokens(l.Fee), hex.EncodeToString(l.Hash[:]), l.Tag(chain.TagName), l.Tag(chain.TagAttributes)}
		if l.Kind == chain.KindFund || l.Kind == chain.KindCreateAccount {
			v.Detail = tokens(l.Detail)
		}
		out = append(out, v)
	}
	return map[string]any{"records": out, "more": more}, nil
}

// tokens writes an amount of a record in tokens.
func tokens(yocto string) string {
	amount, err := wire.ParseAmount(yocto)
	if err != nil {
		return yocto
	}
	return amount.Tokens()
}

// costs answers the payments of the account in the last 30 days.
func (p *page) costs(r *http.Request, account string) (any, error) {
	now := p.Ledger.Now()
	var days []ledger.DayCost
	err := p.Store.Read(r.Context(), func(tx *store.Tx) (err error) {
		days, err = ledger.Costs(r.Context(), tx, account, now.AddDate(0, 0, 1-costDays))
		return err
	})
	if err != nil {
		return nil, err
	}
	type cost struct {
		Day   int64  `json:"day"` // since the epoch, UTC
		Kind  string `json:"kind"`
		Count int64  `json:"count"`
		Fees  string `json:"fees"` // tokens
	}
	out := make([]cost, 0, len(days))
	var total wire.Amount
	for _, d := range days {
		out = append(out, cost{d.Day, d.Kind, d.Count, d.Fees.Tokens()})
		total, _ = total.Add(d.Fees)
	}
	return map[string]any{"costs": out, "total": total.Tokens(), "today": now.Unix() / 86400, "days": costDays}, nil
}
