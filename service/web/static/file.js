// One file: its versions, and what can be done with them.

import { call, get } from "./api.js";
import { announce, ask, badge, busy, cell, empty, h, held, mono, notice } from "./dom.js";
import { damage, downloadButton, stepIn } from "./download.js";
import { crumbs, drawnAnew, groupOf, repeated } from "./group.js";
import { place } from "./place.js";
import { previewSection } from "./preview.js";
import { attributes, bytes, changedAt, date, meantFor, nameOf, nsToMS, person, plural, price, shellWord, visible } from "./text.js";
import { restoreButton } from "./trash.js";
import { restore } from "./uploads.js";
import { isFree, verify } from "./verify.js";

// fileView shows the versions of a name, the newest first.
export async function fileView(draw, session, id, name) {
	const folder = name.slice(0, name.lastIndexOf("/") + 1);
	const [g, page, { path }] = await Promise.all([groupOf(id), get("file", { group: id, name }), get("folder", { group: id, folder })]);
	const newest = page.files.find((f) => !f.deleted);
	const title = page.files.length > 0 ? nameOf(page.files[0]) : visible(name);
	document.title = `${title} · svcfs`;
	const slot = h("div");
	const mayWrite = ["owner", "writer"].includes(g.role);
	const again = drawnAnew(() => fileView(draw, session, id, name));
	const back = newest === undefined && page.files.length > 0 && restoreButton(g, session, title, page.files, slot, again);
	const row = (f) => {
		const saved = f.timestamp ? date(nsToMS(f.timestamp)) : "an unknown time";
		return h("tr", { class: f.deleted ? "gone" : undefined },
			h("th", { scope: "row" }, saved, f === newest && [" ", badge("newest", "accent-line")], f.deleted && [" ", badge("in the trash")], told(f, saved)),
			cell("Size", bytes(f.original_size)),
			cell("Saved by", h("span", { title: f.user_id }, person(f.user_id, session))),
			cell("Content", f.deleted ? h("span", { class: "hint" }, `removed by ${person(f.deleted.deleted_by, session)}`) : content(g, session, f, f === newest ? title : `${title} of ${saved}`)),
			mayWrite && cell("Restore", restoreVersion(g, f, newest, title, slot)));
	};
	draw(crumbs(g, folder, path), h("div", { class: "title" }, h("h1", { tabindex: "-1" }, title), mayWrite && newest && removeButton(g, session, page.files, title, slot), back), slot,
		newest && conflict(g, newest),
		previewSection(g, session, newest),
		h("section", { "aria-labelledby": "versions-title" }, h("h2", { id: "versions-title" }, "Versions"),
			page.files.length === 0 ? empty("No such file", "It was removed for good, or never there. The ledger tells.")
				: listing(["Saved", "Size", "Saved by", "Content", ...(mayWrite ? ["Restore"] : [])], "versions", page.files.map(row), page.more && page.files.at(-1).seq,
					async (before) => {
						const next = await get("file", { group: id, name, before });
						return [next.files.map(row), next.more && next.files.at(-1).seq];
					})));
}

// conflict says what a save is that met one of somebody else, and leads to that.
function conflict(g, newest) {
	const other = meantFor(newest);
	return other !== undefined && notice("warn", h("p", null, "This save met one of somebody else, so it has a name of its own. The other save is ",
		h("a", { href: place("file", g.id, other) }, visible(other.split("/").at(-1))), ". Look at both, then remove the one that nobody needs, or rename this one. To merge them: ",
		h("code", null, `svcfs conflicts ${shellWord(g.id)}`)));
}

// restoreVersion offers to save an older version again. A link would be of this account then, and
// could lead out of the group.
function restoreVersion(g, f, newest, title, slot) {
	if (f === newest || f.deleted) return h("span", { class: "hint" }, f === newest ? "is the newest" : "bring the name back first");
	if (f.attributes && JSON.parse(f.attributes).target !== undefined) return h("span", { class: "hint" }, "a link: make it anew with ln -s");
	const button = h("button", { type: "button", class: "small", "aria-label": `Restore the version of ${date(nsToMS(f.timestamp))}` }, "Restore");
	button.addEventListener("click", () => busy(button, slot, () => restore(g.id, f, newest, title)));
	return button;
}

