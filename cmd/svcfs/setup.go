package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/apikey"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire"
)

// setupAnswers are the answers to setup, as JSON on standard input. The key is the
// second half of the answer about the account.
type setupAnswers struct {
	Invite  string `json:"invite"`  // instead of service, account and api_key
	Service string `json:"service"` // address, mainnet or testnet; "" = as the settings say
	Account string `json:"account"`
	Key     string `json:"api_key"` // "" = from where the settings say
	Folder  string `json:"folder"`  // "" = ~/groups
}

// setUp is what setup prints as JSON.
type setUp struct {
	Account sdk.AccountID `json:"account_id"`
	Address string        `json:"auth_url"`
	Store   string        `json:"store"`  // where the key is
	Config  string        `json:"config"` // path of the file with the settings
	Folder  string        `json:"folder"`
	Unit    string        `json:"unit,omitempty"` // of systemd, enabled and started
	Next    string        `json:"next,omitempty"` // the command that mounts, where no unit does
}

func (a *app) setupCommand() *cobra.Command {
	var toFile, replace bool
	cmd := &cobra.Command{
		Use:   "setup [INVITE]",
		Short: "Ask for service, account and folder, and set everything up",
		Long: `Set everything up for this user with four questions: which service, which account with
its API key, which folder. Each answer is checked at once. The key goes where 'svcfs login'
puts it, the other answers into ~/.config/svcfs/config, whose other lines stay. Where
systemd runs for the user and knows svcfs@.service, the folder is mounted now and at each
login; else the command says how to mount it.

An invite from the operator of a service ('svcd invite') has the answers: 'svcfs setup INVITE'
makes the account, and asks nothing. It works once. What is typed of an invite at the first
question is not shown. Other users of this machine may see the
arguments of a command: where there are such, give the invite at the first question.

Settings that have another account already are refused: --replace changes over, and with
--config FILE each account has settings of its own.

On a terminal setup asks, and Enter takes what stands in brackets. With --json it reads
the answers from standard input, as one object: service (an address, mainnet or
testnet), account, api_key and folder, or invite and folder. What is left out comes from the
settings.`,
		Example: "  svcfs setup\n  svcfs setup svcfs-invite-eyJ1cmwiOi\n  svcfs setup --json < answers.json\n" +
			"  svcfs setup --url https://files.example.org",
		Args: between(0, 1, "at most one INVITE"),
		RunE: a.simple(func(ctx context.Context, args []string) error {
			return a.setup(ctx, strings.Join(args, ""), toFile, replace)
		}),
		ValidArgsFunction: completeNothing,
	}
	cmd.Flags().BoolVar(&toFile, "file", false, "store the key in ~/.config/svcfs/keys, not in the keyring")
	cmd.Flags().BoolVar(&replace, "replace", false, "change over from the account that the settings have; its key "+
		"stays stored")
	return cmd
}

// setupSteps are the questions in their order. Each checks its answer and keeps what it means.
type setupSteps struct {
	a       *app
	s       settings
	address string
	folder  string
	invite  *wire.Invite // nil = the account is there

	old      map[string]string // the settings as they were
	replace  bool              // their account by another one
	replaced string            // what that was, in words; "" = nothing
	unpinned []string          // names of settings about the log of another service, which end
}

