package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// bill is a bill of materials, CycloneDX 1.6.
type bill struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Time      string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl,omitempty"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// billOf says what a program was built from: the modules that the linker recorded in it,
// and Go itself.
func billOf(name, version string, made time.Time, info *debug.BuildInfo, sum [32]byte) ([]byte, error) {
	b := bill{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{made.Format(time.RFC3339),
		component{Type: "application", Name: name, Version: version,
			Hashes: []hash{{"SHA-256", fmt.Sprintf("%x", sum)}}}}}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	b.Components = append(b.Components, component{Type: "library", Name: "stdlib", Version: goVersion,
		PURL: "pkg:golang/stdlib@" + goVersion})
	for _, m := range info.Deps {
		m = cmp.Or(m.Replace, m)
		b.Components = append(b.Components, component{Type: "library", Name: m.Path, Version: m.Version,
			PURL: "pkg:golang/" + m.Path + "@" + m.Version})
	}
	text, err := json.MarshalIndent(b, "", "  ")
	return append(text, '\n'), err
}
