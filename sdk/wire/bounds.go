package wire

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/names"
)

// Bounds of the texts and lists of requests. A text counts as it is meant, in UTF-8, without the escapes of JSON or of
// an address.
const (
	// MaxTextBytes bounds a text that has no other bound, in bytes: a reference, a hash, a secret, a word.
	MaxTextBytes = 256
	// MaxListEntries is how many entries a list has, at most. Each is a text or a number.
	MaxListEntries = 64
	// MaxGroupIDBytes is the longest group id, in bytes.
	MaxGroupIDBytes = 128
	// MaxAccountIDBytes is the longest account id, in bytes: nine parts of 64 and the dots between them.
	MaxAccountIDBytes = 9*64 + 8
	// MaxNonceBytes is the longest nonce, in bytes.
	MaxNonceBytes = 64
	// MaxClaimIDBytes is the longest claim id, in bytes; a UUID has 36.
	MaxClaimIDBytes = 128
	// MaxAttributesBytes bounds attributes as JSON, in bytes: twice their canonical text, for escapes.
	MaxAttributesBytes = 2 * format.MaxAttributesText
	// MaxBlocksBytes bounds which blocks a part has, in bytes of text.
	MaxBlocksBytes = 4 << 10
	// MaxTicketBytes is the longest ticket, and MaxTokenBytes the longest token with what is before it in its header,
	// in bytes.
	MaxTicketBytes = 4 << 10
	MaxTokenBytes  = 8 << 10
	// MaxOpeningTextBytes bounds the value of [HeaderOpening], in bytes.
	MaxOpeningTextBytes = 2 << 10
)

// boundOf is how many bytes a text may have, by the name of its field, header, or part of an address.
func boundOf(name string) int {
	switch name {
	case "group_id":
		return MaxGroupIDBytes
	case "account_id", "member_id", HeaderAccountID, HeaderWalletID:
		return MaxAccountIDBytes
	case "filename", "name", "folder", "new_folder", "after":
		return names.MaxPathBytes
	case "nonce":
		return MaxNonceBytes
	case "claim_id":
		return MaxClaimIDBytes
	case "attributes":
		return MaxAttributesBytes
	case "format":
		return format.MaxMetadataBytes
	case "sealed_key":
		return (format.SealedKeyBytes + 2) / 3 * 4 // as base64
	case "blocks":
		return MaxBlocksBytes
	case "ticket":
		return MaxTicketBytes
	case "Authorization":
		return MaxTokenBytes
	case HeaderOpening:
		return MaxOpeningTextBytes
	case "encrypted_data": // a file: the request has a bound
		return math.MaxInt
	}
	return MaxTextBytes
}

// CheckText refuses a text of a request that is too long, by the name of its field, header, or part of an address.
func CheckText(name, text string) error { return checkLength(name, len(text)) }

func checkLength(name string, bytes int) error {
	if most := boundOf(name); bytes > most {
		return fmt.Errorf("%s has %d bytes: at most %d bytes are allowed", name, bytes, most)
	}
	return nil
}

// CheckBounds refuses a request, which is a struct or a pointer to one, with a text or a list that is too long.
func CheckBounds(request any) error {
	for field, value := range reflect.Indirect(reflect.ValueOf(request)).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		var err error
		switch kind := value.Kind(); {
		case field.Anonymous:
			err = CheckBounds(value.Interface())
		case kind == reflect.String || kind == reflect.Slice && value.Type().Elem().Kind() == reflect.Uint8: // or JSON
			err = checkLength(name, value.Len())
		case kind == reflect.Slice && value.Len() > MaxListEntries:
			err = fmt.Errorf("%s has %d entries: at most %d are allowed", name, value.Len(), MaxListEntries)
		case kind == reflect.Slice && value.Type().Elem().Kind() == reflect.String:
			for i := 0; i < value.Len() && err == nil; i++ {
				err = checkLength("an entry of "+name, value.Index(i).Len())
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
