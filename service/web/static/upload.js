// Saving a file: its content is sealed here, and only then sent.

import { patiently, put } from "./api.js";
import { hex, join } from "./bytes.js";
import { be, digest, keyBytes } from "./format.js";
import { blockBytes, BlockSealer, partBlocks, sealWhole, wholeBytes } from "./seal.js";
import { SHA256 } from "./sha256.js";
import { tokensOf } from "./text.js";

const unclaimed = "application/octet-stream";

// upload saves what source reads as a version of a name that follows head. source has size, type,
// attributes, and read(n), which resolves to the next n bytes. step is told how many bytes of the content went.
// signal ends it. Nothing is recorded or charged before the end.
export async function upload({ group, name, head }, source, step, signal) {
	const id = randomHex(16);
	const key = crypto.getRandomValues(new Uint8Array(keyBytes));
	const text = btoa(String.fromCharCode(...key));
	const sum = new SHA256();
	const take = async (n) => {
		const plain = await source.read(n);
		sum.update(plain);
		return plain;
	};
	const seal = source.size > wholeBytes ? sendBlocks : sealAll;
	const { body, format } = await seal({ id, group, key, size: source.size, take, step, signal });
	const meta = { backend: "fastfs", encryption: "AES-256-GCM", wrapping: "AES-GCM-keywrap", original_size: source.size, content_type: source.type || unclaimed, filename: name };
	const sealed = frame({
		id, key: text, group_id: group, file_hash: hex(sum.digest()), format: { ...meta, ...format, attributes: source.attributes },
		blob_size: body.length, blob_hash: hex(await digest(body)), versioned: true, base: head,
	}, body);
	const sent = format.version === 1 ? (n) => step(Math.min(n, source.size)) : () => {};
	const { result } = await patiently(() => put(`uploads/${id}`, sealed, sent, signal), signal);
	return { fee: tokensOf(BigInt(result.fee ?? "0")) };
}

// frame is an upload as one request has it: its head, and then its ciphertext or its manifest.
function frame(head, body) {
	const raw = new TextEncoder().encode(JSON.stringify(head));
	return join(be(4, raw.length), raw, body);
}

async function sealAll({ key, size, take }) {
	return { body: await sealWhole(key, await take(size)), format: { version: 1 } };
}

async function sendBlocks({ id, group, key, size, take, step, signal }) {
	const sealer = await BlockSealer.begin(key);
	const count = Math.ceil(size / blockBytes);
	for (let first = 0; first < count; first += partBlocks) {
		const at = first * blockBytes;
		const plain = await take(Math.min(partBlocks * blockBytes, size - at));
		await patiently(async () => { // each time under a new id
			const part = await sealer.part(first, plain);
			const query = new URLSearchParams({ group_id: group, block_size: blockBytes, blocks: `${first}-${first + part.sealed.length - 1}` });
			await put(`uploads/${id}/${hex(part.id)}?${query}`, join(...part.sealed), (sent) => step(at + Math.min(sent, plain.length)), signal);
			await sealer.sent(part);
		}, signal);
	}
	const { manifest, root, check } = await sealer.end();
	return { body: manifest, format: { version: 2, block_size: blockBytes, root: hex(root), key_check: hex(check) } };
}

function randomHex(n) {
	return hex(crypto.getRandomValues(new Uint8Array(n)));
}

// fileSource reads a file of this machine.
export function fileSource(file) {
	let at = 0;
	return {
		size: file.size, type: file.type,
		attributes: file.lastModified > 0 ? { mtime: String(BigInt(file.lastModified) * 1000000n) } : undefined,
		read: async (n) => {
			try {
				const plain = new Uint8Array(await file.slice(at, at + n).arrayBuffer());
				if (plain.length !== n) throw new Error("cut");
				at += n;
				return plain;
			} catch {
				throw new Error("The browser cannot read it: it changed, went away, or is a folder. Choose its files again.");
			}
		},
	};
}
