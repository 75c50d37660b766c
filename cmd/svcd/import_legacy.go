package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/legacy"
)

// legacyImport are the flags of import-legacy.
type legacyImport struct {
	*settings
	account, name, keyFile string
	reference, fileHash    string
	ciphertext             bool
	cidVersion             int
}

func newImportLegacy(s *settings) *cobra.Command {
	l := &legacyImport{settings: s}
	cmd := &cobra.Command{
		Use:   "import-legacy GROUP FILE…",
		Short: "Import files that were kept on a content-addressed network",
		Long: `Record files under content ids (Qm… or bafy…), as older clients know them. This costs
nothing.

Plain files are sealed with the key of the group, and the command prints the new
content id of each. With --ciphertext the files hold what the old network held, as
bytes or base64, sealed with the key in --key-file; a file that is named by its content
id must match it. With --reference and --file-hash only the reference is recorded: svcd
serve --gateway fetches the bytes at the first retrieval. svcd remembers the version
of the group's key for each file, so that revoking members loses no file.

A svcvault that runs by itself gives the group's key to this command only where it was
started with --legacy. With --key-file none is needed.`,
		Example: "  svcd import-legacy team report.pdf --data ./data\n" +
			"  svcd import-legacy team QmT78z… --ciphertext --key-file old.key --data ./data\n" +
			"  svcd import-legacy team --reference QmT78z… --file-hash 9f86d0… \\\n" +
			"      --name report.pdf --data ./data",
		Args: l.checkArgs,
		RunE: s.run(func(ctx context.Context, svc *service.Service, args []string) error {
			return l.run(ctx, svc, args[0], args[1:])
		}),
		PreRun: func(*cobra.Command, []string) { s.importsLegacy = true },
	}
	cmd.Flags().StringVar(&l.account, "account", "", "who counts as uploader (default: the group's owner)")
	cmd.Flags().StringVar(&l.name, "name", "", "recorded name, for one file (default: that of the file)")
	cmd.Flags().IntVar(&l.cidVersion, "cid-version", 1,
		"version of content ids that are made: 1 gives bafy…, 0 gives Qm…")
	cmd.Flags().BoolVar(&l.ciphertext, "ciphertext", false, "the files are sealed already")
	cmd.Flags().StringVar(&l.keyFile, "key-file", "",
		"file with the group's old key, 32 bytes or base64 (default: the group's key here)")
	cmd.Flags().StringVar(&l.reference, "reference", "", "content id to record without its bytes")
	cmd.Flags().StringVar(&l.fileHash, "file-hash", "", "SHA-256 of the plaintext behind --reference, in hex")
	return cmd
}

func (l *legacyImport) checkArgs(_ *cobra.Command, args []string) error {
	wrong := func(text string) error { return usage("", "%s", text) }
	switch {
	case len(args) == 0:
		return wrong("want GROUP and files")
	case l.reference != "" && (len(args) > 1 || l.fileHash == "" || l.ciphertext):
		return wrong("--reference goes with --file-hash and without files")
	case l.reference == "" && (len(args) == 1 || l.fileHash != ""):
		return wrong("want files, or --reference with --file-hash")
	case l.name != "" && len(args) > 2:
		return wrong("--name is for one file")
	case l.keyFile != "" && !l.ciphertext && l.reference == "":
		return wrong("--key-file goes with --ciphertext or --reference: plain files are sealed with the group's key")
	case l.cidVersion != 0 && l.cidVersion != 1:
		return wrong("--cid-version is 0 or 1")
	}
	return nil
}

func (l *legacyImport) run(ctx context.Context, svc *service.Service, group string, names []string) error {
	file := service.LegacyFile{Group: group, Name: l.name, Account: l.account}
	if l.keyFile != "" {
		key, err := keys.ReadFileKey(l.keyFile)
		if err != nil {
			return err
		}
		file.Key = key
	}
	if l.reference != "" {
		return l.print(svc.ImportReference(ctx, file, l.reference, l.fileHash))
	}
	for _, name := range names {
		data, err := readRegular(name)
		if err != nil {
			return err
		}
		if err := l.print(l.importFile(ctx, svc, file, filepath.Base(name), data)); err != nil {
			return fmt.Errorf("import %q: %w", name, err)
		}
	}
	return nil
}

func (l *legacyImport) importFile(ctx context.Context, svc *service.Service, file service.LegacyFile, base string,
	data []byte) (service.Imported, error) {
	if !l.ciphertext {
		if file.Name == "" {
			file.Name = base
		}
		return svc.ImportPlain(ctx, file, data, l.cidVersion)
	}
	id := ""
	if _, err := legacy.Parse(base); err == nil {
		id = base // and no name of a file
	} else if file.Name == "" {
		file.Name = base
	}
	return svc.ImportSealed(ctx, file, data, id, l.cidVersion)
}

// print writes a line of JSON per file.
func (l *legacyImport) print(done service.Imported, err error) error {
	if err != nil {
		return err
	}
	return l.printJSON(done)
}

// readRegular reads a whole file: one tag covers all of it.
func readRegular(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, usage("", "%s is not a file", name)
	}
	return io.ReadAll(f)
}
