package service_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
)

// role is a caller; several may stand in one column of the matrix.
type role struct {
	name   string
	column int // of matrixRow.want
	*user
}

// matrixRow is one operation: the status that each role gets. request makes the
// request of one call, with whatever it needs to succeed for an owner.
type matrixRow struct {
	op      string
	request func(m *matrix, r role) object
	want    [6]int // owner, member, revoked, outsider, dead credentials, reader
}

// matrix is a group with everybody around it.
type matrix struct {
	*running
	owner, member, revoked, reader *user
	late                           map[string]string // uploads that were begun as a writer, by name of the role
	n                              int
}

func (m *matrix) unique(prefix string) string {
	m.n++
	return fmt.Sprint(prefix, m.n)
}

const (
	may = 200
	no  = 403
	who = 401
)

var (
	anybody = [6]int{may, may, may, may, who, may}
	members = [6]int{may, may, no, no, who, may}
	writers = [6]int{may, may, no, no, who, no}
	owners  = [6]int{may, no, no, no, who, no}

	// these send their API key in the clear
	sealedAlone = [6]int{400, 400, 400, 400, who, 400}
)

func inGroup(*matrix, role) object { return object{"group_id": "g"} }

// inGroupToLeave is a group of its own, which each member may leave once.
func inGroupToLeave(m *matrix, r role) object {
	group := m.unique("left")
	must[string](m.owner, wire.OpRegisterGroup, object{"group_id": group})
	if r.name == "member" || r.name == "reader" {
		must[string](m.owner, wire.OpAddGroupMember, object{"group_id": group, "member_id": r.id, "role": "reader"})
	}
	return object{"group_id": group}
}

func inOpenGroup(*matrix, role) object { return object{"group_id": "open"} }

// named asks for the names of a group.
func named(group string) func(*matrix, role) object {
	return func(*matrix, role) object { return object{"group_id": group, "nonce": "n"} }
}

func nothing(*matrix, role) object { return object{} }

// fileOf is a fresh file of one uploader.
func fileOf(uploader func(*matrix) *user, more object) func(*matrix, role) object {
	return func(m *matrix, _ role) object {
		o := object{"group_id": "g", "ipfs_hash": uploader(m).upload("g", m.unique("f"), []byte("x")).Location}
		for k, v := range more {
			o[k] = v
		}
		return o
	}
}

// nameOf is the name of a fresh file of one uploader, which is in the trash already
// if removed.
func nameOf(uploader func(*matrix) *user, removed bool) func(*matrix, role) object {
	return func(m *matrix, _ role) object {
		u := uploader(m)
		name := m.unique("name")
		seq := u.upload("g", name, []byte("x")).Seq
		if removed {
			must[wire.NameResult](u, wire.OpRemoveFile, object{"group_id": "g", "filename": name, "seq": seq})
			seq++ // of the removal
		}
		return object{"group_id": "g", "filename": name, "seq": seq}
	}
}

// folderOf is a fresh folder with a file of one uploader.
func folderOf(uploader func(*matrix) *user) func(*matrix, role) object {
	return func(m *matrix, _ role) object {
		folder := m.unique("folder")
		seq := uploader(m).upload("g", folder+"/f", []byte("x")).Seq
		return object{"group_id": "g", "folder": folder, "new_folder": folder + " renamed", "seq": seq}
	}
}

// madeFolder is a fresh folder, which one account recorded unless it is nil.
func madeFolder(by func(*matrix) *user) func(*matrix, role) object {
	return func(m *matrix, _ role) object {
		request := object{"group_id": "g", "folder": m.unique("folder")}
		if by != nil {
			must[wire.FolderResult](by(m), wire.OpMakeFolder, request)
		}
		return request
	}
}

func theOwner(m *matrix) *user { return m.owner }
func aMember(m *matrix) *user  { return m.member }

