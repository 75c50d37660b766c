#!/usr/bin/env python3
"""Decrypts what prepare_retrieve answers.

Reads the answer, JSON with "key", "encrypted_b64" and "format", from standard
input, wrapped in {"result": ...} or not, and writes the content to standard
output: all of it, once the tag of AES-256-GCM and the SHA-256 that the ledger
recorded were both verified, or nothing. Needs the package cryptography.

A file of format version 2, for which the ledger recorded a --content, is fetched
from --service block by block. Each block is written once it was verified in
the tree that the ledger recorded; at most a block is held in memory. When a
later one fails, what was written is a beginning of the file and the exit code
is not 0. format/SPEC.md describes both versions.

Exit codes: 0 done, 2 not decrypted, 3 (with --status) the service refused before
anything was written, 4 it refused later.
"""

import argparse
import base64
import binascii
import hashlib
import hmac
import json
import re
import struct
import sys
import time
import zlib

KEY_BYTES, NONCE_BYTES, TAG_BYTES = 32, 12, 16
SEAL_BYTES = NONCE_BYTES + TAG_BYTES
FORMAT_BYTES = 64 << 10  # largest format object
EXTRA_BYTES = 256 << 10  # of an answer beside the ciphertext
LARGEST_SIZE = 1 << 53  # integers that every JSON implementation keeps
REASON_CHARS = 16 << 10
HASH_BYTES = 32
TILE_HASHES = 256  # of a whole tile of height 8
RUN_BYTES, WRAPPED_BYTES = 92, 60  # of a manifest, and of a key in it
MANIFEST_BYTES = 16 << 20
BLOCK_SIZES = [1 << n for n in range(16, 21)]
PAUSES = (0.5, 1, 2)  # seconds before the next try


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
    if type(version) is int and version == 2:
        raise Undecryptable("the answer claims format version 2, for which the ledger recorded no content")
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


class Service:
    """Fetches from the paths that the answer names, at the one address that the token is for."""

    def __init__(self, address, headers, timeout):
        from http.client import HTTPException, IncompleteRead  # here, for these load longer than the rest together
        from urllib import request as web

        self.address, self.timeout = address, timeout
        self.headers = dict(line.split(": ", 1) for line in headers.splitlines() if not line.startswith("Content-Type"))
        proxies = {} if address.startswith("http:") else None  # a proxy sees no plain http
        self.web, self.cut, self.broken = web, IncompleteRead, (OSError, HTTPException)
        self.opener = web.OpenerDirector()
        for handler in (web.ProxyHandler(proxies), web.HTTPHandler(), web.HTTPSHandler()):
            self.opener.add_handler(handler)  # none follows a redirect

    def open(self, path, start=0, size=0):
        """Returns an answer of status 200, or 206 if it begins at start and ends with size."""
        if not isinstance(path, str) or not re.fullmatch(r"(/[A-Za-z0-9._~%=-]+)+", path):
            raise Undecryptable("the answer names no path of the service")
        request = self.web.Request(self.address + path, headers=self.headers)
        if start:
            request.add_header("Range", f"bytes={start}-{size - 1}")
        response = self.opener.open(request, timeout=self.timeout)
        if start and response.status == 200:
            raise Undecryptable("the service sent the file from its beginning, not from where the connection broke")
        if response.status != (206 if start else 200):
            text = split_error(response.read(EXTRA_BYTES))
            response.close()
            raise Refused(str(response.status), text)
        return response

    def fetch(self, path, limit, what):
        """Returns all of a short answer."""
        for pause in (*PAUSES, None):
            try:
                with self.open(path) as response:
                    data = response.read(limit + 1)
                    if response.length in (0, None) or len(data) > limit:
                        break
            except Refused as refusal:
                if pause is None or refusal.args[0] not in ("429", "502", "503"):
                    raise
            except self.broken:
                pass
            if pause is None:
                raise Undecryptable(f"the connection broke while the {what} was fetched")
            time.sleep(pause)
        if len(data) > limit:
            raise Undecryptable(f"the {what} is longer than it can be")
        return data


class Stream:
    """Reads an answer of known size in order. A connection that breaks is made again."""

    def __init__(self, service, path, size):
        self.service, self.path, self.size, self.at, self.response = service, path, size, 0, None

    def connect(self):
        self.response = self.service.open(self.path, self.at, self.size)
        length = self.response.headers.get("Content-Length", "")
        if length != str(self.size - self.at):
            raise Undecryptable("the stored bytes are not as many as the ledger recorded")
        if self.at and self.response.headers.get("Content-Range") != f"bytes {self.at}-{self.size - 1}/{self.size}":
            raise Undecryptable("the service sent another range than was asked for")

    def read(self, count):
        data, tries = b"", 0
        while len(data) < count:
            more = b""
            try:
                if self.response is None:
                    self.connect()
                more = self.response.read(count - len(data))
            except Refused as refusal:
                if refusal.args[0] not in ("429", "502", "503") or tries == len(PAUSES):
                    raise
            except self.service.cut as cut:
                more = cut.partial
            except self.service.broken:
                pass
            if more:
                data, tries, self.at = data + more, 0, self.at + len(more)
                continue
            self.close()
            if tries == len(PAUSES):
                raise Undecryptable("the connection broke, and again at each further try")
            time.sleep(PAUSES[tries])
            tries += 1
        return data

    def close(self):
        if self.response is not None:
            self.response.close()
            self.response = None


