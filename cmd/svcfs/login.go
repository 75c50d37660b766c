package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/apikey"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// keyPlace is what login and logout print as JSON.
type keyPlace struct {
	Account sdk.AccountID `json:"account_id"`
	Address string        `json:"auth_url"`
	Stores  []string      `json:"stores"` // "system keyring", or the path of a file
}

func (a *app) loginCommand() *cobra.Command {
	var toFile bool
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Check the API key and store it in the system keyring",
		Long: `Check the API key and store it in the system keyring, from where every other
command takes it unless a flag, the environment or the configuration file says
otherwise. The key is asked for, or read from standard input, or from where
--api-key-file and the other settings say. Without a keyring, or with --file, the key
goes to ~/.config/svcfs/keys, mode 0600.`,
		Example: "  svcfs login --account alice.svc.testnet --url http://127.0.0.1:8000\n" +
			"  pass show svcfs | svcfs login --file",
		Args: cobra.NoArgs,
		RunE: a.simple(func(ctx context.Context, _ []string) error { return a.login(ctx, toFile) }),
	}
	cmd.Flags().BoolVar(&toFile, "file", false, "store it in ~/.config/svcfs/keys, not in the keyring")
	return cmd
}

// keyOwner tells whose key is meant, and where it is valid.
func (a *app) keyOwner() (s settings, address string, err error) {
	if s, err = a.accountSettings(); err == nil {
		address, err = s.address()
	}
	return s, address, err
}

func (a *app) login(ctx context.Context, toFile bool) error {
	s, address, err := a.keyOwner()
	if err != nil {
		return err
	}
	if s.config.APIKey, err = a.askKey(ctx, s, address); err != nil {
		return err
	}
	if err := a.checkKey(ctx, s); err != nil {
		return err
	}
	store, err := a.storeKey(s, address, toFile)
	if err != nil {
		return err
	}
	if a.asJSON {
		return a.printJSON(keyPlace{s.account, address, []string{store.Name()}})
	}
	a.ui.printf("the key of %s is in: %s\n", escapeName(string(s.account)), store.Name())
	return nil
}

// checkKey asks the service whether the key is that of the account.
func (a *app) checkKey(ctx context.Context, s settings) error {
	c, err := a.newClient(s)
	if err != nil {
		return err
	}
	_, err = c.AuthStatus(ctx)
	return errors.Join(err, a.closeClient(c))
}

// askKey reads the key from where the settings say, from a terminal without
// showing it, or from standard input.
func (a *app) askKey(ctx context.Context, s settings, address string) (sdk.Secret, error) {
	if s.key.kind != "" {
		return a.readKey(ctx, s.key)
	}
	f, ok := a.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return apikey.Read(a.input(ctx), "standard input")
	}
	fmt.Fprintf(a.ui.err, "API key of %s at %s (not shown): ", escapeName(string(s.account)), address)
	defer fmt.Fprintln(a.ui.err)
	return readHidden(ctx, f, apikey.Read)
}

// readHidden reads a secret from a terminal that does not show it meanwhile, until
// the end of the line, of the input (Ctrl-D) or of ctx.
func readHidden(ctx context.Context, terminal *os.File,
	read func(io.Reader, string) (sdk.Secret, error)) (sdk.Secret, error) {
	restore, err := withMode(terminal, func(mode *unix.Termios) {
		mode.Lflag = mode.Lflag&^unix.ECHO | unix.ICANON | unix.ISIG
		mode.Iflag |= unix.ICRNL
	})
	if err != nil {
		return sdk.Secret{}, err
	}
	defer restore()
	type answer struct {
		secret sdk.Secret
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		secret, err := read(terminal, "the terminal")
		done <- answer{secret, err}
	}()
	select {
	case got := <-done:
		return got.secret, got.err
	case <-ctx.Done():
		return sdk.Secret{}, ctx.Err()
	}
}

// storeKey stores the key, in the file when the keyring cannot take it, and in no other store: of two keys the older
// one could be used.
func (a *app) storeKey(s settings, address string, toFile bool) (apikey.Store, error) {
	if !toFile {
		err := a.keyring.Set(address, s.account, s.config.APIKey)
		if err == nil {
			if file, err := a.keyFile(); err == nil {
				a.removeKey(file, s, address)
			}
			return a.keyring, nil
		}
		a.ui.notice("the key goes into a file, the %s cannot take it: %v; an older key may be left in it",
			a.keyring.Name(), err)
	}
	file, err := a.keyFile()
	if err != nil {
		return nil, err
	}
	if err := file.Set(address, s.account, s.config.APIKey); err != nil {
		return nil, fmt.Errorf("store the key in %s: %w", file.Name(), err)
	}
	if toFile {
		a.removeKey(a.keyring, s, address)
	}
	return file, nil
}

// removeKey removes the key from a store after another one took it.
func (a *app) removeKey(from apikey.Store, s settings, address string) {
	switch err := from.Remove(address, s.account); {
	case err == nil:
		a.ui.notice("the key of %s is gone from: %s", s.account, from.Name())
	case !errors.Is(err, apikey.ErrNone) && !errors.Is(err, apikey.ErrNoBus):
		a.keyMayBeLeft(from, err)
	}
}

// keyMayBeLeft tells that a store could not be asked for a key.
func (a *app) keyMayBeLeft(in apikey.Store, err error) {
	a.ui.notice("the %s could not be asked: %v; a key may be left in it", in.Name(), err)
}

func (a *app) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "logout",
		Short:   "Remove the API key that 'svcfs login' stored",
		Long:    "Remove the API key that 'svcfs login' stored. The key itself stays valid: rotate it to end that.",
		Example: "  svcfs logout --account alice.svc.testnet",
		Args:    cobra.NoArgs,
		RunE:    a.simple(func(context.Context, []string) error { return a.logout() }),
	}
}

func (a *app) logout() error {
	s, address, err := a.keyOwner()
	if err != nil {
		return err
	}
	gone := []string{}
	for i, store := range a.keyStores() {
		switch err := store.Remove(address, s.account); {
		case err == nil:
			gone = append(gone, store.Name())
		case errors.Is(err, apikey.ErrNone):
		case i == 0:
			a.keyMayBeLeft(store, err)
		default:
			return fmt.Errorf("remove the key from %s: %w", store.Name(), err)
		}
	}
	if len(gone) == 0 {
		return refuse(exitNotFound, "name it as at the login, with --account and --url",
			fmt.Errorf("no key is stored for %s at %s", escapeName(string(s.account)), address))
	}
	if a.asJSON {
		return a.printJSON(keyPlace{s.account, address, gone})
	}
	for _, name := range gone {
		a.ui.printf("the key of %s is gone from: %s\n", escapeName(string(s.account)), name)
	}
	return nil
}
