package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// HelpColumns is how wide a help text may be.
const HelpColumns = 80

// NoSettings marks commands, in their annotations, that ask neither for an account nor for a service: their
// help leaves out where the flags for both are.
const NoSettings = "no settings"

// SettingsFor says, in the annotations of a program, what the flags of the program itself are for.
const SettingsFor = "settings for"

// rare marks flags that only 'help --all' shows.
const rare = "rare"

// Rare marks flags that nobody looks for at first: the help of a command shows them only with --all. Pages of the
// manual and completion have all.
func Rare(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		_ = flags.SetAnnotation(name, rare, nil) // the flag exists
	}
}

// FitHelp makes the help of a program and of its commands from their own texts, within [HelpColumns]. The flags of
// the program itself stand in its own help alone.
func FitHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	all := false
	for _, cmd := range root.Commands() {
		if cmd.Name() == "help" {
			cmd.Flags().BoolVar(&all, "all", false, "also the flags that few people need")
		}
	}
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		cmd.PrintErr(usageText(cmd, all))
		return nil
	})
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { cmd.Print(HelpText(cmd, all)) })
}

// HelpText is the help of a command; all: with every flag.
func HelpText(cmd *cobra.Command, all bool) string {
	about := cmd.Long
	if about == "" {
		about = cmd.Short
	}
	return wrap(strings.TrimSpace(about)) + "\n\n" + usageText(cmd, all)
}

func usageText(cmd *cobra.Command, all bool) string {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Runnable() {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	for _, group := range append(cmd.Groups(), &cobra.Group{Title: "Commands:"}) {
		writeCommands(&b, cmd, group)
	}
	if flags, left := shownFlags(cmd.LocalFlags(), all); flags != "" {
		fmt.Fprintf(&b, "\nFlags:\n%s", flags)
		if left > 0 {
			of := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name())
			fmt.Fprintf(&b, "\n%d more flags: %s help --all%s\n", left, cmd.Root().Name(), of)
		}
	}
	if _, asksNobody := cmd.Annotations[NoSettings]; cmd.HasAvailableInheritedFlags() && !asksNobody {
		root := cmd.Root()
		fmt.Fprintf(&b, "\nFlags for %s: %s help\n", root.Annotations[SettingsFor], root.Name())
	}
	return b.String()
}

// writeCommands lists the commands of a group, or of none.
func writeCommands(b *strings.Builder, cmd *cobra.Command, group *cobra.Group) {
	title := "\n" + group.Title + "\n"
	width := 0
	for _, sub := range cmd.Commands() {
		width = max(width, len(sub.Name()))
	}
	for _, sub := range cmd.Commands() {
		if sub.GroupID != group.ID || !sub.IsAvailableCommand() && sub.Name() != "help" {
			continue
		}
		b.WriteString(title)
		title = ""
		fmt.Fprintf(b, "  %-*s  %s\n", width, sub.Name(), hang(sub.Short, width+4))
	}
}

// shownFlags lists flags, and how many it left out.
func shownFlags(flags *pflag.FlagSet, all bool) (text string, left int) {
	shown := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.VisitAll(func(f *pflag.Flag) {
		_, isRare := f.Annotations[rare]
		switch {
		case f.Hidden:
		case isRare && !all:
			left++
		default:
			shown.AddFlag(f)
		}
	})
	return shown.FlagUsagesWrapped(HelpColumns), left
}

// wrap breaks the lines of paragraphs that are too wide anew. A paragraph with indented lines stays as it is.
func wrap(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		isWide := false
		for line := range strings.SplitSeq(p, "\n") {
			isWide = isWide || len(line) > HelpColumns
		}
		if isWide && !strings.Contains("\n"+p, "\n ") {
			paragraphs[i] = hang(strings.ReplaceAll(p, "\n", " "), 0)
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// hang breaks a text into lines that end before [HelpColumns], of which all but the first are indented by so many
// columns; the first has that much less room.
func hang(text string, indent int) string {
	var b strings.Builder
	column := indent
	for i, word := range strings.Fields(text) {
		switch {
		case i > 0 && column+1+len(word) > HelpColumns-1:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		case i > 0:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}
