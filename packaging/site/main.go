// Site builds the documents as a static site: every Markdown file of the sources, and a
// page for every command of the programs. It refuses a link or an anchor that leads
// nowhere, and a page to which no other page links. It needs no network, and the same
// sources give the same bytes.
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"io/fs"
	"log"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

const (
	sources  = "https://github.com/svcfs/svcfs/blob/main/" // folders, and files that are no documents
	contents = "docs/README.md"                            // its headings and links are the navigation
	commands = "docs/reference/commands/"                  // made from the help of the programs
)

//go:embed page.html
var layout string

//go:embed style.css
var style []byte

// site is what is built.
type site struct {
	root     string           // of the sources
	pages    map[string]*page // by the path of their Markdown, below root
	assets   map[string]bool  // other files that pages show or link to, below root
	external map[string]bool  // addresses elsewhere, which nobody asked
	markdown goldmark.Markdown
}

// page is one document.
type page struct {
	source  string // path below root
	text    []byte
	doc     ast.Node
	anchors map[string]bool
	linked  bool // another page links to it
}

func main() {
	log.SetFlags(0)
	root := flag.String("root", "..", "folder of the sources")
	out := flag.String("out", "../dist/docs", "folder of the site; what was in it is removed")
	programs := flag.String("programs", "../bin", "folder with svcfs and svcd, whose commands get pages")
	external := flag.Bool("external", false, "list the links to other sites, which are not checked")
	flag.Parse()
	s, err := build(*root, *programs, *out)
	if err != nil {
		log.Fatal(err)
	}
	if *external {
		for _, address := range sorted(s.external) {
			fmt.Println(address)
		}
	}
}

func newSite(root string) *site {
	return &site{root: root, pages: map[string]*page{}, assets: map[string]bool{}, external: map[string]bool{},
		markdown: goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))}
}

// build writes the site into out.
func build(root, programs, out string) (*site, error) {
	s := newSite(root)
	err := s.load(root, "")
	for _, program := range []string{"svcfs", "svcd"} {
		if err == nil {
			err = s.loadCommands(filepath.Join(programs, program))
		}
	}
	if err == nil {
		err = s.link()
	}
	if err == nil {
		err = errors.Join(os.RemoveAll(out), s.write(out))
	}
	return s, err
}

// load reads the documents below dir, as if dir were the folder prefix of the sources.
func (s *site) load(dir, prefix string) error {
	return filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != dir && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"bin", "dist", "node_modules", "testdata"}, d.Name())):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(file) != ".md":
			return nil
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(dir, file)
		ids := &anchors{seen: map[string]bool{}}
		p := &page{source: path.Join(prefix, filepath.ToSlash(below)), text: raw, anchors: ids.seen}
		p.doc = s.markdown.Parser().Parse(text.NewReader(raw), parser.WithContext(parser.NewContext(parser.WithIDs(ids))))
		s.pages[p.source] = p
		return err
	})
}

// loadCommands reads the page of each command of a program.
func (s *site) loadCommands(program string) error {
	dir, err := os.MkdirTemp("", "svcfs-site-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if out, err := exec.Command(program, "man", "--markdown", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("%s man: %w: %s", program, err, out)
	}
	return s.load(dir, commands)
}

// link makes each link lead to a page of the site, a file beside it, or the sources.
func (s *site) link() error {
	var wrong []error
	for _, name := range sorted(s.pages) {
		p := s.pages[name]
		for _, node := range nodes(p.doc) {
			var err error
			switch n := node.(type) {
			case *ast.HTMLBlock: // marks for tests
				n.Parent().RemoveChild(n.Parent(), n)
			case *ast.Link:
				n.Destination, err = s.destination(p, string(n.Destination))
			case *ast.Image:
				n.Destination, err = s.destination(p, string(n.Destination))
			case *ast.AutoLink:
				s.external[string(n.URL(p.text))] = true
			case *ast.CodeSpan:
				err = s.linkCommand(p, n)
			}
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %w", p.source, err))
			}
		}
	}
	for _, name := range sorted(s.pages) {
		if p := s.pages[name]; !p.linked && name != "README.md" {
			wrong = append(wrong, fmt.Errorf("%s: no page links to it", p.source))
		}
	}
	return errors.Join(wrong...)
}

// destination is where a link of a page leads in the site.
func (s *site) destination(from *page, link string) ([]byte, error) {
	u, err := url.Parse(link)
	if err != nil {
		return nil, err
	}
	if u.IsAbs() {
		s.external[link] = true
		return []byte(link), nil
	}
	below := path.Join(path.Dir(from.source), u.Path)
	if u.Path == "" {
		below = from.source
	}
	to := s.pages[below]
	if to == nil {
		to = s.pages[path.Join(below, "README.md")]
	}
	if to != nil {
		if u.Fragment != "" && !to.anchors[u.Fragment] {
			return nil, fmt.Errorf("%s has no heading #%s", to.source, u.Fragment)
		}
		to.linked = to.linked || to != from
		return []byte(from.path(to.target()) + strings.TrimPrefix(u.String(), u.Path)), nil
	}
	info, err := os.Stat(filepath.Join(s.root, below))
	switch {
	case err != nil || strings.HasPrefix(below, ".."):
		return nil, fmt.Errorf("%s leads nowhere", link)
	case info.IsDir() || path.Ext(below) == "" || path.Ext(below) == ".go":
		return []byte(sources + below), nil
	}
	s.assets[below] = true
	return []byte(from.path(below)), nil
}

