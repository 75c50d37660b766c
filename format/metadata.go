package format

import (
	"bytes"
	"compress/zlib"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	// Version is what this package writes.
	Version = 1
	// CompressionDeflate is a zlib stream (RFC 1950) inside the encryption.
	CompressionDeflate = "deflate"
	// maxMetadataBytes bounds the metadata of one file.
	maxMetadataBytes = 64 << 10
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
	Attributes   json.RawMessage `json:"attributes,omitempty"`
}

// MarshalJSON writes null for version 0.
func (m Metadata) MarshalJSON() ([]byte, error) {
	if m.Version == 0 {
		return []byte("null"), nil
	}
	d := document{Version: json.RawMessage(fmt.Sprint(m.Version)), Backend: m.Backend, Encryption: m.Encryption,
		Wrapping: m.Wrapping, ContentType: m.ContentType, Compression: m.Compression, Filename: m.Filename, Attributes: json.RawMessage(m.Attributes)}
	if m.OriginalSize != SizeUnknown {
		d.OriginalSize = &m.OriginalSize
	}
	return json.Marshal(d)
}

// ParseMetadata reads a format object by the reader rules of SPEC.md: nothing,
// null or no version means version 0; unknown fields are ignored; a version or
// compression that is not known is [ErrUnsupported]; anything else that does not
// fit is [ErrCorrupt]. Attributes may hold any JSON: a reader of the content needs none.
func ParseMetadata(raw []byte) (Metadata, error) {
	if len(raw) > maxMetadataBytes {
		return Metadata{}, fmt.Errorf("format of %d bytes: want at most %d: %w", len(raw), maxMetadataBytes, ErrCorrupt)
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
			return Metadata{}, fmt.Errorf("original_size %d: want 0 to %d: %w", m.OriginalSize, int64(maxSize), ErrCorrupt)
		}
	}
	switch string(d.Version) {
	case "", "null", "0":
		m.Version, m.Compression = 0, ""
		return m, nil
	case "1":
		m.Version = 1
	default:
		return Metadata{}, fmt.Errorf("file format version %.40s: %w", d.Version, ErrUnsupported)
	}
	if m.Compression != "" && m.Compression != CompressionDeflate {
		return Metadata{}, fmt.Errorf("compression %.40q: %w", m.Compression, ErrUnsupported)
	}
	return m, nil
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
