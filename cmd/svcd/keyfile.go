package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/service"
)

// keyFile is where an API key goes instead of to standard output: a file of mode
// 0600, as --api-key-file of svcfs wants it.
type keyFile struct {
	path string
	temp *os.File // beside path until the key is in it
}

// newKeyFile makes sure that the key can be written before there is one. Without
// replace a file that is there already is refused, because it may be the only
// place of another key.
func newKeyFile(path string, replace bool) (*keyFile, error) {
	if _, err := os.Lstat(path); err == nil && !replace {
		return nil, usageError{fmt.Errorf("%s is there already and may hold another key: name a new file", path)}
	}
	if err := ownfile.Replaceable(path); err != nil {
		return nil, usageError{err}
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".svcd-key-*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("make the file of the API key: %w", err)
	}
	return &keyFile{path, temp}, nil
}

// write puts the key into the file and the file into its place.
func (f *keyFile) write(key string) error {
	_, err := f.temp.WriteString(key + "\n")
	if err == nil {
		err = f.temp.Sync()
	}
	if err == nil {
		err = os.Rename(f.temp.Name(), f.path)
	}
	if err != nil {
		return fmt.Errorf("write the API key: %w; the key is lost: make another one with svcd account rotate-key", err)
	}
	return nil
}

// close removes what did not get into its place.
func (f *keyFile) close() {
	_ = f.temp.Close()
	_ = os.Remove(f.temp.Name()) // renamed already, when all went well
}

// makeKey runs issue and shows the account with its key, or with the file that the
// key went into.
func (s *settings) makeKey(path string, replace bool, issue func() (service.NewAccount, error)) error {
	if path == "" {
		made, err := issue()
		s.warnMember(made)
		return s.show(made, err)
	}
	f, err := newKeyFile(path, replace)
	if err != nil {
		return err
	}
	defer f.close()
	made, err := issue()
	if err != nil {
		return err
	}
	s.warnMember(made)
	if err := f.write(made.APIKey.Reveal()); err != nil {
		return err
	}
	return json.NewEncoder(s.stdout).Encode(map[string]string{"account_id": made.AccountID, "api_key_file": path})
}

// warnMember tells of groups that a new account belongs to already.
func (s *settings) warnMember(made service.NewAccount) {
	if made.MemberOf > 0 {
		fmt.Fprintf(s.stderr, "svcd: warning: %s is a member of %d group(s) already, whose owners added it before it existed: make sure that they mean who gets the key\n",
			made.AccountID, made.MemberOf)
	}
}
