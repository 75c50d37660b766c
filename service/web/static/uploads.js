// The files that are being saved, one after the other, beside whatever the page shows.

import { get, isUnknown } from "./api.js";
import { announce, ask, h, notice } from "./dom.js";
import { bytes, date, isLess, nsToMS, plural, plus, price, times, unfitPath, visible } from "./text.js";
import { fileSource, Upload } from "./upload.js";
import { isFree, readVersion } from "./verify.js";

const panel = document.getElementById("uploads");
const list = panel.querySelector("ul");
const namesAtOnce = 20; // of one question
const mostDropped = 1000; // files
const shownNames = 10;

const uncharged = "Cancelled. Nothing was saved or charged.";

const refusals = {
	HEAD_CHANGED: "Somebody saved this name meanwhile. Yours was not recorded, and no upload was charged. Look at theirs, then try again: yours becomes a newer version.",
	UNSUPPORTED: "This group keeps files in one piece, and the page sends such files up to 4 MB. Use: svcfs put",
};

const signedOut = new Error("signed out");

// A job saves what open resolves to, a source of size bytes, as the name, which the rows call label.
const queue = []; // jobs that wait
let working = null; // the job that is under way

// chooser is a button that lets choose files for a folder, others beside it, and where files and folders can be
// dropped: on the section, or on a folder in it.
export function chooser(g, folder, section, ...others) {
	const slot = h("div");
	const input = h("input", { type: "file", multiple: true, hidden: true });
	const button = h("button", { type: "button", class: "primary", onclick: () => input.click() }, "Upload files");
	const take = async (into, files) => {
		button.disabled = true;
		slot.replaceChildren();
		try {
			await offer(g.id, into, await files);
		} catch (error) {
			slot.replaceChildren(notice("bad", error.message));
		}
		button.disabled = false;
	};
	input.addEventListener("change", () => {
		const files = Array.from(input.files, (file) => ({ file, name: file.name }));
		input.value = "";
		take(folder, files);
	});
	const over = (event) => {
		if (!event.dataTransfer?.types.includes("Files")) return undefined;
		event.preventDefault();
		section.querySelectorAll(".drop").forEach((e) => e.classList.remove("drop"));
		const row = event.target.closest?.("[data-folder]");
		section.classList.toggle("drop", !row && event.type !== "dragleave" && event.type !== "drop");
		row?.classList.toggle("drop", event.type !== "dragleave" && event.type !== "drop");
		return row;
	};
	for (const kind of ["dragenter", "dragover", "dragleave"]) section.addEventListener(kind, over);
	section.addEventListener("drop", (event) => {
		const row = over(event);
		if (!button.disabled && event.dataTransfer.types.includes("Files")) take(row ? `${row.dataset.folder}/` : folder, dropped(event.dataTransfer));
	});
	return h("div", null, h("p", { class: "row" }, button, others, input, h("span", { class: "hint can-drop" }, "or drop files and folders here")), slot);
}

// dropped resolves to the files that were dropped, and those in folders, each with its name from there on.
async function dropped(data) {
	const roots = Array.from(data.items, (item) => item.webkitGetAsEntry?.() ?? item.getAsFile()); // they are gone after this turn
	const files = [];
	const add = async (entry, folder) => {
		if (files.length >= mostDropped) throw new Error(`At most ${mostDropped} files are taken at once; nothing was sent. Use: svcfs put`);
		const name = folder + entry.name;
		if (entry instanceof File) files.push({ file: entry, name });
		else if (entry.isFile) files.push({ file: await new Promise((resolve, reject) => { entry.file(resolve, reject); }), name });
		else for (const inside of await entriesOf(entry)) await add(inside, `${name}/`);
	};
	for (const root of roots) if (root) await add(root, "");
	return files;
}

async function entriesOf(folder) {
	const reader = folder.createReader();
	for (const all = []; ;) {
		const some = await new Promise((resolve, reject) => { reader.readEntries(resolve, reject); });
		if (some.length === 0) return all;
		all.push(...some);
	}
}

