package agent

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/wire"
)

// addWriting adds the tools that change something and destroy nothing.
func (s *server) addWriting(h *mcp.Server) {
	addChange(s, h, "put_file", "Save a file", "Save content of at most 1 MiB as a file, or as the newest version of "+
		"one. To replace a file, give the cid of the version that you read: the save is refused if there is a newer "+
		"one. Costs one upload.",
		effect{destroys: true}, s.putFile)
	addChange(s, h, "rename", "Rename a file", "Give all versions of a file another name, which must be free.",
		effect{destroys: true}, s.rename)
	addChange(s, h, "create_group", "Create a group", "Create a group that this account owns. Costs much (see cost).",
		effect{}, s.createGroup)
	addChange(s, h, "add_member", "Add a member", "Let an account read all files of a group that this account owns, "+
		"also older ones; a writer may save, too.", effect{}, s.addMember)
	addChange(s, h, "revoke_member", "Revoke a member",
		"Take the access to a group from an account. What it read before, it has.", effect{destroys: true},
		s.revokeMember)
}

// addDeleting adds the tools after which others miss something.
func (s *server) addDeleting(h *mcp.Server) {
	addChange(s, h, "remove_file", "Move a file to the trash",
		"Move all versions of a file to the trash of the group, where its owner can bring them back for some days.",
		effect{destroys: true, idempotent: true}, s.removeFile)
	addChange(s, h, "destroy_file", "Destroy a file",
		"Destroy the keys of a file, for ever: of one version if a cid is given, else of all versions of the name. "+
			"Nobody can undo this.", effect{destroys: true, idempotent: true}, s.destroyFile)
}

type putArgs struct {
	Group    string  `json:"group" jsonschema:"id of the group, from list_groups"`
	Name     string  `json:"name" jsonschema:"name of the file; slashes divide folders"`
	Text     *string `json:"text,omitempty" jsonschema:"the content, as text"`
	Base64   *string `json:"base64,omitempty" jsonschema:"the content, in base64, instead of text"`
	Replaces string  `json:"replaces,omitempty" jsonschema:"cid of the newest version, if the file exists"`
}

func (in putArgs) content() ([]byte, error) {
	var content []byte
	switch {
	case (in.Text == nil) == (in.Base64 == nil):
		return nil, refuse("give one of the two", "put_file wants text or base64")
	case in.Text != nil:
		content = []byte(*in.Text)
	default:
		var err error
		if content, err = base64.StdEncoding.DecodeString(*in.Base64); err != nil {
			return nil, refuse("encode it anew", "the base64 is not valid")
		}
	}
	if len(content) > maxPut {
		return nil, refuse("divide it, or ask the user to save it with svcfs put",
			"%d bytes are more than the %d that put_file takes", len(content), maxPut)
	}
	return content, nil
}

// newName refuses names that would not be shown as they are.
func newName(name string) error {
	for part := range strings.SplitSeq(name, "/") {
		if names.Component(part) != part || len(part) > names.MaxBytes {
			return refuse("use names without control characters, empty parts, . and .., with at most 255 bytes "+
				"between slashes", "%q is no good name", name)
		}
	}
	return nil
}

func (s *server) putFile(ctx context.Context, in putArgs) (change, error) {
	g, err := s.group(in.Group)
	if err != nil {
		return change{}, err
	}
	content, err := in.content()
	if err != nil {
		return change{}, err
	}
	if err := newName(in.Name); err != nil {
		return change{}, err
	}
	if _, err := s.checkNewest(ctx, g, in); err != nil {
		return change{}, err
	}
	price, err := s.Client.EstimateFee(ctx, actionUpload)
	what := "save"
	if in.Replaces != "" {
		what = "save a new version of"
	}
	return change{
		text: fmt.Sprintf("%s %q in the group %q: %d bytes with SHA-256 %s", what, in.Name, in.Group, len(content),
			sdk.ComputeHash(content)),
		price: price, bytes: int64(len(content)),
		do: func(ctx context.Context) (any, sdk.Amount, error) {
			follows, err := s.checkNewest(ctx, g, in) // others may have saved meanwhile
			if err != nil {
				return nil, sdk.Amount{}, err
			}
			bound, err := s.bound(ctx, follows)
			if err != nil {
				return nil, sdk.Amount{}, err
			}
			r, err := g.Put(ctx, in.Name, bytes.NewReader(content), bound)
			var refused *sdk.Error
			if errors.As(err, &refused) && refused.Code == wire.CodeHead {
				if _, err := s.checkNewest(ctx, g, in); err != nil {
					return nil, sdk.Amount{}, err
				}
			}
			if err != nil {
				return nil, sdk.Amount{}, err
			}
			return map[string]any{"saved": in.Name, "cid": r.Ref, "trans_id": r.Tx, "file_hash": r.Hash.String(),
				"size": r.Size}, r.Fee, nil
		},
	}, err
}

