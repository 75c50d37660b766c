// The trash of a group.

import { call, get } from "./api.js";
import { busy, cell, empty, h, icon } from "./dom.js";
import { drawnAnew, groupOf, head, repeated } from "./group.js";
import { bytes, date, nsToMS, person, price, shellWord, visible } from "./text.js";

export async function trashView(draw, session, id) {
	const [g, trash] = await Promise.all([groupOf(id), get("trash", { group: id })]);
	document.title = `Trash of ${visible(id)} · svcfs`;
	const again = drawnAnew(() => trashView(draw, session, id));
	draw(...head(g, session, "trash", again), trash.files.length > 0 ? trashSection(g, session, trash, again)
		: empty("The trash is empty", "What is removed can be brought back from here for a while."));
}

// trashSection lists removed files by name; those who may bring one back can.
function trashSection(g, session, { files, more }, again) {
	const names = new Map();
	for (const f of files) {
		const versions = names.get(f.shown) ?? [];
		names.set(f.shown, [...versions, f]);
	}
	const slot = h("div");
	const head = ["Name", "Size", "Removed", "Kept until", "Bring back"].map((t) => h("th", { scope: "col" }, t));
	const rows = [...names].map(([name, versions]) => h("tr", null,
		h("th", { scope: "row", class: "file-name" }, icon("file"), name),
		cell("Size", bytes(versions[0].original_size)),
		cell("Removed", `${date(nsToMS(versions[0].deleted.deleted_at))}, by ${person(versions[0].deleted.deleted_by, session)}`),
		cell("Kept until", keptUntil(versions[0])),
		cell("Bring back", restoreButton(g, session, name, versions, slot, again))));
	return h("section", { "aria-label": "Trash" },
		h("table", { class: "files" }, h("thead", null, h("tr", null, head)), h("tbody", null, rows)), slot,
		h("p", { class: "hint" }, `Bringing a name back: ${price(session.fees.restore_file)}.`),
		more && h("p", { class: "hint" }, "Only the newest removed files are shown; all of them:", h("pre", null, `svcfs ls --trash ${shellWord(g.id)}`)));
}

function keptUntil(f) {
	return f.deleted.until ? date(nsToMS(f.deleted.until)) : "until the owner destroys it";
}

export function restoreButton(g, session, name, versions, slot, again) {
	const may = (f) => g.role === "owner" || g.role === "writer" && (f.user_id === session.account_id || g.trash.who === "writers");
	if (!versions.some(may)) return h("span", { class: "hint" }, "its uploader and the owner can");
	const { filename = "", ipfs_hash } = versions.find(may);
	const seq = Math.max(...versions.map((f) => f.changed_seq));
	const button = h("button", { type: "button", class: "small", "aria-label": `Bring back ${name}` }, "Bring back");
	button.addEventListener("click", async () => {
		if (await busy(button, slot, () => repeated("restore_file", { group_id: g.id, filename, ipfs_hash: filename ? "" : ipfs_hash, seq }))) await again(`${name} is back`);
	});
	return button;
}
