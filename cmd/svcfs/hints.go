package main

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/fs"
	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/apikey"
	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire"
)

// hints knows the next step after a failure. It is the one place where errors of
// the library become advice about this program.
type hints struct {
	account sdk.AccountID
	service sdk.NetworkInfo

	keyPlace string // where a running mount reads the key again; "" = nowhere
}

// of returns what to do about err, or "".
func (h hints) of(err error) string {
	if own := cli.FailureOf(err); own != nil && own.Hint != "" {
		return own.Hint
	}
	var mountpoint *fs.MountpointError
	if errors.As(err, &mountpoint) && mountpoint.Hint != "" {
		return mountpoint.Hint
	}
	var lacks *fs.SupportError
	if errors.As(err, &lacks) {
		return lacks.Hint
	}
	var fromTree *tree.Error
	if errors.As(err, &fromTree) && fromTree.Hint != "" {
		return fromTree.Hint
	}
	if hint := h.ofService(err); hint != "" {
		return hint
	}
	if step := diskStep(err); step != "" {
		return step + ", then run it again"
	}
	switch exitCodeOf(err) {
	case exitAuth:
		return "run 'svcfs whoami' to see which account and key are used"
	case exitNotFound:
		return "see what there is with: svcfs ls"
	case exitMoney:
		return "run 'svcfs balance', then deposit tokens ('svcd account fund NAME AMOUNT' on a service of your own)"
	case exitUnreachable:
		return "run 'svcfs doctor' to see what cannot be reached"
	case exitUsage:
		return "run the command with --help to see what it wants"
	case exitProof:
		return "show this to the operator and to other members"
	case exitInterrupted:
		return "run it again"
	case exitOther:
		return "run 'svcfs doctor' to check this machine and the service"
	}
	return ""
}

// diskStep returns what to do about a fault of a disk or folder, or "".
func diskStep(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "make room there"
	case errors.Is(err, syscall.EROFS), errors.Is(err, os.ErrPermission):
		return "make it and its folder accessible, or name another place"
	case errors.Is(err, os.ErrNotExist):
		return "check that the folder exists"
	}
	return ""
}

// ofService returns what to do about an error of the library, or "".
func (h hints) ofService(err error) string {
	var refused *sdk.Error
	if !errors.As(err, &refused) {
		return ""
	}
	if hint := ofKey(refused); hint != "" {
		return hint
	}
	hint := hintsOfCodes()[refused.Code]
	if refused.Kind == sdk.ErrCorrupt && errors.Is(err, sdk.ErrWrongContent) {
		hint = hintsOfKinds()[sdk.ErrWrongContent]
	}
	if hint == "" && h.service.AccountPage != "" {
		hint = hintsOfHosted()[refused.Kind]
	}
	hint = cmp.Or(hint, hintsOfKinds()[refused.Kind])
	if refused.Code == wire.CodeAccountUnknown {
		hint = "Give the whole account id, such as NAME.svc.testnet. " + hint
	}
	return strings.NewReplacer("{group}", groupOf(err), "{account}", string(h.account), "{name}", nameOf(h.account),
		"{service}",
		h.service.MCPURL, "{page}", h.service.AccountPage).Replace(hint)
}

// ofKey is about an API key that could not be read.
func ofKey(err *sdk.Error) string {
	switch {
	case errors.Is(err, apikey.ErrDamaged):
		return "Remove it and log in again."
	case errors.As(err, new(*exec.ExitError)):
		return "Run the command by itself to see why."
	case err.Code == wire.CodeInvalidKey && err.Kind == sdk.ErrInvalid: // nothing was sent
		return "A key is one word that begins with svc_sk_."
	}
	if mend := ownfile.MendOf(err); mend != "" || err.Op != apikey.Op {
		return mend
	}
	switch {
	case err.Code == wire.CodeAuthRequired:
		return "The first line counts: it is the key, which begins with svc_sk_ and is shown once, when the account " +
			"is made."
	case err.Kind == sdk.ErrInvalid:
		return "Check the path of the key file."
	}
	return ""
}

