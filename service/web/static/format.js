// What readers and writers of the file format share (format/SPEC.md).

import { hex, join } from "./bytes.js";

export const ivBytes = 12;
export const tagBytes = 16;
export const sealBytes = ivBytes + tagBytes; // that a seal adds
export const keyBytes = 32;
export const hashBytes = 32;
export const runBytes = 92; // of a manifest
export const wrappedAt = 32; // in a run: the wrapped key of its part
export const partKeyData = ascii("svc-v2 part key");

// blockData is the additional data of a block.
export function blockData(index) {
	return join(ascii("svc-v2"), be(8, index));
}

// contentOf is what the ledger holds of a file in blocks.
export async function contentOf({ size, block, root, check }, manifest) {
	return hex(await digest(ascii("svc-content-2"), be(8, size), be(4, block), root, await digest(manifest), check));
}

export async function keyCheck(key) {
	const from = await crypto.subtle.importKey("raw", key, "HKDF", false, ["deriveBits"]);
	const how = { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(0), info: ascii("svc-v2 key check") };
	return new Uint8Array(await crypto.subtle.deriveBits(how, from, 8 * hashBytes));
}

// aes imports a key for one use, "encrypt" or "decrypt", and wipes it.
export async function aes(key, use) {
	const imported = await crypto.subtle.importKey("raw", key, "AES-GCM", false, [use]);
	key.fill(0);
	return imported;
}

// Tree is the tree over sealed blocks: subtrees come from the left.
export class Tree {
	#subtrees = []; // complete ones: {leaves, hash}

	// add adds a subtree that is complete: a leaf, or the hash over so many.
	async add(hash, leaves = 1) {
		for (; this.#subtrees.at(-1)?.leaves === leaves; leaves *= 2) hash = await node(this.#subtrees.pop().hash, hash);
		this.#subtrees.push({ leaves, hash });
	}

	async root() {
		const rest = [...this.#subtrees];
		let top = rest.pop().hash;
		while (rest.length > 0) top = await node(rest.pop().hash, top);
		return top;
	}
}

export function leaf(sealed) {
	return digest(Uint8Array.of(0), sealed);
}

export function node(left, right) {
	return digest(Uint8Array.of(1), left, right);
}

export async function digest(...parts) {
	return new Uint8Array(await crypto.subtle.digest("SHA-256", join(...parts)));
}

export function ascii(text) {
	return Uint8Array.from(text, (c) => c.charCodeAt(0));
}

// be writes a number, the most significant byte first.
export function be(bytes, number) {
	const view = new DataView(new ArrayBuffer(8));
	view.setBigUint64(0, BigInt(number));
	return new Uint8Array(view.buffer, 8 - bytes);
}
