// Verifying a file: fetch key and ciphertext, decrypt here, inflate if the
// uploader compressed, and compare SHA-256 with the hash in the ledger
// (format/SPEC.md, rules for readers).

import { download, post, ServiceError } from "./api.js";

const ivBytes = 12;
const tagBytes = 16;
const keyBytes = 32;
// A file is held whole, twice while it is decrypted.
const mostBytes = 1 << 29;
const claimLife = 55 * 60 * 1000; // the service's is an hour

const claims = new Map(); // reference → {id, paid: ms, or 0}

// isFree reports whether this page paid for the file a moment ago.
export function isFree(ref) {
	const claim = claims.get(ref);
	return claim !== undefined && claim.paid > 0 && Date.now() - claim.paid < claimLife;
}

// claimOf is the same for each try, so that a lost answer is not paid twice.
function claimOf(ref) {
	let claim = claims.get(ref);
	if (!claim || (claim.paid > 0 && !isFree(ref))) {
		claim = { id: crypto.randomUUID(), paid: 0 };
		claims.set(ref, claim);
	}
	return claim;
}

class Mismatch extends Error {}

// verify resolves to {identical, why, content, filename}; it throws when the file
// could not be fetched.
export async function verify(group, file, maxFileBytes, step) {
	const most = Math.min(mostBytes, maxFileBytes);
	if ((file.original_size ?? 0) > most) {
		throw new Error("This file is too large to verify in a browser; nothing was charged. Use: svcfs get");
	}
	try {
		const sealed = await fetchSealed(group, file, most, step);
		step("Decrypting…");
		const plain = await open(sealed);
		const content = await inflate(plain, sealed.format, most);
		step("Comparing…");
		const sum = hex(new Uint8Array(await crypto.subtle.digest("SHA-256", content)));
		if (sum !== file.file_hash) throw new Mismatch("It decrypts, but its SHA-256 is not the one in the ledger.");
		return { identical: true, content, filename: file.shown.split("/").pop() };
	} catch (error) {
		if (error instanceof Mismatch) return { identical: false, why: error.message };
		if (error instanceof ServiceError && error.code === "BLOB_CORRUPT") return { identical: false, why: error.message };
		throw error;
	}
}

async function fetchSealed(group, file, most, step) {
	step("Fetching…");
	const claim = claimOf(file.ipfs_hash);
	const answer = await post("retrieve", { group_id: group, ipfs_hash: file.ipfs_hash, claim_id: claim.id });
	claim.paid ||= Date.now();
	if (answer.size > most + ivBytes + tagBytes) throw new Error("This file is too large to verify in a browser. Use: svcfs get");
	const blob = answer.inline !== undefined ? fromBase64(answer.inline) : await download("blob", { group, ref: file.ipfs_hash }, answer.size,
		(at) => step(`Fetching… ${Math.floor(100 * at / answer.size)} %`));
	return { key: fromBase64(answer.key), blob, format: answer.format };
}

async function open({ key, blob }) {
	if (key.length !== keyBytes || key.every((b) => b === 0)) throw new Mismatch("The service handed out a key that is none.");
	if (blob.length < ivBytes + tagBytes) throw new Mismatch("The stored ciphertext is too short.");
	const imported = await crypto.subtle.importKey("raw", key, "AES-GCM", false, ["decrypt"]);
	key.fill(0);
	try {
		return await crypto.subtle.decrypt({ name: "AES-GCM", iv: blob.subarray(0, ivBytes), tagLength: 8 * tagBytes }, imported, blob.subarray(ivBytes));
	} catch {
		throw new Mismatch("The stored ciphertext was changed: its authentication tag does not fit.");
	}
}

// inflate undoes compression, in memory for exactly original_size bytes.
async function inflate(plain, format, most) {
	if (format === null || format.version === undefined || format.version === 0) return plain;
	if (format.version !== 1 || ![undefined, "", "deflate"].includes(format.compression)) {
		throw new Mismatch("It was saved in a format this page does not know.");
	}
	if (!format.compression) return plain;
	const size = format.original_size;
	if (!Number.isSafeInteger(size) || size < 0 || size > most) throw new Mismatch("It is compressed and its size is not recorded.");
	const out = new Uint8Array(size);
	let at = 0;
	try {
		const reader = new Blob([plain]).stream().pipeThrough(new DecompressionStream("deflate")).getReader();
		for (;;) {
			const { done, value } = await reader.read();
			if (done) break;
			if (at + value.length > size) {
				await reader.cancel();
				throw new Mismatch("It inflates to more bytes than were recorded.");
			}
			out.set(value, at);
			at += value.length;
		}
	} catch (error) {
		throw error instanceof Mismatch ? error : new Mismatch("Its compressed content is damaged.");
	}
	if (at !== size) throw new Mismatch("It inflates to fewer bytes than were recorded.");
	return out;
}

function fromBase64(text) {
	return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

function hex(bytes) {
	return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}
