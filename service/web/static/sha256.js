// SHA-256 (FIPS 180-4) of content that comes piece by piece: WebCrypto wants all of it
// at once.

const blockBytes = 64;

// The first 32 bits of the fractional parts of the square roots of the first 8 primes, and of
// the cube roots of the first 64.
const [start, rounds] = (() => {
	const roots = [[], []];
	for (let n = 2; roots[1].length < 64; n++) {
		let prime = true;
		for (let d = 2; d * d <= n && prime; d++) prime = n % d !== 0;
		if (!prime) continue;
		if (roots[0].length < 8) roots[0].push(fraction(n, 2n));
		roots[1].push(fraction(n, 3n));
	}
	return [Int32Array.from(roots[0]), Int32Array.from(roots[1])];
})();

// fraction returns 32 bits behind the point of the square or cube root of n, exactly.
function fraction(n, power) {
	const want = BigInt(n) << (32n * power);
	let low = 0n, high = 1n << 40n;
	while (high - low > 1n) {
		const middle = (low + high) / 2n;
		if (middle ** power <= want) low = middle;
		else high = middle;
	}
	return Number(BigInt.asIntN(32, low));
}

export class SHA256 {
	#state = Int32Array.from(start);
	#words = new Int32Array(64);
	#rest = new Uint8Array(blockBytes);
	#held = 0; // bytes in #rest
	#size = 0;

	update(bytes) {
		this.#size += bytes.length;
		let at = 0;
		if (this.#held > 0) {
			at = Math.min(blockBytes - this.#held, bytes.length);
			this.#rest.set(bytes.subarray(0, at), this.#held);
			this.#held += at;
			if (this.#held < blockBytes) return;
			this.#compress(this.#rest, 0);
			this.#held = 0;
		}
		for (; at + blockBytes <= bytes.length; at += blockBytes) this.#compress(bytes, at);
		this.#rest.set(bytes.subarray(at));
		this.#held = bytes.length - at;
	}

	// digest ends the content.
	digest() {
		const size = this.#size;
		const padding = new Uint8Array((this.#held < 56 ? 56 : 120) - this.#held + 8);
		padding[0] = 0x80;
		new DataView(padding.buffer).setBigUint64(padding.length - 8, BigInt(size) * 8n);
		this.update(padding);
		const out = new DataView(new ArrayBuffer(32));
		this.#state.forEach((word, i) => out.setUint32(4 * i, word));
		return new Uint8Array(out.buffer);
	}

	#compress(bytes, at) {
		const w = this.#words;
		for (let i = 0; i < 16; i++, at += 4) w[i] = (bytes[at] << 24) | (bytes[at + 1] << 16) | (bytes[at + 2] << 8) | bytes[at + 3];
		for (let i = 16; i < 64; i++) {
			const x = w[i - 15], y = w[i - 2];
			w[i] = w[i - 16] + w[i - 7] + (((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3)) + (((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10));
		}
		const s = this.#state;
		let a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
		for (let i = 0; i < 64; i++) {
			const t = (h + (((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7))) + ((e & f) ^ (~e & g)) + rounds[i] + w[i]) | 0;
			const u = ((((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10))) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
			h = g; g = f; f = e; e = (d + t) | 0; d = c; c = b; b = a; a = (t + u) | 0;
		}
		s[0] += a; s[1] += b; s[2] += c; s[3] += d; s[4] += e; s[5] += f; s[6] += g; s[7] += h;
	}
}
