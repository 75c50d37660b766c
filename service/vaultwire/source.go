package vaultwire

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"path/filepath"

	"github.com/svcfs/svcfs/sdk/ownfile"
)

const (
	// FileName is the name of the master key in the data directory.
	FileName = "master.key"
	// MaxFileBytes bounds a file with a key: more is no key.
	MaxFileBytes = 100
)

// Source is the place of the master key.
type Source struct {
	File    string // 32 bytes, or standard base64 of them
	Make    bool   // a File that is missing is made
	Command string // run by /bin/sh, prints the key; "" = File
	Vault   string // address of a vault that was started with a master key; the rest is empty
}

// InDirectory is the master key of a data directory, made at the first start.
func InDirectory(dir string) Source { return Source{File: filepath.Join(dir, FileName), Make: true} }

// WhereToPut says where the master key of a database belongs.
func (s Source) WhereToPut() string {
	switch {
	case s.Command != "":
		return "have the command print that master key"
	case s.Vault != "":
		return "start the vault at " + s.Vault + " with that master key"
	}
	return fmt.Sprintf("put that master.key into %s, with mode 0600", filepath.Dir(s.File))
}

// Next is the place in which a new master key is prepared.
func (s Source) Next() Source { return Source{File: s.File + ".new"} }

// ReadSecret reads a file of 32 secret bytes that no other user may read. The caller clears them.
func ReadSecret(path string) (secret [KeyBytes]byte, err error) {
	raw, err := ownfile.Read(path, ownfile.SecretKind(path), MaxFileBytes)
	defer clear(raw)
	if err != nil {
		return secret, err
	}
	return ParseSecret(raw, path)
}

// ParseSecret takes 32 bytes, or standard base64 of them; from names their source in
// messages.
func ParseSecret(raw []byte, from string) (secret [KeyBytes]byte, err error) {
	if len(raw) == KeyBytes {
		return [KeyBytes]byte(raw), nil
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(string(bytes.TrimSpace(raw)))
	defer clear(decoded)
	if err != nil || len(decoded) != KeyBytes {
		return secret, fmt.Errorf("%s holds no key: want %d bytes, or standard base64 of them; a damaged master key "+
			"comes back from a backup", from, KeyBytes)
	}
	return [KeyBytes]byte(decoded), nil
}