func (a *app) setup(ctx context.Context, invite string, toFile, replace bool) error {
	path := a.configPath()
	if path == "" {
		return usage("set HOME, or use --config FILE", "there is no home directory for the settings")
	}
	a.makes = true
	old, err := a.settingsWithoutKey(path)
	if err != nil {
		return err
	}
	s, err := a.closedSettings()
	if err != nil {
		return err
	}
	steps := &setupSteps{a: a, s: s, old: old, replace: replace}
	switch {
	case invite != "":
		if err = steps.takeInvite(invite); err == nil {
			err = steps.place("")
		}
	case a.asJSON:
		err = steps.fromJSON(ctx)
	default:
		err = steps.ask(ctx)
	}
	if err == nil {
		err = steps.redeem(ctx, path)
	}
	if err != nil {
		return err
	}
	store, err := a.storeKey(steps.s, steps.address, toFile)
	if err != nil {
		return err
	}
	if err := steps.writeConfig(path); err != nil {
		return err
	}
	if steps.replaced != "" {
		a.ui.notice("the settings had %s, whose key stays stored", steps.replaced)
	}
	if len(steps.unpinned) > 0 {
		a.ui.notice("the settings have no longer what they had about the log of another service: %s",
			strings.Join(steps.unpinned, ", "))
	}
	done := setUp{Account: steps.s.account, Address: steps.address, Store: store.Name(), Config: path,
		Folder: steps.folder}
	if done.Unit, err = a.enableUnit(ctx, steps.folder); err != nil {
		a.ui.notice("not mounted at each login: %v", err)
		done.Next = "svcfs mount --background " + a.givenConfig() + shellWord(steps.folder)
	}
	return a.printSetUp(done)
}

// settingsWithoutKey reads the settings, which must not say where the key is.
func (a *app) settingsWithoutKey(path string) (map[string]string, error) {
	old, err := a.settingsFile()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{envKey, envKeyFile, envKeyCommand} {
		if old[name] != "" {
			return nil, usage("take that line out of it, if the key shall be stored anew",
				path+" says already where the key is: "+name)
		}
	}
	return old, nil
}

func (a *app) printSetUp(done setUp) error {
	if a.asJSON {
		return a.printJSON(done)
	}
	a.printPairs([2]string{"account", escapeName(string(done.Account)) + " at " + done.Address},
		[2]string{"key", done.Store}, [2]string{"settings", done.Config}, [2]string{"folder", done.Folder})
	if done.Unit != "" {
		a.ui.printf("mounted, now and at each login, by %s\n", done.Unit)
	} else {
		a.ui.printf("mount it with: %s\n", done.Next)
	}
	a.ui.printf("then 'svcfs group create NAME' makes a group, and 'svcfs group join' takes an invite to one\n")
	return nil
}

// fromJSON takes the answers from standard input. The first that is refused ends it.
func (q *setupSteps) fromJSON(ctx context.Context) error {
	text, err := io.ReadAll(io.LimitReader(q.a.input(ctx), cli.MaxAnswers))
	defer clear(text)
	if err != nil {
		return fmt.Errorf("read the answers: %w", err)
	}
	var answers setupAnswers
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&answers); err != nil { // the text is not shown: it holds a key
		return usage(`give {"service": …, "account": …, "api_key": …, "folder": …} or {"invite": …, "folder": …}, `+
			"and no other name, as in: svcfs setup --json < answers.json", "standard input holds no answers in JSON")
	}
	if err := noKey(answers.Service, answers.Account, answers.Folder); err != nil {
		return err
	}
	if answers.Invite != "" {
		if answers.Service != "" || answers.Account != "" || answers.Key != "" {
			return usage("leave service, account and api_key out", "the invite has these answers already")
		}
		if err := q.takeInvite(answers.Invite); err != nil {
			return err
		}
		return q.place(answers.Folder)
	}
	if err := q.service(ctx, answers.Service); err != nil {
		return err
	}
	if err := q.account(cmp.Or(answers.Account, string(q.s.account))); err != nil {
		return err
	}
	switch {
	case answers.Key != "":
		q.s.config.APIKey, err = apikey.Parse(answers.Key, "the answers")
	case q.s.key.kind != "":
		q.s.config.APIKey, err = q.a.readKey(ctx, q.s.key)
	default:
		err = usage("add api_key to the answers, or use --api-key-file FILE", "the answers hold no API key")
	}
	if err == nil {
		err = q.a.checkKey(ctx, q.s)
	}
	if err != nil {
		return err
	}
	return q.place(answers.Folder)
}

