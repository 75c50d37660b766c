package web

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

const (
	// pageRows is how many files one request returns.
	pageRows = 100
	// pageRecords is how many records of the ledger one request returns, and maxLooked how many it looks at.
	pageRecords = 30
	maxLooked   = 1000
	// pageGroups is how many groups one request returns.
	pageGroups = 500
	// maxNames is how many names one request looks at.
	maxNames = 20
	// costDays is how far back the costs go.
	costDays = 30
)

// reads are the free questions of the page that are no operations: lists as it draws them.
func (p *page) reads() map[string]action {
	return map[string]action{
		"groups": p.listGroups, "group": p.group, "folder": p.folder, "file": p.file, "trash": p.trash,
		"ledger": p.history, "costs": p.costs, "names": p.lookAtNames, "service": p.service,
	}
}

// operations are those of the service's table that the page needs: /account/api/tools/OP answers a session as
// /tools/OP answers a program. The others need the API key.
func operations() []string {
	return []string{
		wire.OpAuthStatus, wire.OpRegisterGroup, wire.OpDeleteGroup,
		wire.OpAddGroupMember, wire.OpRevokeGroupMember, wire.OpLeaveGroup, wire.OpOfferGroup, wire.OpAcceptGroup,
		wire.OpJoinGroup, wire.OpCreateHackathonGroup, wire.OpCloseHackathonJoin,
		wire.OpGetPending, wire.OpKeepFiles, wire.OpSetGroupRetention,
		wire.OpGetTrash, wire.OpSetGroupTrash, wire.OpRemoveFile, wire.OpRestoreFile,
		wire.OpSetGroupVersions, wire.OpTryGroupVersions, wire.OpPrepareRetrieve,
		wire.OpMakeFolder, wire.OpRemoveFolder, wire.OpRenameFile, wire.OpRenameFolder,
		wire.OpInviteToGroup, wire.OpGetGroupInvites, wire.OpRevokeGroupInvite, wire.OpUseGroupInvite,
	}
}

// operation answers an operation of the table. Unlike a program, the page is held to the fields of its requests.
func (p *page) operation(op string) http.HandlerFunc {
	answer := p.api.Operations[op]
	return p.bySession(func(w http.ResponseWriter, r *http.Request, by *auth.Session) error {
		return answer(w, r, by, func(request any) error {
			if err := p.api.Hold(r, requestMemory); err != nil {
				return err
			}
			return decode(r, request)
		})
	})
}

// newKey makes the account's API key, or replaces the key when the request says so. Only
// this one answer holds the key.
func (p *page) newKey(r *http.Request, account string) (any, error) {
	var req struct {
		Replace bool `json:"replace"`
	}
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	has, err := p.Accounts.HasKey(r.Context(), account)
	if err != nil {
		return nil, err
	}
	if has && !req.Replace {
		return nil, fault.New(wire.CodeConflict,
			"the account has a key already: it cannot be shown again, only rotated")
	}
	token, _ := p.secretOf(r, cookieName)
	session, err := p.Tokens.PageOf(r.Context(), token)
	if err != nil {
		return nil, err
	}
	_, key, err := p.Accounts.Rotate(r.Context(), account, session)
	if err != nil {
		return nil, err
	}
	return map[string]string{"api_key": key.Reveal()}, nil
}

// service answers what an invite says of the service beside its address.
func (p *page) service(r *http.Request, _ string) (any, error) {
	key, err := p.LogKey(r.Context())
	return map[string]string{"contract_id": p.ContractID, "log_key": key}, err
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
}

type windowView struct {
	ExpiresMS int64  `json:"expires_ms"`
	MaxUses   *int64 `json:"max_uses"` // nil = unlimited
	Uses      int64  `json:"uses"`
}

func viewGroup(g groups.Summary, now time.Time) groupView {
	v := groupView{ID: g.ID, Owner: g.Owner, Role: g.Role, JoinRole: g.JoinRole, Members: g.Members,
		Joinable: g.Joinable, Keep: g.Versions}
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
	return struct {
		groupView
		MemberIDs   []string    `json:"member_ids"`
		MemberRoles []wire.Role `json:"member_roles"` // in the same order
	}{viewGroup(groups.Summary{Group: g, Role: role, Members: int64(len(members.Names))}, p.Ledger.Now()),
		members.Names, members.Roles}, nil
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
		shown := names.Component(recorded[strings.LastIndexByte(recorded, '/')+1:])
		out.Folders = append(out.Folders, folderView{recorded, shown,
			strings.Join(append(slices.Clone(out.Path), shown), "/")})
	}
	return out, nil
}

// folderView is a folder as the page shows it.
type folderView struct {
	Folder string `json:"folder"` // the recorded path
	Shown  string `json:"shown"`  // its last component in a mount
	Path   string `json:"path"`   // all of it in a mount
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

// history answers a page of the records that the account may see: those of a group, of some kinds, or its own
// alone, where the request says so. It looks at maxLooked records, and says where it ended.
func (p *page) history(r *http.Request, account string) (any, error) {
	from, err := before(r)
	if err != nil {
		return nil, err
	}
	group, kinds, mine := r.FormValue("group"), r.Form["kind"], r.FormValue("mine") != ""
	isWanted := func(l chain.Row) bool {
		return (group == "" || l.Group == group) && (len(kinds) == 0 || slices.Contains(kinds, l.Kind)) &&
			(!mine || l.Account == account)
	}
	out := struct {
		Records []recordView `json:"records"`
		More    bool         `json:"more"`
		Before  int64        `json:"before"` // that the next page has
	}{Records: []recordView{}, More: true, Before: from}
	err = p.Store.Read(r.Context(), func(tx *store.Tx) error {
		for looked := 0; out.More && looked < maxLooked && len(out.Records) < pageRecords; looked += pageRows {
			rows, err := ledger.History(r.Context(), tx, account, out.Before, pageRows+1)
			if err != nil {
				return err
			}
			rows, out.More = firstOf(rows, pageRows)
			for i, l := range rows {
				out.Before = l.Seq
				if isWanted(l) {
					out.Records = append(out.Records, viewRecord(l))
				}
				if len(out.Records) == pageRecords {
					out.More = out.More || i < len(rows)-1
					break
				}
			}
		}
		return nil
	})
	return out, err
}

func viewRecord(l chain.Row) recordView {
	v := recordView{l.Seq, l.Tx, l.Kind, l.TimeNS / int64(time.Millisecond), l.Account, l.Group, l.Ref,
		l.FileHash, l.Detail,
		l.Tag(chain.TagFolder), l.Tag(chain.TagFiles), tokens(l.Fee), hex.EncodeToString(l.Hash[:]),
		l.Tag(chain.TagName), l.Tag(chain.TagAttributes)}
	if l.Kind == chain.KindFund || l.Kind == chain.KindCreateAccount {
		v.Detail = tokens(l.Detail)
	}
	return v
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