def split_error(body):
    try:
        text = json.loads(body)["error"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return "no reason given"
    return text if isinstance(text, str) and text else "no reason given"


def leaf(sealed):
    return hashlib.sha256(b"\0" + sealed).digest()


def node(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def tile_path(level, number, width):
    digits = f"{number % 1000:03d}"
    while number >= 1000:
        number //= 1000
        digits = f"x{number % 1000:03d}/{digits}"
    return f"tile/8/{level}/{digits}" + (f".p/{width}" if width < TILE_HASHES else "")


class Tree:
    """Proves leaves of a tree of known size and root by its tiles; it holds one tile of a level."""

    def __init__(self, size, root, fetch):
        self.fetch = fetch
        self.counts = []  # hashes of each level
        while size:
            self.counts.append(size)
            size //= TILE_HASHES
        self.tiles = {}  # level: (number, hashes), each proven
        stack = []  # complete subtrees: (leaves, hash)
        for level in range(len(self.counts) - 1, -1, -1):
            number, width = divmod(self.counts[level], TILE_HASHES)
            if not width:
                continue
            self.tiles[level, "last"] = self.hashes(level, number, width)
            for top in self.tiles[level, "last"]:
                leaves = TILE_HASHES**level
                while stack and stack[-1][0] == leaves:
                    top, leaves = node(stack.pop()[1], top), 2 * leaves
                stack.append((leaves, top))
        top = stack.pop()[1]
        while stack:
            top = node(stack.pop()[1], top)
        if top != root:
            raise Undecryptable("the tree of the blocks is not the one that the ledger recorded")

    def hashes(self, level, number, width):
        data = self.fetch(tile_path(level, number, width))
        if len(data) != width * HASH_BYTES:
            raise Undecryptable("a tile of the tree of blocks has another length")
        return [data[i : i + HASH_BYTES] for i in range(0, len(data), HASH_BYTES)]

    def hash(self, level, index):
        """Returns hash number index of a level, proven."""
        number, place = divmod(index, TILE_HASHES)
        if number == self.counts[level] // TILE_HASHES:
            return self.tiles[level, "last"][place]
        if self.tiles.get(level, (None,))[0] != number:
            above = self.hash(level + 1, number)
            hashes = row = self.hashes(level, number, TILE_HASHES)
            while len(row) > 1:
                row = [node(row[i], row[i + 1]) for i in range(0, len(row), 2)]
            if row[0] != above:
                raise Undecryptable("a tile of the tree of blocks is not in the tree")
            self.tiles[level] = (number, hashes)
        return self.tiles[level][1][place]


def key_check(key):
    """HKDF-SHA256 (RFC 5869) without salt, of one round."""
    secret = hmac.new(bytes(HASH_BYTES), key, hashlib.sha256).digest()
    return hmac.new(secret, b"svc-v2 key check\x01", hashlib.sha256).digest()


def parse_blocks_format(meta):
    """Returns size, block size, root and key check of version 2."""
    if meta is not None and (not isinstance(meta, dict) or len(json.dumps(meta)) > FORMAT_BYTES):
        raise Undecryptable("the format is not the JSON that was expected")
    if meta is None or type(meta.get("version")) is not int or meta["version"] != 2:
        raise Undecryptable("the ledger recorded a file of format version 2, and the answer is none")
    if meta.get("compression") not in (None, ""):
        raise Undecryptable("unsupported compression")
    size, block = meta.get("original_size"), meta.get("block_size")
    if type(size) is not int or not 1 <= size <= LARGEST_SIZE or type(block) is not int or block not in BLOCK_SIZES:
        raise Undecryptable("the sizes of the format are none")
    hashes = []
    for name in ("root", "key_check"):
        if not isinstance(meta.get(name), str) or not re.fullmatch("[0-9a-f]{64}", meta[name]):
            raise Undecryptable(f"the {name} of the format is not a hash")
        hashes.append(bytes.fromhex(meta[name]))
    return (size, block, *hashes)


def parse_manifest(manifest, blocks):
    """Checks that each block lies in one run, in order."""
    if not manifest or len(manifest) % RUN_BYTES:
        raise Undecryptable("the manifest is not a list of runs")
    following = 0
    for at in range(0, len(manifest), RUN_BYTES):
        first, count = struct.unpack_from(">QQ", manifest, at + 16)
        if first != following or count < 1:
            raise Undecryptable("the runs of the manifest do not follow one another")
        following += count
    if following != blocks:
        raise Undecryptable("the manifest is of a file of another size")


def wrapped_keys(manifest):
    """Yields the wrapped key of each block."""
    for at in range(0, len(manifest), RUN_BYTES):
        (count,) = struct.unpack_from(">Q", manifest, at + 24)
        wrapped = manifest[at + 32 : at + RUN_BYTES]
        for _ in range(count):
            yield wrapped


def decrypt_blocks(answer, content, limit, service):
    """Yields the plaintext of each block of a file of version 2, verified."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    def unseal(cipher, sealed, context):
        try:
            return cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], context)
        except InvalidTag:
            raise Undecryptable("decryption failed: wrong key or changed bytes") from None

    size, block, root, check = parse_blocks_format(answer.get("format"))
    if answer.get("manifest_url"):
        manifest = service.fetch(answer["manifest_url"], MANIFEST_BYTES, "manifest")
    else:
        manifest = decode64(answer.get("manifest"), "manifest")
    recorded = b"svc-content-2" + struct.pack(">QI", size, block) + root + hashlib.sha256(manifest).digest() + check
    if not hmac.compare_digest(hashlib.sha256(recorded).hexdigest(), content):
        raise Undecryptable("the answer is not about the file that the ledger recorded")
    key = parse_key(answer.get("key"))
    if not hmac.compare_digest(key_check(key), check):
        raise Undecryptable("the key is not that of the file")
    blocks = (size + block - 1) // block
    parse_manifest(manifest, blocks)
    if size > limit:
        raise Undecryptable(f"the content is larger than {limit} bytes: SVC_MAX_BYTES allows more")
    stored = size + SEAL_BYTES * blocks
    if answer.get("data_size") != stored:
        raise Undecryptable("the stored bytes are not as many as the ledger recorded")

    inline = answer.get("tiles") if isinstance(answer.get("tiles"), dict) else {}

    def fetch_tile(path):
        if path in inline:
            return decode64(inline[path], "tile")
        return service.fetch(f"{answer.get('tiles_url')}/{path}", TILE_HASHES * HASH_BYTES, "tile")

    tree = Tree(blocks, root, fetch_tile)
    file_cipher, unwrapped, stream = AESGCM(key), None, Stream(service, answer.get("data_url"), stored)
    for i, wrapped in enumerate(wrapped_keys(manifest)):
        sealed = stream.read(min(block, size - i * block) + SEAL_BYTES)
        if leaf(sealed) != tree.hash(0, i):
            raise Undecryptable("a block is not the one that the ledger recorded")
        if wrapped != unwrapped:
            part_key = unseal(file_cipher, wrapped, b"svc-v2 part key")
            if not any(part_key):
                raise Undecryptable("the key of a part is not one of AES-256")
            cipher, unwrapped = AESGCM(part_key), wrapped
        yield unseal(cipher, sealed, b"svc-v2" + struct.pack(">Q", i))
    stream.close()


def digest(text):
    text = text.lower()
    if len(text) != 64 or any(c not in "0123456789abcdef" for c in text):
        raise argparse.ArgumentTypeError("want 64 hex digits")
    return text


def write(content):
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sha256", type=digest, help="hash of the content, from the ledger; not compared with --content, where each block is proven")
    parser.add_argument("--content", type=digest, help="what the ledger recorded of a file of format version 2")
    parser.add_argument("--service", metavar="URL", help="address of the service, with --content")
    parser.add_argument("--headers", metavar="PIPE", help="where the headers of requests to the service are read from, one a line")
    parser.add_argument("--timeout", type=int, default=60, help="seconds that a request may be silent (default %(default)s)")
    parser.add_argument("--max-bytes", type=int, default=256 << 20, help="largest content (default %(default)s)")
    parser.add_argument("--status", action="store_true", help="the last line of the input is the HTTP status")
    args = parser.parse_args()
    if not args.content and not args.sha256 or args.content and not args.service:
        parser.error("want --sha256, or --content and --service")
    begun = False
    try:
        limit = MANIFEST_BYTES if args.content else args.max_bytes
        data = read_bounded(sys.stdin.buffer, (limit + SEAL_BYTES + 2) * 4 // 3 + EXTRA_BYTES)
        if args.status:
            data = split_status(data)
        answer = parse_answer(data)
        if args.content:
            headers = ""
            if args.headers:
                with open(args.headers, encoding="ascii") as lines:
                    headers = lines.read()
            for plain in decrypt_blocks(answer, args.content, args.max_bytes, Service(args.service, headers, args.timeout)):
                begun = True
                write(plain)
        else:
            write(decrypt(answer, args.sha256, args.max_bytes))
    except Refused as refusal:
        status, text = refusal.args
        print(status, text[:REASON_CHARS].replace("\n", " "), file=sys.stderr)
        return 4 if begun else 3
    except Undecryptable as reason:
        print(reason, file=sys.stderr)
        return 2
    except ImportError:
        print("the Python package cryptography is missing: apt-get install python3-cryptography, or pip install cryptography", file=sys.stderr)
        return 2
    except MemoryError:
        print("not enough memory for this file", file=sys.stderr)
        return 2
    except OSError as problem:
        print(f"cannot write standard output: {problem.strerror}", file=sys.stderr)
        sys.stderr.flush()
        sys.stdout = None  # nothing more to flush at exit
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