// ask asks on a terminal, each question until its answer is good.
func (q *setupSteps) ask(ctx context.Context) error {
	f, ok := q.a.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return usage("run it on a terminal, or give the answers to: svcfs setup --json",
			"setup asks, and standard input is no terminal")
	}
	restore, err := withMode(f, showsTyping)
	if err != nil {
		return err
	}
	defer restore()
	typed := &typing{from: f, to: q.a.ui.err}
	questions := []struct {
		text, before string
		check        func(context.Context, string) error
	}{
		{"Service, its address or mainnet or testnet, or an invite", q.s.named(), q.service},
		{"Account", string(q.s.account), func(ctx context.Context, answer string) error {
			if err := q.account(answer); err != nil {
				return err
			}
			key, err := q.a.askKey(ctx, q.s, q.address)
			q.s.config.APIKey = key
			if err != nil {
				return err
			}
			return q.a.checkKey(ctx, q.s)
		}},
		{"Folder to mount on", q.a.defaultFolder(),
			func(_ context.Context, answer string) error { return q.place(answer) }},
	}
	for i, question := range questions {
		for i != 1 || q.invite == nil { // an invite has the account
			answer, err := readAnswer(ctx, typed, q.a.ui.err, question.text, question.before)
			if err != nil {
				return err
			}
			if err = noKey(answer); err == nil {
				err = question.check(ctx, answer)
			}
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			q.a.ui.fail(err, q.a.hints.of(err))
		}
	}
	return nil
}

// service takes the first answer, and asks the service whether it is one.
func (q *setupSteps) service(ctx context.Context, answer string) error {
	if wire.IsInvite(answer) {
		err := q.takeInvite(answer)
		if err == nil {
			q.a.ui.notice("the invite makes account %s at %s", escapeName(string(q.s.account)), escapeName(q.address))
		}
		return err
	}
	s := q.s
	if s.config.URL != "" { // it wins
		s.config.Network = ""
	}
	if answer == s.named() { // what goes with it stays
		answer = ""
	}
	if answer == "" && s.urlVia == "" && s.config.Network == "" {
		return usage("give its address, such as https://files.example.org, or mainnet or testnet of the hosted one",
			"no service was given")
	}
	if answer != "" {
		s.config.URL, s.config.Network, s.config.ContractID = "", "", ""
		s.config.AuthURL, s.config.MCPURL, s.config.RPCURL = "", "", ""
		if answer == "mainnet" || answer == "testnet" {
			s.config.Network = answer
		} else {
			s.config.URL = answer
		}
	}
	if err := q.unpin(&s); err != nil {
		return err
	}
	asking := s
	asking.account = cmp.Or(s.account, anybody)
	asking.config.StateDir = "" // an address that is no service yet is not remembered
	c, err := q.a.newClient(asking)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.EstimateFee(ctx, "upload"); err != nil {
		return err
	}
	q.s, q.address = s, c.NetworkInfo().AuthURL
	return nil
}

// takeInvite takes an invite instead of the first two answers. It is redeemed last, because it works once.
func (q *setupSteps) takeInvite(text string) error {
	invite, err := parseInvite(text)
	if err != nil {
		return err
	}
	if invite.Account == "" {
		return usage("set up the account first, then: svcfs group join INVITE",
			"this invite adds an account to a group, and makes none")
	}
	s := q.s
	s.account, s.config.ContractID, s.config.Network = sdk.AccountID(invite.Account), invite.Contract, ""
	s.config.AuthURL, s.config.MCPURL, s.config.RPCURL, s.config.URL = "", "", "", invite.URL
	if err := cmp.Or(q.unpin(&s), q.mayReplace(s)); err != nil {
		return err
	}
	c, err := q.a.newClient(s)
	if err != nil {
		return err
	}
	q.s, q.address, q.invite = s, c.NetworkInfo().AuthURL, &invite
	return q.a.closeClient(c)
}

// roomForSetup is what the key and the settings take on a disk at most, in bytes.
const roomForSetup = 64 << 10

