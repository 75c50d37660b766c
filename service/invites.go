package service

import (
	"context"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/fault"
)

// InviteLifetime is how long an invite is good.
const InviteLifetime = auth.InviteLifetime

// Invite makes an invite for account name; see [auth.Accounts.Invite]. publicURL "" is the address of the last
// start.
func (s *Service) Invite(ctx context.Context, name string, balance wire.Amount,
	publicURL string) (auth.Invited, wire.Invite, error) {
	if host, err := firstNoted(ctx, s.store, metaLogHost, ""); err != nil || host == "" { // the log has no name yet
		return auth.Invited{}, wire.Invite{}, fault.New(wire.CodeValidation, "start the service once before the first "+
			"invite, with svcd serve: an invite has the key of its log")
	}
	address, err := s.addressForUsers(ctx, publicURL)
	if err != nil {
		return auth.Invited{}, wire.Invite{}, err
	}
	logKey, err := s.log.VerifierKey(ctx)
	if err != nil {
		return auth.Invited{}, wire.Invite{}, err
	}
	invited, secret, err := s.accounts.Invite(ctx, s.cfg.ContractID, name, balance)
	return invited, wire.Invite{URL: address, Contract: s.cfg.ContractID, LogKey: logKey, Account: invited.Account,
		Secret: secret.Reveal()}, err
}

// Invites lists the invites that can be redeemed.
func (s *Service) Invites(ctx context.Context) ([]auth.Invited, error) {
	return s.accounts.Invites(ctx)
}

// RevokeInvite takes an invite back, by its id.
func (s *Service) RevokeInvite(ctx context.Context, id string) error {
	return s.accounts.RevokeInvite(ctx, s.cfg.ContractID, id)
}