// offer asks what the files would cost, and queues them.
async function offer(group, folder, files) {
	if (files.length === 0) return;
	const session = await get("session");
	const unfit = [], fit = [];
	for (const { file, name } of files) {
		const why = file.size > session.max_file_bytes ? `too large: at most ${bytes(session.max_file_bytes)}` : unfitPath(name);
		if (why) unfit.push([{ name }, why]);
		else fit.push({ group, name: folder + name, label: visible(name), size: file.size, open: () => fileSource(file), cancelled: uncharged });
	}
	for (let at = 0; at < fit.length; at += namesAtOnce) {
		const some = fit.slice(at, at + namesAtOnce);
		const { names } = await get("names", { group, name: some.map((f) => f.name) });
		names.forEach((n, i) => Object.assign(some[i], { head: n.head, isFolder: n.is_folder }));
	}
	const jobs = [];
	for (const job of fit) {
		if (job.isFolder) unfit.push([{ name: job.label }, "a folder has this name"]);
		else jobs.push(job);
	}
	if (await agreed(session, jobs, unfit)) add(jobs);
}

// agreed tells what will be saved, what not, and what it costs.
async function agreed(session, jobs, unfit) {
	const cost = times(session.fees.upload, jobs.length);
	const known = jobs.filter((job) => job.head !== "none");
	const names = (title, rows) => rows.length > 0 && [h("p", null, title), h("ul", null, rows.slice(0, shownNames).map((row) => h("li", null, row)),
		rows.length > shownNames && h("li", null, `and ${rows.length - shownNames} more`))];
	const body = [h("div", null,
		names("To be saved:", jobs.map((job) => `${job.label}, ${bytes(job.size)}`)),
		names("These are there already. What you upload becomes their newest version; the versions before stay, as long as the group keeps them:", known.map((job) => job.label)),
		names("These cannot be saved:", unfit.map(([file, why]) => `${visible(file.name)}: ${why}`)))];
	if (jobs.length === 0) {
		await ask({ title: "Nothing to upload", yes: "Understood", no: "", body });
		return false;
	}
	const costs = h("p", null, `It costs ${plural(jobs.length, "upload")}: ${price(cost)}. You have ${session.balance} tokens.`);
	if (isLess(session.balance, cost)) return tooDear([...body, costs]);
	const total = bytes(jobs.reduce((n, job) => n + job.size, 0));
	return ask({ title: `Upload ${plural(jobs.length, "file")}, ${total}?`, yes: cost === "0" ? "Upload, free" : `Upload for ${price(cost)}`, body: [...body, costs] });
}

async function tooDear(body) {
	await ask({ title: "Not enough tokens", yes: "Understood", no: "", body: [...body, h("p", null, "Nothing was sent. Ask the operator for tokens: svcd account fund NAME TOKENS.")] });
	return false;
}

// restore asks what it costs to save a version again, as the newest one, and queues it. newest is the
// row of the newest version: whether the file may be executed stays as it is.
export async function restore(group, f, newest, title) {
	const [session, { names: [{ head }] }] = await Promise.all([get("session"), get("names", { group, name: f.filename })]);
	const reading = isFree(f.ipfs_hash) ? "0" : session.fees.retrieve;
	const cost = plus(reading, session.fees.upload);
	const body = [
		h("p", null, `The content of ${date(nsToMS(f.timestamp))} becomes the newest version. No version is lost. It is decrypted, verified and encrypted again in this browser.`),
		h("p", null, `It costs one retrieval (${price(reading)}) and one upload (${price(session.fees.upload)}): ${price(cost)}. You have ${session.balance} tokens.`),
	];
	if (isLess(session.balance, cost)) return tooDear(body);
	if (!await ask({ title: `Restore this version of ${title}?`, yes: cost === "0" ? "Restore, free" : `Restore for ${price(cost)}`, body })) return false;
	const { xattrs } = f.attributes ? JSON.parse(f.attributes) : {};
	const { executable } = newest?.attributes ? JSON.parse(newest.attributes) : {};
	const open = async () => ({ ...await readVersion(group, f, session.max_file_bytes), type: f.content_type, attributes: { executable, xattrs } });
	add([{ group, name: f.filename, head, label: title, size: f.original_size ?? 0, open, cancelled: "Cancelled. Nothing was saved; what was fetched already is paid." }]);
	return true;
}

function add(jobs) {
	for (const job of jobs) {
		job.row = h("li");
		list.append(job.row);
		wait(job);
	}
	work();
}

