// Saving a file: its content is sealed here, and only then sent.

import { post, put, ServiceError } from "./api.js";
import { fromBase64, hex, join } from "./bytes.js";
import { sealBytes } from "./format.js";
import { blockBytes, BlockSealer, partBlocks, sealWhole, wholeBytes } from "./seal.js";
import { SHA256 } from "./sha256.js";

const pauses = [1000, 2000, 4000, 8000, 16000]; // ms before a further try
const unclaimed = "application/octet-stream";

// upload saves what source reads as a version of a name that follows head. source has size, type,
// attributes, and read(n), which resolves to the next n bytes. step is told how many bytes of the content went.
// signal ends it. Nothing is recorded or charged before the end.
export async function upload({ group, name, head }, source, step, signal) {
	const meta = { backend: "fastfs", encryption: "AES-256-GCM", wrapping: "AES-GCM-keywrap", original_size: source.size, content_type: source.type || unclaimed, filename: name };
	const inBlocks = source.size > wholeBytes;
	const count = Math.ceil(source.size / blockBytes);
	const prepared = await patiently(signal, () => post("uploads/prepare", {
		group_id: group, filename: name, size: source.size + sealBytes * (inBlocks ? count : 1), formats: inBlocks ? [1, 2] : [1],
	}));
	if (inBlocks && !prepared.parts_url) throw new Error("This group keeps files in one piece, and the page sends such files up to 4 MB. Use: svcfs put");
	const key = fromBase64(prepared.key);
	delete prepared.key;
	const sum = new SHA256();
	const take = async (n) => {
		const plain = await source.read(n);
		sum.update(plain);
		return plain;
	};
	const format = await (inBlocks ? sendBlocks : sendWhole)({ id: prepared.upload_id, key, size: source.size, take, step, signal });
	return patiently(signal, () => post("uploads/finish", {
		upload_id: prepared.upload_id, file_hash: hex(sum.digest()), head, format: { version: format.version, ...meta, ...format.blocks, attributes: source.attributes },
	}));
}

async function sendWhole({ id, key, size, take, step, signal }) {
	const sealed = await sealWhole(key, await take(size));
	await patiently(signal, () => put(`uploads/${id}`, sealed, {}, (sent) => step(Math.min(sent, size)), signal));
	return { version: 1 };
}

async function sendBlocks({ id, key, size, take, step, signal }) {
	const sealer = await BlockSealer.begin(key);
	const count = Math.ceil(size / blockBytes);
	let number = 0;
	for (let first = 0; first < count; first += partBlocks) {
		const at = first * blockBytes;
		const plain = await take(Math.min(partBlocks * blockBytes, size - at));
		await patiently(signal, async () => {
			const part = await sealer.part(first, plain);
			const path = `uploads/${id}/${number++}?blocks=${first}-${first + part.sealed.length - 1}`;
			const stored = await put(path, join(...part.sealed), { "X-Part-Key": btoa(String.fromCharCode(...part.wrapped)) }, (sent) => step(at + Math.min(sent, plain.length)), signal);
			await sealer.sent(part, Uint8Array.from(stored.id.match(/../g), (digits) => parseInt(digits, 16)));
		});
	}
	const { manifest, root, check } = await sealer.end();
	await patiently(signal, () => put(`uploads/${id}/manifest`, manifest, {}, () => {}, signal));
	return { version: 2, blocks: { block_size: blockBytes, root: hex(root), key_check: hex(check) } };
}

// patiently does work again after a lost connection, and when the service asks to wait. work may be
// repeated: a recording answers the same again, and a part goes under a new number.
async function patiently(signal, work) {
	for (let tries = 0; ; tries++) {
		signal.throwIfAborted();
		try {
			return await work();
		} catch (error) {
			signal.throwIfAborted();
			const passes = error instanceof ServiceError && (error.status === 0 || error.status === 429 || error.status === 503);
			if (!passes || tries === pauses.length) throw error;
			await new Promise((resolve) => { setTimeout(resolve, pauses[tries]); signal.addEventListener("abort", resolve, { once: true }); });
		}
	}
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
