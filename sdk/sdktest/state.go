package sdktest

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// state is what a service remembers.
type state struct {
	flavour Flavour
	chunks  bool // files of format version 2 are offered

	mu       sync.Mutex
	accounts map[string]*account
	tokens   map[string]string // token to account
	groups   map[string]*group
	files    []*file // in upload order
	uploads  map[string]*pending
	claims   map[string]bool
	seq      int64
	log      *Log             // nil but for [Ours]
	vault    *vault           // nil but for [Ours]
	spent    map[ownID]*spent // sealed uploads
	batches  []int
	events   []event
	news     chan struct{} // closed at every event
}

type account struct {
	key     string
	balance sdk.Amount
}

type group struct {
	owner    string
	members  []string
	joinable bool
	until    time.Time
	uses     int64 // left; -1 = any number
	days     *int64
	format   int64 // the newest of new files; 0 = 2
}

type file struct {
	row    wire.TransactionRow
	key    []byte
	blob   []byte
	sealed *sealedFile // of format version 2, instead of blob
	format json.RawMessage
	named  int64 // sequence of the record that gave the name, if only attributes changed since; else 0
}

type pending struct {
	account, group, name string
	key, blob            []byte
	result               *wire.FinalizeUploadResult

	// Of format version 2.
	parts      map[int64]*part // nil for version 1
	blockBytes int64
	base       string
	manifest   []byte
}

func newState(f Flavour) state {
	return state{flavour: f, accounts: map[string]*account{}, tokens: map[string]string{}, groups: map[string]*group{},
		uploads: map[string]*pending{}, claims: map[string]bool{}, news: make(chan struct{}), log: newLog(f), vault: newVault(f), spent: map[ownID]*spent{}}
}

// fees are the prices of specification section 8, in yocto.
func (s *state) fees() map[string]string {
	fees := map[string]string{}
	prices := map[string]string{"register_group": "0.64", "add_group_member": "0.013",
		"revoke_group_member": "0.001", "upload": "0.039", "retrieve": "0.013"}
	if s.flavour == Hosted { // the hosted test network: reads cost, retrieving does not
		delete(prices, "retrieve")
		for _, read := range []string{readRecords, wire.OpGetGroupMembers, wire.OpGetOwnedGroups, wire.OpGetMemberGroups} {
			prices[read] = "0.0013"
		}
	}
	for action, tokens := range prices {
		fee, err := wire.ParseTokens(tokens)
		if err != nil {
			panic(err)
		}
		fees[action] = fee.String()
	}
	return fees
}

// readRecords is what the ledger calls reading the records of a group.
const readRecords = "get_transactions_for_group"

// chargeRead takes the fee of a look at g, which is free for groups that can be
// joined. The caller holds the lock.
func (s *state) chargeRead(id, action string, g *group) error {
	if g != nil && g.joinable {
		return nil
	}
	_, err := s.charge(id, action)
	return err
}

// charge takes a fee. The caller holds the lock.
func (s *state) charge(id, action string) (sdk.Amount, error) {
	fee, err := wire.ParseAmount(s.fees()[action])
	if err != nil {
		return sdk.Amount{}, nil // free
	}
	rest, ok := s.accounts[id].balance.Sub(fee)
	if !ok {
		return sdk.Amount{}, refuse(http.StatusPaymentRequired, wire.CodeInsufficient, "Insufficient balance for %s", action)
	}
	s.accounts[id].balance = rest
	return fee, nil
}

func (s *state) addAccount(id, key string, balance sdk.Amount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accounts[id] = &account{key, balance}
}

func (s *state) records() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.files)
}

func (s *state) sessionToken(c call, req wire.SessionTokenRequest) (any, error) {
	a := s.accounts[req.AccountID]
	if a == nil {
		return nil, refuse(http.StatusNotFound, wire.CodeAccountUnknown, "account not found")
	}
	if c.r.Header.Get(wire.HeaderAPIKey) != a.key {
		return nil, refuse(http.StatusUnauthorized, wire.CodeInvalidKey, "Invalid API key")
	}
	token := "session." + uuid.NewString()
	s.tokens[token] = req.AccountID
	return wire.SessionTokenResult{Token: token, AccountID: req.AccountID, ExpiresIn: "24h"}, nil
}

