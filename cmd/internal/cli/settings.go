package cli

import (
	"fmt"
	"io"

	"github.com/svcfs/svcfs/sdk/ownfile"
)

// Source is one place that settings come from: the command line, the environment,
// a file. The libraries for this (koanf, ff) do not tell which source a value came
// from, and read KEY=VALUE files by rules of a shell.
type Source struct {
	Name   string // for messages, such as "environment" or a path
	Values map[string]string
}

// Sources stand in the order in which they win.
type Sources []Source

// Find returns a setting and the name of the source it came from.
func (s Sources) Find(name string) (value, from string) {
	for _, source := range s {
		if v, ok := source.Values[name]; ok {
			return v, source.Name
		}
	}
	return "", ""
}

// FromEnvironment is the source of what variables hold; an empty one is not set.
func FromEnvironment(lookup func(variable string) (string, bool), names []string,
	variable func(name string) string) Source {
	values := make(map[string]string)
	for _, name := range names {
		if value, _ := lookup(variable(name)); value != "" {
			values[name] = value
		}
	}
	return Source{"environment", values}
}

// maxFileBytes bounds a configuration file, in bytes.
const maxFileBytes = 1 << 20

// ReadFile reads a configuration file. Only a file that no other user can have
// written is obeyed, and one for which secret says what it holds ("an API key")
// must be closed to them. Errors of parse are returned as they are.
func ReadFile(path string, parse func([]byte) (map[string]string, error),
	secret func(map[string]string) string) (map[string]string, error) {
	f, err := ownfile.Open(path, ownfile.Settings)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	defer clear(raw)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxFileBytes {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, maxFileBytes)
	}
	values, err := parse(raw)
	if err != nil {
		return nil, err
	}
	if what := secret(values); what != "" {
		if err := ownfile.Check(f, ownfile.Secret); err != nil {
			return nil, fmt.Errorf("it holds %s: %w", what, err)
		}
	}
	return values, nil
}
