package main

import (
	"cmp"
	"fmt"
	"os"

	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/service"
)

// newKeyFile makes the file for an API key, before the key is made. The file has mode
// 0600, as svcfs --api-key-file demands. Without replace, a file that exists already is
// refused: the file may be the only place of another key.
func newKeyFile(path string, replace bool) (*ownfile.Pending, error) {
	if _, err := os.Lstat(path); err == nil && !replace {
		return nil, usage("name a new file", "%s is there already and may hold another key", path)
	}
	if err := ownfile.Replaceable(path); err != nil {
		return nil, usage(cmp.Or(ownfile.MendOf(err), "name a file in a folder of yours"), "%w", err)
	}
	f, err := ownfile.New(path)
	if err != nil {
		return nil, fmt.Errorf("make the file of the API key: %w", err)
	}
	return f, nil
}

// writeKey writes the key into the file and gives the file its name. Without replace
// the name must still be free.
func writeKey(f *ownfile.Pending, replace bool, key string) error {
	place := f.Create
	if replace {
		place = f.Replace
	}
	_, err := f.WriteString(key + "\n")
	if err == nil {
		err = place()
	}
	if err != nil {
		return refuse("make another one with svcd account rotate-key", "write the API key: %w; the key is lost", err)
	}
	return nil
}

// makeKey runs issue and prints the account with its key, or with the file of the key.
func (s *settings) makeKey(path string, replace bool, issue func() (service.NewAccount, error)) error {
	if path == "" {
		made, err := issue()
		if err != nil {
			return err
		}
		s.warnMember(made)
		// shown here and nowhere else
		return s.printJSON(map[string]string{"account_id": made.AccountID, "api_key": made.APIKey.Reveal()})
	}
	f, err := newKeyFile(path, replace)
	if err != nil {
		return err
	}
	defer f.Discard()
	made, err := issue()
	if err != nil {
		return err
	}
	s.warnMember(made)
	if err := writeKey(f, replace, made.APIKey.Reveal()); err != nil {
		return err
	}
	return s.printJSON(map[string]string{"account_id": made.AccountID, "api_key_file": path})
}

// warnMember warns when a new account is a member of groups already.
func (s *settings) warnMember(made service.NewAccount) {
	if made.MemberOf > 0 {
		fmt.Fprintf(s.stderr, "svcd: warning: %s is a member of %d group(s) already, whose owners added it before it "+
			"existed: make sure that they mean who gets the key\n",
			made.AccountID, made.MemberOf)
	}
}
