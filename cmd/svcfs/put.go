package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
	"golang.org/x/sys/unix"
)

// sendingPatience is how long put waits for a service that it was sending to: as long as a tunnel. A
// service that cannot be reached at the beginning is an error at once.
const sendingPatience = time.Minute

// putFlags are the flags of put.
type putFlags struct {
	name    string
	exclude []string // patterns of local files
	update  bool
	deflate bool
	quiet   bool
	jobs    int
}

func (a *app) putCommand() *cobra.Command {
	var f putFlags
	cmd := &cobra.Command{
		Use:   "put GROUP|PLACE FILE...",
		Short: "Encrypt files and folders here and upload them to a group; costs one upload each",
		Long: `Encrypt files here and upload them to a group, or into a folder of it: GROUP/FOLDER, or a
path in a mount. Each file costs one upload. The command prints one line for each file
once the ledger has recorded it, with its reference; --json also has the rest of the
receipt.

A folder is uploaded with everything in it, under its own name: put team docs makes
docs/a.txt. --exclude leaves out files and folders whose name, or whose path below FILE,
matches; with a slash at its end, as in build/, folders alone.
Devices in a folder, and names that are not UTF-8, are left out, with a notice. FILE -
reads standard input and needs --name. With --update a file is left out when its newest
version in the group has the same content: a second run uploads only what is missing.
Content is compared by its hash; of a large file that was changed in part, which may have
none, by size and time. Standard input beyond 64 MiB is not compared but sent.

Where the service records attributes, the time of a file, and whether it may be
executed, are recorded with it, and a link in a folder is recorded as a link; other
services get no links. A link that is named as FILE is followed if it leads to a file; with
a slash at its end, to a folder, too. --update brings the attributes of files that you
uploaded up to date, free.

A large file is sent in parts, and never held in memory. When the command was stopped,
by whatever, the same command goes on where it was, within a day, unless the file changed
since. A connection that breaks costs what was under way; put waits a minute for another.

With --deflate content is compressed before it is encrypted, if a sample shows that
this pays; large files are not. JavaScript clients older than 1.2 cannot read compressed files.`,
		Example: "  svcfs put team report.pdf\n  svcfs put team *.jpg photos/\n  svcfs put team docs --update\n" +
			"  tar c src | svcfs put team - --name src.tar",
		Args: between(2, -1, "a GROUP and at least one FILE"),
		RunE: a.simple(func(ctx context.Context, args []string) error {
			if f.jobs < 1 {
				return usage("use --jobs 4", "--jobs must be 1 or more")
			}
			return a.putAll(ctx, args, f)
		}),
		ValidArgsFunction: a.completeGroupThen(completeFiles),
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *putFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.name, "name", "", "name in the group, with / for folders (default: the file's own name)")
	flags.BoolVarP(&f.update, "update", "u", false,
		"upload only files that the group lacks or holds with other content")
	flags.StringArrayVar(&f.exclude, "exclude", nil, "leave out what matches this pattern; may be repeated")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing when all went well")
	flags.BoolVar(&f.deflate, "deflate", false, "compress files that become smaller")
	flags.IntVarP(&f.jobs, "jobs", "j", defaultJobs, "files to send at a time; each takes memory")
	cli.Rare(flags, "deflate", "jobs")
}

// putAll uploads the files and folders that args name to the place that the first of them names.
func (a *app) putAll(ctx context.Context, args []string, f putFlags) error {
	files, err := a.findLocal(args[1:], f)
	if isSwapped(args, err) {
		return refuse(exitNotFound, "the GROUP comes first: svcfs put GROUP FILE...", err)
	}
	if err != nil {
		return err
	}
	to, err := placeOf(args[0])
	if err == nil {
		files, err = to.into(files)
	}
	if err != nil {
		return err
	}
	c, _, err := a.patientClient(ctx, sendingPatience)
	if err != nil {
		return err
	}
	if err = mustBeMountsOf(ctx, c, []place{to}); err == nil {
		err = a.put(ctx, c, c.Group(to.group), files, f)
	}
	return errors.Join(err, a.closeClient(c))
}

// isSwapped reports whether the only FILE does not exist, and GROUP is the path of one
// that does.
func isSwapped(args []string, err error) bool {
	if !errors.Is(err, fs.ErrNotExist) || len(args) != 2 {
		return false
	}
	_, err = os.Stat(args[0])
	return err == nil
}

