package integration

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// document is a Markdown file of the sources, by its path below their root.
type document struct {
	links   []string
	anchors map[string]bool
	linked  bool // another document links to it
}

var (
	commentMark = regexp.MustCompile(`(?s)<!--.*?-->`)
	codeSpan    = regexp.MustCompile("(`+)((?:[^\n]|\n[^\n])+?)(`+)")
	linkTarget  = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	linkText    = regexp.MustCompile(`\[([^\]]*)\]\([^()\s]*\)`)
)

// Every link and every anchor of a document leads somewhere, and another document links to each.
func TestDocumentsLinks(t *testing.T) {
	documents := documentsOf(t, "..")
	for name, d := range documents {
		for _, link := range d.links {
			if err := follow(documents, name, link); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for name, d := range documents {
		if !d.linked && name != "README.md" {
			t.Errorf("%s: no document links to it", name)
		}
	}
}

// The check finds what is wrong.
func TestDocumentsLinksAreSeen(t *testing.T) {
	d := documentOf("# One, `two` and [three](x)\n```\n# no heading\n[no](link)\n```\n" +
		"`[no](link)` [![picture](p.png)](page.md#a)\n## Again\n## Again\n")
	if want := []string{"x", "p.png", "page.md#a"}; !slices.Equal(d.links, want) {
		t.Errorf("links %q, want %q", d.links, want)
	}
	for _, id := range []string{"one-two-and-three", "again", "again-1"} {
		if !d.anchors[id] || len(d.anchors) != 3 {
			t.Errorf("the anchors are %v, want %q among three", d.anchors, id)
		}
	}
	all := map[string]*document{"docs/a.md": d, "b.md": documentOf("# B")}
	for link, good := range map[string]bool{"#again": true, "#x": false, "../b.md#b": true, "../b.md#c": false,
		"gone.md": false, "../../out": false, "https://example.org/x": true} {
		if err := follow(all, "docs/a.md", link); (err == nil) != good {
			t.Errorf("%s: %v", link, err)
		}
	}
	if d.linked || !all["b.md"].linked {
		t.Error("a document that another one links to is not known, or one that only links to itself")
	}
}

// documentsOf reads the Markdown files below root, but for data of tests.
func documentsOf(t *testing.T, root string) map[string]*document {
	t.Helper()
	documents := map[string]*document{}
	ok(t, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		aside := strings.HasPrefix(d.Name(), ".") ||
			slices.Contains([]string{"bin", "dist", "node_modules", "testdata"}, d.Name())
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != root && aside:
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(file) != ".md":
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		documents[filepath.ToSlash(name)] = documentOf(string(text))
		return err
	}))
	return documents
}

// documentOf reads the links and headings of a Markdown text. What stands in code is neither.
func documentOf(text string) *document {
	d := &document{anchors: map[string]bool{}}
	var prose strings.Builder
	fence := false
	for line := range strings.Lines(commentMark.ReplaceAllString(text, "")) {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			fence = !fence
		case fence:
		default:
			prose.WriteString(line)
			if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
				d.addAnchor(title)
			}
		}
	}
	for _, found := range linkTarget.FindAllStringSubmatch(codeSpan.ReplaceAllString(prose.String(), ""), -1) {
		d.links = append(d.links, found[1])
	}
	return d
}

// addAnchor gives a heading the anchor that GitHub gives it.
func (d *document) addAnchor(title string) {
	id := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, strings.TrimSpace(linkText.ReplaceAllString(title, "$1")))
	unique := id
	for n := 1; d.anchors[unique]; n++ {
		unique = fmt.Sprintf("%s-%d", id, n)
	}
	d.anchors[unique] = true
}

// follow says what is wrong with a link of a document, and marks the document that it leads to.
func follow(documents map[string]*document, from, link string) error {
	u, err := url.Parse(link)
	if err != nil || u.IsAbs() {
		return err
	}
	place := path.Join(path.Dir(from), u.Path)
	if u.Path == "" {
		place = from
	}
	to := documents[place]
	if to == nil {
		place = path.Join(place, "README.md")
		to = documents[place]
	}
	if to == nil {
		place = path.Join(path.Dir(from), u.Path)
		if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(place))); err != nil ||
			strings.HasPrefix(place, "..") {
			return fmt.Errorf("the link %s leads nowhere", link)
		}
		return nil
	}
	if u.Fragment != "" && !to.anchors[u.Fragment] {
		return fmt.Errorf("the link %s leads to no heading", link)
	}
	to.linked = to.linked || place != from
	return nil
}

// A page that tells how to do something begins with what that needs.
func TestDocumentsSayWhatTheyNeed(t *testing.T) {
	found, err := filepath.Glob("../docs/how-to/*.md")
	ok(t, err)
	for _, page := range found {
		text, err := os.ReadFile(page)
		ok(t, err)
		if !regexp.MustCompile(`^# .*\n\nYou need `).Match(text) {
			t.Errorf("%s does not begin with what it needs", page)
		}
	}
	if len(found) < 10 {
		t.Errorf("%d pages", len(found))
	}
}
