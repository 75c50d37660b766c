// Saving a file: its content is sealed here, and only then sent.

import { isUnknown, patiently, put } from "./api.js";
import { hex, join } from "./bytes.js";
import { be, digest, keyBytes } from "./format.js";
import { blockBytes, BlockSealer, partBlocks, sealWhole, wholeBytes } from "./seal.js";
import { SHA256 } from "./sha256.js";
import { tokensOf } from "./text.js";

const unclaimed = "application/octet-stream";

// Upload saves what source reads as a version of a name. source has size, type, attributes, and read(n), which resolves
// to the next n bytes. Each try goes on where the one before ended.
export class Upload {
	#group; #name; #source;
	#id = randomHex(16);
	#key = crypto.getRandomValues(new Uint8Array(keyBytes));
	#text = btoa(String.fromCharCode(...this.#key));
	#sum = new SHA256();
	#sealer = null; // of blocks
	#first = 0; // block that is sent next
	#plain = null; // what was read and not sent
	#sealed = null; // what the record needs: body, format and sum

	mayBeSaved = false; // the answer to the record was lost

	constructor({ group, name }, source) {
		this.#group = group;
		this.#name = name;
		this.#source = source;
	}

	// send saves it as a version that follows base, the same as before where it may be saved already: then that is
	// answered again. step is told how many bytes of the content went. signal ends it. Nothing is recorded or charged
	// before the end.
	async send(base, step, signal) {
		const { size, type, attributes } = this.#source;
		this.#sealed ??= { ...await (size > wholeBytes ? this.#sendBlocks(step, signal) : this.#sealAll()), sum: hex(this.#sum.digest()) };
		const { body, format, sum } = this.#sealed;
		const meta = { backend: "fastfs", encryption: "AES-256-GCM", wrapping: "AES-GCM-keywrap", original_size: size, content_type: type || unclaimed, filename: this.#name };
		const sealed = frame({
			id: this.#id, key: this.#text, group_id: this.#group, file_hash: sum, format: { ...meta, ...format, attributes },
			blob_size: body.length, blob_hash: hex(await digest(body)), versioned: true, base,
		}, body);
		const sent = format.version === 1 ? (n) => step(Math.min(n, size)) : () => {};
		const { result } = await patiently(() => put(`uploads/${this.#id}`, sealed, sent, signal).catch((error) => {
			if (signal.aborted || isUnknown(error)) this.mayBeSaved = true;
			else if (error.status === 409) this.mayBeSaved = false; // one that is saved is answered
			throw error;
		}), signal);
		return { fee: tokensOf(BigInt(result.fee ?? "0")) };
	}

	close() { this.#source.close?.(); }

	// take reads on. What cannot be read ends the upload: the error has no status.
	async #take(n) {
		const plain = await this.#source.read(n).catch((error) => { throw new Error(error.message); });
		this.#sum.update(plain);
		return plain;
	}

	async #sealAll() {
		return { body: await sealWhole(this.#key, await this.#take(this.#source.size)), format: { version: 1 } };
	}

	async #sendBlocks(step, signal) {
		const { size } = this.#source;
		this.#sealer ??= await BlockSealer.begin(this.#key);
		const count = Math.ceil(size / blockBytes);
		for (; this.#first < count; this.#first += partBlocks) {
			const first = this.#first, at = first * blockBytes;
			const plain = this.#plain ??= await this.#take(Math.min(partBlocks * blockBytes, size - at));
			await patiently(async () => { // each time under a new id
				const part = await this.#sealer.part(first, plain);
				const query = new URLSearchParams({ group_id: this.#group, block_size: blockBytes, blocks: `${first}-${first + part.sealed.length - 1}` });
				await put(`uploads/${this.#id}/${hex(part.id)}?${query}`, join(...part.sealed), (sent) => step(at + Math.min(sent, plain.length)), signal);
				await this.#sealer.sent(part);
			}, signal);
			this.#plain = null;
		}
		const { manifest, root, check } = await this.#sealer.end();
		return { body: manifest, format: { version: 2, block_size: blockBytes, root: hex(root), key_check: hex(check) } };
	}
}

// frame is an upload as one request has it: its head, and then its ciphertext or its manifest.
function frame(head, body) {
	const raw = new TextEncoder().encode(JSON.stringify(head));
	return join(be(4, raw.length), raw, body);
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
