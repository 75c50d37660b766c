package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/zalando/go-keyring"
)

// keyStore keeps API keys between runs, by the address they are for and the
// account. errNoKey: it holds none for them.
type keyStore interface {
	name() string // for messages
	get(address string, account sdk.AccountID) (string, error)
	set(address string, account sdk.AccountID, key sdk.Secret) error
	remove(address string, account sdk.AccountID) error
}

var errNoKey = errors.New("no key is stored")

// keyStores are where a stored key is looked for, in this order.
func (a *app) keyStores() []keyStore {
	stores := []keyStore{a.keyring}
	if path := a.userDir("XDG_CONFIG_HOME", ".config", "keys"); path != "" {
		stores = append(stores, fileStore{path})
	}
	return stores
}

// systemKeyring is the desktop's: Secret Service, Keychain or Credential Manager.
type systemKeyring struct{ env environment }

// keyringLimit bounds how long a keyring may take, which may have to ask the
// user to unlock it.
const keyringLimit = 60 * time.Second

func (systemKeyring) name() string { return "system keyring" }

// reach runs f unless no keyring can be there: without a session bus the library
// would start one.
func (k systemKeyring) reach(f func() error) error {
	if k.env.get("DBUS_SESSION_BUS_ADDRESS") == "" && !isSocket(filepath.Join(k.env.get("XDG_RUNTIME_DIR"), "bus")) {
		return errors.New("no session bus, so no keyring")
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		if errors.Is(err, keyring.ErrNotFound) {
			return errNoKey
		}
		return err
	case <-time.After(keyringLimit):
		return errors.New("the keyring does not answer")
	}
}

func isSocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == os.ModeSocket
}

// keyringService names our entries, one name per address.
func keyringService(address string) string { return "svcfs " + address }

func (k systemKeyring) get(address string, account sdk.AccountID) (key string, err error) {
	var got string
	err = k.reach(func() (err error) { got, err = keyring.Get(keyringService(address), string(account)); return err })
	if err != nil {
		return "", err
	}
	return got, nil
}

func (k systemKeyring) set(address string, account sdk.AccountID, key sdk.Secret) error {
	return k.reach(func() error { return keyring.Set(keyringService(address), string(account), key.Reveal()) })
}

func (k systemKeyring) remove(address string, account sdk.AccountID) error {
	return k.reach(func() error { return keyring.Delete(keyringService(address), string(account)) })
}

// fileStore is a JSON file, mode 0600, for machines without a keyring.
type fileStore struct{ path string }

func (s fileStore) name() string { return s.path }

// read returns the keys by address and account.
func (s fileStore) read() (map[string]map[sdk.AccountID]string, error) {
	keys := make(map[string]map[sdk.AccountID]string)
	text, err := os.ReadFile(s.path)
	if errors.Is(err, os.ErrNotExist) {
		return keys, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(s.path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, usage("chmod 600 "+s.path, fmt.Sprintf("others may read the API keys in %s (mode %04o)", s.path, info.Mode().Perm()))
	}
	if json.Unmarshal(text, &keys) != nil {
		return nil, usage("remove it and log in again", s.path+" is damaged")
	}
	return keys, nil
}

func (s fileStore) write(keys map[string]map[sdk.AccountID]string) error {
	text, err := json.MarshalIndent(keys, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	dir, err := os.OpenRoot(filepath.Dir(s.path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return writeWhole(dir, filepath.Base(s.path), append(text, '\n'))
}

func (s fileStore) get(address string, account sdk.AccountID) (string, error) {
	keys, err := s.read()
	if err != nil {
		return "", err
	}
	key, ok := keys[address][account]
	if !ok {
		return "", errNoKey
	}
	return key, nil
}

func (s fileStore) set(address string, account sdk.AccountID, key sdk.Secret) error {
	keys, err := s.read()
	if err != nil {
		return err
	}
	if keys[address] == nil {
		keys[address] = make(map[sdk.AccountID]string)
	}
	keys[address][account] = key.Reveal()
	return s.write(keys)
}

func (s fileStore) remove(address string, account sdk.AccountID) error {
	keys, err := s.read()
	if err != nil {
		return err
	}
	if _, ok := keys[address][account]; !ok {
		return errNoKey
	}
	delete(keys[address], account)
	if len(keys[address]) == 0 {
		delete(keys, address)
	}
	if len(keys) == 0 {
		return os.Remove(s.path)
	}
	return s.write(keys)
}

// resolveKey puts the API key into the settings: from where they say, else from
// what 'svcfs login' stored.
func (a *app) resolveKey(ctx context.Context, s *settings) error {
	if s.key.kind == "" {
		found, err := a.storedKey(s)
		if err != nil {
			return err
		}
		if found {
			return nil
		}
	}
	key, err := a.readKey(ctx, s.key)
	s.config.APIKey = key
	return err
}

// storedKey looks for a stored key. A keyring that cannot be reached holds none.
func (a *app) storedKey(s *settings) (bool, error) {
	address, err := s.address()
	if err != nil {
		return false, err
	}
	for _, store := range a.keyStores() {
		text, err := store.get(address, s.account)
		var own *commandError
		if errors.As(err, &own) {
			return false, err
		}
		if err != nil {
			continue
		}
		if s.config.APIKey, err = parseKey(text, store.name()); err != nil {
			return false, err
		}
		s.key = keySource{kind: store.name(), via: "svcfs login"}
		return true, nil
	}
	return false, nil
}

// address is where the account's key is valid.
func (s *settings) address() (string, error) {
	config := s.config
	config.APIKey = sdk.Secret{}
	c, err := sdk.New(s.account, config)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return c.NetworkInfo().AuthURL, nil
}
