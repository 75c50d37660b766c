package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/ownfile"
)

// shownReasons is how many paths svcfs why prints in words; --json has all.
const shownReasons = 20

func (a *app) whyCommand() *cobra.Command {
	return a.offerNotify(&cobra.Command{
		Use:   "why PATH | GROUP NAME",
		Short: "Explain what failed at a path in a mount, and what is left there",
		Long: `Explain the last error of PATH in a mount: what failed, which version is recorded,
which bytes are only in the memory of the mount or wait in its outbox, and the commands
that go on from there.
Errors of a temporary name count too when a program saves PATH through it, such as
.x.swp, x~ and x.tmp for x, and errors of the name before a rename. For a folder the
command explains the last error of each path below it. PATH need not exist. The command
asks the service for nothing.`,
		Example: "  svcfs why ~/groups/team/report.pdf\n  svcfs why team/report.pdf\n  svcfs why ~/groups/team",
		Args:    between(1, 2, "one PATH, or a GROUP and a NAME"),
		RunE: a.simple(func(ctx context.Context, args []string) error {
			path, err := a.mountPath(ctx, args)
			if err != nil {
				return err
			}
			return a.why(ctx, path)
		}),
	}, answerWhy)
}

// reasonDoc is one path of svcfs why in JSON.
type reasonDoc struct {
	Time      string         `json:"time"`
	Path      string         `json:"path"`
	Name      string         `json:"name,omitempty"`
	Operation string         `json:"operation"`
	Class     string         `json:"class"`
	Error     string         `json:"error"`
	Hint      string         `json:"hint"`
	Recorded  *recordedDoc   `json:"recorded,omitempty"`
	Staged    *report.Staged `json:"staged,omitempty"`
	Waits     *outbox.Item   `json:"waits,omitempty"`
	Next      []nextStep     `json:"next"`
}

type recordedDoc struct {
	Version  string `json:"version"`
	Size     *int64 `json:"size"`
	Time     string `json:"time"`
	Uploader string `json:"uploader"`
}

// nextStep is a command that goes on from a failure.
type nextStep struct {
	Command string `json:"command"`
	Does    string `json:"does"`
}

func (a *app) why(ctx context.Context, path string) error {
	dir, inside, found, err := reasonsAt(ctx, path)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		all := "see all of them: cat " + shellWord(dir+"/.svcfs/errors")
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			return refuse(exitNotFound,
				"a removed file comes back with: svcfs restore --trash "+placeWord(path)+"; "+all,
				fmt.Errorf("no error is recorded for %s, which is not there", inside))
		}
		if told, ok := outbox.ParseConflict(inside); ok {
			return refuse(exitNotFound, "see both, and settle it, with: svcfs conflicts "+placeWord(path),
				fmt.Errorf("no error is recorded here; %s is a save of %s that could not keep the name %s", inside,
					told.Account, told.Name))
		}
		return refuse(exitNotFound, all, fmt.Errorf("no error is recorded for %s", inside))
	}
	docs := each(found, func(r report.Reason) reasonDoc { return docOf(dir, r) })
	if a.asJSON {
		return a.printJSON(struct {
			reasonDoc
			Others []reasonDoc `json:"others"`
		}{docs[0], docs[1:]})
	}
	for i, r := range found[:min(len(found), shownReasons)] {
		if i > 0 {
			a.ui.printf("\n")
		}
		a.printPairs(reasonPairs(r, docs[i])...)
	}
	if more := len(found) - shownReasons; more > 0 {
		a.ui.notice("%s more; all of them: svcfs why --json", plural(more, "path"))
	}
	return nil
}

// reasonsAt returns the reasons that concern a path, which lies inside of the mount on dir.
func reasonsAt(ctx context.Context, path string) (dir, inside string, found []report.Reason, err error) {
	dir, inside, err = mountHolding(path)
	if err != nil {
		return dir, inside, nil, err
	}
	text, err := readControl(ctx, dir, "reasons")
	if err != nil {
		return dir, inside, nil, err
	}
	all := parseReasons(text)
	if found = reasonsAbout(all, inside); len(found) == 0 {
		found = reasonsAbout(all, withoutLinks(dir, path, inside))
	}
	return dir, inside, found, nil
}

// withoutLinks returns where a path below the mount leads over symbolic links of the mount;
// inside when it leads elsewhere, or the mount does not answer.
func withoutLinks(dir, path, inside string) string {
	full, err := resolve(path)
	if err != nil {
		return inside
	}
	if _, there, ok := below([]string{dir}, full); ok {
		return there
	}
	return inside
}