func (s *state) authenticate(h http.Header) (string, error) {
	token, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	if !ok {
		return "", refuse(http.StatusUnauthorized, wire.CodeAuthRequired, "Auth required: missing Bearer session token")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id, ok := s.tokens[token]
	if !ok {
		return "", refuse(http.StatusUnauthorized, wire.CodeInvalidToken, "Auth failed: invalid session token")
	}
	if claimed := h.Get(wire.HeaderAccountID); claimed != "" && claimed != id {
		return "", refuse(http.StatusUnauthorized, wire.CodeInvalidToken, "Auth failed: account ID mismatch")
	}
	return id, nil
}

// member returns a group the caller belongs to. The caller holds the lock.
func (s *state) member(id, g string) (*group, error) {
	found := s.groups[g]
	if found == nil {
		return nil, refuse(http.StatusNotFound, wire.CodeGroupNotFound, "Group not found")
	}
	if !slices.Contains(found.members, id) {
		return nil, refuse(http.StatusForbidden, wire.CodeNotAuthorized, "Shade call failed: 403 - Unauthorized")
	}
	return found, nil
}

// owner is member for what only owners may do.
func (s *state) owner(id, g, what string) (*group, error) {
	found, err := s.member(id, g)
	if err == nil && found.owner != id {
		err = refuse(http.StatusForbidden, wire.CodeNotAuthorized, "Only group owner can %s", what)
	}
	return found, err
}

func (s *state) authStatus(c call, req wire.GroupRequest) (any, error) {
	out := wire.AuthStatusResult{Authenticated: true, AccountID: c.account, GroupID: req.GroupID}
	if req.GroupID != "default" {
		_, err := s.member(c.account, req.GroupID)
		in := err == nil
		out.AuthorizedForGroup = &in
		if err != nil {
			out.AuthError = err.Error()
		}
	}
	return out, nil
}

func (s *state) register(c call, req wire.GroupRequest) (any, error) {
	return "Group '" + req.GroupID + "' registered successfully", s.addGroup(c.account, req.GroupID, false)
}

func (s *state) addGroup(owner, g string, joinable bool) error {
	if s.groups[g] != nil {
		return refuse(http.StatusConflict, wire.CodeGroupExists, "Smart contract panicked: Group exists")
	}
	if _, err := s.charge(owner, "register_group"); err != nil {
		return err
	}
	s.groups[g] = &group{owner: owner, members: []string{owner}, joinable: joinable}
	s.note(chain.KindRegister, g, "", owner)
	s.sign(chain.Record{Kind: chain.KindRegister, Account: owner, Group: g})
	return nil
}

func (s *state) add(c call, req wire.MemberRequest) (any, error) {
	g, err := s.owner(c.account, req.GroupID, "add")
	if err != nil {
		return nil, err
	}
	if slices.Contains(g.members, req.MemberID) {
		return nil, refuse(http.StatusConflict, wire.CodeConflict, "User already a member")
	}
	if _, err := s.charge(c.account, "add_group_member"); err != nil {
		return nil, err
	}
	g.members = append(g.members, req.MemberID)
	s.note(chain.KindAdd, req.GroupID, "", req.MemberID)
	s.sign(chain.Record{Kind: chain.KindAdd, Account: c.account, Group: req.GroupID, Detail: req.MemberID})
	return "Added " + req.MemberID + " to group '" + req.GroupID + "'", nil
}

func (s *state) revoke(c call, req wire.MemberRequest) (any, error) {
	g, err := s.owner(c.account, req.GroupID, "revoke")
	if err != nil {
		return nil, err
	}
	at := slices.Index(g.members, req.MemberID)
	if at < 0 {
		return nil, refuse(http.StatusConflict, wire.CodeConflict, "User not a member")
	}
	if _, err := s.charge(c.account, "revoke_group_member"); err != nil {
		return nil, err
	}
	s.note(chain.KindRevoke, req.GroupID, "", req.MemberID)
	s.sign(chain.Record{Kind: chain.KindRevoke, Account: c.account, Group: req.GroupID, Detail: req.MemberID})
	g.members = slices.Delete(g.members, at, at+1)
	return "Revoked " + req.MemberID + " from group '" + req.GroupID + "' (key rotated)", nil
}

func (s *state) open(c call, req wire.OpenJoinRequest) (any, error) {
	until, err := strconv.ParseInt(req.ExpiresAt, 10, 64)
	if err != nil || time.Unix(0, until).Before(time.Now()) {
		return nil, refuse(http.StatusBadRequest, wire.CodeValidation, "expires_at must be in the future")
	}
	if s.groups[req.GroupID] == nil {
		if err := s.addGroup(c.account, req.GroupID, true); err != nil {
			return nil, err
		}
	}
	g, err := s.owner(c.account, req.GroupID, "open join")
	if err != nil {
		return nil, err
	}
	if !g.joinable {
		return nil, refuse(http.StatusForbidden, wire.CodeNotAuthorized, "Group is not joinable (must be created with joinable=true)")
	}
	g.until, g.uses = time.Unix(0, until), -1
	if req.MaxUses != nil {
		g.uses = *req.MaxUses
	}
	return "Opened group '" + req.GroupID + "'", nil
}

func (s *state) close(c call, req wire.GroupRequest) (any, error) {
	g, err := s.owner(c.account, req.GroupID, "close join")
	if err != nil {
		return nil, err
	}
	g.until = time.Time{}
	return "Closed join window for group '" + req.GroupID + "'", nil
}

func (s *state) join(c call, req wire.GroupRequest) (any, error) {
	g := s.groups[req.GroupID]
	switch {
	case g == nil:
		return nil, refuse(http.StatusNotFound, wire.CodeGroupNotFound, "Group not found")
	case slices.Contains(g.members, c.account):
		return nil, refuse(http.StatusConflict, wire.CodeConflict, "Already a member")
	case !g.joinable || g.until.IsZero():
		return nil, refuse(http.StatusForbidden, wire.CodeNotAuthorized, "Group not open for join")
	case g.until.Before(time.Now()):
		return nil, refuse(http.StatusForbidden, wire.CodeNotAuthorized, "Join window closed")
	case g.uses == 0:
		return nil, refuse(http.StatusForbidden, wire.CodeNotAuthorized, "Join window full")
	}
	g.uses--
	g.members = append(g.members, c.account)
	s.note(chain.KindJoin, req.GroupID, "", c.account)
	s.sign(chain.Record{Kind: chain.KindJoin, Account: c.account, Group: req.GroupID})
	return "Joined group '" + req.GroupID + "'", nil
}

func (s *state) retention(c call, req wire.RetentionRequest) (any, error) {
	g, err := s.owner(c.account, req.GroupID, "set retention")
	if err == nil {
		g.days = req.RetentionDays
		s.note(chain.KindRetention, req.GroupID, "", c.account)
		s.sign(chain.Record{Kind: chain.KindRetention, Account: c.account, Group: req.GroupID})
	}
	return "Set retention for group '" + req.GroupID + "'", err
}

func (s *state) setFormat(c call, req wire.FormatRequest) (any, error) {
	if req.Format != 1 && req.Format != 2 {
		return nil, refuse(http.StatusBadRequest, wire.CodeValidation, "format must be 1 or 2")
	}
	g, err := s.owner(c.account, req.GroupID, "set the format of files")
	if err == nil {
		g.format = req.Format
		s.note(chain.KindFormat, req.GroupID, "", c.account)
		s.sign(chain.Record{Kind: chain.KindFormat, Account: c.account, Group: req.GroupID, Detail: strconv.FormatInt(req.Format, 10)})
	}
	return "Set the format of group '" + req.GroupID + "'", err
}

func (s *state) getFormat(c call, req wire.GroupRequest) (any, error) {
	g, err := s.member(c.account, req.GroupID)
	if err != nil {
		return nil, err
	}
	return wire.FormatResult{Format: cmp.Or(g.format, 2)}, nil
}

func (s *state) owned(c call) (any, error) {
	return s.listGroups(c, wire.OpGetOwnedGroups, func(g *group) bool { return g.owner == c.account })
}

func (s *state) memberOf(c call) (any, error) {
	return s.listGroups(c, wire.OpGetMemberGroups, func(g *group) bool { return slices.Contains(g.members, c.account) })
}

func (s *state) listGroups(c call, action string, want func(*group) bool) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.chargeRead(c.account, action, nil); err != nil {
		return nil, err
	}
	list := []string{}
	for id, g := range s.groups {
		if want(g) {
			list = append(list, id)
		}
	}
	return list, nil
}