// redeem makes the account of the invite, if there is one. The key is given once: a disk or a file that cannot keep it
// or the settings at path is found before the invite is used. Both are kept at once, the key in the file: the keyring
// may ask the user for a minute.
func (q *setupSteps) redeem(ctx context.Context, path string) error {
	if q.invite == nil {
		return nil
	}
	file, err := q.a.keyFile()
	if err != nil {
		return err
	}
	_, err = file.Get(q.address, q.s.account)
	if errors.Is(err, apikey.ErrNone) {
		err = nil
	}
	if err = cmp.Or(err, canKeep(path), canKeep(file.Name())); err != nil {
		return fmt.Errorf("look whether the key can be kept, before the invite is used: %w", err)
	}
	if _, err := q.configText(path); err != nil {
		return err
	}
	key, err := sdk.RedeemInvite(ctx, *q.invite, q.s.config)
	if err != nil && !key.IsZero() {
		q.a.unsaved(err)
		err = nil
	}
	q.s.config.APIKey = key
	if err != nil || file.Set(q.address, q.s.account, key) != nil { // storeKey tells why
		return err
	}
	return q.writeConfig(path)
}

// canKeep reports why a file at path could not be written.
func canKeep(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	p, err := ownfile.New(path)
	if err != nil {
		return err
	}
	defer p.Discard()
	if _, err := p.Write(make([]byte, roomForSetup)); err != nil {
		return err
	}
	return p.Sync()
}

// account takes the second answer.
func (q *setupSteps) account(answer string) error {
	if answer == "" {
		return refuse(exitAuth, "it is shown on the account page of the service, such as alice.svc.testnet",
			errors.New("no account was given"))
	}
	s := q.s
	s.account = sdk.AccountID(answer)
	if _, err := s.address(); err != nil {
		return err
	}
	if err := q.mayReplace(s); err != nil {
		return err
	}
	q.s = s
	return nil
}

// defaultFolder is ~/groups.
func (a *app) defaultFolder() string { return filepath.Join(a.env.get("HOME"), "groups") }

// place takes the third answer, and makes the folder.
func (q *setupSteps) place(answer string) error {
	folder := cmp.Or(answer, q.a.defaultFolder())
	if rest, inHome := strings.CutPrefix(folder, "~/"); inHome {
		folder = filepath.Join(q.a.env.get("HOME"), rest)
	}
	if !filepath.IsAbs(folder) {
		return usage("give a path such as ~/groups", escapeName(folder)+" is not an absolute path")
	}
	folder = filepath.Clean(folder)
	mounted, err := findMounts()
	if err != nil {
		return err
	}
	if slices.Contains(mounted, folder) {
		return refuse(exitOther, "unmount it first: svcfs umount "+shellWord(folder),
			fmt.Errorf("%s is mounted already", folder))
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return refuse(exitUsage, "name a folder that you may make", err)
	}
	inside, err := os.ReadDir(folder)
	if err != nil {
		return refuse(exitUsage, "name a folder that you may read", err)
	}
	if len(inside) > 0 {
		return refuse(exitUsage, "name an empty folder, or one that does not exist: the mount would hide what is in it",
			fmt.Errorf("%s is not empty", folder))
	}
	q.folder = folder
	return nil
}

// writeConfig writes the answers into the settings.
func (q *setupSteps) writeConfig(path string) error {
	text, err := q.configText(path)
	if err != nil {
		return err
	}
	err = os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = ownfile.Replace(path, text)
	}
	if err != nil {
		return refuse(exitOther, "name another file with --config", fmt.Errorf("write settings: %w", err))
	}
	return nil
}

