package agent

import (
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/proof"
	"github.com/svcfs/svcfs/sdk/view"
	"github.com/svcfs/svcfs/sdk/wire"
)

type nothing struct{}

type groupArgs struct {
	Group string `json:"group" jsonschema:"id of the group, from list_groups"`
}

type fileArgs struct {
	Group string `json:"group" jsonschema:"id of the group, from list_groups"`
	Name  string `json:"name" jsonschema:"name of the file as list_files shows it, or the cid of one version"`
}

type listArgs struct {
	Group  string `json:"group" jsonschema:"id of the group, from list_groups"`
	Prefix string `json:"prefix,omitempty" jsonschema:"only files whose name begins so, such as reports/"`
	Limit  int    `json:"limit,omitempty" jsonschema:"most files in this answer: 1 to 200, 100 by default"`
	Cursor string `json:"cursor,omitempty" jsonschema:"next_cursor of the answer before"`
}

type whyArgs struct {
	Group string `json:"group" jsonschema:"id of the group"`
	Name  string `json:"name,omitempty" jsonschema:"name of a file in it; all of the group without"`
}

// addReading adds the tools that change nothing.
func (s *server) addReading(h *mcp.Server, freeLooks bool) {
	look := effect{reads: freeLooks, idempotent: true, open: true}
	free := effect{reads: true, idempotent: true}
	addTool(s, h, "list_groups", "List groups", "List the groups that this account may use, with its role in each. A "+
		"group that is not listed is out of reach."+namesAreData, look, s.listGroups)
	addTool(s, h, "list_files", "List files", "List the newest version of each file of a group, by name, page by "+
		"page. It opens nothing."+namesAreData, look, s.listFiles)
	addTool(s, h, "stat", "Describe a file", "Describe a file: size, uploader, time, hash, type. It opens nothing."+
		namesAreData, look,
		func(ctx context.Context, in fileArgs) (any, error) {
			e, shown, err := s.file(ctx, in)
			return docOf(e, shown), err
		})
	addTool(s, h, "history", "List versions", "List the versions of a file, newest first, removed ones included; at "+
		"most 200. It opens nothing; read_file takes the cid of a version."+namesAreData, look, s.history)
	addTool(s, h, "cost", "Tell prices", "Tell the prices in tokens of opening a file and of each change, and how "+
		"much of the budget of this server is spent. Free.", free, s.cost)
	addTool(s, h, "balance", "Tell the balance", "Tell the account, its balance in tokens, and how much of the "+
		"budget of this server is spent. Free.", free, s.balance)
	addTool(s, h, "verify_ledger", "Verify the ledger",
		"Check every record of a group against what the service signed, and that the history continues the one seen "+
			"before. Free.", free, s.verify)
	addTool(s, h, "why", "Explain a failure", "Explain what failed lately at a file, or in a group, in the mounts of "+
		"this account on this machine. Asks the service for nothing."+namesAreData,
		effect{reads: true, idempotent: true, open: true}, func(ctx context.Context, in whyArgs) (any, error) {
			g, err := s.group(in.Group)
			if err != nil {
				return nil, err
			}
			return s.Why(ctx, g.ID, in.Name)
		})
	s.addReadFile(h)
}

type groupDoc struct {
	Group string   `json:"group"`
	Owned bool     `json:"owned"`
	Role  sdk.Role `json:"role,omitempty"` // "" where the service has no roles
}

func (s *server) listGroups(ctx context.Context, _ nothing) (any, error) {
	price, err := s.Client.ReadPrice(ctx)
	if err != nil {
		return nil, err
	}
	var groups []sdk.Group
	err = s.purse.pay(price, func() (sdk.Amount, error) {
		groups, err = s.Client.Groups(ctx)
		return sdk.Amount{}, err
	})
	list := []groupDoc{}
	for _, g := range groups {
		if s.mayName(g.ID) {
			list = append(list, groupDoc{string(g.ID), g.Owned, g.Role})
		}
	}
	return map[string]any{"account": s.Client.Account(), "groups": list, "may_write": s.AllowWrite,
		"may_delete": s.AllowDelete}, err
}