func (s *state) members(c call, req wire.GroupRequest) (any, error) {
	g, err := s.member(c.account, req.GroupID)
	if err == nil {
		err = s.chargeRead(c.account, wire.OpGetGroupMembers, g)
	}
	if err != nil {
		return nil, err
	}
	return slices.Clone(g.members), nil
}

func (s *state) prepare(c call, req wire.PrepareUploadRequest) (any, error) {
	if req.Resume != "" && s.chunks {
		return s.resume(c, req)
	}
	if _, err := s.member(c.account, req.GroupID); err != nil {
		return nil, err
	}
	u := &pending{account: c.account, group: req.GroupID, name: req.Filename, key: make([]byte, format.KeyBytes)}
	_, _ = rand.Read(u.key)
	out := wire.PrepareUploadResult{UploadID: uuid.NewString(), Key: encode64(u.key), GroupID: req.GroupID, Filename: req.Filename}
	if s.flavour == Ours {
		out.UploadURL = wire.PathUploadBlob + out.UploadID
	}
	if err := s.offerParts(u, req, &out); err != nil {
		return nil, err
	}
	s.uploads[out.UploadID] = u
	return out, nil
}

func (s *state) pending(id, account string) (*pending, error) {
	u := s.uploads[id]
	if u == nil || u.account != account {
		return nil, refuse(http.StatusNotFound, wire.CodeUploadUnknown, "Invalid or expired upload_id")
	}
	return u, nil
}

