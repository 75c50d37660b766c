package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// WriteReference makes a Markdown page for each command of a program in dir, which it
// makes, from the same texts as the help. The site of the documents includes the pages.
func WriteReference(root *cobra.Command, dir string) error {
	root.InitDefaultCompletionCmd()
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = writePages(root, dir)
	}
	if err != nil {
		return fmt.Errorf("write the reference: %w", err)
	}
	return nil
}

func writePages(cmd *cobra.Command, dir string) error {
	var b strings.Builder
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", cmd.CommandPath(), markdownOf(long))
	if cmd.Runnable() {
		fmt.Fprintf(&b, "```\n%s\n```\n\n", cmd.UseLine())
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, "## Examples\n\n```\n%s\n```\n\n", strings.TrimRight(dedent(cmd.Example), "\n"))
	}
	cmd.InitDefaultHelpFlag()
	writeFlags(&b, cmd.NonInheritedFlags())
	parts := ""
	for _, sub := range cmd.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		parts += fmt.Sprintf("- [%s](%s): %s\n", sub.CommandPath(), pageOf(sub), markdownOf(sub.Short))
		if err := writePages(sub, dir); err != nil {
			return err
		}
	}
	if parts != "" {
		fmt.Fprintf(&b, "## Commands\n\n%s\n", parts)
	}
	if cmd.HasParent() {
		root := cmd.Root()
		fmt.Fprintf(&b, "Every command takes the [options of %s](%s#options), too.\n", root.Name(), pageOf(root))
	}
	return os.WriteFile(filepath.Join(dir, pageOf(cmd)), []byte(b.String()), 0o644)
}

func pageOf(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "_") + ".md"
}

func writeFlags(b *strings.Builder, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	b.WriteString("## Options\n\n| Option | Meaning |\n|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if value != "" {
			name += " " + value
		}
		if isSet := f.DefValue != "" && f.DefValue != "0" && f.DefValue != "0s" && f.DefValue != "false" && f.DefValue != "[]"; isSet {
			usage += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", name, strings.ReplaceAll(markdownOf(usage), "|", `\|`))
	})
	b.WriteString("\n")
}

var (
	quotedCommand = regexp.MustCompile(`'((?:svcfs|svcd) [^']+)'`)
	markup        = strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", `\<`, "~", `\~`, "[", `\[`, "`", "\\`")
)

// markdownOf makes Markdown of a help text: what is indented is shown as it is, and a
// command in quotes is code.
func markdownOf(text string) string {
	var b strings.Builder
	wasCode := false
	for i, line := range strings.Split(text, "\n") {
		isCode := strings.HasPrefix(line, "  ")
		if i > 0 {
			b.WriteString("\n")
		}
		if isCode != wasCode {
			b.WriteString("\n")
		}
		if wasCode = isCode; isCode {
			b.WriteString("    " + line)
			continue
		}
		b.WriteString(quotedCommand.ReplaceAllString(markup.Replace(line), "`$1`"))
	}
	return b.String()
}

// dedent takes the two spaces from the lines of an example.
func dedent(text string) string {
	return strings.ReplaceAll(strings.TrimPrefix(text, "  "), "\n  ", "\n")
}
