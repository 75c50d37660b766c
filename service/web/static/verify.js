// Verifying a file: fetch key and ciphertext, decrypt here, inflate if the
// uploader compressed, and compare SHA-256 with the hash in the ledger
// (format/SPEC.md, rules for readers). A large file is read block by block and
// never held.

import { call, fetchBytes, patiently, stream } from "./api.js";
import { readBlocks } from "./blocks.js";
import { download } from "./stream.js";
import { SHA256 } from "./sha256.js";
import { fromBase64, hex, Mismatch } from "./bytes.js";
import { aes, ivBytes, keyBytes, sealBytes, tagBytes } from "./format.js";
import { nameOf } from "./text.js";

// A file is held whole, twice while it is decrypted.
const mostBytes = 1 << 29;
const claimLife = 55 * 60 * 1000; // the service's is an hour

const claims = new Map(); // reference → {id, paid: ms, or 0}

// isFree reports whether this page paid for the file a moment ago.
export function isFree(ref) {
	const claim = claims.get(ref);
	return claim !== undefined && claim.paid > 0 && Date.now() - claim.paid < claimLife;
}

// forgetClaims is for the end of a session: another account paid for nothing.
export function forgetClaims() { claims.clear(); }

// claimOf is the same for each try, so that a lost answer is not paid twice.
function claimOf(ref) {
	let claim = claims.get(ref);
	if (!claim || (claim.paid > 0 && !isFree(ref))) {
		claim = { id: crypto.randomUUID(), paid: 0 };
		claims.set(ref, claim);
	}
	return claim;
}

// verify reads a file to its end and compares it with the ledger; nothing is kept. It throws a Mismatch when the
// file is another. step shows how far it is, and returns false to stop; then verify resolves to false.
export async function verify(group, file, maxFileBytes, step) {
	if (file.content) return provenContent(group, file, (percent) => step(`Verifying… ${percent} %`), () => {});
	await wholeContent(group, file, maxFileBytes, step);
	return true;
}

// fitsMemory reports whether a file may be held by a browser.
export function fitsMemory(file) {
	return (file.original_size ?? 0) <= mostBytes;
}

// verifiedBlob resolves to the content of a file that fits memory, verified, or to null if step stopped it.
export async function verifiedBlob(group, file, maxFileBytes, step) {
	const parts = [];
	if (!file.content) parts.push(await wholeContent(group, file, maxFileBytes, step));
	else if (!await provenContent(group, file, (percent) => step(`Fetching… ${percent} %`), (plain) => { parts.push(new Blob([plain])); })) return null;
	return new Blob(parts, { type: "application/octet-stream" });
}

// provenContent hands over the blocks of a file, and at their end knows the whole. It resolves to false if step
// stopped it.
async function provenContent(group, file, step, use) {
	const sum = new SHA256();
	const take = async (plain) => {
		sum.update(plain);
		await use(plain);
	};
	if (!await eachBlock(group, file, step, take)) return false;
	if (file.file_hash && hex(sum.digest()) !== file.file_hash) throw new Mismatch("It decrypts, but its SHA-256 is not the one in the ledger: its uploader recorded another.");
	return true;
}

// wholeContent resolves to the content of a file in one piece, verified.
async function wholeContent(group, file, maxFileBytes, step) {
	const most = Math.min(mostBytes, maxFileBytes);
	if ((file.original_size ?? 0) > most) {
		throw new Error("This file is too large for a browser; nothing was charged. Use: svcfs get");
	}
	const sealed = await fetchSealed(group, file, most, step);
	step("Decrypting…");
	const plain = await open(sealed);
	const content = await inflate(plain, sealed.format, most);
	step("Comparing…");
	const sum = hex(new Uint8Array(await crypto.subtle.digest("SHA-256", content)));
	if (sum !== file.file_hash) throw new Mismatch("It decrypts, but its SHA-256 is not the one in the ledger.");
	return content;
}

// readVersion opens a file to be read from its beginning to its end: read(n) resolves to its next n
// bytes, which are proven, and with the last ones the whole is. close ends it early. The file is paid at once,
// or with the first bytes.
export async function readVersion(group, file, maxFileBytes) {
	if (!file.content) {
		const content = await wholeContent(group, file, maxFileBytes, () => {});
		let at = 0;
		return { size: content.length, read: async (n) => content.subarray(at, at += n), close: () => {} };
	}
	const blocks = provenBlocks(group, file);
	let rest = new Uint8Array(0), left = file.original_size;
	const read = async (n) => {
		const out = new Uint8Array(n);
		for (let at = 0; at < n;) {
			if (rest.length === 0) {
				const { done, value } = await blocks.next();
				if (done) throw new Mismatch("It is shorter than the ledger says.");
				rest = value;
			}
			const part = rest.subarray(0, n - at);
			out.set(part, at);
			at += part.length;
			rest = rest.subarray(part.length);
		}
		left -= n;
		if (left === 0 && (rest.length > 0 || !(await blocks.next()).done)) throw new Mismatch("It is longer than the ledger says.");
		return out;
	};
	return { size: file.original_size, read, close: () => blocks.return() };
}