func (s *state) putBlob(c call, id string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, err := s.pending(id, c.account)
	if err != nil {
		return nil, err
	}
	u.blob = c.body
	return []byte{}, nil
}

func (s *state) finalize(c call, req wire.FinalizeUploadRequest) (any, error) {
	u, err := s.pending(req.UploadID, c.account)
	if err != nil {
		return nil, err
	}
	if u.result != nil {
		return u.result, nil
	}
	blob := u.blob
	var sealed *sealedFile
	if meta, ok := isBlocks(req.Format); ok && u.parts != nil {
		if sealed, err = s.assemble(u, req, meta); err != nil {
			return nil, err
		}
	}
	if req.EncryptedData != "" {
		if blob, err = base64.StdEncoding.Strict().DecodeString(req.EncryptedData); err != nil {
			return nil, refuse(http.StatusBadRequest, wire.CodeValidation, "encrypted_data is not base64")
		}
	}
	noHash := sealed != nil && u.base != "" && req.FileHash == ""
	if sum, err := hex.DecodeString(req.FileHash); !noHash && (err != nil || len(sum) != sha256.Size) || sealed == nil && len(blob) < format.Overhead {
		return nil, refuse(http.StatusBadRequest, wire.CodeValidation, "file_hash must be 64-char hex (SHA-256)")
	}
	if _, err := s.member(c.account, u.group); err != nil {
		return nil, err
	}
	fee, err := s.charge(c.account, "upload")
	if err != nil {
		return nil, err
	}
	f, err := s.record(u, req, blob, sealed)
	if err != nil {
		return nil, err
	}
	out := &wire.FinalizeUploadResult{Location: f.row.IPFSHash, CID: f.row.IPFSHash, TransID: f.row.TransID, FileHash: req.FileHash}
	if s.flavour == Ours {
		u.result = out // repeated, the same answer
		out.Seq, out.Time, out.Fee = f.row.Seq, *f.row.Timestamp, fee.String()
		out.Record, out.Receipt = s.log.receipt()
		if sealed != nil {
			out.DataURL, out.TilesURL = wire.PathBlocks+f.row.TransID, wire.PathTiles+f.row.TransID
		}
		return out, nil
	}
	out.TransID = strconv.Quote(out.TransID) // as the hosted service does
	delete(s.uploads, req.UploadID)
	return out, nil
}

