package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/fs"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/confine"
	"github.com/svcfs/svcfs/sdk/wire"
	"golang.org/x/sys/unix"
)

// failed is a failure with its exit code. For an empty hint doctor finds one.
func failed(check string, err error, hint string) cli.Finding {
	f := cli.Failed(check, strings.ReplaceAll(err.Error(), "\n", "; "), hint) // a finding is one line
	f.Code, f.Err = exitCodeOf(err), err
	return f
}

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine, the credentials and the service, and say what to do",
		Long: `Check this machine, the credentials and the service. Every line that does not
say ok says what to do. The exit code is that of the first failure. Free.`,
		Example: "  svcfs doctor\n  svcfs doctor --json",
		Args:    cobra.NoArgs,
		RunE:    a.simple(func(ctx context.Context, _ []string) error { return a.doctor(ctx) }),
	}
}

func (a *app) doctor(ctx context.Context) error {
	hardened := confine.Harden()
	findings := []cli.Finding{checkFuse(), checkHelper(), checkOpenFiles(),
		cli.CheckLockLimit(littleLocked, "enough for keys; decrypted content may be swapped, so encrypt the swap",
			"run: ulimit -l 8192"), checkHarden(hardened), checkConfinement()}
	findings = append(findings, a.checkMounts(ctx)...)
	findings = append(findings, a.checkService(ctx)...)
	for i, f := range findings {
		if f.Err != nil && f.Hint == "" {
			findings[i].Hint = cmp.Or(a.hints.of(f.Err), "report this line")
		}
	}
	if a.asJSON {
		if err := a.printJSON(findings); err != nil {
			return err
		}
	} else {
		a.printFindings(findings)
	}
	if f, ill := cli.FirstFailure(findings); ill {
		return refuse(f.Code, "", errReported)
	}
	return nil
}

func (a *app) printFindings(findings []cli.Finding) {
	for _, f := range findings {
		a.ui.printf("%-4s  %-13s  %s\n", f.State, f.Check, escapeText(f.Detail))
		if f.Hint != "" {
			a.ui.printf("      %-13s  hint: %s\n", "", escapeText(cli.HintText(f.Hint)))
		}
	}
}

func checkFuse() cli.Finding {
	if err := fs.CheckDevice(); err != nil {
		return lacking("fuse", err)
	}
	return cli.Passed("fuse", "/dev/fuse can be opened")
}

func checkHelper() cli.Finding {
	path, err := fs.CheckHelper()
	if err != nil {
		return lacking("fusermount3", err)
	}
	return cli.Passed("fusermount3", cmp.Or(path, "not installed; root mounts without it"))
}

// lacking is a failure of something that mounting needs.
func lacking(check string, err error) cli.Finding {
	f := failed(check, err, "")
	f.Detail = errors.Unwrap(err).Error() // without the name of the check
	return f
}

// fewOpenFiles is a limit below which a mount may run out of descriptors.
const fewOpenFiles = 1024

func checkOpenFiles() cli.Finding {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return failed("open files", err, "")
	}
	detail := fmt.Sprintf("%d files may be open", limit.Cur)
	if limit.Cur < fewOpenFiles {
		return cli.Warned("open files", detail, fmt.Sprintf("run: ulimit -n %d", fewOpenFiles))
	}
	return cli.Passed("open files", detail)
}

// littleLocked is the memory that keys and tokens need, in bytes.
const littleLocked = 64 << 10

func checkHarden(err error) cli.Finding {
	if err != nil {
		return failed("process", err, "")
	}
	return cli.Passed("process", "no core dumps, not readable by other processes of this user")
}

func (a *app) checkMounts(ctx context.Context) []cli.Finding {
	dirs, err := ownMounts()
	if err != nil {
		return []cli.Finding{failed("mounts", err, "")}
	}
	var findings []cli.Finding
	for _, dir := range dirs {
		if m := inspect(ctx, dir); m.State == stateDead {
			findings = append(findings, cli.Warned("mounts", dir+" is dead: its process is gone",
				"run: svcfs umount "+shellWord(dir)))
		}
	}
	if findings == nil {
		return []cli.Finding{cli.Passed("mounts", plural(len(dirs), "mount")+", none dead")}
	}
	return findings
}