// removeButton puts a name into the trash.
function removeButton(g, session, versions, title, slot) {
	const button = h("button", { type: "button" }, "Remove");
	button.addEventListener("click", async () => {
		const cost = price(session.fees.remove_file);
		const sure = await ask({
			title: `Remove ${title}?`, yes: `Yes, remove, ${cost}`, danger: true,
			body: [h("p", null, `All its versions go to the trash. They can be brought back for ${plural(g.trash.days, "day")}; then they are destroyed.`)],
		});
		const request = { group_id: g.id, filename: versions[0].filename, seq: Math.max(...versions.map((f) => f.changed_seq)) };
		if (sure && await busy(button, slot, () => repeated("remove_file", request))) {
			announce(`${title} is in the trash`);
			location.hash = place("groups", g.id, request.filename.includes("/") ? request.filename.slice(0, request.filename.lastIndexOf("/")) : undefined);
		}
	});
	return button;
}

// told is what else is recorded of a version.
function told(f, saved) {
	const changed = changedAt(f) && date(changedAt(f));
	const texts = [attributes(f.attributes), changed && changed !== saved && `changed ${changed}`].filter(Boolean);
	return texts.length > 0 && h("p", { class: "hint" }, texts.join(", "));
}

// content offers what a version holds.
function content(g, session, f, name) {
	if (!g.role) return h("span", { class: "hint" }, "members only");
	const [button, slot] = downloadButton(g, session, f, name);
	const check = h("button", { type: "button", class: "small quiet", "aria-label": `Verify ${name}` }, "Verify");
	check.addEventListener("click", async () => {
		if (!await confirmVerify(session, f, name)) return;
		await held(check, async () => {
			try {
				if (await verify(g.id, f, session.max_file_bytes, stepIn(slot))) slot.replaceChildren(badge("byte-identical", "accent"));
			} catch (error) {
				slot.replaceChildren(...damage(error) ?? [notice("bad", error.message)]);
			}
		});
	});
	return [h("span", { class: "badges" }, button, check), slot];
}

function confirmVerify(session, f, name) {
	const cost = isFree(f.ipfs_hash) ? "free" : price(session.fees.retrieve);
	return ask({
		title: `Verify ${name}?`, yes: cost === "free" ? "Verify, free" : `Verify for ${cost}`,
		body: [
			h("p", null, f.content
				? `This fetches the file (${bytes(f.original_size)}) block by block, decrypts each block here and compares it with the tree in the ledger. Nothing is kept.`
				: `This fetches the file (${bytes(f.original_size)}) into this browser, decrypts it here and compares it with the hash in the ledger. Nothing is kept.`),
			h("p", null, cost === "free" ? "It was paid a moment ago and costs nothing now." : `It costs one retrieval: ${cost}.`),
			f.content && h("p", { class: "hint" }, "Tree in the ledger: ", mono(f.content, 24)),
			h("p", { class: "hint" }, "SHA-256 in the ledger: ", f.file_hash ? mono(f.file_hash, 24) : "none, because the uploader sent only what changed"),
		],
	});
}

// listing is a table with a button for more rows: ask resolves to those from there on, and to
// where the next ones begin.
function listing(head, kind, rows, from, ask) {
	const body = h("tbody", null, rows);
	const slot = h("div");
	const more = h("button", { type: "button", hidden: !from }, "Show more");
	more.addEventListener("click", async () => {
		const next = await busy(more, slot, () => ask(from));
		if (!next) return;
		body.append(...next[0]);
		table.hidden = body.children.length === 0;
		from = next[1];
		more.hidden = !from;
		body.children[body.children.length - next[0].length]?.querySelector("a, button")?.focus();
	});
	const table = h("table", { class: kind, hidden: rows.length === 0 }, h("thead", null, h("tr", null, head.map((t) => h("th", { scope: "col" }, t)))), body);
	return [table, slot, h("p", null, more)];
}
