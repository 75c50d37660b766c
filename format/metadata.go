package format

import (
	"bytes"
	"compress/zlib"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	// Version is the version of files that are sealed whole.
	Version = 1
	// CompressionDeflate is a zlib stream (RFC 1950) inside the encryption.
	CompressionDeflate = "deflate"
	// MaxMetadataBytes bounds the metadata of one file.
	MaxMetadataBytes = 64 << 10
	// maxSize bounds original_size: integers every JSON implementation keeps.
	maxSize = 1 << 53
	// SizeUnknown is OriginalSize when the metadata does not tell it.
	SizeUnknown int64 = -1
)

// Metadata is the format object that travels beside a blob. It is not
// authenticated: nothing in it may be believed before the hash is checked.
type Metadata struct {
	Version      int    // 0: a bare blob, written as null
	Backend      string // informational: "fastfs" or "ipfs"
	Encryption   string // "AES-256-GCM"
	Wrapping     string // "AES-GCM-keywrap"
	OriginalSize int64  // plaintext bytes before compression, or SizeUnknown
	ContentType  string
	Compression  string // "" or CompressionDeflate
	Filename     string // our addition; others ignore it
	Attributes   string // JSON of [Attributes], not checked; "" = none. Our addition; others ignore it

	// Version 2 only.
	BlockBytes int64             // plaintext of a block, see [Layout]
	Root       Hash              // of the tree over the sealed blocks
	KeyCheck   [sha256.Size]byte // see [KeyCheck]
}

// NewMetadata returns version 1 without compression for a file of size bytes.
func NewMetadata(size int64, contentType, filename string) Metadata {
	if contentType == "" {
		contentType = "application/octet-stream"
	}
	return Metadata{Version: Version, Backend: "fastfs", Encryption: "AES-256-GCM", Wrapping: "AES-GCM-keywrap",
		OriginalSize: size, ContentType: contentType, Filename: filename}
}

// document is the JSON form, in the order the JavaScript SDK writes it.
type document struct {
	Version      json.RawMessage `json:"version,omitempty"`
	Backend      string          `json:"backend,omitempty"`
	Encryption   string          `json:"encryption,omitempty"`
	Wrapping     string          `json:"wrapping,omitempty"`
	OriginalSize *int64          `json:"original_size,omitempty"`
	ContentType  string          `json:"content_type,omitempty"`
	Compression  string          `json:"compression,omitempty"`
	Filename     string          `json:"filename,omitempty"`
	blocksDocument
	Attributes json.RawMessage `json:"attributes,omitempty"`
}

// blocksDocument has the fields that only version 2 has. In other versions they are not
// listed, so that readers ignore them, whatever their type.
type blocksDocument struct {
	BlockBytes json.RawMessage `json:"block_size,omitempty"`
	Root       json.RawMessage `json:"root,omitempty"`
	KeyCheck   json.RawMessage `json:"key_check,omitempty"`
}

// MarshalJSON writes null for version 0.
func (m Metadata) MarshalJSON() ([]byte, error) {
	if m.Version == 0 {
		return []byte("null"), nil
	}
	d := document{Version: json.RawMessage(fmt.Sprint(m.Version)), Backend: m.Backend, Encryption: m.Encryption,
		Wrapping: m.Wrapping, ContentType: m.ContentType, Compression: m.Compression, Filename: m.Filename,
		Attributes: json.RawMessage(m.Attributes)}
	if m.OriginalSize != SizeUnknown {
		d.OriginalSize = &m.OriginalSize
	}
	if m.Version == VersionBlocks {
		quoted := func(hash [sha256.Size]byte) json.RawMessage { return fmt.Appendf(nil, `"%x"`, hash[:]) }
		d.blocksDocument = blocksDocument{fmt.Append(nil, m.BlockBytes), quoted(m.Root), quoted(m.KeyCheck)}
	}
	return json.Marshal(d)
}

// ParseMetadata reads a format object by the reader rules of SPEC.md: nothing,
// null or no version means version 0; unknown fields are ignored; a version or
// compression that is not known is [ErrUnsupported]; anything else that does not
// fit is [ErrCorrupt]. Attributes may hold any JSON: a reader of the content needs none.
func ParseMetadata(raw []byte) (Metadata, error) {
	if len(raw) > MaxMetadataBytes {
		return Metadata{}, fmt.Errorf("format of %d bytes: want at most %d: %w", len(raw), MaxMetadataBytes, ErrCorrupt)
	}
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || string(trimmed) == "null" {
		return Metadata{OriginalSize: SizeUnknown}, nil
	}
	var d document
	if err := json.Unmarshal(raw, &d); err != nil {
		return Metadata{}, fmt.Errorf("parse format: %w", errors.Join(ErrCorrupt, err))
	}
	m := Metadata{Backend: d.Backend, Encryption: d.Encryption, Wrapping: d.Wrapping, OriginalSize: SizeUnknown,
		ContentType: d.ContentType, Compression: d.Compression, Filename: d.Filename}
	if len(d.Attributes) > 0 && string(d.Attributes) != "null" {
		compact, err := json.Marshal(d.Attributes)
		if err != nil {
			return Metadata{}, fmt.Errorf("parse format: %w", errors.Join(ErrCorrupt, err))
		}
		m.Attributes = string(compact)
	}
	if d.OriginalSize != nil {
		m.OriginalSize = *d.OriginalSize
		if m.OriginalSize < 0 || m.OriginalSize > maxSize {
			return Metadata{}, fmt.Errorf("original_size %d: want 0 to %d: %w", m.OriginalSize, int64(maxSize),
				ErrCorrupt)
		}
	}
	switch string(d.Version) {
	case "", "null", "0":
		m.Version, m.Compression = 0, ""
		return m, nil
	case "1":
		m.Version = 1
	case "2":
		if err := m.parseBlocks(d.blocksDocument); err != nil {
			return Metadata{}, err
		}
		return m, nil
	default:
		return Metadata{}, fmt.Errorf("file format version %.40s: %w", d.Version, ErrUnsupported)
	}
	if m.Compression != "" && m.Compression != CompressionDeflate {
		return Metadata{}, fmt.Errorf("compression %.40q: %w", m.Compression, ErrUnsupported)
	}
	return m, nil
}