// reasonsAbout selects the reasons that concern a path below the mount, the closest first
// and the newest of those first: its own, of temporary names beside it, and of what is
// below it; where there is none, of looks at a folder above it. A temporary name that tells
// nothing may be of any file of its folder.
func reasonsAbout(all []report.Reason, inside string) []report.Reason {
	var groups [4][]report.Reason
	isOwn := func(r report.Reason) bool { return r.Path == inside }
	known := slices.ContainsFunc(all, isOwn)
	for _, r := range slices.Backward(all) {
		held := r.Staged != nil && r.Staged.State != report.StagedWritten && r.Staged.State != report.StagedScratch
		switch {
		case isOwn(r):
			groups[0] = append(groups[0], r)
		case r.Name == inside:
			groups[1] = append(groups[1], r)
		case path.Dir(r.Path) == path.Dir(inside) && policy.IsNameless(path.Base(r.Path)) && r.Name == "":
			if held || !known {
				groups[1] = append(groups[1], r)
			}
		case r.Error == "" && !held && r.Waits == nil:
		case isBelow(r.Path, inside) || isBelow(r.Name, inside):
			groups[2] = append(groups[2], r)
		case strings.HasPrefix(r.Operation, "list") && isBelow(inside, r.Path):
			groups[3] = append(groups[3], r)
		}
	}
	if found := slices.Concat(groups[:3]...); len(found) > 0 {
		return found
	}
	return groups[3][:min(len(groups[3]), 1)]
}

func isBelow(inside, folder string) bool {
	return strings.HasPrefix(inside, strings.TrimSuffix(folder, "/")+"/") && inside != folder
}

// docOf tells of one path; dir is the mount.
func docOf(dir string, r report.Reason) reasonDoc {
	doc := reasonDoc{Time: r.Time.Format(time.RFC3339Nano), Path: r.Path, Name: r.Name, Operation: r.Operation,
		Class: r.Class, Error: r.Error,
		Hint: r.Hint, Staged: r.Staged, Waits: r.Waits, Next: nextSteps(dir, r)}
	if v := r.Recorded; v != nil {
		doc.Recorded = &recordedDoc{Version: v.Version, Time: timeText(v.Time), Uploader: string(v.Uploader)}
		if v.Size >= 0 {
			doc.Recorded.Size = &v.Size
		}
	}
	return doc
}

// reasonPairs tells of one path in words.
func reasonPairs(r report.Reason, doc reasonDoc) [][2]string {
	var pairs [][2]string
	for _, p := range [][2]string{{"time", doc.Time}, {"path", doc.Path}, {"meant for", doc.Name},
		{"operation", doc.Operation},
		{"class", doc.Class}, {"error", doc.Error}, {"hint", doc.Hint}, {"recorded", recordedWords(r)},
		{"staged", stagedWords(r)}, {"waits", waitsWords(r.Waits)}} {
		if p[1] != "" {
			pairs = append(pairs, p)
		}
	}
	for _, step := range doc.Next {
		pairs = append(pairs, [2]string{"next", step.Command + "   # " + step.Does})
	}
	return pairs
}

func recordedWords(r report.Reason) string {
	v := r.Recorded
	if v == nil {
		return "nothing under this name"
	}
	size := "of unknown size"
	if v.Size >= 0 {
		size = fmt.Sprintf("%d bytes", v.Size)
	}
	return fmt.Sprintf("%s of %s by %s: this version stays, and is what all others see", size, timeText(v.Time),
		v.Uploader)
}

func stagedWords(r report.Reason) string {
	s := r.Staged
	if s == nil {
		if savesContent(r.Operation) && r.Waits == nil {
			return "nothing: what this mount shows is recorded, or gone"
		}
		return ""
	}
	words := map[string]string{
		report.StagedHalf: "not a whole save, because a write was refused; nothing of it is sent",
		report.StagedKilled: "perhaps not a whole save, because its program was killed; nothing of it is sent before " +
			"you ask",
		report.StagedFailed:  "a whole save that is not recorded",
		report.StagedAway:    "a whole save; it is sent by itself when the service is back",
		report.StagedWritten: "sent when its program closes it",
		report.StagedScratch: "under a temporary name, which is never sent",
	}
	return fmt.Sprintf("%d bytes at %s, only in the memory of this mount: %s", s.Size, s.Path, words[s.State])
}

// waitsWords tells of a save in the outbox, "" for none.
func waitsWords(i *outbox.Item) string {
	if i == nil {
		return ""
	}
	words := fmt.Sprintf("%d bytes on the disk of this machine, since %s; ", i.Size, i.Time.UTC().Format(time.RFC3339))
	switch {
	case i.State == outbox.Parked.String():
		return words + "parked: " + escapeText(i.Reason)
	case i.Next != nil:
		words += "next try " + i.Next.UTC().Format(time.RFC3339)
	default:
		words += "it is sent by itself"
	}
	if i.Reason != "" {
		words += ": " + escapeText(i.Reason)
	}
	return words
}

// savesContent reports whether an operation brings content of a file to the service.
func savesContent(op string) bool {
	return slices.Contains([]string{"write", "truncate", "close", "fsync", "rename", "release", "retry", "drain"}, op)
}