func rows() []matrixRow {
	freshMember := func(m *matrix, _ role) object {
		id := m.unique("member")
		must[string](m.owner, wire.OpAddGroupMember, object{"group_id": "g", "member_id": id})
		return object{"group_id": "g", "member_id": id}
	}
	ownUpload := func(m *matrix, r role) object {
		content := []byte(m.unique("content"))
		request := object{"file_hash": hash(content), "encrypted_data": make([]byte, 28)}
		switch r.name {
		case "owner", "member":
			request["upload_id"] = must[wire.PrepareUploadResult](r.user, wire.OpPrepareUpload,
				object{"group_id": "g"}).UploadID
		case "revoked", "reader":
			request["upload_id"] = m.late[r.name]
		default: // of another account
			request["upload_id"] = must[wire.PrepareUploadResult](m.owner, wire.OpPrepareUpload,
				object{"group_id": "g"}).UploadID
		}
		return request
	}
	earlier := func(more object) func(*matrix, role) object { // a file that the reader uploaded as a writer
		return func(m *matrix, r role) object {
			m.owner.gives(m.reader, "g", "writer")
			defer m.owner.gives(m.reader, "g", "reader")
			return fileOf(func(m *matrix) *user { return m.reader }, more)(m, r)
		}
	}
	return []matrixRow{
		{wire.OpAuthStatus, inGroup, anybody},
		{wire.OpRegisterGroup, func(m *matrix, _ role) object { return object{"group_id": m.unique("new")} }, anybody},
		{wire.OpAddGroupMember, func(m *matrix, _ role) object {
			return object{"group_id": "g", "member_id": m.unique("somebody")}
		}, owners},
		{wire.OpRevokeGroupMember, freshMember, owners},
		{wire.OpJoinGroup, inGroup, members}, // a member gets the answer that it belongs already
		{wire.OpJoinGroup, inOpenGroup, anybody},
		{wire.OpCreateHackathonGroup, func(*matrix, role) object {
			return object{"group_id": "open", "expires_at": strconv.FormatInt(time.Now().Add(time.Hour).UnixNano(), 10)}
		}, owners},
		{wire.OpCloseHackathonJoin, inGroup, owners},
		{wire.OpSetGroupRetention, func(*matrix, role) object { return object{"group_id": "g", "retention_days": 3} },
			owners},
		{wire.OpGetPending, inGroup, members},
		{wire.OpLeaveGroup, inGroupToLeave, [6]int{409, may, no, no, who, may}},
		{wire.OpOfferGroup, func(*matrix, role) object { return object{"group_id": "g", "member_id": ""} }, owners},
		{wire.OpAcceptGroup, inGroup, [6]int{409, 409, no, no, who, 409}},
		{wire.OpDeleteGroup, inGroup, owners},
		{wire.OpInviteToGroup, inGroup, owners},
		{wire.OpGetGroupInvites, inGroup, owners},
		{wire.OpRevokeGroupInvite, func(m *matrix, _ role) object {
			return object{"group_id": "g",
				"invite": must[wire.MadeInvite](m.owner, wire.OpInviteToGroup, object{"group_id": "g"}).ID}
		}, owners},
		{wire.OpUseGroupInvite, func(m *matrix, _ role) object {
			group := m.unique("invited")
			must[string](m.owner, wire.OpRegisterGroup, object{"group_id": group})
			return object{"secret": must[wire.MadeInvite](m.owner, wire.OpInviteToGroup,
				object{"group_id": group}).Secret}
		}, [6]int{409, may, may, may, who, may}},
		{wire.OpKeepFiles, inGroup, owners},
		{wire.OpPrepareUpload, inGroup, writers},
		{wire.OpFinalizeUpload, ownUpload, writers},
		{wire.OpPrepareRetrieve, fileOf(theOwner, nil), members},
		{wire.OpGetOwnedGroups, nothing, anybody},
		{wire.OpGetMemberGroups, nothing, anybody},
		{wire.OpGetGroupMembers, inGroup, members},
		{wire.OpGetGroupMembers, inOpenGroup, anybody},
		{wire.OpGetGroupTransactions, inGroup, members},
		{wire.OpGetGroupTransactions, inOpenGroup, anybody},
		{wire.OpGetGroupTransactions, func(*matrix, role) object {
			return object{"group_id": "g", "kinds": "all", "layouts": layouts()}
		}, members},
		{wire.OpDeleteFile, fileOf(theOwner, nil), owners},
		{wire.OpDeleteFile, fileOf(aMember, nil), writers},
		{wire.OpDeleteFile, earlier(nil), owners},
		{wire.OpRenameFile, fileOf(theOwner, object{"filename": "other"}), owners},
		{wire.OpRenameFile, fileOf(aMember, object{"filename": "other"}), writers},
		{wire.OpRenameFile, earlier(object{"filename": "other"}), owners},
		{wire.OpRenameFolder, folderOf(theOwner), owners},
		{wire.OpRenameFolder, folderOf(aMember), writers},
		{wire.OpMakeFolder, madeFolder(nil), writers},
		{wire.OpRemoveFolder, madeFolder(theOwner), owners},
		{wire.OpRemoveFolder, madeFolder(aMember), writers},
		{wire.OpSetAttributes, fileOf(theOwner, object{"attributes": object{"mtime": "1"}}), owners},
		{wire.OpSetAttributes, fileOf(aMember, object{"attributes": object{"mtime": "1"}}), writers},
		{wire.OpSetAttributes, earlier(object{"attributes": object{"mtime": "1"}}), owners},
		{wire.OpRemoveFile, nameOf(theOwner, false), owners},
		{wire.OpRemoveFile, nameOf(aMember, false), writers},
		{wire.OpRestoreFile, nameOf(theOwner, true), owners},
		{wire.OpRestoreFile, nameOf(aMember, true), writers},
		{wire.OpSetGroupTrash, func(*matrix, role) object { return object{"group_id": "g", "days": 30} }, owners},
		{wire.OpGetTrash, inGroup, members},
		{wire.OpSetGroupVersions, func(*matrix, role) object { return object{"group_id": "g", "keep": "all"} }, owners},
		{wire.OpTryGroupVersions, func(*matrix, role) object { return object{"group_id": "g", "keep": "3"} }, owners},
		{wire.OpGetGroupVersions, inGroup, members},
		{wire.OpSetGroupSettings, func(*matrix, role) object { return object{"group_id": "g", "format": 2} }, owners},
		{wire.OpGetGroupSettings, inGroup, members},
		{wire.OpGetNames, named("g"), members},
		{wire.OpGetNames, named("open"), anybody},
		{wire.OpGetStorage, inGroup, members},
		{wire.OpGetStorage, nothing, anybody},
		{wire.OpSealAPIKey, nothing, sealedAlone},
		{wire.OpWatch, func(*matrix, role) object { return object{"after_seq": 0, "timeout_ms": 1} }, anybody},
	}
}