// configText returns the settings with the answers. Lines about something else stay.
func (q *setupSteps) configText(path string) ([]byte, error) {
	c := q.s.config
	values := [][2]string{{envAccount, string(q.s.account)}, {envURL, c.URL}, {envAuthURL, c.AuthURL},
		{envMCPURL, c.MCPURL}, {envRPCURL, c.RPCURL},
		{envContract, c.ContractID}, {envNetwork, c.Network}, {envLogKey, c.LogKey}, {envWitness, c.Witness}}
	age, insecure := "", ""
	if c.WitnessAge > 0 {
		age = c.WitnessAge.String()
	}
	if c.InsecureHTTP {
		insecure = "1"
	}
	values = append(values, [2]string{envWitnessAge, age}, [2]string{envInsecure, insecure})
	old, err := ownfile.Read(path, ownfile.Settings, cli.MaxAnswers)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, refuse(exitUsage, cmp.Or(ownfile.MendOf(err), "check the path and its permissions"),
			fmt.Errorf("read settings: %w", err))
	}
	var text strings.Builder
	for line := range strings.Lines(string(old)) {
		name, _, _ := strings.Cut(line, "=")
		if !slices.ContainsFunc(values, func(v [2]string) bool { return v[0] == strings.TrimSpace(name) }) {
			text.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	for _, v := range values {
		if v[1] == "" {
			continue
		}
		line := v[0] + "=" + v[1]
		if read, err := parseConfig([]byte(line), path); err != nil || len(read) != 1 || read[v[0]] != v[1] {
			return nil, usage("give another one", fmt.Sprintf("the settings cannot hold %s as it is: %s", v[0],
				names.Escape(v[1], "")))
		}
		text.WriteString(line + "\n")
	}
	return []byte(text.String()), nil
}

// enableUnit has systemd mount the folder now and at each login, and returns the name of
// the unit.
func (a *app) enableUnit(ctx context.Context, folder string) (string, error) {
	if a.flags.config != "" {
		return "", errors.New("svcfs@.service reads ~/.config/svcfs/config, so it is not used with --config")
	}
	below, err := filepath.Rel(a.env.get("HOME"), folder)
	if err != nil || below == "." || strings.HasPrefix(below, "..") {
		return "", errors.New("svcfs@.service mounts below the home directory only")
	}
	if err := exec.CommandContext(ctx, "systemctl", "--user", "--quiet", "cat", "svcfs@.service").Run(); err != nil {
		return "", errors.New("systemd does not run for this user, or knows no svcfs@.service")
	}
	if err := a.unitReadsSettings(ctx); err != nil {
		return "", err
	}
	name, err := exec.CommandContext(ctx, "systemd-escape", "--template=svcfs@.service", "--", below).Output()
	if err != nil {
		return "", fmt.Errorf("systemd-escape: %w", err)
	}
	unit := strings.TrimSpace(string(name))
	enable := func(ctx context.Context, verb string) error {
		out, err := exec.CommandContext(ctx, "systemctl", "--user", verb, "--now", "--", unit).CombinedOutput()
		if err != nil {
			return fmt.Errorf("systemctl --user %s --now %s: %w: %s", verb, unit, err, firstLine(out))
		}
		return nil
	}
	if err := enable(ctx, "enable"); err != nil { // it is enabled also when it did not start
		return "", errors.Join(err, enable(context.WithoutCancel(ctx), "disable"))
	}
	return unit, nil
}

// unitReadsSettings reports why a unit of the user's systemd would read other settings than this process, or have
// another home: systemd has an environment of its own.
func (a *app) unitReadsSettings(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "systemctl", "--user", "show-environment").Output()
	if err != nil {
		return fmt.Errorf("systemctl --user show-environment: %w", err)
	}
	unit := app{env: environment{lookup: func(name string) (value string, ok bool) {
		for line := range strings.Lines(string(out)) {
			if rest, found := strings.CutPrefix(line, name+"="); found {
				value, ok = strings.TrimSuffix(rest, "\n"), true
			}
		}
		return value, ok
	}}}
	if home := unit.env.get("HOME"); home != a.env.get("HOME") || unit.configPath() != a.configPath() {
		return fmt.Errorf("svcfs@.service reads %s in the home %s, and the settings are in %s: run setup again with "+
			"the HOME and XDG_CONFIG_HOME that 'systemctl --user show-environment' shows", unit.configPath(), home,
			a.configPath())
	}
	return nil
}
