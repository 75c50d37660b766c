package wire

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"unicode"

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

// GroupInvite is an invite to a group, without its secret.
type GroupInvite struct {
	ID      string `json:"id"`
	Role    Role   `json:"role"`
	Expires string `json:"expires"` // ns since the epoch
}

// MakeInviteRequest is the body of invite_to_group.
type MakeInviteRequest struct {
	GroupID string `json:"group_id"`
	Role    Role   `json:"role,omitempty"` // "" = a writer
}

// MadeInvite is the result of invite_to_group. No other answer holds the secret.
type MadeInvite struct {
	GroupInvite
	Secret string `json:"secret"`
}

// EndInviteRequest is the body of revoke_group_invite.
type EndInviteRequest struct {
	GroupID string `json:"group_id"`
	Invite  string `json:"invite"` // its id
}

// UseInviteRequest is the body of use_group_invite.
type UseInviteRequest struct {
	Secret string `json:"secret"`
}

// UsedInvite is the result of use_group_invite.
type UsedInvite struct {
	GroupID string `json:"group_id"`
	Role    Role   `json:"role"`
}

// Invite is one string for a user of a service of ours: where the service is, the key of its log, and a secret that
// makes an account, or adds one to a group, once. It prints as "redacted"; Text is the one way to the string.
type Invite struct {
	locked.Redacted
	URL      string
	Contract string
	LogKey   string // verifier key, so that the first contact is with the service that is meant
	Account  string // that it makes; "" = it adds one to Group
	Group    string
	Secret   string
}

// invitePrefix begins the text of every invite.
const invitePrefix = "svcfs-invite-"

// inviteText is what the text of an invite holds.
type inviteText struct {
	URL      string `json:"url"`
	Contract string `json:"contract"`
	LogKey   string `json:"log_key"`
	Account  string `json:"account,omitempty"`
	Group    string `json:"group,omitempty"`
	Secret   string `json:"secret"`
}

// Text is the string that its receiver gives to svcfs setup.
func (i Invite) Text() string {
	raw, err := json.Marshal(inviteText{i.URL, i.Contract, i.LogKey, i.Account, i.Group, i.Secret})
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
	if t.URL == "" || t.Contract == "" || t.LogKey == "" || t.Account == "" && t.Group == "" || t.Secret == "" {
		return Invite{}, errors.New("the invite lacks something")
	}
	if strings.ContainsFunc(t.URL+t.Contract+t.LogKey+t.Account+t.Group+t.Secret, unicode.IsControl) {
		return Invite{}, errors.New("the invite was changed: it has control characters")
	}
	return Invite{URL: t.URL, Contract: t.Contract, LogKey: t.LogKey, Account: t.Account, Group: t.Group,
		Secret: t.Secret}, nil
}