// file looks up a file, in a large group without a list of it, and returns the name that is shown of it.
func (s *server) file(ctx context.Context, in fileArgs) (e sdk.Entry, shown string, err error) {
	g, err := s.group(in.Group)
	if err != nil {
		return e, "", err
	}
	e, err = s.named(ctx, g, in.Name)
	if !isAbsent(err) && !errors.Is(err, sdk.ErrUnsupported) {
		return e, in.Name, err
	}
	l, e, err := s.find(ctx, in) // or it is the cid of a version
	return e, l.shown(e), err
}

// named returns the newest file that a large group has under a name. Errors: those of [sdk.Group.Child].
func (s *server) named(ctx context.Context, g sdk.Group, name string) (e sdk.Entry, err error) {
	err = s.inParts(g, func() error {
		child, err := g.Child(ctx, name)
		switch {
		case err != nil:
			return err
		case child.File == nil:
			return &sdk.Error{Kind: sdk.ErrNotFound, Code: wire.CodeFileNotFound}
		}
		e = *child.File
		return nil
	})
	return e, err
}

// isAbsent reports an error that proves that a name is not there.
func isAbsent(err error) bool {
	var refused *sdk.Error
	return errors.As(err, &refused) && refused.Code == wire.CodeFileNotFound
}

// find looks up a file in the list of its group.
func (s *server) find(ctx context.Context, in fileArgs) (listing, sdk.Entry, error) {
	g, err := s.group(in.Group)
	if err != nil {
		return listing{}, sdk.Entry{}, err
	}
	l, err := s.look(ctx, g)
	if err != nil {
		return listing{}, sdk.Entry{}, err
	}
	e, err := l.find(in.Name)
	return l, e, err
}

// shown is the name of an entry; of one that the listing does not show, the name alone.
func (l listing) shown(e sdk.Entry) string {
	if l.Listing.Listing == nil {
		return ""
	}
	recorded := e.Named().Recorded
	if i, ok := l.Newest(recorded); ok && l.Entries[i].Ref == e.Ref {
		return l.Shown(recorded)
	}
	return names.Show(recorded, string(e.Ref))
}

func (s *server) listFiles(ctx context.Context, in listArgs) (any, error) {
	g, err := s.group(in.Group)
	if err != nil {
		return nil, err
	}
	if in.Limit < 0 || in.Limit > maxPage {
		return nil, refuse("leave limit out, or use 1 to 200", "limit %d", in.Limit)
	}
	if in.Limit == 0 {
		in.Limit = maxPage / 2
	}
	after, err := base64.RawURLEncoding.DecodeString(in.Cursor)
	if err != nil {
		return nil, refuse("use next_cursor of the answer before, or leave cursor out to begin anew",
			"cursor %q is none", in.Cursor)
	}
	page := filePage{Group: in.Group, Files: []fileDoc{}, args: in, after: string(after)}
	err = s.inParts(g, func() error { return page.walk(ctx, g) })
	if errors.Is(err, sdk.ErrUnsupported) {
		page.Files = page.Files[:0]
		var l listing
		if l, err = s.look(ctx, g); err == nil {
			page.list(l)
		}
	}
	if err != nil {
		return nil, err
	}
	return page, nil
}

// filePage is an answer of list_files.
type filePage struct {
	Group string    `json:"group"`
	Files []fileDoc `json:"files"`
	Next  string    `json:"next_cursor,omitempty"`

	args  listArgs
	after string // the name, as it is recorded, that ended the answer before; "" = there was none
}

// take takes the next file, unless the page is full.
func (p *filePage) take(shown, last string, e *sdk.Entry) (full bool) {
	if len(p.Files) == p.args.Limit {
		p.Next = base64.RawURLEncoding.EncodeToString([]byte(last))
		return true
	}
	p.Files = append(p.Files, docOf(*e, shown))
	return false
}