// record writes the ledger row. The caller holds the lock.
func (s *state) record(u *pending, req wire.FinalizeUploadRequest, blob []byte, sealed *sealedFile) (*file, error) {
	meta, err := format.ParseMetadata(req.Format)
	if err != nil {
		meta = format.Metadata{OriginalSize: format.SizeUnknown}
	}
	attributes, err := attributesText(meta.Attributes)
	if err != nil && s.flavour == Ours {
		return nil, err
	}
	at := time.Now().UnixNano()
	now := strconv.FormatInt(at, 10)
	id := make([]byte, 32)
	_, _ = rand.Read(id)
	ref := "bafy" + uuid.NewString()
	s.note(chain.KindRecord, u.group, ref, u.account)
	f := &file{key: u.key, blob: blob, sealed: sealed, format: req.Format, row: wire.TransactionRow{TransID: hex.EncodeToString(id), GroupID: u.group,
		UserID: u.account, FileHash: req.FileHash, IPFSHash: ref, Timestamp: &now}}
	if s.flavour == Ours {
		size := int64(len(blob) - format.Overhead)
		if meta.OriginalSize != format.SizeUnknown {
			size = meta.OriginalSize
		}
		if u.name == "" {
			u.name = meta.Filename
		}
		f.row.Filename, f.row.OriginalSize, f.row.ContentType = &u.name, &size, &meta.ContentType
		f.row.Attributes, f.row.Seq, f.row.ChangedSeq = attributes, s.seq, s.seq
		if sealed != nil {
			sum := meta.Content(format.ManifestSum(sealed.manifest))
			content := hex.EncodeToString(sum[:])
			f.row.Content = &content
		}
		s.sign(chain.Record{Kind: chain.KindRecord, TimeNS: at, Account: u.account, Group: u.group, Tx: f.row.TransID, Ref: ref, FileHash: req.FileHash, Detail: u.name,
			Tags: f.withContent(attributes, chain.Tag{Name: chain.TagSize, Value: strconv.FormatInt(size, 10)}, chain.Tag{Name: chain.TagType, Value: meta.ContentType})})
	}
	s.files = append(s.files, f)
	return f, nil
}

// attributesText is how attributes are recorded, nil for none.
func attributesText(raw string) (*string, error) {
	a, err := format.ParseAttributes(raw)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, wire.CodeValidation, "attributes are not understood")
	}
	text, err := a.Text()
	if err != nil || text == "" {
		return nil, err
	}
	return &text, nil
}

// target is that of a symbolic link, "" without one.
func target(text *string) string {
	if text == nil {
		return ""
	}
	a, err := format.ParseAttributes(*text)
	if err != nil {
		panic(err) // our own text
	}
	return a.Target
}

// withContent adds the tags of attributes and of format version 2, if there are any.
func (f *file) withContent(attributes *string, tags ...chain.Tag) []chain.Tag {
	if f.row.Content != nil {
		tags = append(tags, chain.Tag{Name: chain.TagContent, Value: *f.row.Content})
	}
	if attributes != nil {
		tags = append(tags, chain.Tag{Name: chain.TagAttributes, Value: *attributes})
	}
	return tags
}

// file finds a file for a member. The caller holds the lock.
func (s *state) file(id, g, ref string) (*file, error) {
	if _, err := s.member(id, g); err != nil {
		return nil, err
	}
	for _, f := range s.files {
		if f.row.GroupID == g && f.row.IPFSHash == ref {
			return f, nil
		}
	}
	return nil, refuse(http.StatusNotFound, wire.CodeFileNotFound, "FILE_KEY_NOT_FOUND: No key for this file")
}

func (f *file) living() error {
	if f.row.Deleted != nil {
		return refuse(http.StatusNotFound, wire.CodeFileDeleted, "File deleted")
	}
	return nil
}

