package sdk

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/svcfs/svcfs/format"
)

// Readdress gives the upload another group, another name, and another base, see [Base]; a nil
// base demands nothing. The content, its key and the id stay, so only an upload that was never
// sent, or that the service refused, may be readdressed: else the service answers with what
// was recorded first. It needs the key of the file. Free, local. An encoded upload has to be
// encoded again. Errors: [ErrInvalid] without the key.
func (s *Sealed) Readdress(g GroupID, name string, base *Ref) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key == nil || s.isLocked() {
		return errNoFileKey
	}
	facts := s.facts
	if facts.Filename = name; facts.ContentType != format.TypeSymlink {
		facts.ContentType = contentType(name)
	}
	meta, err := json.Marshal(facts)
	if err != nil {
		return err
	}
	head := s.head
	head.GroupID, head.Format, head.Base = string(g), meta, ""
	if base != nil {
		o := options{}
		Base(*base).put(&o)
		head.Base = o.base
	}
	if err := head.Check(s.mostBlob()); err != nil {
		return &Error{Op: "address upload " + s.head.ID, Group: g, Kind: ErrInvalid, Err: errors.Join(err)}
	}
	s.head, s.facts = head, facts
	return nil
}

// OpenSealedFor is [Client.OpenSealed] for an upload that is to go to another group, see
// [Sealed.Readdress]: the account must be a member of that one, and may have been revoked from the
// group that the upload was sealed for.
func (c *Client) OpenSealedFor(ctx context.Context, s *Sealed, to GroupID) error {
	return c.wrap("open upload", to, "", c.openSealed(ctx, s, to, ""))
}
