package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
)

// ParseRows reads an answer of get_group_transactions: {"result": [rows]}, the same with
// "proof", or the bare list. It is a fast path, several times as fast as encoding/json.
// ok = false means that encoding/json must decide: the answer may be right or wrong in any
// way, or it has more rows than free and one for each least bytes of raw. proof is zero
// when the answer has none. Strings and numbers that repeat from one row to the next are
// shared: do not write through the pointers of a row.
func ParseRows(raw []byte, free, least int) (rows []TransactionRow, proof ChainProof, ok bool) {
	p := rowParser{raw: raw, last: &TransactionRow{}, free: free, least: least}
	wrapped := p.take('{')
	if wrapped && (!p.literal(`"result"`) || !p.take(':')) {
		return nil, proof, false
	}
	if rows, ok = p.rows(); !ok {
		return nil, proof, false
	}
	if wrapped && p.take(',') && (!p.literal(`"proof"`) || !p.take(':') || !p.value(&proof)) {
		return nil, ChainProof{}, false
	}
	if wrapped && !p.take('}') {
		return nil, ChainProof{}, false
	}
	p.space()
	return rows, proof, p.at == len(raw)
}

// ParseNames reads an answer of get_names, {"result": {…}}, as [ParseRows] reads the other.
func ParseNames(raw []byte, free, least int) (answer LivingResult, ok bool) {
	p := rowParser{raw: raw, last: &TransactionRow{}, free: free, least: least}
	read := func(name []byte) (field int, ok bool) {
		switch string(name) {
		case "proof":
			answer.Proof = new(ChainProof)
			return 0, p.value(answer.Proof)
		case "names":
			text, plain, ok := p.quoted()
			if !ok || !plain {
				return 1, false
			}
			var err error
			answer.Names, err = base64.StdEncoding.AppendDecode([]byte{}, text)
			return 1, err == nil
		case "rows":
			answer.Rows, ok = p.rows()
			return 2, ok
		case "seq":
			return 3, p.number(&answer.Seq)
		}
		return 0, false
	}
	ok = p.object(func(name []byte) (int, bool) { return 0, string(name) == "result" && p.object(read) })
	p.space()
	return answer, ok && p.at == len(raw)
}

// rowParser walks through a document. Its methods report whether they found what they
// expect. After the first false the fast path gives the document up.
type rowParser struct {
	raw  []byte
	at   int
	last *TransactionRow // to share repeated values

	free, least int
}

func (p *rowParser) space() {
	for p.at < len(p.raw) && (p.raw[p.at] == ' ' || p.raw[p.at] == '\n' || p.raw[p.at] == '\t' || p.raw[p.at] == '\r') {
		p.at++
	}
}

// take skips white space and reads one byte of structure.
func (p *rowParser) take(want byte) bool {
	p.space()
	if p.at < len(p.raw) && p.raw[p.at] == want {
		p.at++
		return true
	}
	return false
}

func (p *rowParser) literal(want string) bool {
	p.space()
	if end := p.at + len(want); end <= len(p.raw) && string(p.raw[p.at:end]) == want {
		p.at = end
		return true
	}
	return false
}

func (p *rowParser) rows() ([]TransactionRow, bool) {
	if !p.take('[') {
		return nil, false
	}
	rows := []TransactionRow{}
	if p.take(']') {
		return rows, true
	}
	for {
		rows = append(rows, TransactionRow{})
		row := &rows[len(rows)-1]
		if !p.row(row) || len(rows) > p.free+p.at/p.least {
			return nil, false
		}
		p.last = row
		if len(rows) == 1 { // the other rows are probably about as long
			rows = append(make([]TransactionRow, 0, 1+len(p.raw)/max(p.at, p.least)), *row)
		}
		if p.take(']') {
			return rows, true
		}
		if !p.take(',') {
			return nil, false
		}
	}
}

