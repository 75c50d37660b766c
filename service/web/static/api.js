// Calls to the service. The session is in a cookie no script can read; every
// change carries a header only this page may send.

export let account = ""; // that this tab shows; its requests are refused when another one is signed in

// actAs sets the account of the requests that follow.
export function actAs(id) {
	account = id;
}

// ours are the headers of a request.
function ours() {
	return { "X-Svc-Page": "1", ...(account && { "X-Svc-Account": account }) };
}

const pauses = [1, 2, 4, 8, 16, ...new Array(9).fill(30)]; // s before a further try, five minutes

export class ServiceError extends Error {
	constructor(status, code, message) {
		super(message);
		this.status = status;
		this.code = code;
	}
}

// get asks; a value of params may be a list.
export async function get(path, params) {
	const pairs = Object.entries(params ?? {}).flatMap(([name, value]) => [value].flat().map((v) => [name, v]));
	const query = params ? `?${new URLSearchParams(pairs)}` : "";
	return read(await send(`api/${path}${query}`, { headers: ours() }));
}

// who asks who is signed in, whatever account is shown.
export async function who() {
	return read(await send("api/session", {}));
}

export async function post(path, body) {
	try {
		return await read(await send(`api/${path}`, {
			method: "POST", body: JSON.stringify(body), headers: { ...ours(), "Content-Type": "application/json" },
		}));
	} catch (error) {
		if (isUnknown(error)) error.message += " If it was a change, it may have been made: look before you repeat it.";
		throw error;
	}
}

// call runs an operation as programs do below /tools/. It resolves to the whole answer, whose result is that
// of the operation.
export function call(op, request) {
	return post(`tools/${op}`, request);
}

// isUnknown reports whether a change that failed so may have been made.
export function isUnknown(error) {
	return [0, 408, 502, 503, 504].includes(error.status);
}

// patiently does work that may be repeated again after a lost connection, and when the service asks to wait. signal, if
// there is one, ends it.
export async function patiently(work, signal) {
	for (let tries = 0; ; tries++) {
		signal?.throwIfAborted();
		try {
			return await work();
		} catch (error) {
			signal?.throwIfAborted();
			if ((!isUnknown(error) && error.status !== 429) || tries === pauses.length) throw error;
			await pause(1000 * pauses[tries], signal);
		}
	}
}

// pause ends after some ms, with signal, and when the connection is back.
function pause(ms, signal) {
	const over = new AbortController();
	return new Promise((resolve) => {
		setTimeout(resolve, ms);
		signal?.addEventListener("abort", resolve, { signal: over.signal });
		window.addEventListener("online", resolve, { signal: over.signal });
	}).finally(() => over.abort());
}

// put sends bytes; step is told how many went. signal ends it. It resolves to the answer.
export function put(path, body, step, signal) {
	return new Promise((resolve, reject) => {
		const request = new XMLHttpRequest(); // fetch does not tell how much was sent
		request.open("PUT", `api/${path}`);
		for (const [name, value] of Object.entries({ ...ours(), "Content-Type": "application/octet-stream" })) request.setRequestHeader(name, value);
		const abort = () => request.abort();
		signal.addEventListener("abort", abort);
		request.upload.addEventListener("progress", (event) => step(event.loaded));
		request.addEventListener("loadend", () => {
			signal.removeEventListener("abort", abort);
			if (signal.aborted) reject(signal.reason);
			else if (request.status === 0) reject(unreachable());
			else read(new Response(request.responseText, { status: request.status })).then(resolve, reject);
		});
		request.send(body);
	});
}

// fetchBytes fetches a short answer from such an address.
export function fetchBytes(address) {
	return patiently(async () => new Uint8Array(await (await content(address)).arrayBuffer().catch(() => { throw unreachable(); })));
}

// stream resolves to the reader of a long answer, from the byte from on.
export async function stream(address, from) {
	const response = await content(address, from > 0 && { Range: `bytes=${from}-` });
	if (from > 0 && response.status !== 206) throw new ServiceError(response.status, "", "The service sent the file from its beginning.");
	return response.body.getReader();
}

async function content(address, headers) {
	const response = await send(`api${address}`, { headers: { ...ours(), ...headers } });
	if (!response.ok) await read(response);
	return response;
}

async function send(url, options) {
	try {
		return await fetch(url, { credentials: "same-origin", redirect: "error", cache: "no-store", ...options });
	} catch {
		throw unreachable();
	}
}

function unreachable() {
	return new ServiceError(0, "UNREACHABLE", "The service cannot be reached. Check the connection and try again.");
}

async function read(response) {
	let body;
	try {
		body = await response.json();
	} catch {
		throw new ServiceError(response.status, "", `The service answered ${response.status} and no text. Try again; if it stays, tell the operator.`);
	}
	if (response.ok) return body;
	if (response.status === 401) window.dispatchEvent(new Event("signed-out"));
	if (body.code === "OTHER_ACCOUNT") window.dispatchEvent(new Event("other-account"));
	throw new ServiceError(response.status, body.code, sentence(body.error) + advice(body.code));
}

function sentence(text) {
	const first = text.charAt(0).toUpperCase() + text.slice(1);
	return /[.!?]$/.test(first) ? first : `${first}.`;
}

function advice(code) {
	switch (code) {
	case "INSUFFICIENT": return " Ask the operator for tokens: svcd account fund NAME TOKENS.";
	case "GROUP_EXISTS": return " Choose another name.";
	case "STORAGE_FULL": return " Tell the operator.";
	case "HEAD_CHANGED": return " Look at what was saved, and try again.";
	case "READ_ONLY": return " Ask the group's owner to make you a writer.";
	case "UNAUTHORIZED": return " Ask the group's owner.";
	default: return "";
	}
}
