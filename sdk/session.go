package sdk

import (
	"context"
	"errors"
	"sync"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/locked"
	"github.com/svcfs/svcfs/sdk/wire"
)

// sessions are the sealed sessions of a client: the service sees neither its API key nor the keys of the files that it
// reads. There are two at most: the newest, and the one before, whose answers may still come.
type sessions struct {
	c *Client

	mu   sync.Mutex
	list []sealedSession // the newest first
}

type sealedSession struct {
	key   locked.Secret
	epoch int64
	begun call.Begun
	open  *format.Session
}

// begin begins a session with an API key; see [call.Config].Begin. It begins one once for a key and an epoch of the
// vault.
func (s *sessions) begin(ctx context.Context, key locked.Secret, again bool) (*call.Begun, error) {
	caps, err := s.c.Capabilities(ctx)
	if err != nil {
		return nil, err
	}
	if !caps.TakesSealed() || !caps.Vault.Sessions {
		if !s.c.memory.IsSealed() {
			return nil, nil
		}
		return nil, &Error{Op: "check", Kind: ErrUnavailable, Code: wire.CodeUnavailable, Err: errors.New(
			"the service does not say now how the API key is sent to it sealed, as before, and the key is not sent " +
				"in the clear: try again; if this stays, ask the operator")}
	}
	vault := s.c.vault.current
	if again {
		vault = s.c.vault.newer
	}
	to, err := vault(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.list {
		if session.epoch == to.stated.Epoch && session.key == key {
			return &session.begun, nil
		}
	}
	opening, session, err := to.public.NewSession(format.SessionFor{Service: to.service,
		Account: string(s.c.account), Epoch: to.stated.Epoch}, []byte(key.Reveal()))
	if err != nil {
		return nil, &Error{Op: "check", Kind: ErrInvalid, Code: wire.CodeInvalidKey, Err: err}
	}
	begun := call.Begun{Opening: wire.Opening{Epoch: to.stated.Epoch, Sealed: opening},
		Proof: wire.ProofKeys{Service: session.RequestKey(), Vault: session.VouchKey()}}
	s.list = append([]sealedSession{{key, to.stated.Epoch, begun, session}}, s.list[:min(len(s.list), 1)]...)
	s.c.memory.SawSealed()
	return &begun, nil
}

// keyIn returns the key of a file from an answer, where it is in the clear or sealed. The caller wipes it.
func (s *sessions) keyIn(clear string, sealed []byte, g GroupID, ref Ref) (key *format.Key, err error) {
	s.mu.Lock()
	list := s.list
	s.mu.Unlock()
	if len(list) == 0 {
		key, err = format.ParseKey(clear)
	}
	for _, session := range list {
		if key, err = session.open.Open(string(g), string(ref), sealed); err == nil {
			break
		}
	}
	if err != nil {
		return nil, call.Malformed(err)
	}
	return key, nil
}
