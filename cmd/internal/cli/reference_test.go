package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
)

// A command's page has its texts, options and parts, and no text turns into markup.
func TestWriteReference(t *testing.T) {
	nothing := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "svcfs", Long: "Reads *.txt of 'svcfs ls'. From\n  A  first\n  B  second\nor <C>.", CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true}}
	root.PersistentFlags().String("place", "here", "take `PLACE`: a|b")
	list := &cobra.Command{Use: "ls", Short: "List", Example: "  svcfs ls\n  svcfs ls -l", Run: nothing}
	list.Flags().BoolP("long", "l", false, "sizes, too")
	root.AddCommand(list, &cobra.Command{Use: "secret", Hidden: true, Run: nothing})
	dir := filepath.Join(t.TempDir(), "new")
	if err := WriteReference(root, dir); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"svcfs.md": "# svcfs\n\nReads \\*.txt of `svcfs ls`. From\n\n      A  first\n      B  second\n\nor \\<C>.\n\n## Options\n\n| Option | Meaning |\n|---|---|\n" +
			"| `-h, --help` | help for svcfs |\n| `--place PLACE` | take PLACE: a\\|b (default here) |\n\n## Commands\n\n- [svcfs ls](svcfs_ls.md): List\n\n",
		"svcfs_ls.md": "# svcfs ls\n\nList.\n\n```\nsvcfs ls [flags]\n```\n\n## Examples\n\n```\nsvcfs ls\nsvcfs ls -l\n```\n\n## Options\n\n| Option | Meaning |\n|---|---|\n" +
			"| `-h, --help` | help for ls |\n| `-l, --long` | sizes, too |\n\nEvery command takes the [options of svcfs](svcfs.md#options), too.\n",
	}
	pages, err := os.ReadDir(dir)
	if err != nil || len(pages) != len(want) {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, text)
		}
	}
}
