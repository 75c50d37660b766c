package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// errorFields is how many tab-separated fields a line of /.svcfs/errors has:
// time, path, operation, class, sentence and next step.
const errorFields = 6

func (a *app) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "why PATH",
		Short:   "Explain the last error of a path in a mount",
		Example: "  svcfs why ~/groups/team/report.pdf",
		Args:    exactly(1, "one PATH"),
		RunE:    a.simple(func(ctx context.Context, args []string) error { return a.why(ctx, args[0]) }),
	}
}

func (a *app) why(ctx context.Context, path string) error {
	dir, inside, err := mountHolding(path)
	if err != nil {
		return err
	}
	text, err := readControl(ctx, dir, "errors")
	if err != nil {
		return err
	}
	var last, above []string // above: a look at a folder above that failed
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case len(fields) < errorFields-1:
		case fields[1] == inside:
			last = append(fields, "")
		case strings.HasPrefix(fields[2], "list") && (fields[1] == "/" || strings.HasPrefix(inside, fields[1]+"/")):
			above = append(fields, "")
		}
	}
	if last == nil {
		last = above
	}
	if last == nil {
		return refuse(exitNotFound, "see all of them: cat "+dir+"/.svcfs/errors", fmt.Errorf("no error is recorded for %s", inside))
	}
	names := []string{"time", "path", "operation", "class", "error", "hint"}
	doc := make(map[string]string)
	var pairs [][2]string
	for i, name := range names {
		doc[name] = escapeText(last[i])
		if last[i] != "" {
			pairs = append(pairs, [2]string{name, escapeText(last[i])})
		}
	}
	if a.asJSON {
		return a.printJSON(doc)
	}
	a.printPairs(pairs...)
	return nil
}