// linkCommand links a command that a text names to the page of that command.
func (s *site) linkCommand(p *page, code *ast.CodeSpan) error {
	words := strings.Fields(plain(code, p.text))
	for n := code.Parent(); n != nil; n = n.Parent() {
		if n.Kind() == ast.KindLink || n.Kind() == ast.KindHeading {
			return nil
		}
	}
	if len(words) < 2 || words[0] != "svcfs" && words[0] != "svcd" {
		return nil
	}
	if words[1] == "help" {
		words = words[:1]
	}
	for n := min(len(words), 3); n > 0; n-- {
		to := s.pages[commands+strings.Join(words[:n], "_")+".md"]
		if to == nil || to == p || n == 1 && len(words) > 1 {
			continue
		}
		link := ast.NewLink()
		link.Destination = []byte(p.path(to.target()))
		link.SetAttributeString("class", []byte("command"))
		code.Parent().ReplaceChild(code.Parent(), code, link)
		link.AppendChild(link, code)
		to.linked = true
		return nil
	}
	return nil
}

// target is the file of a page in the site.
func (p *page) target() string {
	dir, name := path.Split(strings.TrimSuffix(p.source, ".md"))
	if name == "README" {
		name = "index"
	}
	return dir + name + ".html"
}

// path leads from the page to a file of the site.
func (p *page) path(to string) string {
	rel, err := filepath.Rel(filepath.FromSlash(path.Dir(p.source)), filepath.FromSlash(to))
	if err != nil {
		panic(err) // both are below the root
	}
	return filepath.ToSlash(rel)
}

// entry is a heading, of a page or of the navigation, or a link below it.
type entry struct {
	Title, Link string
	Level       int
	Here        bool
}

// outline lists the headings of a page, and the links where they are asked for.
func (p *page) outline(withLinks bool, here *page) (list []entry) {
	for _, node := range nodes(p.doc) {
		switch n := node.(type) {
		case *ast.Heading:
			id, _ := n.AttributeString("id")
			anchor, _ := id.([]byte)
			list = append(list, entry{Title: plain(n, p.text), Link: "#" + string(anchor), Level: n.Level})
		case *ast.Link:
			to := path.Join(path.Dir(p.target()), string(n.Destination))
			if withLinks && len(list) > 0 && list[len(list)-1].Level != 1 {
				list = append(list, entry{Title: plain(n, p.text), Link: here.path(to), Here: to == here.target()})
			}
		}
	}
	return list
}

func (s *site) write(out string) error {
	shape, err := template.New("page").Parse(layout)
	if err != nil {
		return err
	}
	var wrong []error
	put := func(name string, content []byte) {
		file := filepath.Join(out, filepath.FromSlash(name))
		wrong = append(wrong, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o644))
	}
	for _, p := range s.pages {
		var body, whole bytes.Buffer
		headings := p.outline(false, p)
		err := s.markdown.Renderer().Render(&body, p.text, p.doc)
		if err == nil && len(headings) == 0 {
			err = errors.New("no heading")
		}
		if err == nil {
			err = shape.Execute(&whole, map[string]any{
				"Title": headings[0].Title, "Headings": headings[1:], "Navigation": s.pages[contents].outline(true, p),
				"Home": p.path("index.html"), "Contents": p.path(s.pages[contents].target()), "Style": p.path("style.css"),
				"Body": template.HTML(body.String()), // #nosec G203 -- of our own documents; goldmark leaves raw HTML out
			})
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", p.source, err))
		}
		put(p.target(), whole.Bytes())
	}
	put("style.css", style)
	for name := range s.assets {
		content, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(name)))
		wrong = append(wrong, err)
		put(name, content)
	}
	return errors.Join(wrong...)
}

// anchors gives headings the ids that GitHub gives them.
type anchors struct{ seen map[string]bool }

func (a *anchors) Generate(heading []byte, _ ast.NodeKind) []byte {
	id := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, strings.TrimSpace(string(heading)))
	unique := id
	for n := 1; a.seen[unique]; n++ {
		unique = fmt.Sprintf("%s-%d", id, n)
	}
	a.seen[unique] = true
	return []byte(unique)
}

func (a *anchors) Put(id []byte) { a.seen[string(id)] = true }

// nodes lists all nodes of a tree, which may be changed meanwhile.
func nodes(root ast.Node) (list []ast.Node) {
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			list = append(list, n)
		}
		return ast.WalkContinue, nil
	})
	return list
}

// plain is the text below a node.
func plain(root ast.Node, source []byte) string {
	var b strings.Builder
	for _, n := range nodes(root) {
		if t, ok := n.(*ast.Text); ok {
			b.Write(util.UnescapePunctuations(t.Value(source)))
		}
	}
	return b.String()
}

func sorted[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