// list takes the files of a list.
func (p *filePage) list(l listing) {
	last := ""
	for _, name := range l.Names() {
		shown := l.Shown(name)
		if name <= p.after || !strings.HasPrefix(shown, p.args.Prefix) {
			continue
		}
		i, _ := l.Newest(name)
		if p.take(shown, last, &l.Entries[i]) {
			return
		}
		last = name
	}
}

// walk takes the files of a large group, where names are shown as they are recorded, from the folders that have them.
func (p *filePage) walk(ctx context.Context, g sdk.Group) error {
	last, prefix := "", p.args.Prefix
	folder := prefix[:max(strings.LastIndexByte(prefix, '/'), 0)]
	err := view.Walk(ctx, g, folder, func(path string, e *sdk.Entry) error {
		switch inside := path + "/"; {
		case e == nil && (inside < p.after && !strings.HasPrefix(p.after, inside) ||
			!strings.HasPrefix(inside, prefix) && !strings.HasPrefix(prefix, inside)):
			return fs.SkipDir
		case e == nil, path <= p.after, !strings.HasPrefix(path, prefix):
			return nil
		}
		if p.take(path, last, e) {
			return fs.SkipAll
		}
		last = path
		return nil
	})
	if isAbsent(err) { // the folder of the prefix
		return nil
	}
	return err
}

func (s *server) history(ctx context.Context, in fileArgs) (any, error) {
	g, err := s.group(in.Group)
	if err != nil {
		return nil, err
	}
	l, err := s.look(ctx, g)
	if err != nil {
		return nil, err
	}
	versions := l.versions(in.Name)
	if len(versions) == 0 {
		return nil, refuse("list_files names the files", "there is no file %q in this group", in.Name)
	}
	slices.Reverse(versions)
	doc := struct {
		Versions []fileDoc `json:"versions"`
		More     int       `json:"more,omitempty"` // older ones that are not listed
	}{More: max(len(versions)-maxPage, 0)}
	for _, e := range versions[:len(versions)-doc.More] {
		doc.Versions = append(doc.Versions, docOf(e, l.shown(e)))
	}
	return doc, nil
}

type budgetDoc struct {
	Limit string `json:"limit"` // tokens, as all of them
	Spent string `json:"spent"`
	Left  string `json:"left"`
	// Bytes of content that may still be read and written.
	ReadBytes  int64 `json:"read_bytes_left"`
	WriteBytes int64 `json:"write_bytes_left"`
}

func (s *server) budget() budgetDoc {
	spent, left := s.purse.state()
	return budgetDoc{s.purse.limit.Tokens(), spent.Tokens(), left.Tokens(), s.read.left(), s.written.left()}
}

// The actions that have a price, by the tools that they belong to.
func actions() [][2]string {
	return [][2]string{{"read_file", actionRetrieve}, {"put_file", actionUpload}, {"rename", sdk.EventRenamed},
		{"create_group", sdk.EventRegistered},
		{"add_member", sdk.EventAdded}, {"revoke_member", sdk.EventRevoked}, {"remove_file", sdk.EventRemoved},
		{"destroy_file", sdk.EventDeleted}}
}

const (
	actionRetrieve = "retrieve"
	actionUpload   = "upload"
)

func (s *server) cost(ctx context.Context, _ nothing) (any, error) {
	prices := make(map[string]string)
	for _, a := range actions() {
		price, err := s.Client.EstimateFee(ctx, a[1])
		if err != nil {
			return nil, err
		}
		prices[a[0]] = price.Tokens()
	}
	look, err := s.Client.ReadPrice(ctx)
	return map[string]any{"tokens": prices, "tokens_of_a_list": look.Tokens(), "budget": s.budget()}, err
}

func (s *server) balance(ctx context.Context, _ nothing) (any, error) {
	balance, err := s.Client.Balance(ctx, "")
	return map[string]any{"account": s.Client.Account(), "tokens": balance.Tokens(), "budget": s.budget()}, err
}

func (s *server) verify(ctx context.Context, in groupArgs) (any, error) {
	g, err := s.group(in.Group)
	if err != nil {
		return nil, err
	}
	report, err := g.Verify(ctx)
	return struct {
		Verified bool `json:"verified"`
		proof.Report
	}{true, report}, err
}
