package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/vaultwire"
)

func newRotateMasterKey(s *settings) *cobra.Command {
	var newFile string
	var finish, cancel bool
	cmd := &cobra.Command{
		Use: "rotate-master-key", Short: "Replace the master key, also while the service runs", Args: noArgs,
		Long: `Replace the master key. The service may run meanwhile, and clients notice nothing: the
keys that sign session tokens and the ledger stay the same. The key of every file is
wrapped anew, so that the old master key opens nothing in the database any more.
Archives from before need the old master key. After a theft of the master
key run svcd rotate-token-key too.

With SQLite, and the master key in the data directory, one run does everything.
Otherwise the old master key opens the database until --finish: put the new key where
each process reads its master key, restart the processes that read the key from a
command or from systemd, and then run the command with --finish.

After an interruption run the command again.`,
		Example: "  svcd rotate-master-key --data /var/lib/svcd\n" +
			"  svcd rotate-master-key --data ./data \\\n" +
			"      --master-key-command 'pass show svcd' --new-master-key-file ./new.key\n" +
			"  svcd rotate-master-key --data ./data --finish",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if finish && cancel || newFile != "" && (finish || cancel) {
				return usage("", "--finish, --cancel and --new-master-key-file exclude each other")
			}
			ctx := cmd.Context()
			s.newMasterKey = newFile
			s.rotates = !finish && !cancel
			return s.with(ctx, func(svc *service.Service) error {
				if finish || cancel {
					r, err := svc.FinishMasterKey(ctx, cancel)
					return s.printRotated(r, newFile, err)
				}
				r, err := svc.RotateMasterKey(ctx)
				return s.printRotated(r, newFile, err)
			})
		},
	}
	cmd.Flags().StringVar(&newFile, "new-master-key-file", "",
		"file for the new master key, made if it is not there; for a master key that a command or systemd gives")
	cmd.Flags().BoolVar(&finish, "finish", false, "remove what the master key from before opens")
	cmd.Flags().BoolVar(&cancel, "cancel", false, "stay with the master key in use, for example because the new one "+
		"was lost")
	return cmd
}

// printRotated tells what a rotation did, also one that failed on its way.
func (s *settings) printRotated(r service.Rotation, newFile string, err error) error {
	if r.Before != "" {
		fmt.Fprintf(s.stdout, "master key: a new one is in %s: copy it to where you keep master keys\n",
			s.whereMasterKey())
		fmt.Fprintf(s.stdout, "the one from before is in %s: archives from before need it; keep it with "+
			"them and remove it here\n", r.Before)
	}
	if err != nil {
		return err
	}
	s.printRotation(r, newFile)
	return nil
}

// printRotation prints what was done and what is left to do.
func (s *settings) printRotation(r service.Rotation, newFile string) {
	fmt.Fprintf(s.stdout, "keys wrapped anew: %d\n", r.Keys)
	if r.Bad > 0 {
		fmt.Fprintf(s.stdout, "keys that nothing opens: %d; svcd verify names their files\n", r.Bad)
	}
	if r.Finished {
		fmt.Fprintln(s.stdout, "finished: one master key opens the database")
		return
	}
	if s.vaultAt != "" {
		newFile = "the file of --next-master-key-file"
	}
	fmt.Fprintf(s.stdout, "not finished: the master key from before still opens the database. Bring %s to wherever a "+
		"process over this database reads its own, keep the one from before with the archives, then run:\n"+
		"  svcd rotate-master-key --finish\n", cmp.Or(newFile, s.whereMasterKey()))
}

// nextMasterKey is the place of the master key that takes the place of the one in use.
func (s *settings) nextMasterKey() (next service.MasterKey) {
	switch {
	case s.newMasterKey != "":
		return service.MasterKey{File: s.newMasterKey}
	case s.masterKey() == service.MasterKey{}:
		return vaultwire.InDirectory(s.cfg.DataDir).Next()
	}
	return next // of a vault that runs, or refused
}

// whereMasterKey names the place of the master key.
func (s *settings) whereMasterKey() string {
	from := s.masterKey()
	switch {
	case from.Vault != "":
		return "the file from which the vault at " + from.Vault + " reads it"
	case from.Command != "":
		return "what --master-key-command prints"
	}
	return cmp.Or(from.File, filepath.Join(s.cfg.DataDir, vaultwire.FileName))
}

// rotation is the code of a command that replaces keys, and prints the next step.
func (s *settings) rotation(rotate func(*service.Service, context.Context) error,
	next string) func(*cobra.Command, []string) error {
	return s.run(func(ctx context.Context, svc *service.Service, _ []string) error {
		if err := rotate(svc, ctx); err != nil {
			return err
		}
		fmt.Fprintln(s.stdout, next)
		return nil
	})
}

func newRotateLogKey(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "rotate-log-key", Short: "Replace the key that signs the ledger's checkpoints", Args: noArgs,
		Long: `Replace the key that signs the checkpoints of the ledger. The service may run
meanwhile: every process signs with the new key from then on. svcd publishes a
statement that both keys signed, and svcfs accepts the new key because of it. Other
programs that check the ledger need the new key: svcd audit shows it. A witness signs
nothing until it has the new key.`,
		Example: "  svcd rotate-log-key --data /var/lib/svcd",
		RunE: s.rotation((*service.Service).RotateLogKey,
			"the log has a new key, and every svcd serve over this database signs with it from now on; svcd audit "+
				"shows the key:\n"+
				"give it to the witness, if there is one, and to everybody who gave the old one with --log-key"),
	}
}

func newRotateTokenKey(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "rotate-token-key", Short: "Replace the key that signs session tokens; every session ends", Args: noArgs,
		Long: `Replace the keys that sign session tokens, download tickets and sign-ins at an
identity provider. A process uses the new keys from its next start on: stop all
processes, run this command, and start them again. Then every session token is void.
Programs sign in again with their API keys, which stay the same.

Run this command after a theft of the master key, beside svcd rotate-master-key: with
the master key and a copy of the database a thief could make session tokens. Run it,
too, when somebody had taken over svcd, which has the key of download tickets.`,
		Example: "  svcd rotate-token-key --data /var/lib/svcd",
		RunE: s.rotation((*service.Service).RotateTokenKeys,
			"session tokens have a new key: restart every svcd serve over this database, and every session ends"),
	}
}

func newRotateUploadKey(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "rotate-upload-key", Short: "Replace the key that clients seal file keys to", Args: noArgs,
		Long: `Replace the key to which clients seal the key of each file that they upload in one
request. The service may run meanwhile: every process publishes the new key from then on.
What was sealed to the key before is taken for 90 days more, because a machine without a
connection may keep saves for that long; one that connects seals what waits to the new
key. Then the key before is destroyed: what a machine kept that was away for all of the
90 days can be read by nobody any more, and is not recorded.

Run this command once a year, and after a theft of the master key, beside svcd
rotate-master-key: with the master key and a copy of the database a thief could open the
uploads that lie on the machines of clients.`,
		Example: "  svcd rotate-upload-key --data /var/lib/svcd",
		RunE: s.rotation((*service.Service).RotateUploadKey,
			"clients seal file keys to a new key from now on; what they sealed before is taken for 90 days"),
	}
}
