#!/usr/bin/env python3
"""Encrypts a file for finalize_upload.

Reads the result of prepare_upload, JSON with "upload_id" and "key", from
standard input. Prints two lines: the SHA-256 of the file, then the request for
finalize_upload. The file is sealed as one message (format version 1) whatever its
size, and held in memory. Needs the package cryptography. Exit codes: 0 done, 2 not.
"""

import argparse
import base64
import binascii
import hashlib
import json
import os
import sys

KEY_BYTES, NONCE_BYTES = 32, 12


class Unusable(Exception):
    """What was given cannot be encrypted."""


def read_ticket(stream):
    """Returns upload id and key of a prepared upload."""
    try:
        ticket = json.loads(stream.read(1 << 20))
        upload_id, key = ticket["upload_id"], base64.b64decode(ticket["key"].encode("ascii"), validate=True)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error):
        raise Unusable("prepare_upload: the answer is not the JSON that was expected") from None
    if not isinstance(upload_id, str) or not upload_id or len(key) != KEY_BYTES or not any(key):
        raise Unusable("prepare_upload: the service sent no usable key")
    return upload_id, key


def read_file(path, limit):
    try:
        with open(path, "rb") as file:
            content = file.read(limit + 1)
    except OSError as problem:
        raise Unusable(f"cannot read the file: {problem.strerror}") from None
    if len(content) > limit:
        raise Unusable(f"the file is larger than {limit} bytes: SVC_MAX_BYTES allows more")
    return content


def request(upload_id, key, name, content):
    """Returns the hash of the content and the request that carries it, sealed."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    file_hash = hashlib.sha256(content).hexdigest()
    nonce = os.urandom(NONCE_BYTES)
    sealed = nonce + AESGCM(key).encrypt(nonce, content, None)
    meta = {
        "version": 1,
        "backend": "fastfs",
        "encryption": "AES-256-GCM",
        "wrapping": "AES-GCM-keywrap",
        "original_size": len(content),
        "content_type": "application/octet-stream",
        "filename": name.encode("utf-8", "replace").decode("utf-8"),
    }
    body = {"upload_id": upload_id, "encrypted_data": base64.b64encode(sealed).decode("ascii"), "file_hash": file_hash, "format": meta}
    return file_hash, json.dumps(body)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-bytes", type=int, default=256 << 20, help="largest file (default %(default)s)")
    parser.add_argument("file")
    args = parser.parse_args()
    try:
        upload_id, key = read_ticket(sys.stdin.buffer)
        content = read_file(args.file, args.max_bytes)
        file_hash, body = request(upload_id, key, os.path.basename(args.file), content)
    except Unusable as reason:
        print(f"encrypt_svc.py: {reason}", file=sys.stderr)
        return 2
    except ImportError:
        print("encrypt_svc.py: the Python package cryptography is missing: apt-get install python3-cryptography, or pip install cryptography", file=sys.stderr)
        return 2
    sys.stdout.write(file_hash + "\n" + body)
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
