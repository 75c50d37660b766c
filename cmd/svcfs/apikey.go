package main

import (
	"context"
	"errors"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/apikey"
)

// keyStores are where 'svcfs login' stores a key and it is looked for, in this
// order: the keyring, then a file where there is a home directory.
func (a *app) keyStores() []apikey.Store {
	stores := []apikey.Store{a.keyring}
	if path := a.userDir("XDG_CONFIG_HOME", ".config", "keys"); path != "" {
		stores = append(stores, apikey.KeyFile(path))
	}
	return stores
}

// keyFile is the store for a key that the keyring does not get.
func (a *app) keyFile() (apikey.Store, error) {
	stores := a.keyStores()
	if len(stores) < 2 {
		return nil, refuse(exitUsage, "set HOME, or use "+envKeyFile,
			errors.New("there is no home directory for the key"))
	}
	return stores[1], nil
}

// resolveKey puts the API key into the settings: from where they say, else from
// what 'svcfs login' stored.
func (a *app) resolveKey(ctx context.Context, s *settings) error {
	if s.key.kind != "" {
		key, err := a.readKey(ctx, s.key)
		s.config.APIKey = key
		return err
	}
	address, err := s.address()
	if err != nil {
		return err
	}
	var stored []apikey.Source
	for _, store := range a.keyStores() {
		stored = append(stored, apikey.Stored(store, address, s.account))
	}
	key, from, err := apikey.First(ctx, stored...)
	if errors.Is(err, apikey.ErrNone) {
		return refuse(exitAuth, "set "+envKey+", or use --api-key-file FILE or --api-key-command COMMAND, or store "+
			"it with: svcfs login", errors.New("no API key was given"))
	}
	s.config.APIKey, s.key = key, keySource{kind: from, via: "svcfs login"}
	return err
}

// readKey fetches the API key from where the settings say it is.
func (a *app) readKey(ctx context.Context, from keySource) (sdk.Secret, error) {
	switch {
	case from.kind == envKey:
		return apikey.Parse(from.value, from.via)
	case from.kind == envKeyCommand:
		return apikey.RunCommand(ctx, from.value, a.ui.err)
	case from.value == "-":
		return apikey.Read(a.input(ctx), "standard input")
	default:
		return apikey.ReadFile(from.value)
	}
}

// address is where the account's key is valid.
func (s *settings) address() (string, error) {
	n, err := s.network()
	return n.AuthURL, err
}

// network says where the account of the settings is; it needs no key.
func (s *settings) network() (sdk.NetworkInfo, error) {
	config := s.config
	config.APIKey = sdk.Secret{}
	c, err := sdk.New(s.account, config)
	if err != nil {
		return sdk.NetworkInfo{}, err
	}
	defer c.Close()
	return c.NetworkInfo(), nil
}