func (s *state) retrieve(c call, req wire.PrepareRetrieveRequest) (any, error) {
	f, err := s.file(c.account, req.GroupID, req.IPFSHash)
	if err == nil {
		err = f.living()
	}
	if err != nil {
		return nil, err
	}
	if f.sealed != nil && !slices.Contains(req.Formats, format.VersionBlocks) {
		return nil, unsupportedVersion()
	}
	out := wire.PrepareRetrieveResult{Key: encode64(f.key), IPFSHash: req.IPFSHash, Location: req.IPFSHash, GroupID: req.GroupID, Format: f.format}
	if s.flavour == Ours {
		claim := c.account + " " + req.ClaimID + " " + req.IPFSHash
		if !s.claims[claim] {
			fee, err := s.charge(c.account, "retrieve")
			if err != nil {
				return nil, err
			}
			out.Fee = fee.String()
			s.claims[claim] = req.ClaimID != ""
		}
		if f.sealed != nil {
			s.retrieveBlocks(f, req, &out)
			return withFirst(f, req, out), nil
		}
		if req.Transfer == wire.TransferRaw && len(f.blob) > wire.InlineBlobBytes {
			out.DataURL, out.DataSize = wire.PathReadBlob+f.row.TransID, int64(len(f.blob))
			return out, nil
		}
	}
	out.EncryptedB64 = encode64(f.blob)
	return out, nil
}

func (s *state) readBlob(c call, ticket string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		if f.row.TransID == ticket {
			if _, err := s.member(c.account, f.row.GroupID); err != nil {
				return nil, err
			}
			return f.blob, nil
		}
	}
	return nil, refuse(http.StatusNotFound, wire.CodeFileNotFound, "transfer not found")
}

func (s *state) transactions(c call, req wire.TransactionsRequest) (any, error) {
	g, err := s.member(c.account, req.GroupID)
	if err == nil {
		err = s.chargeRead(c.account, readRecords, g)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case s.log != nil && req.Kinds == wire.KindsChain:
		return s.log.list(req)
	case s.log != nil && req.Kinds == wire.KindsAll:
		return s.log.all(req), nil
	}
	rows := []wire.TransactionRow{}
	for _, f := range s.files {
		if f.row.GroupID == req.GroupID && (s.flavour == Hosted || f.row.ChangedSeq > req.AfterSeq) {
			rows = append(rows, f.row)
		}
	}
	if s.flavour == Ours && req.Limit > 0 {
		slices.SortFunc(rows, func(a, b wire.TransactionRow) int { return int(a.ChangedSeq - b.ChangedSeq) })
		rows = rows[:min(len(rows), req.Limit)]
	}
	return rows, nil
}

func (s *state) delete(c call, req wire.FileRequest) (any, error) {
	f, err := s.ownFile(c.account, req.GroupID, req.IPFSHash)
	if err != nil {
		return nil, err
	}
	if f.row.Deleted != nil {
		return "Deleted", nil
	}
	s.note(chain.KindTombstone, req.GroupID, req.IPFSHash, c.account)
	s.sign(f.later(chain.KindTombstone, c.account, wire.ReasonOwnerRequest))
	f.key, f.blob, f.sealed, f.row.ChangedSeq = nil, nil, nil, s.seq
	f.row.Deleted = &wire.Deleted{DeletedAt: strconv.FormatInt(time.Now().UnixNano(), 10), DeletedBy: c.account, Reason: wire.ReasonOwnerRequest}
	return "Deleted", nil
}

func (s *state) rename(c call, req wire.RenameRequest) (any, error) {
	f, err := s.ownFile(c.account, req.GroupID, req.IPFSHash)
	if err == nil {
		err = f.living()
	}
	if err != nil {
		return nil, err
	}
	s.note(chain.KindRename, req.GroupID, req.IPFSHash, c.account)
	s.sign(f.later(chain.KindRename, c.account, req.Filename))
	f.row.ChangedSeq, f.row.Filename, f.named = s.seq, &req.Filename, 0
	return "Renamed", nil
}

