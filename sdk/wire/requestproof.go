package wire

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// HeaderProof proves that who holds the secret of a session sends a request, so that a token that was copied is of no
// use: time, digest of the body, and two HMAC-SHA-256, for the service and for its vault, with a space in between.
// Ours.
const HeaderProof = "X-Svc-Proof"

// ProofLife is how long before or after the time of its proof a request is taken. A copy of the whole request is good
// so long, for the same request alone.
const ProofLife = 2 * time.Minute

// digestNone takes the place of the digest of a body that is not proven: one that is read while it is sent.
const digestNone = "-"

// ProvenRequest is a request as its proof names it.
type ProvenRequest struct {
	Method string
	Target string // path and query
	Token  string
	// Time is when it was sent, in ns since the epoch of Unix, by the clock of the service: the time at which the token
	// was made, and what passed since.
	Time int64
	// Body is SHA-256 of the body; nil = it is not proven.
	Body *[sha256.Size]byte
	// ForVault is the HMAC that the vault alone can check.
	ForVault []byte
}

// ProofKeys prove to a service, and to its vault, who sends a request: format.Session.RequestKey and
// format.Session.VouchKey.
type ProofKeys struct{ Service, Vault []byte }

// Prove returns the value of [HeaderProof].
func (p ProvenRequest) Prove(keys ProofKeys) string {
	text := base64.RawURLEncoding.EncodeToString
	return fmt.Sprintf("%d %s %s %s", p.Time, p.digest(), text(p.mac(keys.Service)), text(p.mac(keys.Vault)))
}

func (p ProvenRequest) digest() string {
	if p.Body == nil {
		return digestNone
	}
	return base64.RawURLEncoding.EncodeToString(p.Body[:])
}

// mac is over lines: none of the values has a line feed.
func (p ProvenRequest) mac(key []byte) []byte {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "svc-request-1\n%s\n%s\n%d\n%s\n%x\n", p.Method, p.Target, p.Time, p.digest(),
		sha256.Sum256([]byte(p.Token)))
	return mac.Sum(nil)
}

// IsForVault checks ForVault.
func (p ProvenRequest) IsForVault(key []byte) bool { return hmac.Equal(p.ForVault, p.mac(key)) }

// CheckProof checks the value of [HeaderProof] of a request, whose Time and Body it returns, and ForVault, which is not
// checked.
func (p ProvenRequest) CheckProof(key []byte, header string) (ProvenRequest, error) {
	at, rest, _ := strings.Cut(header, " ")
	digest, rest, _ := strings.Cut(rest, " ")
	mac, forVault, _ := strings.Cut(rest, " ")
	var err error
	if p.Time, err = strconv.ParseInt(at, 10, 64); err != nil {
		return p, errors.New("the request has no proof of its session")
	}
	p.Body = nil
	if raw, err := base64.RawURLEncoding.DecodeString(digest); err == nil && len(raw) == sha256.Size {
		p.Body = (*[sha256.Size]byte)(raw)
	}
	p.ForVault, _ = base64.RawURLEncoding.DecodeString(forVault) // which the vault refuses if it is none
	given, err := base64.RawURLEncoding.DecodeString(mac)
	if err != nil || p.digest() != digest || !hmac.Equal(given, p.mac(key)) {
		return p, errors.New("the proof of the request is that of another one")
	}
	return p, nil
}