// receipt is what put prints as JSON, one document per file.
type receipt struct {
	Name      string  `json:"name"`
	CID       sdk.Ref `json:"cid"`
	TransID   string  `json:"trans_id"`
	FileHash  string  `json:"file_hash"`
	Size      int64   `json:"size"`
	Fee       string  `json:"fee,omitempty"`       // tokens, where the service tells
	Unchanged bool    `json:"unchanged,omitempty"` // --update: was there already, nothing was sent
}

// put sends the files, several at a time, and prints their receipts in order.
func (a *app) put(ctx context.Context, c *sdk.Client, g sdk.Group, files []localFile, f putFlags) error {
	caps, err := c.Capabilities(ctx)
	if err != nil {
		return err
	}
	records := caps.Dialect.IsOurs()
	files = slices.DeleteFunc(files, func(file localFile) bool {
		leave := file.link != "" && !records
		if leave {
			a.ui.notice("left out, because the service records no links: %s", file.path)
		}
		return leave
	})
	there := listingOf(nil)
	if f.update {
		if there, err = listOf(ctx, g); err != nil {
			return err
		}
	}
	var total int64
	for _, file := range files {
		total += max(file.size, 0)
	}
	progress := a.newBar("uploading", len(files), total)
	progress.hidden = progress.hidden || f.quiet
	defer a.ui.progress("")
	err = inOrder(ctx, f.jobs, len(files), func(ctx context.Context, i int) (receipt, error) {
		flying := progress.start(files[i].name, files[i].size)
		defer flying.end()
		var entry sdk.Entry
		if at, ok := there.Newest(files[i].name); ok {
			entry = there.Entries[at]
		}
		return a.putOne(ctx, c, g, files[i], entry, records,
			sdk.PutOptions{Progress: flying.report, Compress: f.deflate})
	}, func(r receipt) error { return a.printReceipt(r, f.quiet) })
	if err != nil && ctx.Err() != nil {
		return interruption("run the same command with --update: what was recorded is not sent again, and a large " +
			"file goes on where it was")
	}
	return err
}

// resumed says whether a large file goes on where an earlier command stopped.
func resumed(path string, kept int64, why error) string {
	switch {
	case why == nil && kept == 0:
		return fmt.Sprintf("%s begins anew: the last attempt stopped before a part was through", path)
	case why == nil:
		return fmt.Sprintf("%s goes on: the service has %s of it already", path, roughSize(kept))
	case errors.Is(why, sdk.ErrConflict):
		return fmt.Sprintf("%s begins anew: it changed since the last attempt", path)
	case errors.Is(why, sdk.ErrNotFound):
		return fmt.Sprintf("%s begins anew: the service has given the last attempt up", path)
	default:
		return fmt.Sprintf("%s: %v", path, why)
	}
}

// send uploads a file. A large one goes on where an earlier command stopped, if this user has a place to note that.
func (a *app) send(ctx context.Context, g sdk.Group, file localFile, content io.Reader,
	o sdk.PutOptions) (sdk.Receipt, error) {
	dir := a.userDir("XDG_STATE_HOME", ".local/state", "uploads")
	if dir == "" {
		return g.Put(ctx, file.name, content, o)
	}
	return g.Resume(ctx, file.name, content, dir, func(kept int64, why error) {
		a.ui.notice("%s", resumed(file.path, kept, why))
	}, o)
}

// putOne sends one file, unless it equals what is there. records: the service records
// attributes.
func (a *app) putOne(ctx context.Context, c *sdk.Client, g sdk.Group, file localFile, there sdk.Entry, records bool,
	o sdk.PutOptions) (receipt, error) {
	limit, err := c.MaxUpload(ctx)
	if err != nil {
		return receipt{}, fmt.Errorf("%s: %w", file.path, err)
	}
	content, err := a.open(ctx, file, there.Ref != "", limit)
	if err != nil {
		return receipt{}, err
	}
	defer content.Close()
	attributes := attributesOf(file, content)
	if _, once := content.(readerOnly); there.Ref != "" && !once {
		size, same, err := isThere(content, &there, attributes, c.Account())
		if err == nil && same && linkOf(&there) == file.link {
			if records && there.Uploader == c.Account() {
				err = bringUpToDate(ctx, g, &there, attributes)
			}
			return receipt{Name: file.name, CID: there.Ref, TransID: there.Tx, FileHash: hashText(there.Hash),
				Size: size, Unchanged: true}, err
		}
		if err == nil {
			_, err = content.Seek(0, io.SeekStart)
		}
		if err != nil {
			return receipt{}, fmt.Errorf("%s: %w", file.path, err)
		}
	}
	o.Attributes = attributes
	got, err := a.send(ctx, g, file, content, o)
	if err != nil {
		return receipt{}, fmt.Errorf("%s: %w", file.path, err)
	}
	r := receipt{Name: file.name, CID: got.Ref, TransID: got.Tx, FileHash: hashText(got.Hash), Size: got.Size}
	if !got.Fee.IsZero() {
		r.Fee = got.Fee.Tokens()
	}
	return r, nil
}

