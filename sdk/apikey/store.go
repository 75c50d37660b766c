package apikey

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/ownfile"
)

// Store keeps keys between runs, each for an account and the address where the key is valid
// (AuthURL of [sdk.NetworkInfo]).
type Store interface {
	// Name describes the store in messages.
	Name() string
	// Get returns the key, or ErrNone.
	Get(address string, account sdk.AccountID) (sdk.Secret, error)
	// Set stores the key and replaces the one before.
	Set(address string, account sdk.AccountID, key sdk.Secret) error
	// Remove deletes the key, or returns ErrNone.
	Remove(address string, account sdk.AccountID) error
}

// ErrNoBus means that no way leads from this process to a keyring of the desktop.
var ErrNoBus = errors.New("there is no session bus")

// keyringLimit bounds a call of a keyring, which may ask the user to unlock it.
const keyringLimit = 60 * time.Second

type systemKeyring struct{ getenv func(string) string }

// Keyring returns the keyring of the desktop: Secret Service, Keychain or Credential
// Manager. A keyring that cannot be reached holds no key. getenv reads the environment
// variables that name the keyring; nil means [os.Getenv].
func Keyring(getenv func(string) string) Store {
	if getenv == nil {
		getenv = os.Getenv
	}
	return systemKeyring{getenv}
}

func (systemKeyring) Name() string { return "system keyring" }

// reach runs f, unless no keyring can exist: without a session bus the library would start
// one.
func (k systemKeyring) reach(f func() error) error {
	if k.getenv("DBUS_SESSION_BUS_ADDRESS") == "" && !isSocket(filepath.Join(k.getenv("XDG_RUNTIME_DIR"), "bus")) {
		return ErrNoBus
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(keyringLimit):
		return errors.New("the keyring does not answer")
	}
}

func isSocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == os.ModeSocket
}

// service returns the name of our entries in a keyring, one for each address.
func service(address string) string { return "svcfs " + address }

func (k systemKeyring) Get(address string, account sdk.AccountID) (sdk.Secret, error) {
	var text string
	err := k.reach(func() error {
		got, err := keyring.Get(service(address), string(account))
		text = got
		return err
	})
	if err != nil {
		return sdk.Secret{}, fmt.Errorf("%w: %w", ErrNone, err)
	}
	return Parse(text, k.Name())
}

func (k systemKeyring) Set(address string, account sdk.AccountID, key sdk.Secret) error {
	return k.reach(func() error { return keyring.Set(service(address), string(account), key.Reveal()) })
}

func (k systemKeyring) Remove(address string, account sdk.AccountID) error {
	err := k.reach(func() error { return keyring.Delete(service(address), string(account)) })
	if errors.Is(err, keyring.ErrNotFound) {
		return ErrNone
	}
	return err
}

type fileStore struct{ path string }

// KeyFile returns a store in a JSON file with mode 0600, for machines without a keyring.
// Set creates the file and its directory.
func KeyFile(path string) Store { return fileStore{path} }

func (s fileStore) Name() string { return s.path }

// storedKeys are keys by address and account.
type storedKeys map[string]map[sdk.AccountID]string

// maxStoreBytes is the largest file, in bytes.
const maxStoreBytes = 1 << 20

func (s fileStore) read() (storedKeys, error) {
	text, err := ownfile.Read(s.path, ownfile.Secret, maxStoreBytes)
	if errors.Is(err, os.ErrNotExist) {
		return storedKeys{}, nil
	}
	if err != nil {
		return nil, invalid("", err)
	}
	defer clear(text)
	var keys storedKeys
	if json.Unmarshal(text, &keys) != nil || keys == nil {
		return nil, invalid("", fmt.Errorf("%s %w", s.path, ErrDamaged))
	}
	return keys, nil
}

// write replaces the whole file.
func (s fileStore) write(keys storedKeys) error {
	text, err := json.MarshalIndent(keys, "", "  ")
	if err != nil {
		return err
	}
	return ownfile.Replace(s.path, append(text, '\n'))
}

func (s fileStore) Get(address string, account sdk.AccountID) (sdk.Secret, error) {
	keys, err := s.read()
	if err != nil {
		return sdk.Secret{}, err
	}
	text, ok := keys[address][account]
	if !ok {
		return sdk.Secret{}, ErrNone
	}
	return Parse(text, s.path)
}

// locked reads the keys, which no other process changes until unlock is called.
func (s fileStore) locked() (keys storedKeys, unlock func(), err error) {
	if err := ownfile.MakeFolder(filepath.Dir(s.path)); err != nil {
		return nil, nil, err
	}
	if unlock, err = ownfile.Lock(s.path + ".lock"); err != nil {
		return nil, nil, err
	}
	if keys, err = s.read(); err != nil {
		unlock()
	}
	return keys, unlock, err
}

func (s fileStore) Set(address string, account sdk.AccountID, key sdk.Secret) error {
	keys, unlock, err := s.locked()
	if err != nil {
		return err
	}
	defer unlock()
	if keys[address] == nil {
		keys[address] = make(map[sdk.AccountID]string)
	}
	keys[address][account] = key.Reveal()
	return s.write(keys)
}

func (s fileStore) Remove(address string, account sdk.AccountID) error {
	if _, err := s.Get(address, account); errors.Is(err, ErrNone) { // no lock file is made for nothing
		return err
	}
	keys, unlock, err := s.locked()
	if err != nil {
		return err
	}
	defer unlock()
	if _, ok := keys[address][account]; !ok {
		return ErrNone
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
