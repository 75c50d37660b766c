package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/cmd/internal/cli"
)

// offerJSON adds the flag --json to the commands below cmd.
func (a *app) offerJSON(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		if !child.HasSubCommands() && !child.Hidden {
			child.Flags().BoolVar(&a.asJSON, "json", false, "print JSON")
		}
		a.offerJSON(child)
	}
}

// printJSON prints v as one JSON document.
func (a *app) printJSON(v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode JSON: %w", err)
	}
	a.ui.printf("%s\n", cli.EscapeJSON(text))
	return nil
}

// printPairs prints "name value" lines with the values in one column.
func (a *app) printPairs(pairs ...[2]string) {
	width := 0
	for _, p := range pairs {
		width = max(width, len(p[0]))
	}
	for _, p := range pairs {
		a.ui.printf("%-*s  %s\n", width, p[0], escapeText(p[1]))
	}
}

// printTable prints rows in aligned columns.
func (a *app) printTable(rows [][]string) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = escapeText(row[i])
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // into memory
	a.ui.printf("%s", b.String())
}

// timeText prints a ledger time for a table, "-" when unknown.
func timeText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// plural returns "1 file" or "2 files".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// firstLine is the first line of what a program said.
func firstLine(said []byte) string {
	line, _, _ := strings.Cut(string(said), "\n")
	return line
}

func itoa(n int) string { return strconv.Itoa(n) }

// each returns what of makes of every item; for JSON an empty list is not absent.
func each[T, U any](list []T, of func(T) U) []U {
	made := make([]U, 0, len(list))
	for _, item := range list {
		made = append(made, of(item))
	}
	return made
}

// timeOrNil is nil for an unknown time.
func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	utc := t.UTC()
	return &utc
}
