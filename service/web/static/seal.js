// Sealing a file before anything of it is sent (format/SPEC.md).

import { join } from "./bytes.js";
import { aes, be, blockData, ivBytes, keyBytes, keyCheck, leaf, partKeyData, Tree } from "./format.js";

export const blockBytes = 1 << 18; // plaintext of a block
export const partBlocks = 32;
export const wholeBytes = 1 << 22; // of the largest file in one piece
const partIDBytes = 16;

// sealWhole seals the content of a file of format version 1. It wipes the key.
export async function sealWhole(key, plain) {
	return seal(await aes(key, "encrypt"), plain);
}

// BlockSealer seals a file of format version 2, part by part, in order.
export class BlockSealer {
	#fileKey;
	#check;
	#tree = new Tree();
	#runs = [];

	// begin wipes the key.
	static async begin(key) {
		const s = new BlockSealer();
		s.#check = await keyCheck(key);
		s.#fileKey = await aes(key, "encrypt");
		return s;
	}

	// part seals blocks from the block first on, under an id and a key of their own. It may be called again
	// for the same blocks: then nothing of the seal before is used.
	async part(first, plain) {
		const raw = crypto.getRandomValues(new Uint8Array(keyBytes));
		const wrapped = await seal(this.#fileKey, raw, partKeyData);
		const key = await aes(raw, "encrypt");
		const sealed = [];
		for (let at = 0; at < plain.length; at += blockBytes) {
			sealed.push(await seal(key, plain.subarray(at, at + blockBytes), blockData(first + sealed.length)));
		}
		return { id: crypto.getRandomValues(new Uint8Array(partIDBytes)), first, sealed, wrapped };
	}

	// sent notes that a part is at the service.
	async sent({ id, first, sealed, wrapped }) {
		for (const block of sealed) await this.#tree.add(await leaf(block));
		this.#runs.push(id, be(8, first), be(8, sealed.length), wrapped);
	}

	// end returns the manifest, the root and the key check of the file.
	async end() {
		return { manifest: join(...this.#runs), root: await this.#tree.root(), check: this.#check };
	}
}

async function seal(key, plain, additionalData = new Uint8Array(0)) {
	const iv = crypto.getRandomValues(new Uint8Array(ivBytes));
	return join(iv, new Uint8Array(await crypto.subtle.encrypt({ name: "AES-GCM", iv, additionalData }, key, plain)));
}