// isThere reports whether content, which it may read, is that of the version e. The hash of a file in blocks is what
// its uploader says, and is believed of this account alone.
func isThere(content io.ReadSeeker, e *sdk.Entry, local sdk.Attributes, own sdk.AccountID) (size int64,
	same bool, err error) {
	if size, err = content.Seek(0, io.SeekEnd); err != nil || !mayEqual(e, size) {
		return size, false, err
	}
	if e.Content != (sdk.Digest{}) && e.Uploader != own {
		return size, false, nil
	}
	if e.Hash == (sdk.Digest{}) {
		return size, looksEqual(e, size, local.ModTime), nil
	}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return size, false, err
	}
	hash, err := sdk.ComputeHashReader(content)
	return size, hash == e.Hash, err
}

func (a *app) printReceipt(r receipt, quiet bool) error {
	if a.asJSON {
		return a.printJSON(r)
	}
	did := "uploaded"
	if r.Unchanged {
		did = "unchanged"
	}
	if !quiet {
		a.ui.printf("%s %s  %s\n", did, names.Show(r.Name, string(r.CID)), escapeText(string(r.CID)))
	}
	return nil
}

// maxCompared is how many bytes of standard input are held to be compared; more are sent.
const maxCompared = 64 << 20

// open opens a file of at most limit bytes, or standard input, or the target of a link.
// With twice set, standard input of up to maxCompared bytes can be read twice.
func (a *app) open(ctx context.Context, local localFile, twice bool, limit int64) (io.ReadSeekCloser, error) {
	file := local.path
	if local.link != "" {
		return sectionCloser{io.NewSectionReader(strings.NewReader(local.link), 0, int64(len(local.link)))}, nil
	}
	if file == "-" && twice {
		in := a.input(ctx)
		content, err := io.ReadAll(io.LimitReader(in, maxCompared+1))
		if len(content) > maxCompared {
			return readerOnly{io.MultiReader(bytes.NewReader(content), in)}, err
		}
		return sectionCloser{io.NewSectionReader(bytes.NewReader(content), 0, int64(len(content)))}, err
	}
	if file == "-" {
		return readerOnly{a.input(ctx)}, nil
	}
	f, err := local.openFile()
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular() || local.info != nil && !os.SameFile(info, local.info):
		err = refuse(exitNotFound, restless, fmt.Errorf("%s is another file than it was at first", file))
	case info.Size() > limit:
		err = tooLarge(file, limit)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// openFile opens a file without waiting for what may have taken its place. One in a folder is opened below that
// folder, wherever links lead that somebody set meanwhile.
func (l *localFile) openFile() (*os.File, error) {
	const flags = os.O_RDONLY | unix.O_NONBLOCK
	if l.in != nil {
		f, err := l.in.OpenFile(l.below, flags, 0)
		if err != nil {
			return nil, unreadable(l.path, err)
		}
		return f, nil
	}
	f, err := os.OpenFile(l.path, flags, 0)
	if err != nil {
		return nil, refuse(exitNotFound, "check the path and its permissions", err)
	}
	return f, nil
}

// tooLarge refuses a file before anything of it is sent.
func tooLarge(file string, limit int64) error {
	return refuse(exitOther, "split it, for example with: split -b 1G; or ask the operator for a larger limit (svcd "+
		"serve --max-file-bytes), or for an update where svcfs doctor says that files are sent whole",
		fmt.Errorf("%s is too large: this service takes files of up to %s", file, roughSize(limit)))
}

// sectionCloser is content in memory, as a file that is closed.
type sectionCloser struct{ *io.SectionReader }

func (sectionCloser) Close() error { return nil }

// readerOnly is a reader that is read once and not closed.
type readerOnly struct{ io.Reader }

func (readerOnly) Seek(int64, int) (int64, error) { return 0, errors.ErrUnsupported }
func (readerOnly) Close() error                   { return nil }
