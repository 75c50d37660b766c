// What can be done with several files and folders at once.

import { call, get } from "./api.js";
import { ask, busy, h } from "./dom.js";
import { download } from "./download.js";
import { repeated } from "./group.js";
import { askMove, askRename } from "./move.js";
import { plural, price, times } from "./text.js";
import { isFree } from "./verify.js";

const mostBelow = 1000; // files that one removal finds in folders

// selectionBar is shown while rows of a table are selected: element, and show, which is told the rows.
export function selectionBar(g, session, folder, again, clear) {
	let rows = [];
	const slot = h("div");
	const count = h("span", { class: "name" });
	const save = h("button", { type: "button", class: "small" }, "Download");
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
		change("Remove", () => removeAll(g, session, rows, (text) => slot.replaceChildren(h("p", { class: "hint" }, text))))];
	save.addEventListener("click", () => busy(save, slot, () => downloadAll(g, session, rows.filter((row) => !row.isFolder))));
	const element = h("div", { class: "selection", role: "group", "aria-label": "Selected", hidden: true }, count, h("span", { class: "badges" },
		save, others, h("button", { type: "button", class: "small quiet", onclick: clear }, "Clear")), slot);
	const show = (selected) => {
		rows = selected;
		element.hidden = rows.length === 0;
		count.textContent = `${rows.length} selected`;
		rename.hidden = !mayWrite || rows.length !== 1;
		save.hidden = rows.every((row) => row.isFolder);
	};
	return { element, show };
}

async function downloadAll(g, session, rows) {
	const paid = rows.filter((row) => !isFree(row.file.ipfs_hash));
	const cost = times(session.fees.retrieve, paid.length);
	const isSure = rows.length === 1 || price(cost) === "free" || await ask({
		title: `Download ${plural(rows.length, "file")}?`, yes: `Download for ${price(cost)}`,
		body: [h("p", null, "Each is decrypted here and compared with the ledger before it is saved."), h("p", { class: "hint" }, "Folders are not downloaded: svcfs get does that.")],
	});
	if (isSure) for (const row of rows) await download(g, session, row.file, row.button, row.slot);
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
		if (files.length + folders.length > mostBelow) throw new Error(`More than ${mostBelow} files are in there; nothing was removed. Use: svcfs rm -r`);
		for (const f of page.folders) await below(group, f.folder, files, folders, step);
		({ after } = page);
		if (!after) return;
	}
}
