package api

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
)

// typed is an operation on a request of one shape.
func typed[Request, Result any](f func(ctx context.Context, account string, req Request) (Result, error)) tool {
	return func(ctx context.Context, account string, raw []byte) (any, error) {
		req, err := decode[Request](raw)
		if err != nil {
			return nil, err
		}
		return f(ctx, account, req)
	}
}

// inGroup is an operation that only needs the name of a group.
func inGroup[Result any](f func(ctx context.Context, account, group string) (Result, error)) tool {
	return typed(func(ctx context.Context, account string, req wire.GroupRequest) (Result, error) {
		return f(ctx, account, req.GroupID)
	})
}

// operations are those of the wire protocol 3.3, but for those that carry content
// or long lists, or wait.
func (s *server) operations() map[string]tool {
	return map[string]tool{
		wire.OpAuthStatus: inGroup(s.authStatus),
		wire.OpRegisterGroup: inGroup(func(ctx context.Context, account, g string) (string, error) {
			return s.Groups.Register(ctx, account, g, false)
		}),
		wire.OpAddGroupMember: typed(func(ctx context.Context, account string, req wire.MemberRequest) (groups.Added, error) {
			return s.Groups.Add(ctx, account, req.GroupID, req.MemberID, req.Role)
		}),
		wire.OpRevokeGroupMember: typed(func(ctx context.Context, account string, req wire.MemberRequest) (string, error) {
			return s.Groups.Revoke(ctx, account, req.GroupID, req.MemberID)
		}),
		wire.OpJoinGroup: inGroup(s.Groups.Join),
		wire.OpCreateHackathonGroup: typed(func(ctx context.Context, account string, req wire.OpenJoinRequest) (string, error) {
			return s.Groups.OpenJoin(ctx, account, req.GroupID, req.ExpiresAt, req.MaxUses, req.Role)
		}),
		wire.OpCloseHackathonJoin: inGroup(s.Groups.CloseJoin),
		wire.OpSetGroupRetention: typed(func(ctx context.Context, account string, req wire.RetentionRequest) (string, error) {
			return s.Groups.SetRetention(ctx, account, req.GroupID, req.RetentionDays)
		}),
		wire.OpPrepareUpload:   typed(s.Files.Prepare),
		wire.OpGetGroupMembers: inGroup(s.Groups.Members),
		wire.OpGetPending:      inGroup(s.Groups.Pending),
		wire.OpKeepFiles:       inGroup(s.Groups.Keep),
		wire.OpDeleteFile:      typed(s.Files.Delete),
		wire.OpRenameFile:      typed(s.Files.Rename),
		wire.OpGetStorage:      typed(s.Files.Storage),
	}
}

// bodyCopies is how often a small request is in memory while it is answered.
const bodyCopies = 3

// asked authenticates a request and reads it into its shape.
func asked[Request any](s *server, w http.ResponseWriter, r *http.Request) (account string, req Request, err error) {
	if account, err = s.caller(r); err != nil {
		return "", req, err
	}
	size := r.ContentLength
	if size < 0 { // not known
		size = maxRequestBytes
	}
	if err := s.holdMemory(r, bodyCopies*min(size, maxRequestBytes)); err != nil {
		return "", req, err
	}
	raw, err := body(w, r, maxRequestBytes)
	if err != nil {
		return "", req, err
	}
	req, err = decode[Request](raw)
	return account, req, err
}

