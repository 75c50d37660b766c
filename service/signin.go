package service

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/web"
)

// LinkLifetime is how long a sign-in link is good.
const LinkLifetime = auth.LinkLifetime

// OIDC configures sign-in at an OpenID Connect provider; see [web.OIDC].
type OIDC = web.OIDC

// NewSecret wraps a configured secret, so that it prints as "redacted".
func NewSecret(text string) auth.Secret { return auth.SecretFrom(text) }

// AddIdentity lets a person at an OpenID Connect provider sign in to an account.
func (s *Service) AddIdentity(ctx context.Context, name, issuer, subject string) (account string, err error) {
	return s.accounts.AddIdentity(ctx, name, auth.Identity{Issuer: issuer, Subject: subject})
}

const metaPublicURL = "public_url"

// rememberAddress stores the public address for commands beside the service. A stop
// right after the start is no error.
func (s *Service) rememberAddress(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	return s.store.Write(ctx, store.Chains{}, func(tx *store.Tx) error {
		return tx.Do(ctx, "note the public URL", "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO "+
			"UPDATE SET value = excluded.value", metaPublicURL, s.cfg.PublicURL)
	})
}

func (s *Service) lastAddress(ctx context.Context) (address string, err error) {
	err = s.store.Read(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = ?", metaPublicURL).Scan(&address)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return "", fault.New(wire.CodeValidation, "the address of the service is not known: start it once with svcd "+
			"serve, or give --public-url URL")
	}
	return address, err
}

// SignInLink makes an address that signs an account in at its page, once. The secret is
// in the fragment, which browsers do not send. publicURL "" is the address of the last
// start.
func (s *Service) SignInLink(ctx context.Context, name, publicURL string) (string, error) {
	address, err := s.addressForUsers(ctx, publicURL)
	if err != nil {
		return "", err
	}
	_, link, err := s.accounts.NewLink(ctx, name)
	if err != nil {
		return "", err
	}
	return address + web.Path + "#link=" + link.Reveal(), nil
}

// addressForUsers is publicURL as users call it; "" is the address of the last start.
func (s *Service) addressForUsers(ctx context.Context, publicURL string) (string, error) {
	if publicURL == "" {
		var err error
		if publicURL, err = s.lastAddress(ctx); err != nil {
			return "", err
		}
	}
	address, err := url.Parse(strings.TrimRight(publicURL, "/"))
	if err != nil || address.Host == "" {
		return "", fault.New(wire.CodeValidation, "%.100q is not an address: give --public-url https://HOST", publicURL)
	}
	// an address to listen on, not to call
	if ip, err := netip.ParseAddr(address.Hostname()); err == nil && ip.IsUnspecified() {
		address.Host = net.JoinHostPort("localhost", address.Port())
	}
	return address.String(), nil
}
