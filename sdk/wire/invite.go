package wire

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/svcfs/svcfs/sdk/locked"
)

// PathInvite is where an invite is redeemed: POST [InviteRequest], without an account. Ours.
const PathInvite = "/api/invites/redeem"

// InviteRequest redeems an invite.
type InviteRequest struct {
	Secret string `json:"secret"`
}

// InviteResult is the account that an invite made, with its key. No other answer holds the key.
type InviteResult struct {
	AccountID string `json:"account_id"`
	APIKey    string `json:"api_key"`
}

// Invite is one string for a new user of a service of ours: where the service is, the key of its log, and a secret that
// makes the account, once. It prints as "redacted"; Text is the one way to the string.
type Invite struct {
	locked.Redacted
	URL      string
	Contract string
	LogKey   string // verifier key, so that the first contact is with the service that is meant
	Account  string
	Secret   string
}

// invitePrefix begins the text of every invite.
const invitePrefix = "svcfs-invite-"

// inviteText is what the text of an invite holds.
type inviteText struct {
	URL      string `json:"url"`
	Contract string `json:"contract"`
	LogKey   string `json:"log_key"`
	Account  string `json:"account"`
	Secret   string `json:"secret"`
}

// Text is the string that its receiver gives to svcfs setup.
func (i Invite) Text() string {
	raw, err := json.Marshal(inviteText{i.URL, i.Contract, i.LogKey, i.Account, i.Secret})
	if err != nil {
		panic("wire: texts are always JSON: " + err.Error())
	}
	return invitePrefix + base64.RawURLEncoding.EncodeToString(raw)
}

// IsInvite reports whether a text means to be an invite.
func IsInvite(text string) bool { return strings.HasPrefix(text, invitePrefix) }

// ParseInvite reads the text of an invite. The error says nothing of the text, which may be a secret.
func ParseInvite(text string) (Invite, error) {
	encoded, ok := strings.CutPrefix(text, invitePrefix)
	raw, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	var t inviteText
	if !ok || err != nil || json.Unmarshal(raw, &t) != nil {
		return Invite{}, errors.New("this is no invite, or only a part of one")
	}
	if t.URL == "" || t.Contract == "" || t.LogKey == "" || t.Account == "" || t.Secret == "" {
		return Invite{}, errors.New("the invite lacks something")
	}
	return Invite{URL: t.URL, Contract: t.Contract, LogKey: t.LogKey, Account: t.Account, Secret: t.Secret}, nil
}