// row reads one object. It leaves an object with an unknown, differently spelled or
// repeated field to encoding/json.
func (p *rowParser) row(row *TransactionRow) bool {
	return p.object(func(name []byte) (field int, ok bool) {
		last := p.last
		switch string(name) {
		case "trans_id":
			return 0, p.text(&row.TransID, "")
		case "group_id":
			return 1, p.text(&row.GroupID, last.GroupID)
		case "user_id":
			return 2, p.text(&row.UserID, last.UserID)
		case "file_hash":
			return 3, p.text(&row.FileHash, "")
		case "ipfs_hash":
			return 4, p.text(&row.IPFSHash, "")
		case "backend":
			return 5, p.optional(&row.Backend, last.Backend)
		case "timestamp":
			return 6, p.optional(&row.Timestamp, last.Timestamp)
		case "deleted":
			return 7, p.deleted(&row.Deleted)
		case "filename":
			return 8, p.optional(&row.Filename, last.Filename)
		case "original_size":
			return 9, p.optionalNumber(&row.OriginalSize, last.OriginalSize)
		case "content_type":
			return 10, p.optional(&row.ContentType, last.ContentType)
		case "seq":
			return 11, p.number(&row.Seq)
		case "changed_seq":
			return 12, p.number(&row.ChangedSeq)
		case "kind":
			return 13, p.text(&row.Kind, last.Kind)
		case "detail":
			return 14, p.text(&row.Detail, last.Detail)
		case "fee":
			return 15, p.text(&row.Fee, last.Fee)
		case "request":
			return 16, p.text(&row.Request, "")
		case "prev_hash":
			return 17, p.text(&row.PrevHash, "")
		case "hash":
			return 18, p.text(&row.Hash, "")
		case "chain":
			return 19, p.text(&row.Chain, last.Chain)
		case "number":
			return 20, p.number(&row.Number)
		case "tags":
			return 21, p.texts(&row.Tags, last.Tags)
		case "attributes":
			return 22, p.optional(&row.Attributes, last.Attributes)
		case "content":
			return 23, p.optional(&row.Content, nil)
		case "page":
			return 24, p.head(&row.Page)
		case "opening":
			return 25, p.text(&row.Opening, "")
		case "upload_seq":
			return 26, p.number(&row.UploadSeq)
		case "place":
			return 27, p.number(&row.Place)
		}
		return 0, false
	})
}

func (p *rowParser) deleted(into **Deleted) bool {
	if p.literal("null") {
		return true
	}
	d := new(Deleted)
	*into = d
	return p.object(func(name []byte) (field int, ok bool) {
		switch string(name) {
		case "deleted_at":
			return 0, p.text(&d.DeletedAt, "")
		case "deleted_by":
			return 1, p.text(&d.DeletedBy, "")
		case "reason":
			return 2, p.text(&d.Reason, "")
		case "trash":
			d.Trash = true
			return 3, p.literal("true")
		case "until":
			return 4, p.text(&d.Until, "")
		}
		return 0, false
	})
}

func (p *rowParser) head(into **ChainHead) bool {
	if p.literal("null") {
		return true
	}
	h := new(ChainHead)
	*into = h
	return p.object(func(name []byte) (field int, ok bool) {
		switch string(name) {
		case "number":
			return 0, p.number(&h.Number)
		case "hash":
			return 1, p.text(&h.Hash, "")
		case "timestamp":
			return 2, p.text(&h.Timestamp, "")
		case "signature":
			return 3, p.text(&h.Signature, "")
		}
		return 0, false
	})
}

// object reads the fields of an object. read reads the value of a field and returns the
// number of the field.
func (p *rowParser) object(read func(name []byte) (field int, ok bool)) bool {
	if !p.take('{') {
		return false
	}
	if p.take('}') {
		return true
	}
	for seen := uint(0); ; {
		name, plain, ok := p.quoted()
		if !ok || !plain || !p.take(':') {
			return false
		}
		field, ok := read(name)
		if !ok || seen&(1<<field) != 0 {
			return false
		}
		seen |= 1 << field
		if p.take('}') {
			return true
		}
		if !p.take(',') {
			return false
		}
	}
}