// checkService goes from settings to a call in the account's name, and stops at
// the first step that fails, because the later ones would only repeat it.
func (a *app) checkService(ctx context.Context) []cli.Finding {
	s, err := a.loadSettings()
	if err != nil {
		return []cli.Finding{failed("settings", err, "")}
	}
	var findings []cli.Finding
	add := func(f cli.Finding) { findings = append(findings, f) }
	if s.account == "" {
		return append(findings, failed("account", noAccount(), ""))
	}
	add(cli.Passed("account", fmt.Sprintf("%s (from %s)", escapeName(string(s.account)), s.accountVia)))
	if err := a.resolveKey(ctx, &s); err != nil {
		return append(findings, failed("API key", err, ""))
	}
	add(cli.Passed("API key", "given by "+s.key.String()))
	c, err := a.newClient(s)
	if err != nil {
		return append(findings, failed("settings", err, ""))
	}
	findings = append(findings, askService(ctx, c)...)
	if err := a.closeClient(c); err != nil {
		add(failed("proofs", err, ""))
	}
	return findings
}

// askService goes on with what the service answers.
func askService(ctx context.Context, c *sdk.Client) (findings []cli.Finding) {
	add := func(f cli.Finding) { findings = append(findings, f) }
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if err := c.Health(ctx); err != nil {
		return append(findings, failed("service", err,
			"check the address ("+c.NetworkInfo().MCPURL+") and that the service runs"))
	}
	add(cli.Passed("service", c.NetworkInfo().MCPURL+" answers"))
	add(checkClock(ctx, c.NetworkInfo().MCPURL))
	add(checkDialect(ctx, c))
	add(checkFiles(ctx, c))
	add(checkProofs(ctx, c))
	add(checkVault(ctx, c))
	if _, err := c.AuthStatus(ctx); err != nil {
		return append(findings, failed("sign-in", err, ""))
	}
	add(cli.Passed("sign-in", "the service accepts the key"))
	balance, err := c.Balance(ctx, c.Account())
	if err != nil {
		return append(findings, failed("balance", err, ""))
	}
	if balance.IsZero() {
		return append(findings, cli.Warned("balance", "0 tokens",
			"deposit tokens; nothing can be read or written without"))
	}
	return append(findings, cli.Passed("balance", balance.Tokens()+" tokens"), checkStorage(ctx, c))
}

// littleStorage is the part of the storage, one in so many, below which doctor warns.
const littleStorage = 10

// checkStorage warns before uploads are refused.
func checkStorage(ctx context.Context, c *sdk.Client) cli.Finding {
	const check = "storage"
	s, err := c.Storage(ctx)
	switch {
	case errors.Is(err, sdk.ErrUnsupported):
		return cli.Passed(check, "the service does not tell how much it keeps")
	case err != nil:
		return failed(check, err, "")
	case s.Left < 0:
		return cli.Passed(check, roughSize(s.Bytes)+" kept, no bound is known")
	}
	detail := fmt.Sprintf("%s kept, %s more fit", roughSize(s.Bytes), roughSize(s.Left))
	switch {
	case s.Left == 0:
		return cli.Warned(check, detail, "nothing can be uploaded: delete files or old versions, or ask the operator "+
			"of the service for room")
	case s.Left < (s.Bytes+s.Left)/littleStorage:
		return cli.Warned(check, detail, "delete files or old versions, or ask the operator of the service for room, "+
			"before uploads are refused")
	}
	return cli.Passed(check, detail)
}