// nextSteps returns the commands that go on: first the one that shows what stands in the
// way, then what can be done with the bytes.
func nextSteps(dir string, r report.Reason) []nextStep {
	steps := []nextStep{}
	if step, ok := stepsOfClasses(dir, r.Path)[r.Class]; ok {
		steps = append(steps, step)
	}
	if r.Class == tree.ClassConflict.String() && r.Operation == "save" { // it has a name of its own
		steps = []nextStep{{"svcfs conflicts " + shellWord(dir+r.Path),
			"lists both, and settles it with --keep or --merge"}}
	}
	if r.Waits != nil {
		steps = append(steps, stepsOfItem(dir, r)...)
	}
	s := r.Staged
	if s == nil {
		return steps
	}
	here := shellWord(dir + s.Path)
	send := nextStep{"sync " + here, "sends it once the reason is gone"}
	keep := nextStep{"cp -i " + here + " ~/", "keeps a copy outside: the mount forgets it when it ends"}
	if s.Link { // sync and cp would follow it
		send.Command = "sync " + shellWord(dir+path.Dir(s.Path))
		keep.Command = "cp -i -P " + here + " ~/"
	}
	undo := nextStep{"rm " + here, "gives it up, and frees its memory"}
	if v := r.Recorded; v != nil && !s.Link && s.State != report.StagedScratch && (r.Name == "" || r.Name == s.Path) {
		undo = nextStep{"cp " + shellWord(dir+v.Version) + " " + here,
			"gives it up, and goes back to the recorded version"}
	}
	switch s.State {
	case report.StagedHalf:
		return append(steps, nextStep{"cp FILE " + here, "saves it whole, FILE being where you have it"}, undo)
	case report.StagedKilled:
		send.Does = "sends it as it is"
		return append(steps, send, undo)
	case report.StagedFailed:
		return append(steps, send, keep, undo)
	case report.StagedAway:
		send.Does = "sends it now, if the service is back"
		return append(steps, send)
	case report.StagedWritten:
		send.Does = "sends it now"
		return append(steps, send)
	}
	return append(steps, undo)
}

// stepsOfItem returns what can be done with a save in the outbox.
func stepsOfItem(dir string, r report.Reason) []nextStep {
	i := r.Waits
	if i.State != outbox.Parked.String() {
		return []nextStep{{"svcfs sync " + shellWord(dir), "sends it now, and waits until all is recorded"}}
	}
	steps := []nextStep{}
	if i.Temporary {
		steps = append(steps, nextStep{"mv " + shellWord(dir+r.Path) + " " + shellWord(dir+path.Dir(r.Path)+"/NAME"),
			"sends it under that name"})
	} else {
		steps = append(steps, nextStep{"svcfs outbox retry " + i.ID, "tries it again, once the reason is gone"})
	}
	if !i.Locked && !i.Temporary {
		steps = append(steps, nextStep{"svcfs outbox move " + i.ID + " GROUP", "sends it to another group"})
	}
	steps = append(steps, nextStep{"svcfs outbox discard " + i.ID, "gives it up for good; asks first"})
	return steps
}

// stepsOfClasses are the commands that show what stands in the way.
func stepsOfClasses(dir, inside string) map[string]nextStep {
	group, _, _ := strings.Cut(strings.TrimPrefix(inside, "/"), "/")
	word := group
	if shellWord(group) != group || group == "" || group[0] == '-' {
		word = "GROUP"
	}
	rights := nextStep{"svcfs group members " + word + " --roles", "shows who may do what"}
	money := nextStep{"svcfs balance", "shows what the account has; svcfs status " + shellWord(dir) +
		" shows the budget of the mount"}
	reach := nextStep{"svcfs doctor", "shows what cannot be reached"}
	return map[string]nextStep{
		tree.ClassAccess.String(): rights, tree.ClassReadOnly.String(): rights,
		tree.ClassBudget.String():      money,
		tree.ClassNoSpace.String():     {"df " + shellWord(dir+"/"+group), "shows how much room there is"},
		tree.ClassNoMemory.String():    {"svcfs status " + shellWord(dir), "shows the files that hold the memory"},
		tree.ClassUnreachable.String(): reach, tree.ClassTimeout.String(): reach,
		tree.ClassRevoked.String():  {"svcfs group list", "shows the groups that are left"},
		tree.ClassRejected.String(): {"svcfs whoami", "shows which account and key are used"},
		tree.ClassCorrupt.String():  {"svcfs refresh " + shellWord(dir), "looks at the ledger again"},
		tree.ClassConflict.String(): {"ls -l " + shellWord(dir+historyOf(inside)),
			"lists all versions, also the other one"},
	}
}

// historyOf returns the folder of the versions of a path, both below the mount.
func historyOf(inside string) string {
	group, rest, _ := strings.Cut(strings.TrimPrefix(inside, "/"), "/")
	return "/" + group + "/.svcfs/history/" + rest
}

// shellWord returns a path as one word of a shell.
func shellWord(s string) string { return ownfile.ShellWord(s) }