// parseBlocks reads the fields of version 2.
func (m *Metadata) parseBlocks(d blocksDocument) error {
	m.Version = VersionBlocks
	if m.Compression != "" {
		return fmt.Errorf("compression %.40q in version 2: %w", m.Compression, ErrUnsupported)
	}
	if len(d.BlockBytes) > 0 {
		if err := json.Unmarshal(d.BlockBytes, &m.BlockBytes); err != nil {
			return fmt.Errorf("parse block_size: %w", errors.Join(ErrCorrupt, err))
		}
	}
	if err := m.Layout().Check(); err != nil {
		return err
	}
	for _, field := range []struct {
		name string
		raw  json.RawMessage
		into []byte
	}{{"root", d.Root, m.Root[:]}, {"key_check", d.KeyCheck, m.KeyCheck[:]}} {
		var text string
		if len(field.raw) > 0 {
			if err := json.Unmarshal(field.raw, &text); err != nil {
				return fmt.Errorf("parse %s: %w", field.name, errors.Join(ErrCorrupt, err))
			}
		}
		raw, err := hex.DecodeString(text)
		if err != nil || len(raw) != sha256.Size || hex.EncodeToString(raw) != text {
			return fmt.Errorf("%s of %d characters: want 64 lower-case hex digits: %w", field.name, len(text),
				ErrCorrupt)
		}
		copy(field.into, raw)
	}
	return nil
}

// NewBlocksMetadata returns version 2 for a file with this layout.
func NewBlocksMetadata(l Layout, root Hash, keyCheck [sha256.Size]byte, contentType, filename string) Metadata {
	m := NewMetadata(l.Size, contentType, filename)
	m.Version, m.BlockBytes, m.Root, m.KeyCheck = VersionBlocks, l.BlockBytes, root, keyCheck
	return m
}

// Deflate returns plain as a zlib stream.
func Deflate(plain []byte) ([]byte, error) {
	var out bytes.Buffer
	if err := DeflateTo(&out, plain); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// DeflateTo writes plain to out as a zlib stream: always the same for the same
// content.
func DeflateTo(out io.Writer, plain []byte) error {
	w := zlib.NewWriter(out)
	if _, err := w.Write(plain); err != nil {
		return fmt.Errorf("deflate %d bytes: %w", len(plain), err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("deflate %d bytes: %w", len(plain), err)
	}
	return nil
}

// InflatedSize returns how many bytes to provide for [Inflate]: what m says, if
// that is within limit. A file without a size cannot be inflated safely.
func InflatedSize(m Metadata, limit int64) (int64, error) {
	if m.OriginalSize == SizeUnknown {
		return 0, fmt.Errorf("inflate without original_size: %w", ErrCorrupt)
	}
	if m.OriginalSize > limit {
		return 0, fmt.Errorf("inflate to %d bytes: allowed are %d: %w", m.OriginalSize, limit, ErrTooLarge)
	}
	return m.OriginalSize, nil
}

// Inflate fills dst from a zlib stream that must hold exactly len(dst) bytes, a
// right checksum and nothing behind it. On error dst is wiped.
func Inflate(dst, compressed []byte) (err error) {
	defer func() {
		if err != nil {
			clear(dst)
		}
	}()
	source := bytes.NewReader(compressed)
	z, err := zlib.NewReader(source)
	if err != nil {
		return fmt.Errorf("inflate: %w", errors.Join(ErrCorrupt, err))
	}
	if _, err := io.ReadFull(z, dst); err != nil {
		return fmt.Errorf("inflate: content is shorter than original_size: %w", errors.Join(ErrCorrupt, err))
	}
	var extra [1]byte
	if n, err := z.Read(extra[:]); n != 0 || !errors.Is(err, io.EOF) {
		return fmt.Errorf("inflate: content is longer than original_size, or its checksum is wrong: %w", ErrCorrupt)
	}
	if source.Len() != 0 {
		return fmt.Errorf("inflate: %d bytes behind the stream: %w", source.Len(), ErrCorrupt)
	}
	return nil
}