// Threats 24, 25: every operation as every role.
func TestRoleOperationMatrix(t *testing.T) {
	t.Parallel()
	m := &matrix{running: run(t)}
	m.owner, m.member, m.revoked, m.reader = m.user("owner", "1000"), m.user("member", "1000"),
		m.user("revoked", "1000"), m.user("reader", "1000")
	outsider, rotated := m.user("outsider", "1000"), m.user("rotated", "1000")
	must[string](m.owner, wire.OpRegisterGroup, object{"group_id": "g"})
	must[string](m.owner, wire.OpCreateHackathonGroup,
		object{"group_id": "open", "expires_at": strconv.FormatInt(time.Now().Add(time.Hour).UnixNano(), 10)})
	for _, u := range []*user{m.member, m.revoked, m.reader, rotated} {
		must[string](m.owner, wire.OpAddGroupMember, object{"group_id": "g", "member_id": u.id})
	}
	m.late = map[string]string{}
	for name, u := range map[string]*user{"revoked": m.revoked, "reader": m.reader} {
		m.late[name] = must[wire.PrepareUploadResult](u, wire.OpPrepareUpload, object{"group_id": "g"}).UploadID
	}
	must[string](m.owner, wire.OpAddGroupMember, object{"group_id": "g", "member_id": m.reader.id, "role": "reader"})
	must[string](m.owner, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": m.revoked.id})
	if _, err := m.svc.RotateKey(t.Context(), "rotated"); err != nil {
		t.Fatal(err)
	}
	roles := []role{
		{"owner", 0, m.owner}, {"member", 1, m.member}, {"revoked", 2, m.revoked}, {"outsider", 3, outsider},
		{"no token", 4, &user{running: m.running, id: m.owner.id}},
		{"wrong audience", 4, &user{running: m.running, id: m.owner.id, token: run(t).user("owner", "10").token}},
		{"rotated key", 4, rotated}, {"reader", 5, m.reader},
	}
	called := map[string]bool{}
	other := m.again() // each process counts failed sign-ins for itself
	for i, row := range rows() {
		called[row.op] = true
		for _, r := range slices.Backward(roles) { // the owner last: its calls may change the group
			request := row.request(m, r)
			caller := r.user
			if row.want[r.column] == who && i%2 == 1 {
				caller = r.at(other)
			}
			status, body := caller.tool(row.op, request)
			if status != row.want[r.column] {
				t.Errorf("%s %v as %s: %d, want %d: %s", row.op, request, r.name, status, row.want[r.column], body)
			}
			if status == no && !strings.Contains(body, "ot authorized") &&
				!strings.Contains(body, "not open for join") {
				t.Errorf("%s as %s: the text holds no word of the specification: %s", row.op, r.name, body)
			}
		}
	}
	for _, op := range operations(t) {
		if !called[op] {
			t.Errorf("the matrix does not call %s", op)
		}
	}
	if status, body := m.owner.tool(wire.OpRevokeGroupMember,
		object{"group_id": "g", "member_id": m.owner.id}); status != 409 {
		t.Errorf("the owner revoked itself: %d %s", status, body)
	}
}

// operations are the values of all constants Op… of the wire package.
func operations(t *testing.T) (list []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../sdk/wire/http.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, isValue := n.(*ast.ValueSpec)
		if !isValue || !strings.HasPrefix(spec.Names[0].Name, "Op") || len(spec.Values) == 0 {
			return true
		}
		if value, isText := spec.Values[0].(*ast.BasicLit); isText {
			op, err := strconv.Unquote(value.Value)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, op)
		}
		return true
	})
	if len(list) < 15 {
		t.Fatalf("only %d operations were found: %v", len(list), list)
	}
	return list
}
