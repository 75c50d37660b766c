// Long answers of the service.

import { patiently, ServiceError, stream } from "./api.js";
import { Mismatch } from "./bytes.js";

const pieceBytes = 1 << 20; // after which a download tells how far it is

// Stream reads in order. A connection that breaks is made again from there.
export class Stream {
	#open;
	#reader = null;
	#rest = new Uint8Array(0);
	#at = 0; // bytes that were read

	constructor(open) { this.#open = open; }

	async read(count) {
		const out = new Uint8Array(count);
		for (let at = 0; at < count;) {
			if (this.#rest.length === 0) await patiently(() => this.#fill());
			const part = this.#rest.subarray(0, count - at);
			out.set(part, at);
			at += part.length;
			this.#at += part.length;
			this.#rest = this.#rest.subarray(part.length);
		}
		return out;
	}

	// fill waits for more bytes.
	async #fill() {
		try {
			this.#reader ??= await this.#open(this.#at);
			const { done, value } = await this.#reader.read();
			if (!done) {
				this.#rest = value;
				return;
			}
		} catch (error) {
			if (error.status > 0) throw error; // the service refused
		}
		this.#reader = null;
		throw new ServiceError(0, "UNREACHABLE", "The connection broke, and again at each further try. Try again: it is not charged twice within an hour.");
	}

	async end() {
		if (this.#rest.length > 0 || this.#reader && !(await this.#reader.read()).done) throw new Mismatch("The stored ciphertext is longer than the ledger recorded.");
	}

	close() { this.#reader?.cancel().catch(() => {}); }
}

// download fetches size bytes from an address of prepare_retrieve; step is told how many came.
export async function download(address, size, step) {
	const bytes = new Uint8Array(size);
	const answer = new Stream((from) => stream(address, from));
	try {
		for (let at = 0; at < size;) {
			const piece = await answer.read(Math.min(pieceBytes, size - at));
			bytes.set(piece, at);
			at += piece.length;
			step(at);
		}
		await answer.end();
	} finally {
		answer.close();
	}
	return bytes;
}
