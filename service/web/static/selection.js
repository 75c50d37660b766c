// What can be done with several files and folders at once.

import { call, get } from "./api.js";
import { ask, busy, h } from "./dom.js";
import { download } from "./download.js";
import { repeated } from "./group.js";
import { askMove, askRename } from "./move.js";
import { plural, price, shellWord, times } from "./text.js";
import { isFree, saveInto } from "./verify.js";

const mostBelow = 1000; // files that are found in folders at once

// selectionBar is shown while rows of a table are selected: element, and show, which is told the rows.
export function selectionBar(g, session, folder, again, clear) {
	let rows = [];
	const slot = h("div");
	const count = h("span", { class: "name" });
	const save = h("button", { type: "button", class: "small" }, "Download");
	const step = (text) => slot.replaceChildren(h("p", { class: "hint" }, text));
	const mayWrite = ["owner", "writer"].includes(g.role);
	const change = (text, work) => {
		const button = h("button", { type: "button", class: "small", hidden: !mayWrite }, text);
		button.addEventListener("click", async () => {
			const done = await busy(button, slot, work);
			if (done) await again(done);
		});
		return button;
	};
	const rename = change("Rename", () => askRename(g, session, folder, rows[0]));
	const others = [rename, change("Move", () => askMove(g, session, folder, rows)),
		change("Remove", () => removeAll(g, session, rows, step))];
	save.addEventListener("click", () => busy(save, slot, () => downloadAll(g, session, folder, rows, step)));
	const element = h("div", { class: "selection", role: "group", "aria-label": "Selected", hidden: true }, count, h("span", { class: "badges" },
		save, others, h("button", { type: "button", class: "small quiet", onclick: clear }, "Clear")), slot);
	const show = (selected) => {
		rows = selected;
		element.hidden = rows.length === 0;
		count.textContent = `${rows.length} selected`;
		rename.hidden = !mayWrite || rows.length !== 1;
	};
	return { element, show };
}

// downloadAll saves files as the browser saves them, one after the other; where folders are among them, all goes into
// a folder that the user chooses. Hidden files of others in these folders are left out: shells, git and others obey such
// files.
async function downloadAll(g, session, folder, rows, step) {
	const picked = rows.filter((row) => row.isFolder);
	const canWrite = typeof window.showDirectoryPicker === "function";
	if (picked.length > 0 && !canWrite) throw new Error(`This browser saves no folders; nothing was charged. Use: svcfs get ${shellWord(g.id)} ${shellWord(picked[0].folder.path)}`);
	const all = rows.filter((row) => !row.isFolder).map((row) => row.file), named = all.length;
	for (const row of picked) await below(g.id, row.folder.folder, all, [], step);
	const path = (f) => f.shown.split("/").slice(folder.split("/").length - 1);
	const files = all.filter((f, i) => i < named || f.user_id === session.account_id || !path(f).some((part) => part.startsWith(".")));
	const left = files.length < all.length && `Left out: ${plural(all.length - files.length, "hidden file")} of other accounts. Use: svcfs get ${[g.id, ...picked.map((row) => row.folder.path)].map(shellWord).join(" ")} --hidden -o DIR`;
	const cost = times(session.fees.retrieve, files.filter((f) => !isFree(f.ipfs_hash)).length);
	const isSure = rows.length === 1 && picked.length === 0 || await ask({
		title: `Download ${plural(files.length, "file")}?`, yes: price(cost) === "free" ? "Download, free" : `Download for ${price(cost)}`,
		body: [h("p", null, "Each is decrypted here and compared with the ledger before it is saved."), left && h("p", null, left), picked.length > 0 && h("p", null, "Next, choose a folder of this machine for them.")].filter(Boolean),
	});
	if (!isSure) return;
	if (picked.length === 0) {
		for (const row of rows) await download(g, session, row.file, row.button, row.slot);
		return;
	}
	const top = await window.showDirectoryPicker({ mode: "readwrite" });
	for (const [i, f] of files.entries()) {
		step(`Saving… ${i} of ${files.length}`);
		await saveInto(top, path(f), g.id, f, session.max_file_bytes);
	}
	step([`${plural(files.length, "file")} verified and saved`, left].filter(Boolean).join(". "));
}

// removeAll puts what is selected into the trash. It resolves to what it did, undefined if that is nothing.
async function removeAll(g, session, rows, step) {
	const files = rows.filter((row) => !row.isFolder).map((row) => row.file);
	const folders = [];
	for (const { folder } of rows.filter((row) => row.isFolder)) await below(g.id, folder.folder, files, folders, step);
	const cost = times(session.fees.remove_file, files.length);
	const what = [files.length > 0 && plural(files.length, "file"), folders.length > 0 && plural(folders.length, "folder")].filter(Boolean).join(" and ");
	const isSure = await ask({
		title: `Remove ${what}?`, yes: `Yes, remove, ${price(cost)}`, danger: true,
		body: [h("p", null, files.length > 0 ? `All versions go to the trash. They can be brought back for ${plural(g.trash.days, "day")}; then they are destroyed.` : "No file is in there.")],
	});
	if (!isSure) return undefined;
	for (const [i, f] of files.entries()) {
		step(`Removing… ${i} of ${files.length}`);
		const versions = f.filename ? (await get("file", { group: g.id, name: f.filename })).files : [f];
		const seq = Math.max(...versions.map((v) => v.changed_seq));
		await repeated("remove_file", { group_id: g.id, ...(f.filename ? { filename: f.filename } : { ipfs_hash: f.ipfs_hash }), seq });
	}
	for (const folder of folders.reverse()) await call("remove_folder", { group_id: g.id, folder }).catch(unlessThere);
	return `Removed ${what}`;
}

// unlessThere passes over folders that were there by the files in them alone.
function unlessThere(error) {
	if (error.status !== 404) throw error;
}

// below finds what lies in a folder, and in those in it: each folder before what is in it.
async function below(group, folder, files, folders, step) {
	folders.push(folder);
	step(`Looking through ${plural(folders.length, "folder")}…`);
	for (let after = ""; ;) {
		const page = await get("folder", { group, folder: `${folder}/`, after });
		files.push(...page.files);
		if (files.length + folders.length > mostBelow) throw new Error(`More than ${mostBelow} files are in there; nothing was done. Use svcfs.`);
		for (const f of page.folders) await below(group, f.folder, files, folders, step);
		({ after } = page);
		if (!after) return;
	}
}