// hintsOfCodes are about what was refused in particular.
func hintsOfCodes() map[string]string {
	return map[string]string{
		wire.CodeSealedOnly: "See with svcfs doctor whether the service at {service} has a vault now, and try again " +
			"with this version of svcfs.",
		wire.CodeReadOnly: "Ask the owner of the group to make {account} a writer with: svcfs group add {group} " +
			"{account} --role writer.",
		wire.CodeDisabled: "Ask the operator of the service why; the account is used again after: svcd account " +
			"enable {name}.",
		wire.CodeGroupDeleted: "Nobody can bring it back, and its name is never used again. See the groups of this " +
			"account with: svcfs ls",
		wire.CodeInvite: "If svcfs whoami --account {account} --url {service} shows its balance, it was used here, " +
			"and the key is stored. Else ask the operator for another, or, if this one made {account} and the " +
			"answer was lost, for a new key: svcd account rotate-key NAME.",
		wire.CodeHead: "Nothing was changed, because somebody else changed it meanwhile: look at it, also with svcfs " +
			"conflicts {group}, and run the command again.",
		wire.CodeNotOffered: "See whether and until when it is offered with: svcfs group pending {group}",
		wire.CodeGroupNotFound: "See the groups of this account with: svcfs ls " +
			"(the GROUP comes before other arguments)",
		wire.CodeFileNotFound: "See what there is with: svcfs ls {group}",
		wire.CodeOwnerOnly:    "Ask the owner, whom svcfs group list names.",
		wire.CodeUploaderOnly: "Only the account that uploaded it, while it is a writer, and the owner of the group " +
			"may do that: ask one of them.",
		wire.CodeHistory: "Show this to the operator and to other members. If an old backup was restored " +
			"honestly: svcfs accept-rollback.",
		wire.CodeReceipt: "See whether it is there with: svcfs ls {group}. If not, put it again; svcfs put " +
			"--update sends nothing that is there. Then tell the operator of the service.",
		wire.CodeVaultKey: "Show this to the operator. See what the service offers with: svcfs doctor",
		wire.CodeLogKey: "Ask the operator why. If this is a new service at the address of an old one: svcfs " +
			"forget {service}",
		wire.CodeAddress: "Give the address of the service, for example SVC_URL or --url " +
			"https://files.example.org; plain http to another machine needs --insecure-http.",
		wire.CodeWitness: "Try again in a minute. If it stays so, ask who runs the witness whether it answers, " +
			"and the operator of the service; see whether the clock of this machine is right. --witness-age 1h " +
			"accepts an older signature, at most 24h.",
		wire.CodeNoWitness: "Ask the operator whether the service has a witness (svcd serve --witness), and for " +
			"its key. If it has none, leave --require-witness (SVC_WITNESS) out.",
		wire.CodeVerifierKey: "Ask the operator, or who runs the witness, for the whole key: it is one line, " +
			"NAME+HASH+KEY.",
		wire.CodeUnproven: "Only the operator of the service can mend this; svcd audit names the row of the " +
			"ledger.",
		wire.CodeNamesUnread: "The service reads the names of a group once, half a minute for a million files: try " +
			"again then.",
		wire.CodeSignIn: "Open a browser and sign in to the network.",
		wire.CodeCertificate: "If this network wants a sign-in, open a browser and sign in. Else check the address " +
			"and the clock of this machine, and ask the operator about the certificate.",
		wire.CodeListMemory: "Groups of other accounts take at most half of it. If the groups are as large as " +
			"that, give more, for example with --list-memory 1G (or SVC_LIST_MEMORY, also in the configuration file " +
			"of a mount). Else ask the operator of the service what it lists.",
		wire.CodeSpool: "Set XDG_CACHE_HOME to a folder on a disk with room, some 150 bytes for each file. With more " +
			"memory for lists, such as --list-memory 1G, a larger group needs no disk.",
		wire.CodeState: "Put the file right, or remove it: then the service is trusted anew.",
		wire.CodeAuthRequired: "A key begins with svc_sk_ and is shown once, when the account is made: set " +
			"SVC_API_KEY, or give --api-key-file or --api-key-command.",
	}
}