function wait(job) {
	job.stop = new AbortController();
	queue.push(job);
	show(job, "Waits", cancelButton(job));
}

// show draws the row of a job.
function show(job, text, ...rest) {
	job.row.replaceChildren(h("span", { class: "name" }, job.label), h("span", { class: "meta" }, text), ...rest.filter((r) => r));
	panel.hidden = list.children.length === 0;
}

function cancelButton(job) {
	const cancel = () => {
		job.stop.abort();
		const at = queue.indexOf(job);
		if (at < 0) return; // it is under way and ends itself
		queue.splice(at, 1);
		cancelled(job);
	};
	return h("button", { type: "button", class: "small", onclick: cancel, "aria-label": `Cancel ${job.label}` }, "Cancel");
}

function dismissButton(job) {
	const dismiss = () => {
		drop(job);
		job.row.remove();
		panel.hidden = list.children.length === 0;
	};
	return h("button", { type: "button", class: "small", onclick: dismiss, "aria-label": `Dismiss ${job.label}` }, "Dismiss");
}

async function work() {
	if (working) return;
	while ((working = queue.shift())) await carryOut(working);
	window.dispatchEvent(new Event("uploaded"));
}

async function carryOut(job) {
	const progress = h("progress", { max: Math.max(job.size, 1), value: 0, "aria-label": `Progress of ${job.label}` });
	const text = h("span", { class: "meta" });
	const step = (sent) => {
		progress.value = sent;
		text.textContent = `${bytes(sent)} of ${bytes(job.size)}`;
	};
	show(job, "", text, progress, cancelButton(job));
	step(0);
	try {
		job.upload ??= new Upload(job, await job.open());
		const done = await job.upload.send(job.head, step, job.stop.signal);
		drop(job);
		show(job, `Saved, for ${price(done.fee)}`, dismissButton(job));
		announce(`${job.label} is saved`);
	} catch (error) {
		if (job.stop.signal.aborted && job.stop.signal.reason !== signedOut) cancelled(job);
		else if (job.stop.signal.aborted || error.status === 401) stop(job);
		else failed(job, error);
	}
}

function cancelled(job) {
	show(job, job.upload?.mayBeSaved ? "Cancelled. It may have been saved and charged: look at its versions." : job.cancelled, dismissButton(job));
	drop(job);
}

// failed keeps what was sent for the next try, unless that begins anew.
function failed(job, error) {
	const isUnsure = job.upload?.mayBeSaved;
	const how = isUnsure ? "May have been saved" : "Not saved";
	const why = [refusals[error.code] ?? error.message, isUnsure && "Try again: it is not saved or charged twice."].filter(Boolean).join(" ");
	show(job, error === signedOut ? `${how}: you were signed out` : how, error !== signedOut && notice("bad", why), h("span", { class: "badges" }, againButton(job), dismissButton(job)));
	if (!isUnsure && error !== signedOut && !isUnknown(error) && ![401, 402, 403, 429, 507].includes(error.status) && error.code !== "HEAD_CHANGED") drop(job);
}

// drop ends what was sent of a job: another try would begin anew.
function drop(job) {
	job.upload?.close();
	job.upload = undefined;
}

// againButton looks at the name anew, unless the upload may be saved: what is there now is what it follows.
function againButton(job) {
	const again = async (event) => {
		event.target.disabled = true;
		try {
			if (!job.upload?.mayBeSaved) {
				const { names: [now] } = await get("names", { group: job.group, name: job.name });
				job.head = now.head;
			}
			wait(job);
			work();
		} catch (error) {
			failed(job, error);
		}
	};
	return h("button", { type: "button", class: "small", onclick: again, "aria-label": `Try ${job.label} again` }, "Try again");
}

// stop is for the end of the session: what was not saved can be tried again in the next one. job is one that is not in
// the queue.
export function stop(job) {
	working?.stop.abort(signedOut);
	for (const j of [job, ...queue.splice(0)]) if (j) failed(j, signedOut);
}

// forget ends all of it: another account may sign in.
export function forget() {
	queue.splice(0).forEach((job) => job.stop.abort());
	working?.stop.abort();
	list.replaceChildren();
	panel.hidden = true;
}

window.addEventListener("beforeunload", (event) => { if (working && !working.stop.signal.aborted) event.preventDefault(); });
