package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/apikey"
	"github.com/svcfs/svcfs/sdk/ownfile"
)

// keyPlaceFlag hands the place of the key to the child of a mount in the background.
const keyPlaceFlag = "key-place"

// keyAgain is where a running mount reads its account's key again when the service refuses the
// one that it has. It holds no secret. A key from the environment, from standard input or from
// a command is not read again: a command could ask the user.
type keyAgain struct {
	File string `json:",omitempty"` // its first line is the key

	// Where 'svcfs login' stores keys: the keyring, then a file.
	Stored  bool          `json:",omitempty"`
	Keys    string        `json:",omitempty"` // the file; "" = none
	Address string        `json:",omitempty"` // where the key is valid
	Account sdk.AccountID `json:",omitempty"`
	Bus     string        `json:",omitempty"` // variables that name the keyring
	Runtime string        `json:",omitempty"`
}

// variables of the keyring.
const (
	envBus     = "DBUS_SESSION_BUS_ADDRESS"
	envRuntime = "XDG_RUNTIME_DIR"
)

// keyPlace returns the place of the key that resolveKey found, as JSON, or "".
func (a *app) keyPlace(s settings) string {
	var p keyAgain
	switch s.key.kind {
	case envKey, envKeyCommand:
		return ""
	case envKeyFile:
		info, err := os.Stat(s.key.value)
		full, absErr := filepath.Abs(s.key.value)
		if s.key.value == "-" || err != nil || !info.Mode().IsRegular() || absErr != nil ||
			filepath.Dir(full) == "/dev/fd" {
			return ""
		}
		p.File = full
	default:
		address, err := s.address()
		if err != nil {
			return ""
		}
		p = keyAgain{Stored: true, Keys: a.userDir("XDG_CONFIG_HOME", ".config", "keys"), Address: address,
			Account: s.account, Bus: a.env.get(envBus), Runtime: a.env.get(envRuntime)}
	}
	text, err := json.Marshal(p)
	if err != nil {
		return ""
	}
	return string(text)
}

// String names the place for the user.
func (p keyAgain) String() string {
	if p.Stored {
		return "the store of 'svcfs login'"
	}
	return p.File
}

// readKeyAgain is [fs.ReadKey].
func readKeyAgain(place []byte) ([]byte, error) {
	var p keyAgain
	if err := json.Unmarshal(place, &p); err != nil {
		return nil, err
	}
	sources := []apikey.Source{apikey.File(p.File)}
	if p.Stored {
		if err := errors.Join(os.Setenv(envBus, p.Bus), os.Setenv(envRuntime, p.Runtime)); err != nil {
			return nil, err
		}
		sources = []apikey.Source{apikey.Stored(apikey.Keyring(nil), p.Address, p.Account)}
		if p.Keys != "" {
			sources = append(sources, apikey.Stored(apikey.KeyFile(p.Keys), p.Address, p.Account))
		}
	}
	key, _, err := apikey.First(context.Background(), sources...)
	if mend := ownfile.MendOf(err); mend != "" {
		err = fmt.Errorf("%w; run: %s", err, mend)
	}
	if err != nil {
		return nil, err
	}
	return []byte(key.Reveal()), nil
}

// mountClient is client for a mount, which waits while the service cannot be reached, and takes
// a new key of its account.
func (a *app) mountClient(ctx context.Context, p mountPlan) (*sdk.Client, settings, error) {
	s, err := a.accountSettings()
	if err != nil {
		return nil, s, err
	}
	if err := a.resolveKey(ctx, &s); err != nil {
		return nil, s, err
	}
	s.config.Patience, s.config.SmallGroup = p.flags.patience, p.flags.smallGroup()
	place := p.flags.keyPlace
	if place == "" {
		place = a.keyPlace(s)
	}
	if place != "" {
		if err := p.outside.KeepKeyPlace([]byte(place)); err != nil {
			return nil, s, err
		}
		s.config.NewKey = func(context.Context) (sdk.Secret, error) {
			key, err := p.outside.Key()
			defer clear(key)
			if err != nil {
				return sdk.Secret{}, err
			}
			return sdk.NewSecret(string(key)), nil
		}
	}
	c, err := a.newClient(s)
	if err != nil {
		return nil, s, err
	}
	var where keyAgain
	if json.Unmarshal([]byte(place), &where) == nil {
		a.hints.keyPlace = where.String()
	}
	return c, s, nil
}