// bound has the service itself refuse a save that replaces another version than the agent named: it
// may come in this moment. A service that cannot is asked before alone.
func (s *server) bound(ctx context.Context, follows sdk.Ref) (o sdk.PutOptions, err error) {
	caps, err := s.Client.Capabilities(ctx)
	if err != nil || !caps.Dialect.IsOurs() {
		return o, err
	}
	return sdk.PutOptions{Base: &follows}, nil
}

// checkNewest refuses to replace what the agent has not seen. It returns the newest version that is
// recorded under the name, "" for none.
func (s *server) checkNewest(ctx context.Context, g sdk.Group, in putArgs) (follows sdk.Ref, err error) {
	e, err := s.named(ctx, g, in.Name)
	if errors.Is(err, sdk.ErrUnsupported) {
		var l listing
		if l, err = s.look(ctx, g); err != nil {
			return "", err
		}
		if i, ok := l.Newest(in.Name); ok {
			e = l.Entries[i]
		}
	}
	if err != nil && !isAbsent(err) {
		return "", err
	}
	newest := string(e.Ref)
	if e.Name != "" { // else it has the name of its hash, and none is recorded
		follows = e.Ref
	}
	switch {
	case newest == in.Replaces:
		return follows, nil
	case newest == "":
		return "", refuse("leave replaces out", "there is no file %q any more", in.Name)
	case in.Replaces == "":
		return "", refuse("read it, and give its cid as replaces, or choose another name",
			"there is a file %q already, with cid %s", in.Name, newest)
	default:
		return "", refuse("read it, and give its cid as replaces", "the newest version of %q is %s", in.Name, newest)
	}
}

type renameArgs struct {
	Group   string `json:"group" jsonschema:"id of the group, from list_groups"`
	Name    string `json:"name" jsonschema:"name of the file as list_files shows it"`
	NewName string `json:"new_name" jsonschema:"its name from then on; slashes divide folders"`
}

// living returns the versions of a file that are not removed.
func living(versions []sdk.Entry) (list []sdk.Entry) {
	for _, e := range versions {
		if e.Deleted == nil {
			list = append(list, e)
		}
	}
	return list
}

func (s *server) rename(ctx context.Context, in renameArgs) (change, error) {
	if err := newName(in.NewName); err != nil {
		return change{}, err
	}
	l, e, err := s.find(ctx, fileArgs{in.Group, in.Name})
	if err != nil {
		return change{}, err
	}
	if _, taken := l.Newest(in.NewName); taken {
		return change{}, refuse("choose another name", "there is a file %q already", in.NewName)
	}
	versions := living(l.versions(string(e.Ref)))
	each, err := s.Client.EstimateFee(ctx, sdk.EventRenamed)
	text, most := fmt.Sprintf("rename %q in the group %q to %q, with %d versions", l.shown(e), in.Group, in.NewName,
		len(versions)), len(versions)
	if most > 1 && !each.IsZero() {
		text += " (half of the tokens are for naming them back, if one of them cannot be renamed)"
		most *= 2
	}
	return change{
		text:  text,
		price: times(each, most),
		do: func(ctx context.Context) (any, sdk.Amount, error) {
			renames, err := s.Client.Group(e.Group).RenameVersions(ctx, versions, in.NewName)
			return map[string]any{"renamed": in.NewName, "versions": len(versions)}, times(each, renames), err
		},
	}, err
}

// times returns n prices; a sum beyond what an Amount holds stays at the largest that it holds.
func times(price sdk.Amount, n int) (sum sdk.Amount) {
	for range n {
		next, ok := sum.Add(price)
		if !ok || price.IsZero() {
			break
		}
		sum = next
	}
	return sum
}

// changeGroup is a change of a group with one price and a sentence for an answer.
func (s *server) changeGroup(ctx context.Context, action, text string,
	do func(context.Context) (sdk.Change, error)) (change, error) {
	price, err := s.Client.EstimateFee(ctx, action)
	return change{text: text, price: price, do: func(ctx context.Context) (any, sdk.Amount, error) {
		c, err := do(ctx)
		if err != nil {
			return nil, sdk.Amount{}, err
		}
		doc := map[string]any{"done": text, "service": c.Message}
		if c.Nobody {
			doc["warning"] = "the service does not know this account: the name may be wrong, and whoever gets it " +
				"later is a member"
		}
		return doc, price, nil
	}}, err
}

