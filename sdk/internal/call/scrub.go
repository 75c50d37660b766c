package call

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode"

	"github.com/svcfs/svcfs/sdk/locked"
)

// Scrubbed keeps err in the chain and scrubs its text, any part of which may come from the
// service.
func (c *Caller) Scrubbed(err error) error {
	text := err.Error()
	if fit := c.Scrub(text); fit != text {
		return &scrubbedError{fit, err}
	}
	return err
}

type scrubbedError struct {
	text string
	err  error
}

func (e *scrubbedError) Error() string { return e.text }
func (e *scrubbedError) Unwrap() error { return e.err }

// maxAnswerText bounds what a text of the service takes in a message, in bytes.
const maxAnswerText = 300

// Scrub makes a text of the service safe for a message: it removes our credentials and
// replaces control and format characters by spaces. The result has at most maxAnswerText
// bytes.
func (c *Caller) Scrub(text string) string {
	var forms []string
	for _, secret := range c.tokens.used() {
		forms = append(forms, formsOf(secret)...)
	}
	text = redact(text, forms)
	for _, marker := range []string{"Bearer ", "svc_sk_", "nova_sk_"} {
		text = cutSecrets(text, marker)
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return ' '
	}, text)
	if len(text) > maxAnswerText {
		text = strings.ToValidUTF8(text[:maxAnswerText], "") + "…"
	}
	return text
}

// redact replaces all that one of the forms covers by "redacted". A service chooses its tokens: one that is a part of
// the API key must not leave the rest of the key, and what replaces a form is not searched again.
func redact(text string, forms []string) string {
	covered := make([]bool, len(text))
	for _, form := range forms {
		marked := 0
		for at := 0; form != ""; at++ {
			next := strings.Index(text[at:], form)
			if next < 0 {
				break
			}
			at += next
			for marked = max(marked, at); marked < at+len(form); marked++ {
				covered[marked] = true
			}
		}
	}
	var out strings.Builder
	for i := range len(text) {
		switch {
		case !covered[i]:
			out.WriteByte(text[i])
		case i == 0 || !covered[i-1]:
			out.WriteString("redacted")
		}
	}
	return out.String()
}

// formsOf returns the forms in which a text could hold a credential.
func formsOf(secret locked.Secret) []string {
	if secret.IsZero() {
		return nil
	}
	raw := secret.Reveal()
	digits := hex.EncodeToString([]byte(raw))
	forms := []string{raw, digits, strings.ToUpper(digits)}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 { // the credential follows 0, 1 or 2 bytes that were encoded with it
			encoded := encoding.EncodeToString([]byte("\x00\x00"[:before] + raw))
			forms = append(forms, encoded[(8*before+5)/6:(before+len(raw))*4/3])
		}
	}
	if len(raw) > shownOfSecret { // a text may be cut off within the credential
		forms = append(forms, raw[:shownOfSecret])
	}
	return forms
}

// shownOfSecret is how many leading bytes of a long credential a message may hold.
// Credentials of one kind begin alike.
const shownOfSecret = 32

// cutSecrets replaces each word that follows marker by "redacted".
func cutSecrets(text, marker string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, marker)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString(marker + "redacted")
		end := strings.IndexAny(after, " \t\n\"',;)}]")
		if end < 0 {
			return out.String()
		}
		text = after[end:]
	}
}