// checkDialect tells which dialect of the protocol the service speaks, and what it lacks now.
func checkDialect(ctx context.Context, c *sdk.Client) cli.Finding {
	const check = "dialect"
	caps, err := c.Capabilities(ctx)
	if err != nil {
		return failed(check, err, "")
	}
	if !caps.Dialect.IsOurs() {
		return cli.Warned(check, "hosted: names and sizes are not known before a file is opened",
			"this is how the hosted service is; nothing to do")
	}
	detail := escapeText(strings.TrimSpace(fmt.Sprintf("%d, by %s %s", caps.Dialect, caps.Service, caps.Version)))
	if caps.Vault == nil {
		return cli.Warned(check, detail+"; it takes no sealed uploads now",
			"saves take longer and an outbox cannot be used; tell the operator of the service: svcd doctor")
	}
	return cli.Passed(check, detail)
}

// checkFiles tells how large a file may be, and how large ones are kept.
func checkFiles(ctx context.Context, c *sdk.Client) cli.Finding {
	caps, err := c.Capabilities(ctx)
	if err != nil {
		return failed("files", err, "")
	}
	largest, err := c.MaxUpload(ctx)
	if err != nil {
		return failed("files", err, "")
	}
	return cli.Passed("files", fileWords(caps, largest))
}

// fileWords is what checkFiles tells, for a mount.
func fileWords(caps wire.Capabilities, largest int64) string {
	if caps.Dialect.IsOurs() {
		return fmt.Sprintf("up to %s; those above %s are kept in blocks, read and changed in part",
			roughSize(largest), roughSize(wire.WholeFileBytes))
	}
	return fmt.Sprintf("up to %s, sent and fetched whole, because the service keeps no blocks", roughSize(largest))
}

// checkProofs tells what the service proves and for what svcfs has to take its word,
// and compares the history seen before with the history shown now.
func checkProofs(ctx context.Context, c *sdk.Client) cli.Finding {
	t, err := c.CheckTrust(ctx)
	switch {
	case err != nil:
		return failed("proofs", err, "")
	case !t.Proves:
		return cli.Warned("proofs", "none: names, times, versions and hashes are what the service says; content is "+
			"compared with the hash it says", "this is how the hosted service is; nothing to do")
	case t.Key == "":
		return cli.Passed("proofs", "the service proves what it lists; its key is pinned at the first list")
	}
	return cli.Passed("proofs", fmt.Sprintf("the service proves what it lists; %s seen, pinned key %s",
		plural(int(t.Size), "signed record"), escapeText(t.Key)))
}

// checkVault tells who keeps the keys, and what of it is proven.
func checkVault(ctx context.Context, c *sdk.Client) cli.Finding {
	const check = "vault"
	caps, err := c.Capabilities(ctx)
	switch {
	case err != nil:
		return failed(check, err, "")
	case !caps.Dialect.IsOurs():
		return cli.Passed(check, "the hosted service says that a trusted execution environment keeps the keys; "+
			"nothing is proven here")
	case caps.Vault == nil:
		return cli.Passed(check, "the service says nothing of it now")
	}
	return cli.Passed(check, fmt.Sprintf("svcvault with the SHA-256 %s keeps the keys: the operator's word, no "+
		"hardware proves it", escapeText(caps.Vault.Measurement)))
}

// proofWords is what checkProofs tells, for a mount.
func proofWords(c *sdk.Client) string {
	t, err := c.Trust(context.Background()) // local: it was asked before mounting
	switch {
	case err != nil:
		return ""
	case !t.Proves:
		return "none: the service is believed"
	}
	return plural(int(t.Size), "signed record") + " seen, lists are proven"
}

// checkClock compares the clock with the service's Date header.
func checkClock(ctx context.Context, url string) cli.Finding {
	health, err := cli.AskHealth(ctx, url)
	switch {
	case err != nil:
		return failed("clock", refuse(exitUnreachable, "", err), "")
	case health.Date.IsZero():
		return cli.Warned("clock", "the service does not tell its time",
			"compare this machine's clock with another: date -u")
	case health.Apart() > cli.ClockTolerance:
		return failed("clock", fmt.Errorf("this machine's clock is %s apart from the service's", health.Apart()),
			cli.SetClock)
	}
	return cli.Passed("clock", fmt.Sprintf("%s apart from the service's", health.Apart()))
}