func (s *server) createGroup(ctx context.Context, in groupArgs) (change, error) {
	g, err := s.group(in.Group)
	if err != nil {
		return change{}, err
	}
	if err := names.CheckNewGroup(in.Group); err != nil {
		return change{}, refuse("a group is a folder: use a name such as team, without slashes", "%v", err)
	}
	return s.changeGroup(ctx, sdk.EventRegistered, fmt.Sprintf("create the group %q", in.Group), g.Register)
}

type memberArgs struct {
	Group   string `json:"group" jsonschema:"id of the group, from list_groups"`
	Account string `json:"account" jsonschema:"whole account id, such as alice.svc.testnet"`
}

type newMemberArgs struct {
	Group   string `json:"group" jsonschema:"id of the group, from list_groups"`
	Account string `json:"account" jsonschema:"whole account id, such as alice.svc.testnet"`
	Role    string `json:"role,omitempty" jsonschema:"reader or writer; leave it out where all members may write"`
}

func (s *server) addMember(ctx context.Context, in newMemberArgs) (change, error) {
	g, err := s.group(in.Group)
	if err != nil {
		return change{}, err
	}
	text := fmt.Sprintf("let the account %q read all files of the group %q and save there", in.Account, in.Group)
	role := sdk.Role(in.Role)
	switch role {
	case sdk.RoleReader:
		text = fmt.Sprintf("let the account %q read all files of the group %q", in.Account, in.Group)
	case sdk.RoleWriter, "":
	default:
		return change{}, refuse("use reader or writer", "role %q", in.Role)
	}
	return s.changeGroup(ctx, sdk.EventAdded, text, func(ctx context.Context) (sdk.Change, error) {
		return g.Add(ctx, sdk.AccountID(in.Account), role)
	})
}

func (s *server) revokeMember(ctx context.Context, in memberArgs) (change, error) {
	g, err := s.group(in.Group)
	if err != nil {
		return change{}, err
	}
	return s.changeGroup(ctx, sdk.EventRevoked, fmt.Sprintf("take the access to the group %q from the account %q",
		in.Group, in.Account),
		func(ctx context.Context) (sdk.Change, error) { return g.Revoke(ctx, sdk.AccountID(in.Account)) })
}

func (s *server) removeFile(ctx context.Context, in fileArgs) (change, error) {
	l, e, err := s.find(ctx, in)
	if err != nil {
		return change{}, err
	}
	versions := living(l.versions(string(e.Ref)))
	each, err := s.Client.EstimateFee(ctx, sdk.EventRemoved)
	price := times(each, len(versions))
	return change{
		text: fmt.Sprintf("move %q of the group %q to the trash, with %d versions", l.shown(e), in.Group,
			len(versions)),
		price: price,
		do: func(ctx context.Context) (any, sdk.Amount, error) {
			r, err := s.Client.Group(e.Group).RemoveVersions(ctx, versions)
			return map[string]any{"removed": l.shown(e), "versions": r.Versions, "until": timeOrNil(r.Until)},
				times(each, int(r.Versions)), err
		},
	}, err
}

func (s *server) destroyFile(ctx context.Context, in fileArgs) (change, error) {
	l, e, err := s.find(ctx, in)
	if err != nil {
		return change{}, err
	}
	versions, what := []sdk.Entry{e}, "one version of "
	if string(e.Ref) != in.Name {
		versions, what = nil, ""
		for _, v := range l.versions(string(e.Ref)) {
			if v.Deleted == nil || v.Deleted.InTrash {
				versions = append(versions, v)
			}
		}
	}
	each, err := s.Client.EstimateFee(ctx, sdk.EventDeleted)
	price := times(each, len(versions))
	return change{
		text: fmt.Sprintf("destroy %s%q of the group %q for ever, %d versions with their keys", what, l.shown(e),
			in.Group, len(versions)),
		price: price,
		do: func(ctx context.Context) (any, sdk.Amount, error) {
			gone, waiting := 0, 0
			for _, e := range versions {
				switch _, err := s.Client.Group(e.Group).Delete(ctx, e.Ref); {
				case errors.Is(err, sdk.ErrPending):
					waiting++
				case err != nil:
					return nil, times(each, gone), err
				default:
					gone++
				}
			}
			return map[string]any{"destroyed": l.shown(e), "versions": gone, "versions_delayed": waiting}, price, nil
		},
	}, err
}
