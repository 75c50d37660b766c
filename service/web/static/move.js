// Other names for files and folders.

import { call, get } from "./api.js";
import { askForm, field, h } from "./dom.js";
import { plural, price, unfit, unfitPath, visible } from "./text.js";

// A row of the table of files is moved under the name that is recorded for it.
function pathOf(row) {
	const path = row.isFolder ? row.folder.folder : row.file.filename;
	if (!path) throw new Error(`${row.name} has no name in the ledger. Use: svcfs mv`);
	return path;
}

function baseOf(path) {
	return path.slice(path.lastIndexOf("/") + 1);
}

// askRename resolves to what was done, undefined if that is nothing.
export function askRename(g, session, folder, row) {
	return askForm({
		title: `Rename ${row.name}`, yes: paid("Rename", session),
		fields: [field("New name", "All versions get it. Programs that use the old one do not find it any more.", h("input", { name: "rename", required: true, value: baseOf(pathOf(row)), autocomplete: "off", autofocus: true }))],
		submit: async (data) => {
			const name = data.get("rename");
			if (unfit(name)) throw new Error(`It cannot be called so: ${unfit(name)}.`);
			await rename(g, row, folder + name);
			return `Renamed to ${visible(name)}`;
		},
	});
}

export function askMove(g, session, folder, rows) {
	return askForm({
		title: `Move ${rows.length === 1 ? rows[0].name : plural(rows.length, "entry", "entries")}`, yes: paid("Move", session),
		fields: [field("Into which folder", "Its path in the group, such as papers/2026. Empty is the top.", h("input", { name: "into", value: folder.slice(0, -1), autocomplete: "off", autofocus: true }))],
		submit: (data) => move(g, rows, data.get("into").replace(/^\/+|\/+$/g, "")),
	});
}

function paid(text, session) {
	const cost = price(session.fees.rename_file);
	return cost === "free" ? text : `${text}, ${cost} for each version`;
}

// move gives rows names in the folder into, "" = the top.
export async function move(g, rows, into) {
	const why = into !== "" && unfitPath(into);
	if (why) throw new Error(`There is no such folder: ${why}.`);
	const folder = into === "" ? "" : `${into}/`;
	for (const row of rows) if (row.isFolder && folder.startsWith(`${pathOf(row)}/`)) throw new Error(`${row.name} cannot be moved into itself.`);
	for (const row of rows) await rename(g, row, folder + baseOf(pathOf(row)));
	return `Moved ${plural(rows.length, "entry", "entries")}`;
}

// rename changes a name that no other has. Of a file it begins with the oldest version, so that the newest stays that.
async function rename(g, row, to) {
	const from = pathOf(row);
	if (from === to) return;
	const { names: [{ head, is_folder: isFolder }] } = await get("names", { group: g.id, name: to });
	if (head !== "none" || isFolder) throw new Error(`There is something called ${visible(to)} already.`);
	if (row.isFolder) {
		const { records } = await get("ledger", { group: g.id });
		await call("rename_folder", { group_id: g.id, folder: from, new_folder: to, seq: records[0].seq });
		return;
	}
	const versions = [];
	for (let page = { more: true }; page.more;) {
		page = await get("file", { group: g.id, name: from, ...(versions.length > 0 && { before: versions.at(-1).seq }) });
		versions.push(...page.files);
	}
	for (const f of versions.reverse()) if (!f.deleted) await call("rename_file", { group_id: g.id, ipfs_hash: f.ipfs_hash, filename: to });
}
