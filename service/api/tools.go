package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/web"
)

// typed is an operation on a request of one shape, and with a short result.
func typed[Request, Result any](f func(context.Context, string, Request) (Result, error)) web.Operation {
	return func(w http.ResponseWriter, r *http.Request, by *auth.Session, read func(request any) error) error {
		var req Request
		if err := read(&req); err != nil {
			return err
		}
		value, err := f(r.Context(), by.Account, req)
		if err != nil {
			return err
		}
		result(w, value)
		return nil
	}
}

func (s *server) openJournalKey(w http.ResponseWriter, r *http.Request, by *auth.Session,
	read func(request any) error) error {
	var req wire.OpenJournalKeyRequest
	err := read(&req)
	if err != nil {
		return err
	}
	key, err := s.Files.OpenJournalKey(r.Context(), by, req)
	if err == nil {
		result(w, key)
	}
	return err
}

// withContent is an operation whose request is no small JSON.
func withContent(f web.Transfer) web.Operation {
	return func(w http.ResponseWriter, r *http.Request, by *auth.Session, _ func(request any) error) error {
		return f(w, r, by.Account)
	}
}

// operations are those of the wire protocol 3.3.
func (s *server) operations() map[string]web.Operation {
	return map[string]web.Operation{
		wire.OpFinalizeUpload:       withContent(s.finalize),
		wire.OpFinalizeUploads:      withContent(s.finalizeUploads),
		wire.OpPrepareRetrieve:      s.retrieve,
		wire.OpWatch:                s.watch,
		wire.OpGetOwnedGroups:       s.names(s.Groups.Owned),
		wire.OpGetMemberGroups:      s.names(s.Groups.Of),
		wire.OpGetGroupTransactions: s.transactions,
		wire.OpAuthStatus:           typed(s.authStatus),
		wire.OpRegisterGroup:        typed(s.registerGroup),
		wire.OpSealAPIKey:           s.sealAPIKey,
		wire.OpOpenJournalKey:       s.openJournalKey,
		wire.OpEndJournal:           typed(s.Files.EndJournal),
		wire.OpAddGroupMember:       typed(s.Groups.Add),
		wire.OpRevokeGroupMember:    typed(s.Groups.Revoke),
		wire.OpJoinGroup:            typed(s.Groups.Join),
		wire.OpCreateHackathonGroup: typed(s.Groups.OpenJoin),
		wire.OpCloseHackathonJoin:   typed(s.Groups.CloseJoin),
		wire.OpSetGroupRetention:    typed(s.Groups.SetRetention),
		wire.OpPrepareUpload:        typed(s.Files.Prepare),
		wire.OpGetGroupMembers:      typed(s.Groups.Members),
		wire.OpGetPending:           typed(s.Groups.Pending),
		wire.OpKeepFiles:            typed(s.Groups.Keep),
		wire.OpDeleteFile:           typed(s.Files.Delete),
		wire.OpRenameFile:           typed(s.Files.Rename),
		wire.OpRenameFolder:         typed(s.Files.RenameFolder),
		wire.OpMakeFolder:           typed(s.Files.MakeFolder),
		wire.OpRemoveFolder:         typed(s.Files.RemoveFolder),
		wire.OpSetAttributes:        typed(s.Files.SetAttributes),
		wire.OpGetStorage:           typed(s.Files.Storage),
		wire.OpGetNames:             s.livingNames,
		wire.OpRemoveFile:           typed(s.Files.Remove),
		wire.OpRestoreFile:          typed(s.Files.Restore),
		wire.OpGetTrash:             typed(s.Groups.Trash),
		wire.OpSetGroupTrash:        typed(s.Groups.SetTrash),
		wire.OpGetGroupVersions:     typed(s.Groups.KeptVersions),
		wire.OpSetGroupVersions:     typed(s.Groups.SetVersions),
		wire.OpTryGroupVersions:     typed(s.Groups.TryVersions),
		wire.OpGetGroupSettings:     typed(s.Groups.Settings),
		wire.OpSetGroupSettings:     typed(s.Groups.SetSettings),
		wire.OpLeaveGroup:           typed(s.Groups.Leave),
		wire.OpOfferGroup:           typed(s.Groups.Offer),
		wire.OpAcceptGroup:          typed(s.Groups.Accept),
		wire.OpDeleteGroup:          typed(s.Groups.Delete),
		wire.OpInviteToGroup:        typed(s.Groups.Invite),
		wire.OpGetGroupInvites:      typed(s.Groups.Invites),
		wire.OpRevokeGroupInvite:    typed(s.Groups.RevokeInvite),
		wire.OpUseGroupInvite:       typed(s.Groups.UseInvite),
	}
}