// canSave reports whether this browser writes a file while it comes.
export function canSave() {
	return typeof window.showSaveFilePicker === "function";
}

// save verifies a file in blocks and writes each block that was proven. The file
// appears at the end, or not at all. It resolves to whether there is one.
export async function save(group, file, step) {
	let handle;
	try {
		handle = await window.showSaveFilePicker({ suggestedName: nameOf(file) });
	} catch (error) {
		if (error.name === "AbortError") return false; // the user chose none
		throw error;
	}
	const out = await handle.createWritable();
	try {
		if (await provenContent(group, file, (percent) => step(`Saving… ${percent} %`), (plain) => out.write(plain))) {
			await out.close();
			return true;
		}
	} catch (error) {
		await out.abort();
		throw error;
	}
	await out.abort();
	return false;
}

// saveInto writes a file, verified, into a folder of this machine, under a path of components. What is there already
// stays.
export async function saveInto(folder, path, group, file, maxFileBytes) {
	const name = path.at(-1);
	for (const part of path.slice(0, -1)) folder = await folder.getDirectoryHandle(part, { create: true });
	if (await folder.getFileHandle(name).then(() => true, (error) => error.name !== "NotFoundError")) throw new Error(`${path.join("/")} is there already on this machine, and stays as it is.`);
	const blob = (!file.content || fitsMemory(file)) && await verifiedBlob(group, file, maxFileBytes, () => {});
	const out = await (await folder.getFileHandle(name, { create: true })).createWritable();
	try {
		if (blob) await out.write(blob);
		else await provenContent(group, file, () => {}, (plain) => out.write(plain));
		await out.close();
	} catch (error) {
		await out.abort();
		await folder.removeEntry(name);
		throw error;
	}
}

// eachBlock hands over the blocks of a file, proven. It resolves to false if step stopped it.
async function eachBlock(group, file, step, use) {
	step(0);
	let at = 0;
	for await (const plain of provenBlocks(group, file)) {
		await use(plain);
		at += plain.length;
		if (step(Math.floor(100 * at / file.original_size)) === false) return false;
	}
	return true;
}

// provenBlocks pays for a file in blocks and yields each, proven.
async function* provenBlocks(group, file) {
	const answer = await retrieve(group, file, [1, 2]);
	const source = {
		manifest: async () => answer.manifest !== undefined ? fromBase64(answer.manifest) : fetchBytes(answer.manifest_url),
		tile: async (path) => path in (answer.tiles ?? {}) ? fromBase64(answer.tiles[path]) : fetchBytes(`${answer.tiles_url}/${path}`),
		stream: (from) => stream(answer.data_url, from),
	};
	yield* readBlocks(file, { ...answer, size: answer.data_size }, source);
}

// retrieve pays for a file, once for each try within an hour.
async function retrieve(group, file, formats) {
	const claim = claimOf(file.ipfs_hash);
	const { result } = await patiently(() => call("prepare_retrieve", { group_id: group, ipfs_hash: file.ipfs_hash, claim_id: claim.id, formats, transfer: "raw" }));
	claim.paid ||= Date.now();
	return result;
}

async function fetchSealed(group, file, most, step) {
	step("Fetching…");
	const answer = await retrieve(group, file);
	const { data_size: size } = answer;
	if (size > most + sealBytes) throw new Error("This file is too large to verify in a browser. Use: svcfs get");
	const blob = answer.encrypted_b64 !== undefined ? fromBase64(answer.encrypted_b64)
		: await download(answer.data_url, size, (at) => step(`Fetching… ${Math.floor(100 * at / size)} %`));
	return { key: fromBase64(answer.key), blob, format: answer.format };
}

async function open({ key, blob }) {
	if (key.length !== keyBytes || key.every((b) => b === 0)) throw new Mismatch("The service handed out a key that is none.");
	if (blob.length < sealBytes) throw new Mismatch("The stored ciphertext is too short.");
	const imported = await aes(key, "decrypt");
	try {
		return new Uint8Array(await crypto.subtle.decrypt({ name: "AES-GCM", iv: blob.subarray(0, ivBytes), tagLength: 8 * tagBytes }, imported, blob.subarray(ivBytes)));
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