func (s *state) setAttributes(c call, req wire.AttributesRequest) (any, error) {
	f, err := s.ownFile(c.account, req.GroupID, req.IPFSHash)
	if err == nil {
		err = f.living()
	}
	var text *string
	if err == nil {
		text, err = attributesText(string(req.Attributes))
	}
	if err == nil && target(text) != target(f.row.Attributes) {
		err = refuse(http.StatusBadRequest, wire.CodeValidation, "the target cannot change")
	}
	if err != nil || text == f.row.Attributes || text != nil && f.row.Attributes != nil && *text == *f.row.Attributes {
		return "Set", err
	}
	s.note(chain.KindAttributes, req.GroupID, req.IPFSHash, c.account)
	f.row.Attributes = text
	r := f.later(chain.KindAttributes, c.account, "")
	r.Tags = append(r.Tags, chain.Tag{Name: chain.TagNamed, Value: strconv.FormatInt(cmp.Or(f.named, f.row.ChangedSeq), 10)})
	f.named = cmp.Or(f.named, f.row.ChangedSeq)
	s.sign(r)
	f.row.ChangedSeq = s.seq
	return "Set", nil
}

// renameFolder needs a log, which says what a folder is.
func (s *state) renameFolder(c call, req wire.RenameFolderRequest) (any, error) {
	if _, err := s.member(c.account, req.GroupID); err != nil {
		return nil, err
	}
	if !chain.IsFolderMove(req.Folder, req.NewFolder) || req.Seq <= 0 {
		return nil, refuse(http.StatusBadRequest, wire.CodeValidation, "folder, new_folder, seq")
	}
	for i := range s.log.records { // a repetition
		r := &s.log.records[i]
		if before, after, ok := chain.FolderOf(r); ok && r.Seq > req.Seq && r.Group == req.GroupID && r.Account == c.account && before == req.Folder && after == req.NewFolder {
			return s.folderRenamed(r), nil
		}
	}
	var list []*file
	taken := map[string]bool{}
	for _, f := range s.files {
		switch {
		case f.row.GroupID != req.GroupID || f.row.Deleted != nil:
		case strings.HasPrefix(*f.row.Filename, req.Folder+"/"):
			list = append(list, f)
		default:
			taken[*f.row.Filename] = true
		}
	}
	if len(list) == 0 {
		return nil, refuse(http.StatusNotFound, wire.CodeFileNotFound, "file not found: no file is beneath that folder")
	}
	rename := func(f *file) string { return req.NewFolder + strings.TrimPrefix(*f.row.Filename, req.Folder) }
	for _, f := range list {
		if _, err := s.ownFile(c.account, req.GroupID, f.row.IPFSHash); err != nil {
			return nil, err
		}
		if taken[rename(f)] {
			return nil, refuse(http.StatusConflict, wire.CodeConflict, "the name is in use")
		}
	}
	s.note(chain.KindRenameFolder, req.GroupID, "", c.account)
	s.sign(chain.Record{Kind: chain.KindRenameFolder, Account: c.account, Group: req.GroupID, Detail: req.NewFolder,
		Tags: []chain.Tag{{Name: chain.TagFolder, Value: req.Folder}, {Name: chain.TagFiles, Value: strconv.Itoa(len(list))}}})
	for _, f := range list {
		name := rename(f)
		f.row.ChangedSeq, f.row.Filename, f.named = s.seq, &name, 0
	}
	return s.folderRenamed(&s.log.records[len(s.log.records)-1]), nil
}

func (s *state) folderRenamed(r *chain.Record) wire.RenameFolderResult {
	files, _ := strconv.ParseInt(r.Tag(chain.TagFiles), 10, 64)
	record, receipt := s.log.receiptOf(r)
	return wire.RenameFolderResult{Files: files, Record: record, Receipt: receipt}
}

// ownFile is file for its uploader or the owner of the group.
func (s *state) ownFile(id, g, ref string) (*file, error) {
	f, err := s.file(id, g, ref)
	if err == nil && f.row.UserID != id && s.groups[g].owner != id {
		err = refuse(http.StatusForbidden, wire.CodeNotAuthorized, "User not authorized: uploader or owner only")
	}
	return f, err
}