// hintsOfKinds are what the specification suggests for classes of errors (section
// 7.1), at a service of one's own.
func hintsOfKinds() map[sdk.Kind]string {
	return map[sdk.Kind]string{
		sdk.ErrAudience: "Refresh the session token; if that does not help, the MCP address is not the one " +
			"the service issues tokens for.",
		sdk.ErrNotFound: "Check the account, group and file names; an account is created with: svcd account " +
			"create NAME.",
		sdk.ErrNotAuthorized: "Ask the owner of the group to add {account} with: svcfs group add {group} {account}.",
		sdk.ErrInsufficient:  "Deposit native tokens, on a self-hosted service with: svcd account fund NAME AMOUNT.",
		sdk.ErrUnauthenticated: "Check the account id and the API key; a lost key is replaced with: svcd account " +
			"rotate-key NAME.",
		sdk.ErrUnavailable: "Check the network and that the service runs at {service}.",
		sdk.ErrTimeout:     "The service at {service} does not answer in time; try again.",
		sdk.ErrRateLimited: "Wait a little and try again.",
		sdk.ErrUnsupported: "See what the service at {service} offers with: svcfs doctor.",
		sdk.ErrConflict:    "Look at the present state with: svcfs group members {group}, or svcfs ls {group}.",
		sdk.ErrTooLarge: "Split the file, or ask the operator for a larger limit (svcd serve " +
			"--max-file-bytes), or for an update where svcfs doctor says that files are sent whole.",
		sdk.ErrInvalid: "Correct what the message names, and see the limits of the service with: svcfs doctor.",
		sdk.ErrDeleted: "The key was destroyed, or the file is in the trash: see svcfs ls --trash {group}; " +
			"who uploaded it and the owner of the group bring it back with: svcfs restore --trash.",
		sdk.ErrStorageFull: "Delete files or old versions, or ask the operator of the service for room.",
		sdk.ErrPending:     "The owner of the group can take it back with: svcfs group keep {group}.",
		sdk.ErrCorrupt:     "What does not fit was not used; tell the operator of the service.",
		sdk.ErrWrongContent: "The service told what was recorded: ask who uploaded the file to upload it again, or " +
			"get an earlier version by its cid (svcfs ledger {group}).",
	}
}

// hintsOfHosted are those that differ at the hosted service.
func hintsOfHosted() map[sdk.Kind]string {
	return map[sdk.Kind]string{
		sdk.ErrNotFound:     "Check the account, group and file names; an account is made at {page}.",
		sdk.ErrInsufficient: "Deposit native tokens into {account}, at {page} under Manage Account.",
		sdk.ErrUnauthenticated: "Check the account id and the API key; a lost key is replaced at {page} under Manage " +
			"Account.",
	}
}

// ofMount is ofService for the errors that a mount records.
func (h hints) ofMount(err error) string {
	hint := h.ofService(err)
	switch {
	case sdk.KindOf(err) != sdk.ErrUnauthenticated:
	case h.keyPlace != "":
		hint += " This mount takes a new key of the account within seconds once it is in " + h.keyPlace + "."
	default:
		hint += " This mount keeps the key it began with: after a new key was made, mount again."
	}
	return hint
}

// groupOf is the group that err is about as a shell takes it, or the word GROUP.
func groupOf(err error) string {
	special := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	}
	for refused := (*sdk.Error)(nil); errors.As(err, &refused); err = refused.Err {
		if group := string(refused.Group); group != "" && group[0] != '-' && !strings.ContainsFunc(group, special) {
			return group
		}
	}
	return "GROUP"
}
