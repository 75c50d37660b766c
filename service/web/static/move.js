// Other names for files and folders.

import { call, get, isUnknown, patiently } from "./api.js";
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

// rename changes a name that no other has. A row that has its new name already is passed over, so that a move of several
// may be repeated.
async function rename(g, row, to) {
	const from = pathOf(row);
	if (from === to) return;
	const { names: [{ head, is_folder: isFolder }] } = await get("names", { group: g.id, name: to });
	if (row.isFolder || head !== row.file.ipfs_hash) {
		if ((head !== "none" && to !== row.half) || isFolder) throw new Error(`There is something called ${visible(to)} already.`);
		await (row.isFolder ? renameFolder(g, from, to) : renameVersions(g, row, from, to));
	}
	if (row.isFolder) row.folder.folder = to;
	else row.file.filename = to;
}

async function renameFolder(g, from, to) {
	const { records } = await get("ledger", { group: g.id });
	await patiently(() => call("rename_folder", { group_id: g.id, folder: from, new_folder: to, seq: records[0].seq }));
}

// renameVersions begins with the oldest version, so that the newest stays that. After a failure all have the old name
// again, or the row says which name some of them have: the next try goes on with that.
async function renameVersions(g, row, from, to) {
	const versions = [];
	for (let page = { more: true }; page.more;) {
		page = await get("file", { group: g.id, name: from, ...(versions.length > 0 && { before: versions.at(-1).seq }) });
		versions.push(...page.files);
	}
	const living = versions.reverse().filter((f) => !f.deleted);
	const named = (f, filename) => patiently(() => call("rename_file", { group_id: g.id, ipfs_hash: f.ipfs_hash, filename }));
	for (const [i, f] of living.entries()) {
		try {
			await named(f, to);
		} catch (error) {
			const renamed = living.slice(0, isUnknown(error) ? i + 1 : i);
			if (living.length === 1 || renamed.length === 0) throw error;
			row.half = to;
			try {
				for (const back of renamed) await named(back, from);
			} catch {
				throw new Error(`${error.message} Of ${living.length} versions the oldest ${renamed.length} may have the new name now. Give all the same name again.`);
			}
			row.half = undefined;
			throw error;
		}
	}
}