func (s *server) registerGroup(ctx context.Context, account string, req wire.GroupRequest) (string, error) {
	return s.Groups.Register(ctx, account, req.GroupID, false)
}

// tool answers an operation of a program.
func (s *server) tool(w http.ResponseWriter, r *http.Request) error {
	op := r.PathValue("op")
	answer := s.tools[op]
	if answer == nil {
		return fault.New(wire.CodeUnsupported, "operation not found: %.60q is not offered here", op)
	}
	if op == wire.OpPrepareRetrieve {
		by, err := s.unchecked(r)
		if err != nil {
			return err
		}
		return s.retrieve(w, r, by, func(request any) error { return s.read(w, r, request) })
	}
	by, err := s.signedIn(r)
	if err != nil {
		return err
	}
	return answer(w, r, by, func(request any) error {
		if err := s.read(w, r, request); err != nil || op != wire.OpGetGroupMembers {
			return err
		}
		return s.holdLong(r, valueMemory)
	})
}

const (
	// pageOfNames is how much memory a page of groups takes, at most, in bytes.
	pageOfNames = wire.MaxPageNames << 10
	// maxNames is how many groups are listed without pages.
	maxNames = 50 * wire.MaxPageNames
)

// names answers a list of groups: a page if one is asked for, else all of them, for
// which memory is taken page by page.
func (s *server) names(list func(context.Context, string, wire.NamesRequest) (groups.Listing, error)) web.Operation {
	return func(w http.ResponseWriter, r *http.Request, by *auth.Session, read func(request any) error) error {
		var req wire.NamesRequest
		if err := read(&req); err != nil {
			return err
		}
		onePage := req.Limit > 0
		if req.Limit <= 0 || req.Limit > wire.MaxPageNames {
			req.Limit = wire.MaxPageNames
		}
		all := groups.Listing{Names: []string{}, Roles: []wire.Role{}}
		for {
			if len(all.Names) >= maxNames {
				return fault.New(wire.CodeTooLarge, "the account has more than %d groups: ask with after and limit",
					maxNames)
			}
			take := s.holdMemory
			if len(all.Names) > 0 {
				take = s.holdLong
			}
			if err := take(r, pageOfNames); err != nil {
				return err
			}
			page, err := list(r.Context(), by.Account, req)
			if err != nil {
				return err
			}
			if all.Add(page); onePage || !page.More {
				result(w, all)
				return nil
			}
			req.After = page.Names[len(page.Names)-1]
		}
	}
}

// livingNames proves a name or a page of a folder.
func (s *server) livingNames(w http.ResponseWriter, r *http.Request, by *auth.Session,
	read func(request any) error) error {
	if err := s.holdLong(r, files.NamesMemory+packMemory); err != nil {
		return err
	}
	var req wire.LivingRequest
	if err := read(&req); err != nil {
		return err
	}
	answer, err := s.Files.Names(r.Context(), by.Account, req)
	if err != nil {
		return err
	}
	if len(answer.Names) < packedNames || !takesZstd(r) {
		resultAlone(w, answer)
		return nil
	}
	packed, err := packer(w)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", wire.CodingZstd)
	_ = json.NewEncoder(packed).Encode(map[string]any{"result": answer}) // the caller may be gone
	_ = packed.Close()
	return nil
}

// watch waits for what happens in the caller's groups.
func (s *server) watch(w http.ResponseWriter, r *http.Request, by *auth.Session, read func(request any) error) error {
	var req wire.WatchRequest
	if err := read(&req); err != nil {
		return err
	}
	out, err := s.Watch.Events(r.Context(), by.Account, req, func() error {
		_, err := s.authenticate(r) // its key may have been rotated, or the account disabled, meanwhile
		return err
	})
	if r.Context().Err() != nil {
		return nil // the caller left, as it may
	}
	if err != nil {
		return err
	}
	result(w, out)
	return nil
}

func (s *server) authStatus(ctx context.Context, account string, req wire.GroupRequest) (any, error) {
	group := cmp.Or(req.GroupID, "default")
	out := wire.AuthStatusResult{Authenticated: true, AccountID: account, GroupID: group}
	_, role, err := s.Groups.View(ctx, group, account)
	if err != nil {
		refused := fault.Of(err)
		if refused.Code == wire.CodeInternal {
			return nil, err
		}
		if group == "default" { // who asks about no group says so, too
			return out, nil
		}
		out.AuthError, role = refused.Text, "" // a group that has ended has its members still
	}
	member := role != ""
	out.AuthorizedForGroup, out.Role = &member, role
	return out, nil
}
