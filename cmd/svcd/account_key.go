package main

import (
	"fmt"
	"os"

	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/service"
)

// newKeyFile makes the file where an API key goes instead of to standard output, of
// mode 0600 as --api-key-file of svcfs wants it, before there is a key. Without
// replace a file that is there already is refused, because it may be the only
// place of another key.
func newKeyFile(path string, replace bool) (*ownfile.Pending, error) {
	if _, err := os.Lstat(path); err == nil && !replace {
		return nil, usageError{fmt.Errorf("%s is there already and may hold another key: name a new file", path)}
	}
	if err := ownfile.Replaceable(path); err != nil {
		return nil, usageError{err}
	}
	f, err := ownfile.New(path)
	if err != nil {
		return nil, fmt.Errorf("make the file of the API key: %w", err)
	}
	return f, nil
}

// writeKey puts the key into the file and the file into its place, which without
// replace must be free still.
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
		return fmt.Errorf("write the API key: %w; the key is lost: make another one with svcd account rotate-key", err)
	}
	return nil
}

// makeKey runs issue and shows the account with its key, or with the file that the
// key went into.
func (s *settings) makeKey(path string, replace bool, issue func() (service.NewAccount, error)) error {
	if path == "" {
		made, err := issue()
		if err != nil {
			return err
		}
		s.warnMember(made)
		return s.printJSON(map[string]string{"account_id": made.AccountID, "api_key": made.APIKey.Reveal()}) // shown here and nowhere else
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

// warnMember tells of groups that a new account belongs to already.
func (s *settings) warnMember(made service.NewAccount) {
	if made.MemberOf > 0 {
		fmt.Fprintf(s.stderr, "svcd: warning: %s is a member of %d group(s) already, whose owners added it before it existed: make sure that they mean who gets the key\n",
			made.AccountID, made.MemberOf)
	}
}
