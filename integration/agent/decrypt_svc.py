#!/usr/bin/env python3
"""Decrypts what prepare_retrieve answers.

Reads the answer, JSON with "key", "encrypted_b64" and "format", from standard
input, wrapped in {"result": ...} or not, and writes the content to standard
output: all of it, once the tag of AES-256-GCM and the SHA-256 that the ledger
recorded were both verified, or nothing. Needs the package cryptography.

Exit codes: 0 done, 2 not decrypted, 3 (with --status) the service refused.
"""

import argparse
import base64
import binascii
import hashlib
import hmac
import json
import sys
import zlib

KEY_BYTES, NONCE_BYTES, TAG_BYTES = 32, 12, 16
FORMAT_BYTES = 64 << 10  # largest format object
EXTRA_BYTES = 256 << 10  # of an answer beside the ciphertext
LARGEST_SIZE = 1 << 53  # integers that every JSON implementation keeps
REASON_CHARS = 16 << 10


class Refused(Exception):
    """The service refused: status and text."""


class Undecryptable(Exception):
    """The answer is not a file that can be verified."""


def read_bounded(stream, limit):
    """Reads a stream to its end, which must come within limit bytes."""
    data = stream.read(limit + 1)
    if len(data) > limit:
        raise Undecryptable(f"the answer is larger than {limit} bytes: SVC_MAX_BYTES allows more")
    return data


def split_status(data):
    """Takes off the last line, the HTTP status that curl appended."""
    body, _, status = data.rpartition(b"\n")
    if status == b"200":
        return body
    text = {b"000": "no answer"}.get(status, "no reason given")
    try:
        document = json.loads(body)
        for name in ("error", "message", "detail"):
            if isinstance(document, dict) and isinstance(document.get(name), str) and document[name]:
                text = document[name]
                break
    except (ValueError, RecursionError):
        pass
    raise Refused(status.decode("ascii", "replace"), text)


def no_constant(name):
    raise ValueError(f"{name} is not JSON")


def parse_answer(body):
    try:
        answer = json.loads(body, parse_constant=no_constant)
    except (ValueError, RecursionError):
        raise Undecryptable("the answer is not the JSON that was expected") from None
    if isinstance(answer, dict) and "result" in answer:
        answer = answer["result"]
    if not isinstance(answer, dict):
        raise Undecryptable("the answer is not the JSON that was expected")
    return answer


def decode64(text, what):
    """Reads standard base64 with padding and nothing else."""
    if not isinstance(text, str) or not text:
        raise Undecryptable(f"the answer holds no {what}")
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise Undecryptable(f"the {what} is not standard base64") from None


def parse_key(text):
    key = decode64(text, "key")
    if len(key) != KEY_BYTES or not any(key):
        raise Undecryptable("the key is not one of AES-256")
    return key


def parse_format(meta):
    """Returns the size to inflate to, or None for content that is stored as it is."""
    if meta is None:
        return None
    if not isinstance(meta, dict) or len(json.dumps(meta)) > FORMAT_BYTES:
        raise Undecryptable("the format is not the JSON that was expected")
    version, compression, size = meta.get("version"), meta.get("compression"), meta.get("original_size")
    for name in ("backend", "encryption", "wrapping", "content_type", "compression", "filename"):
        if not isinstance(meta.get(name), (str, type(None))):
            raise Undecryptable(f"the {name} of the format is not text")
    if size is not None and not (type(size) is int and 0 <= size <= LARGEST_SIZE):
        raise Undecryptable("the original_size of the format is not a size")
    if version is None or type(version) is int and version == 0:
        return None
    if type(version) is not int or version != 1:
        raise Undecryptable("unsupported file format version")
    if compression is None or compression == "":
        return None
    if compression != "deflate":
        raise Undecryptable("unsupported compression")
    if size is None:
        raise Undecryptable("compressed content without its size")
    return size


def inflate(stream, size, limit):
    """Inflates a whole zlib stream that must hold exactly size bytes."""
    if size > limit:
        raise Undecryptable(f"the content is larger than {limit} bytes: SVC_MAX_BYTES allows more")
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(stream, size + 1)  # at most this many bytes
    except zlib.error:
        raise Undecryptable("the compressed content is damaged") from None
    if len(content) != size or not inflater.eof or inflater.unused_data:
        raise Undecryptable("the compressed content is not what its size says")
    return content


def decrypt(answer, sha256, limit):
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    size = parse_format(answer.get("format"))
    key = parse_key(answer.get("key"))
    blob = decode64(answer.get("encrypted_b64"), "ciphertext")
    if not NONCE_BYTES + TAG_BYTES <= len(blob) <= NONCE_BYTES + TAG_BYTES + limit:
        raise Undecryptable("the ciphertext is too short, or larger than SVC_MAX_BYTES allows")
    try:
        content = AESGCM(key).decrypt(blob[:NONCE_BYTES], blob[NONCE_BYTES:], None)  # older releases want bytes, no view
    except InvalidTag:
        raise Undecryptable("decryption failed: wrong key or changed bytes") from None
    if size is not None:
        content = inflate(content, size, limit)
    if not hmac.compare_digest(hashlib.sha256(content).hexdigest(), sha256):
        raise Undecryptable("the content is not what the ledger recorded")
    return content


def digest(text):
    text = text.lower()
    if len(text) != 64 or any(c not in "0123456789abcdef" for c in text):
        raise argparse.ArgumentTypeError("want 64 hex digits")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sha256", type=digest, required=True, help="hash of the content, from the ledger")
    parser.add_argument("--max-bytes", type=int, default=256 << 20, help="largest content (default %(default)s)")
    parser.add_argument("--status", action="store_true", help="the last line of the input is the HTTP status")
    args = parser.parse_args()
    try:
        data = read_bounded(sys.stdin.buffer, (args.max_bytes + NONCE_BYTES + TAG_BYTES + 2) * 4 // 3 + EXTRA_BYTES)
        if args.status:
            data = split_status(data)
        content = decrypt(parse_answer(data), args.sha256, args.max_bytes)
    except Refused as refusal:
        status, text = refusal.args
        print(status, text[:REASON_CHARS].replace("\n", " "), file=sys.stderr)
        return 3
    except Undecryptable as reason:
        print(reason, file=sys.stderr)
        return 2
    except ImportError:
        print("the Python package cryptography is missing: apt-get install python3-cryptography, or pip install cryptography", file=sys.stderr)
        return 2
    except MemoryError:
        print("not enough memory for this file", file=sys.stderr)
        return 2
    try:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except OSError as problem:
        print(f"cannot write standard output: {problem.strerror}", file=sys.stderr)
        sys.stderr.flush()
        sys.stdout = None  # nothing more to flush at exit
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
