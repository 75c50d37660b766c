// Reading a file of format version 2 block by block, each proven before it is used
// (format/SPEC.md, rules for readers of version 2). At most a block is held.

import { fromBase64, hex, Mismatch } from "./bytes.js";
import { aes, blockData, contentOf, hashBytes, ivBytes, keyBytes, keyCheck, leaf, node, partKeyData, runBytes, sealBytes, tagBytes, Tree, wrappedAt } from "./format.js";
import { Stream } from "./stream.js";

const tileHashes = 256; // of a whole tile of height 8
const mostManifest = 1 << 24;
const mostSize = 2 ** 53 - 1; // numbers of this language

// readBlocks yields the plaintext of each block. row has content of the ledger;
// answer has key, format and size. source fetches: manifest(), tile(path), and stream(from), the reader
// of a stream of the sealed bytes from there on.
export async function* readBlocks(row, answer, source) {
	const meta = parseFormat(answer.format);
	const manifest = await source.manifest();
	if (manifest.length > mostManifest) throw new Mismatch("Its manifest is longer than any.");
	if (await contentOf(meta, manifest) !== row.content) throw new Mismatch("The service describes another file than the one in the ledger.");
	const key = fromBase64(answer.key);
	if (key.length !== keyBytes || key.every((b) => b === 0)) throw new Mismatch("The service handed out a key that is none.");
	if (hex(await keyCheck(key)) !== hex(meta.check)) throw new Mismatch("The service handed out a key that is not the file's.");
	const fileKey = await aes(key, "decrypt");
	const count = Math.ceil(meta.size / meta.block);
	const runs = parseManifest(manifest, count);
	if (answer.size !== meta.size + sealBytes * count) throw new Mismatch("The stored ciphertext has another length than the ledger recorded.");
	const tree = await openTree(count, meta.root, source.tile);
	const stream = new Stream(source.stream);
	try {
		let i = 0;
		for (const run of runs) {
			const wrapped = manifest.subarray(run.at + wrappedAt, run.at + runBytes);
			let partKey;
			for (; i < run.end; i++) {
				const sealed = await stream.read(Math.min(meta.block, meta.size - i * meta.block) + sealBytes);
				if (!same(await leaf(sealed), await tree.hash(0, i))) throw new Mismatch("The stored ciphertext was changed: a block is not in the tree that the ledger recorded.");
				partKey ??= await unwrap(fileKey, wrapped);
				yield await open(partKey, sealed, blockData(i));
			}
		}
		await stream.end();
	} finally {
		stream.close();
	}
}

function parseFormat(format) {
	if (format === null || format.version !== 2) throw new Mismatch("The ledger recorded a file in blocks, and the service describes another format.");
	if (![undefined, null, ""].includes(format.compression)) throw new Mismatch("It was saved in a format this page does not know.");
	const { original_size: size, block_size: block } = format;
	if (!Number.isSafeInteger(size) || size < 1 || size > mostSize || ![16, 17, 18, 19, 20].some((n) => block === 2 ** n)) throw new Mismatch("Its description has sizes that no file has.");
	const [root, check] = [format.root, format.key_check].map((text) => {
		if (typeof text !== "string" || !/^[0-9a-f]{64}$/.test(text)) throw new Mismatch("Its description lacks a hash.");
		return Uint8Array.from(text.match(/../g), (digits) => parseInt(digits, 16));
	});
	return { size, block, root, check };
}

// parseManifest returns where each run is in the manifest, and which block comes after it.
function parseManifest(manifest, count) {
	const view = new DataView(manifest.buffer, manifest.byteOffset, manifest.length);
	const runs = [];
	let end = 0;
	for (let at = 0; at + runBytes <= manifest.length; at += runBytes) {
		const [first, blocks] = [Number(view.getBigUint64(at + 16)), Number(view.getBigUint64(at + 24))];
		if (first !== end || blocks < 1 || blocks > count - end) throw new Mismatch("Its manifest does not fit its size.");
		end += blocks;
		runs.push({ at, end });
	}
	if (end !== count || manifest.length !== runs.length * runBytes) throw new Mismatch("Its manifest does not fit its size.");
	return runs;
}

// openTree proves the partial tiles of all levels: together they make up the root. The tree that it
// returns proves a whole tile by the level above, and holds one of each level.
async function openTree(count, root, fetchTile) {
	const counts = []; // hashes of each level
	for (let n = count; n > 0; n = Math.floor(n / tileHashes)) counts.push(n);
	const last = [], whole = [];
	const tree = new Tree();
	for (let level = counts.length - 1; level >= 0; level--) {
		const width = counts[level] % tileHashes;
		if (width === 0) continue;
		last[level] = await readTile(fetchTile, level, Math.floor(counts[level] / tileHashes), width);
		for (const hash of last[level]) await tree.add(hash, tileHashes ** level);
	}
	if (!same(await tree.root(), root)) throw new Mismatch("The service shows a tree of blocks that is not the one in the ledger.");
	const hash = async (level, index) => {
		const number = Math.floor(index / tileHashes);
		if (number === Math.floor(counts[level] / tileHashes)) return last[level][index % tileHashes];
		if (whole[level]?.number !== number) {
			const above = await hash(level + 1, number);
			const hashes = await readTile(fetchTile, level, number, tileHashes);
			let row = hashes;
			while (row.length > 1) row = await Promise.all(Array.from({ length: row.length / 2 }, (_, i) => node(row[2 * i], row[2 * i + 1])));
			if (!same(row[0], above)) throw new Mismatch("The service shows a tree of blocks that is not the one in the ledger.");
			whole[level] = { number, hashes };
		}
		return whole[level].hashes[index % tileHashes];
	};
	return { hash };
}

async function readTile(fetchTile, level, number, width) {
	let digits = String(number % 1000).padStart(3, "0");
	for (let n = Math.floor(number / 1000); n > 0; n = Math.floor(n / 1000)) digits = `x${String(n % 1000).padStart(3, "0")}/${digits}`;
	const raw = await fetchTile(`tile/8/${level}/${digits}${width < tileHashes ? `.p/${width}` : ""}`);
	if (raw.length !== width * hashBytes) throw new Mismatch("The service shows a tree of blocks of another size.");
	return Array.from({ length: width }, (_, i) => raw.subarray(i * hashBytes, (i + 1) * hashBytes));
}

async function unwrap(fileKey, wrapped) {
	const key = await open(fileKey, wrapped, partKeyData);
	if (key.every((b) => b === 0)) throw new Mismatch("A part of it has a key that is none.");
	return aes(key, "decrypt");
}

async function open(key, sealed, additionalData) {
	try {
		const how = { name: "AES-GCM", iv: sealed.subarray(0, ivBytes), tagLength: 8 * tagBytes, additionalData };
		return new Uint8Array(await crypto.subtle.decrypt(how, key, sealed.subarray(ivBytes)));
	} catch {
		throw new Mismatch("The stored ciphertext was changed: its authentication tag does not fit.");
	}
}

function same(a, b) {
	return a.every((byte, i) => byte === b[i]);
}