func (s *server) tool(w http.ResponseWriter, r *http.Request) {
	op := r.PathValue("op")
	if answer := s.special[op]; answer != nil {
		answer(w, r)
		return
	}
	run, ok := s.tools[op]
	if !ok {
		s.refuse(w, r, fault.New(wire.CodeUnsupported, "operation not found: %.60q is not offered here", op))
		return
	}
	account, req, err := asked[json.RawMessage](s, w, r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	if op == wire.OpGetGroupMembers {
		err = s.holdMemory(r, valueMemory)
	}
	var value any
	if err == nil {
		value, err = run(r.Context(), account, req)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	result(w, value)
}

const (
	// pageOfNames is how much memory a page of groups takes, at most, in bytes.
	pageOfNames = wire.MaxPageNames << 10
	// maxNames is how many groups are listed without pages.
	maxNames = 50 * wire.MaxPageNames
)

// names answers a list of groups: a page if one is asked for, else all of them, for
// which memory is taken page by page.
func (s *server) names(list func(context.Context, string, wire.NamesRequest) (groups.Listing, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		account, req, err := asked[wire.NamesRequest](s, w, r)
		all := groups.Listing{Names: []string{}, Roles: []wire.Role{}, More: true}
		onePage := req.Limit > 0
		if req.Limit <= 0 || req.Limit > wire.MaxPageNames {
			req.Limit = wire.MaxPageNames
		}
		for err == nil && all.More {
			if len(all.Names) >= maxNames {
				err = fault.New(wire.CodeTooLarge, "the account has more than %d groups: ask with after and limit", maxNames)
				break
			}
			var page groups.Listing
			if err = s.holdMemory(r, pageOfNames); err == nil {
				page, err = list(r.Context(), account, req)
			}
			all.Add(page)
			if onePage || !page.More {
				break
			}
			req.After = page.Names[len(page.Names)-1]
		}
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		result(w, all)
	}
}

// watch waits for what happens in the caller's groups.
func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	account, req, err := asked[wire.WatchRequest](s, w, r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	out, err := s.Watch.Events(r.Context(), account, req, func() error {
		_, err := s.authenticate(r) // its key may have been rotated meanwhile
		return err
	})
	if r.Context().Err() != nil {
		return // the caller left, as it may
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	result(w, out)
}

func (s *server) authStatus(ctx context.Context, account, group string) (any, error) {
	if group == "" {
		group = "default"
	}
	out := wire.AuthStatusResult{Authenticated: true, AccountID: account, GroupID: group}
	if group == "default" {
		return out, nil
	}
	_, role, err := s.Groups.View(ctx, group, account)
	if err != nil {
		refused := fault.Of(err)
		if refused.Code == wire.CodeInternal {
			return nil, err
		}
		out.AuthError = refused.Text
	}
	member := role != ""
	out.AuthorizedForGroup, out.Role = &member, role
	return out, nil
}

// finalize records an upload, with the ciphertext inside the JSON or sent before.
func (s *server) finalize(w http.ResponseWriter, r *http.Request) {
	account, err := s.caller(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	raw, err := s.contentBody(w, r, account)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	req, data, err := decodeFinalize(raw)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	out, err := s.Files.Finalize(r.Context(), account, req, data)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	s.Metrics.Uploads.Inc()
	result(w, out)
}

// retrieve hands out a key with the ciphertext, or with the address of it.
func (s *server) retrieve(w http.ResponseWriter, r *http.Request) {
	account, req, err := asked[wire.PrepareRetrieveRequest](s, w, r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	inlineUpTo := int64(wire.InlineBlobBytes)
	if req.Transfer != wire.TransferRaw {
		if inlineUpTo, err = s.checkInline(r, account, req); err != nil {
			s.refuse(w, r, err)
			return
		}
		if inlineUpTo > memoryInline {
			s.streamInline(w, r, account, req)
			return
		}
	}
	if err := s.holdMemory(r, retrieveCopies*inlineUpTo); err != nil {
		s.refuse(w, r, err)
		return
	}
	stored, err := s.Files.Retrieve(r.Context(), account, req, inlineUpTo)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	s.Metrics.Retrieves.Inc()
	out := retrieved(req, stored)
	if stored.Inline != nil {
		out.EncryptedB64 = base64.StdEncoding.EncodeToString(stored.Inline)
	} else {
		out.DataURL = wire.PathReadBlob + s.ticket(account, req.GroupID, req.IPFSHash)
		out.DataSize = stored.BlobSize
	}
	writeRaw(w, http.StatusOK, resultOf(r, out))
}

// retrieveCopies is how often a small file is in memory while it is answered: as it
// is stored, and four times as text.
const retrieveCopies = 7

func (s *server) putBlob(w http.ResponseWriter, r *http.Request) {
	account, err := s.caller(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	if r.ContentLength > s.MaxFileBytes+format.Overhead {
		s.refuse(w, r, fault.New(wire.CodeTooLarge, "file too large: at most %d bytes are accepted", s.MaxFileBytes))
		return
	}
	if err := s.holdMemory(r, s.PutMemory(r.ContentLength)); err != nil {
		s.refuse(w, r, err)
		return
	}
	traceOf(r.Context()).until(time.Time{}) // it may be large, and take its time
	if err := s.Files.PutBlob(r.Context(), account, r.PathValue("id"), r.Body, r.ContentLength); err != nil {
		s.refuse(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

const ticketLife = 5 * time.Minute

// ticketBody is what a raw transfer ticket grants; it is signed, and good only
// together with the session token of the same account.
type ticketBody struct {
	Account string `json:"a"`
	Group   string `json:"g"`
	Ref     string `json:"r"`
	Expires int64  `json:"e"` // s since the epoch
}

func (s *server) ticket(account, group, ref string) string {
	raw, _ := json.Marshal(ticketBody{account, group, ref, s.Ledger.Now().Add(ticketLife).Unix()})
	return base64.RawURLEncoding.EncodeToString(raw) + "." + base64.RawURLEncoding.EncodeToString(s.sign(raw))
}

func (s *server) sign(raw []byte) []byte {
	mac := hmac.New(sha256.New, s.TicketKey)
	mac.Write(raw)
	return mac.Sum(nil)
}

func (s *server) openTicket(text, account string) (ticketBody, error) {
	var t ticketBody
	body, mac, ok := strings.Cut(text, ".")
	raw, err1 := base64.RawURLEncoding.Strict().DecodeString(body)
	sum, err2 := base64.RawURLEncoding.Strict().DecodeString(mac)
	if !ok || errors.Join(err1, err2) != nil || !hmac.Equal(sum, s.sign(raw)) || json.Unmarshal(raw, &t) != nil ||
		t.Account != account || t.Expires < s.Ledger.Now().Unix() {
		return t, fault.New(wire.CodeFileNotFound, "transfer not found: ask prepare_retrieve for a new address")
	}
	return t, nil
}

// getBlob streams ciphertext to the holder of a ticket, with ranges.
func (s *server) getBlob(w http.ResponseWriter, r *http.Request) {
	account, err := s.caller(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	t, err := s.openTicket(r.PathValue("ticket"), account)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	f, info, err := s.Files.OpenBlob(r.Context(), account, t.Group, t.Ref)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", strconv.Quote(hex.EncodeToString(info.Sum[:])))
	if strings.Contains(r.Header.Get("Range"), ",") {
		r.Header.Del("Range") // each would be a request to the bucket; RFC 9110 section 14.2 lets a server ignore it
	}
	http.ServeContent(w, r, "", time.Time{}, f)
}
