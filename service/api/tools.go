package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
)

// typed is an operation on a request of one shape.
func typed[Request, Result any](f func(ctx context.Context, account string, req Request) (Result, error)) tool {
	return func(ctx context.Context, account string, read func(request any) error) (any, error) {
		var req Request
		if err := read(&req); err != nil {
			return nil, err
		}
		return f(ctx, account, req)
	}
}

// operations are those of the wire protocol 3.3 that are neither content nor a long
// list, and do not wait.
func (s *server) operations() map[string]tool {
	return map[string]tool{
		wire.OpAuthStatus: typed(s.authStatus),
		wire.OpRegisterGroup: typed(func(ctx context.Context, account string, req wire.GroupRequest) (string, error) {
			return s.Groups.Register(ctx, account, req.GroupID, false)
		}),
		wire.OpOpenSealedKey:        typed(s.Files.OpenSealedKey),
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
		wire.OpRemoveFile:           typed(s.Files.Remove),
		wire.OpRestoreFile:          typed(s.Files.Restore),
		wire.OpGetTrash:             typed(s.Groups.Trash),
		wire.OpSetGroupTrash:        typed(s.Groups.SetTrash),
		wire.OpGetGroupVersions:     typed(s.Groups.KeptVersions),
		wire.OpSetGroupVersions:     typed(s.Groups.SetVersions),
		wire.OpTryGroupVersions:     typed(s.Groups.TryVersions),
		wire.OpGetGroupFormat:       typed(s.Groups.Format),
		wire.OpSetGroupFormat:       typed(s.Groups.SetFormat),
		wire.OpLeaveGroup:           typed(s.Groups.Leave),
		wire.OpOfferGroup:           typed(s.Groups.Offer),
		wire.OpAcceptGroup:          typed(s.Groups.Accept),
		wire.OpDeleteGroup:          typed(s.Groups.Delete),
	}
}

func (s *server) tool(w http.ResponseWriter, r *http.Request) error {
	op := r.PathValue("op")
	if answer := s.special[op]; answer != nil {
		return answer(w, r)
	}
	if s.tools[op] == nil {
		return fault.New(wire.CodeUnsupported, "operation not found: %.60q is not offered here", op)
	}
	account, raw, err := asked[json.RawMessage](s, w, r)
	if err != nil {
		return err
	}
	return s.operation(w, r, account, op, func(request any) error { return decodeInto(raw, request) })
}

// operation answers an operation whose request read decodes: of a program, or of the account page.
func (s *server) operation(w http.ResponseWriter, r *http.Request, account, op string,
	read func(request any) error) error {
	if op == wire.OpGetGroupMembers {
		if err := s.holdMemory(r, valueMemory); err != nil {
			return err
		}
	}
	value, err := s.tools[op](r.Context(), account, read)
	if err != nil {
		return err
	}
	result(w, value)
	return nil
}

const (
	// pageOfNames is how much memory a page of groups takes, at most, in bytes.
	pageOfNames = wire.MaxPageNames << 10
	// maxNames is how many groups are listed without pages.
	maxNames = 50 * wire.MaxPageNames
)

// names answers a list of groups: a page if one is asked for, else all of them, for
// which memory is taken page by page.
func (s *server) names(list func(context.Context, string, wire.NamesRequest) (groups.Listing, error)) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		account, req, err := asked[wire.NamesRequest](s, w, r)
		if err != nil {
			return err
		}
		onePage := req.Limit > 0
		if req.Limit <= 0 || req.Limit > wire.MaxPageNames {
			req.Limit = wire.MaxPageNames
		}
		all := groups.Listing{Names: []string{}, Roles: []wire.Role{}}
		for {
			if len(all.Names) >= maxNames {
				return fault.New(wire.CodeTooLarge, "the account has more than %d groups: ask with after and limit", maxNames)
			}
			if err := s.holdMemory(r, pageOfNames); err != nil {
				return err
			}
			page, err := list(r.Context(), account, req)
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

// watch waits for what happens in the caller's groups.
func (s *server) watch(w http.ResponseWriter, r *http.Request) error {
	account, req, err := asked[wire.WatchRequest](s, w, r)
	if err != nil {
		return err
	}
	out, err := s.Watch.Events(r.Context(), account, req, func() error {
		_, err := s.authenticate(r) // its key may have been rotated meanwhile
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
	if group == "default" {
		return out, nil
	}
	_, role, err := s.Groups.View(ctx, group, account)
	if err != nil {
		refused := fault.Of(err)
		if refused.Code == wire.CodeInternal {
			return nil, err
		}
		out.AuthError, role = refused.Text, "" // a group that has ended has its members still
	}
	member := role != ""
	out.AuthorizedForGroup, out.Role = &member, role
	return out, nil
}
