package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk/ownfile"
)

// readFile reads the configuration file into values as flags take them.
func (s *settings) readFile() (map[string]string, error) {
	if s.file == "" {
		return nil, nil
	}
	values, err := cli.ReadFile(s.file, s.parse, password)
	if err == nil || cli.FailureOf(err) != nil {
		return values, err
	}
	return nil, usage(cmp.Or(ownfile.MendOf(err), "run it as the user of the service, such as sudo -u svcd svcd …, "+
		"or name another file with --config"), "read configuration: %w", err)
}

func (s *settings) parse(text []byte) (map[string]string, error) {
	var tree map[string]any
	if err := toml.Unmarshal(text, &tree); err != nil {
		line := 0
		var at *toml.DecodeError // its text may quote a secret
		if errors.As(err, &at) {
			line, _ = at.Position()
		}
		return nil, usage("write NAME = \"VALUE\"", "%s line %d is not TOML", s.file, line)
	}
	known := settingNames()
	values := make(map[string]string)
	for name, v := range tree {
		if name == "config" || !slices.Contains(known, name) {
			return nil, usage(fmt.Sprintf("did you mean %q? All are: %s", cli.Nearest(name, known),
				strings.Join(known[1:], " ")), "%s: unknown setting %q", s.file, name)
		}
		var err error
		if values[name], err = flat(v); err != nil {
			return nil, usage("see: svcd serve --help", "%s: %s: %w", s.file, name, err)
		}
	}
	return values, nil
}

// password names the setting of a file that holds a password: others may not read
// such a file.
func password(values map[string]string) string {
	for _, name := range []string{"db", "blobs"} {
		if value := values[name]; redactURL(value) != value {
			return "a password in " + name
		}
	}
	return ""
}

// flat writes a TOML value as its flag takes it: lists with commas, tables as
// NAME=VALUE with commas.
func flat(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case int64, bool:
		return fmt.Sprint(v), nil
	case []any:
		var parts []string
		for _, item := range v {
			text, ok := item.(string)
			if !ok {
				return "", errors.New("a list holds strings")
			}
			parts = append(parts, text)
		}
		return strings.Join(parts, ","), nil
	case map[string]any:
		var parts []string
		for name, item := range v {
			text, ok := item.(string)
			if !ok {
				return "", fmt.Errorf("%s: put the value in quotes: amounts are exact", name)
			}
			parts = append(parts, name+"="+text)
		}
		slices.Sort(parts)
		return strings.Join(parts, ","), nil
	default:
		return "", errors.New("put the value in quotes")
	}
}
