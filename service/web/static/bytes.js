// Bytes and their texts, and what a verification finds.

// Mismatch is a finding about the file: it is not what its uploader saved.
export class Mismatch extends Error {}

export function fromBase64(text) {
	return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

export function hex(bytes) {
	return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

export function join(...arrays) {
	const all = new Uint8Array(arrays.reduce((n, a) => n + a.length, 0));
	let at = 0;
	for (const a of arrays) {
		all.set(a, at);
		at += a.length;
	}
	return all;
}
