package main

import (
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/service"
)

// envClientSecret holds the client secret, which is never a flag.
const envClientSecret = "SVCD_OIDC_CLIENT_SECRET"

// maxSecretBytes bounds a file with one secret, in bytes.
const maxSecretBytes = 64 << 10

// oidcSettings are the flags of sign-in at an OpenID Connect provider.
type oidcSettings struct {
	issuer, clientID, secretFile string
	create                       bool
}

func (o *oidcSettings) register(set *pflag.FlagSet) {
	set.StringVar(&o.issuer, "oidc-issuer", "", "OpenID Connect provider whose users may sign in to the account page")
	set.StringVar(&o.clientID, "oidc-client-id", "",
		"client id of this service at the provider; redirect address: PUBLIC_URL/account/oidc/callback")
	set.StringVar(&o.secretFile, "oidc-client-secret-file", "",
		"file with the client secret, mode 0600, or a systemd credential (or "+envClientSecret+" in the environment)")
	set.BoolVar(&o.create, "oidc-create", false, "make an account at the first sign-in, named by preferred_username "+
		"if nobody ever had that name")
}

// config reads the client secret.
func (o *oidcSettings) config() (service.OIDC, error) {
	if o.issuer == "" {
		if o.clientID != "" || o.secretFile != "" || o.create {
			return service.OIDC{}, usage("give the provider's address: --oidc-issuer",
				"--oidc-… without --oidc-issuer")
		}
		return service.OIDC{}, nil
	}
	secret := os.Getenv(envClientSecret)
	if o.secretFile != "" {
		raw, err := ownfile.Read(o.secretFile, ownfile.SecretKind(o.secretFile), maxSecretBytes)
		if err != nil {
			return service.OIDC{}, usage(ownfile.MendOf(err), "read client secret: %w", err)
		}
		secret = string(raw)
	}
	return service.OIDC{Issuer: o.issuer, ClientID: o.clientID,
		ClientSecret: service.NewSecret(strings.TrimSpace(secret)), Create: o.create}, nil
}