// quoted returns the text between the quotes of a string. plain means that the text is the
// content: printable ASCII without escapes.
func (p *rowParser) quoted() (text []byte, plain, ok bool) {
	if !p.take('"') {
		return nil, false, false
	}
	begin := p.at
	plain = true
	for {
		next := bytes.IndexByte(p.raw[p.at:], '"')
		if next < 0 {
			return nil, false, false
		}
		part := p.raw[p.at : p.at+next]
		p.at += next + 1
		trailing := 0 // backslashes before the quote
		for _, c := range part {
			switch {
			case c == '\\':
				plain = false
				trailing++
			case c < ' ':
				return nil, false, false
			default:
				trailing = 0
				plain = plain && c < 0x80
			}
		}
		if trailing%2 == 0 {
			return p.raw[begin : p.at-1], plain, true
		}
	}
}

// text reads a string, or null, which leaves the field unchanged. A value equal to last
// shares its memory.
func (p *rowParser) text(into *string, last string) bool {
	if p.literal("null") {
		return true
	}
	raw, plain, ok := p.quoted()
	switch {
	case !ok:
		return false
	case !plain && isPlainButQuotes(raw):
		*into = strings.ReplaceAll(string(raw), `\"`, `"`)
	case !plain:
		return json.Unmarshal(p.raw[p.at-len(raw)-2:p.at], into) == nil
	case string(raw) == last:
		*into = last
	default:
		*into = string(raw)
	}
	return true
}

// isPlainButQuotes reports whether a text is printable ASCII without escapes but those of
// quotes, as the attributes of files are.
func isPlainButQuotes(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] == '\\' {
			if i++; raw[i] != '"' { // quoted found no escape at the end
				return false
			}
		} else if raw[i] >= 0x80 {
			return false
		}
	}
	return true
}

// value reads an object with encoding/json.
func (p *rowParser) value(into any) bool {
	p.space()
	begin := p.at
	p.at += objectEnd(p.raw[begin:])
	return p.at > begin && json.Unmarshal(p.raw[begin:p.at], into) == nil
}

// texts reads a list of strings. An item equal to the item of last at the same place shares
// its memory.
func (p *rowParser) texts(into *[]string, last []string) bool {
	if p.literal("null") {
		return true
	}
	if !p.take('[') {
		return false
	}
	list := make([]string, 0, len(last))
	for first := true; !p.take(']'); first = false {
		if !first && !p.take(',') || len(list) >= maxTexts {
			return false
		}
		before, text := "", ""
		if len(list) < len(last) {
			before = last[len(list)]
		}
		if p.literal("null") || !p.text(&text, before) {
			return false
		}
		list = append(list, text)
	}
	*into = list
	return true
}

// maxTexts bounds a list of strings in a row. A longer list is left to encoding/json.
const maxTexts = 64

func (p *rowParser) optional(into **string, last *string) bool {
	if p.literal("null") {
		return true
	}
	var text, before string
	if last != nil {
		before = *last
	}
	if !p.text(&text, before) {
		return false
	}
	if last == nil || text != before {
		last = &text
	}
	*into = last
	return true
}

// maxDigits is few enough that no number overflows.
const maxDigits = 18

// number reads an integer, or null, which leaves the field unchanged.
func (p *rowParser) number(into *int64) bool {
	p.space()
	begin := p.at
	if p.at < len(p.raw) && p.raw[p.at] == '-' {
		p.at++
	}
	first := p.at
	for p.at < len(p.raw) && p.raw[p.at] >= '0' && p.raw[p.at] <= '9' {
		p.at++
	}
	digits := p.at - first
	if digits == 0 {
		return p.at == begin && p.literal("null")
	}
	if digits > maxDigits || digits > 1 && p.raw[first] == '0' {
		return false
	}
	n, err := strconv.ParseInt(string(p.raw[begin:p.at]), 10, 64)
	*into = n
	return err == nil // a fraction or an exponent fails at the next byte
}

func (p *rowParser) optionalNumber(into **int64, last *int64) bool {
	if p.literal("null") {
		return true
	}
	n := new(int64)
	if !p.number(n) {
		return false
	}
	if last != nil && *last == *n {
		n = last
	}
	*into = n
	return true
}
