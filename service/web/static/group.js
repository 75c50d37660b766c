// One group: a folder of it at a time, its members, and what its owner may set.

import { call, get } from "./api.js";
import { announce, ask, askForm, busy, cell, copyButton, field, h, icon, mono, refocus, roleField } from "./dom.js";
import { filesSection } from "./files.js";
import { badges, openJoin } from "./groups.js";
import { place } from "./place.js";
import { bytes, date, keepText, nsToMS, plural, price, shellWord, visible } from "./text.js";

// groupView shows a folder of a group: "" for its top, where members and settings are too, else
// its recorded path with the slash at the end.
export async function groupView(draw, session, id, folder) {
	const [g, page, trash] = await Promise.all([groupOf(id), get("folder", { group: id, folder }), folder === "" && get("trash", { group: id })]);
	document.title = `${page.path.at(-1) ?? visible(id)} · svcfs`;
	const again = async (text) => {
		announce(text);
		await groupView(draw, session, id, folder);
		refocus();
	};
	if (folder !== "") {
		draw(crumbs(g, folder, page.path.slice(0, -1)), h("h1", { tabindex: "-1" }, page.path.at(-1)), filesSection(g, session, folder, page, again));
		return;
	}
	draw(
		crumbs(g),
		h("div", { class: "title" }, h("h1", { tabindex: "-1" }, visible(id)), h("span", { class: "badges" }, badges(g))),
		pendingCard(g, again),
		offerCard(g, session, again),
		filesSection(g, session, folder, page, again),
		trash.files.length > 0 && trashSection(g, session, trash, again),
		membersSection(g, session, again),
		g.role === "owner" && settings(g, session, again),
		about(g));
}

// groupOf asks about a group, and what only its members may know.
export async function groupOf(id) {
	const g = await get("group", { group: id });
	const [pending, trash] = g.role ? await Promise.all([call("get_pending_destruction", { group_id: id }), call("get_trash", { group_id: id })]) : [];
	return { ...g, pending: pending?.result ?? { retention_days: null }, trash: trash?.result ?? {} };
}

// crumbs lead to the groups, the group, and the folders above: path is how those are shown.
export function crumbs(g, folder, path) {
	const above = folder === undefined ? [] : [["groups", g.id, visible(g.id)]];
	const parts = (folder ?? "").split("/");
	path?.forEach((shown, i) => above.push(["groups", g.id, shown, parts.slice(0, i + 1).join("/")]));
	return h("nav", { class: "crumb", "aria-label": "Folders above" }, h("a", { href: "#/groups" }, "Groups"),
		above.map(([view, group, shown, inside]) => [h("span", { "aria-hidden": "true" }, " / "), h("a", { href: place(view, group, inside) }, shown)]));
}

// repeated does a change of a name that may have more versions than one request changes.
export async function repeated(op, request) {
	for (;;) {
		const { result } = await call(op, request);
		if (!result.more) return result;
	}
}

// pendingCard tells what waits to be destroyed; the owner takes it back.
function pendingCard(g, again) {
	const { retention_days: days, retention_at: at, files, files_at: first, versions_keep: next, versions_at: from, versions = 0, group_at: end } = g.pending;
	if (days === null && !files && !next && !versions && !end) return false;
	const slot = h("div");
	const keep = h("button", { type: "button", class: "primary" }, "Keep the files");
	keep.addEventListener("click", async () => {
		if (await busy(keep, slot, () => call("keep_files", { group_id: g.id }))) await again("The files are kept");
	});
	return h("section", { class: "card", "aria-labelledby": "pending-title" }, h("h2", { id: "pending-title" }, "Files wait to be destroyed"),
		end && h("p", null, `The group is deleted with all its files at ${date(nsToMS(end))}.`),
		days !== null && h("p", null, `From ${date(nsToMS(at))} on files are kept for ${plural(days, "day")} only.`),
		files > 0 && h("p", null, `${plural(files, "file")} will be deleted, the first at ${date(nsToMS(first))}.`),
		next && h("p", null, `From ${date(nsToMS(from))} on the group keeps ${keepText(next)}.`),
		versions > 0 && h("p", null, `${plural(versions, "older version")} will go because newer ones replaced them.`),
		g.role === "owner" ? h("div", { class: "actions" }, keep) : h("p", { class: "hint" }, `The owner can take this back: ${g.owner}`), slot);
}

// offerCard tells to whom the group is offered: that member accepts, and the owner takes it back.
function offerCard(g, session, again) {
	const { offered_to: to, offer_from: from, offer_until: until } = g.pending;
	if (!to) return false;
	const slot = h("div");
	const change = (text, kind, op, request, done) => {
		const button = h("button", { type: "button", class: kind }, text);
		button.addEventListener("click", async () => {
			if (await busy(button, slot, () => call(op, { group_id: g.id, ...request }))) await again(done);
		});
		return h("div", { class: "actions" }, button);
	};
	const isMine = to === session.account_id;
	return h("section", { class: "card", "aria-labelledby": "offer-title" }, h("h2", { id: "offer-title" }, "The group is offered to another owner"),
		h("p", null, `${isMine ? "You" : to} may become the owner from ${date(nsToMS(from))} until ${date(nsToMS(until))}.`),
		isMine && change("Become the owner", "primary", "accept_group", {}, "You own the group now"),
		g.role === "owner" && change("Take the offer back", "", "offer_group", { member_id: "" }, "The offer is taken back"), slot);
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
		cell("Removed", `${date(nsToMS(versions[0].deleted.deleted_at))}, by ${versions[0].deleted.deleted_by}`),
		cell("Kept until", keptUntil(versions[0])),
		cell("Bring back", restoreButton(g, session, name, versions, slot, again))));
	return h("section", { "aria-labelledby": "trash-title" }, h("h2", { id: "trash-title" }, "Trash"),
		h("p", { class: "hint" }, `Bringing a name back: ${price(session.fees.restore_file)}.`),
		h("table", { class: "files" }, h("thead", null, h("tr", null, head)), h("tbody", null, rows)), slot,
		more && h("p", { class: "hint" }, "Only the newest removed files are shown; all of them:", h("pre", null, `svcfs ls --trash ${shellWord(g.id)}`)));
}

function keptUntil(f) {
	return f.deleted.until ? date(nsToMS(f.deleted.until)) : "the owner decides";
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

function membersSection(g, session, again) {
	const slot = h("div");
	const rows = g.member_ids.map((id, i) => h("li", null, h("div", { class: "item" },
		h("span", { class: "name" }, mono(id)),
		h("span", { class: "meta" }, g.member_roles[i], id === session.account_id && " (you)", `: ${mayWhat(g.member_roles[i], g.trash)}`),
		id === session.account_id && g.role !== "owner" && h("span", { class: "badges" }, leaveButton(g, slot)),
		g.role === "owner" && id !== g.owner && h("span", { class: "badges" },
			roleButton(g, session, id, g.member_roles[i], slot, again), offerButton(g, session, id, slot, again), revokeButton(g, session, id, slot, again)))));
	return h("section", { "aria-labelledby": "members-title" },
		h("h2", { id: "members-title" }, `Members (${g.member_ids.length})`),
		h("ul", { class: "list" }, rows), slot,
		g.role === "owner" && addForm(g, session, again));
}

// mayWhat tells what a role allows.
function mayWhat(role, trash) {
	switch (role) {
	case "owner": return "reads, saves, removes and brings back everything, adds and revokes members, sets what the group keeps";
	case "writer": return `reads and saves files, and removes ${trash.who === "writers" ? "any" : "its own"}`;
	default: return "reads files, and changes nothing";
	}
}

// roleButton gives a member the other role, which can be taken back.
function roleButton(g, session, id, has, slot, again) {
	const role = has === "reader" ? "writer" : "reader";
	const button = h("button", { type: "button", class: "small", "aria-label": `Make ${id} a ${role}` }, `Make ${role}, ${price(session.fees.set_member_role)}`);
	button.addEventListener("click", async () => {
		if (await busy(button, slot, () => call("add_group_member", { group_id: g.id, member_id: id, role }))) await again(`${id} is now a ${role}`);
	});
	return button;
}

// offerButton offers the group to a member.
function offerButton(g, session, id, slot, again) {
	const button = h("button", { type: "button", class: "small", "aria-label": `Make ${id} the owner` }, "Make owner");
	button.addEventListener("click", async () => {
		const cost = price(session.fees.offer_group);
		const sure = await ask({
			title: `Offer the group to ${id}?`, yes: `Yes, offer, ${cost}`, danger: true,
			body: [h("p", null, "Who accepts within 7 days owns the group: adds and revokes members, and may delete every file. You stay a member, a writer."),
				h("p", { class: "hint" }, "You can take the offer back until it is accepted.")],
		});
		if (sure && await busy(button, slot, () => call("offer_group", { group_id: g.id, member_id: id }))) await again(`Offered to ${id}`);
	});
	return button;
}

function leaveButton(g, slot) {
	const button = h("button", { type: "button", class: "small" }, "Leave group");
	button.addEventListener("click", async () => {
		const sure = await ask({
			title: `Leave ${visible(g.id)}?`, yes: "Yes, leave", danger: true,
			body: [h("p", null, "You get no key of this group any more. Only its owner can add you again."),
				h("p", { class: "hint" }, "Files that you uploaded stay in the group.")],
		});
		if (sure && await busy(button, slot, () => call("leave_group", { group_id: g.id }))) leaveFor(`You left ${visible(g.id)}`);
	});
	return button;
}

// leaveFor goes to the groups, because this one is not shown any more.
function leaveFor(text) {
	announce(text);
	location.hash = "#/groups";
}

function revokeButton(g, session, id, slot, again) {
	const button = h("button", { type: "button", class: "small", "aria-label": `Revoke ${id}` }, `Revoke for ${price(session.fees.revoke_group_member)}`);
	button.addEventListener("click", async () => {
		const sure = await ask({
			title: `Revoke ${id}?`, yes: `Yes, revoke for ${price(session.fees.revoke_group_member)}`, danger: true,
			body: [h("p", null, "From now on this member gets no key of this group any more, and the group's key changes."),
				h("p", { class: "hint" }, "What was already read cannot be taken back.")],
		});
		if (sure && await busy(button, slot, () => call("revoke_group_member", { group_id: g.id, member_id: id }))) await again(`Revoked ${id}`);
	});
	return button;
}

function addForm(g, session, again) {
	const slot = h("div");
	const input = h("input", { name: "member", required: true, autocomplete: "off", autocapitalize: "none", spellcheck: "false" });
	const button = h("button", { type: "submit" }, `Add for ${price(session.fees.add_group_member)}`);
	// A writer is what a new member is anyway: saying so would raise one who is a reader.
	const form = h("form", { class: "inline" }, field("Add a member", "Their account id; a bare name means an account of this service.", input),
		roleField("Role", "role"), button);
	form.addEventListener("submit", async (event) => {
		event.preventDefault();
		const role = form.elements.role.value === "reader" ? "reader" : "";
		const added = await busy(button, slot, () => call("add_group_member", { group_id: g.id, member_id: input.value, role }));
		if (!added) return;
		if (!added.exists) await warnNobody(g, input.value);
		await again(`Added ${input.value}`);
	});
	return h("div", null, form, slot);
}

// warnNobody tells that a member has no account here: mistyped, or not there yet.
function warnNobody(g, id) {
	return ask({
		title: `Nobody is called ${id} here yet`, yes: "Understood", no: "",
		body: [h("p", null, `Check the name: it is a member of ${visible(g.id)} now, and whoever gets this account reads its files.`),
			h("p", { class: "hint" }, "If the name is wrong, revoke it.")],
	});
}

function settings(g, session, again) {
	const costs = { "Join window": "open_hackathon_join", "closing it": "close_hackathon_join", retention: "set_group_retention", trash: "set_group_trash", versions: "set_group_versions" };
	const dear = Object.entries(costs).filter(([, action]) => price(session.fees[action]) !== "free").map(([name, action]) => `${name} ${price(session.fees[action])}`);
	return h("section", { "aria-labelledby": "settings-title" }, h("h2", { id: "settings-title" }, "Settings"),
		h("p", { class: "hint" }, dear.length === 0 ? "Changing them is free." : `A change costs: ${dear.join(", ")}. Others are free.`),
		h("div", { class: "grid" }, g.joinable && windowCard(g, again), retentionCard(g, again), trashCard(g, again), versionsCard(g, again), deleteCard(g, session, again)));
}

function windowCard(g, again) {
	const slot = h("div");
	const open = h("button", { type: "button", onclick: () => openWindow(g, again) }, g.window ? "Open a new window" : "Open join window");
	const close = h("button", { type: "button" }, "Close join window");
	close.addEventListener("click", async () => {
		if (await busy(close, slot, () => call("close_hackathon_join", { group_id: g.id }))) await again("Join window closed");
	});
	const used = g.window && (g.window.max_uses === null ? plural(g.window.uses, "person has", "people have") : `${g.window.uses} of ${g.window.max_uses} have`);
	return h("div", { class: "card" }, h("h3", null, "Join window"),
		h("p", null, g.window ? `Open until ${date(g.window.expires_ms)}; ${used} joined.` : "Closed: nobody can join by themselves."),
		slot, h("div", { class: "actions" }, open, g.window && close));
}

async function openWindow(g, again) {
	const done = await askForm({
		title: `Open ${visible(g.id)} to join`, yes: "Open join window",
		fields: [
			field("For how many hours", "", h("input", { name: "hours", type: "number", min: 1, max: 8784, value: 24, required: true, autofocus: true })),
			field("Most people who may join", "Empty: no limit", h("input", { name: "uses", type: "number", min: 1 })),
			roleField("They become", "join_role", g.join_role),
		],
		submit: (data) => openJoin(g.id, data),
	});
	if (done) await again("Join window opened");
}

function retentionCard(g, again) {
	const change = async () => {
		const done = await askForm({
			title: "Retention", yes: "Set retention",
			fields: [field("Keep files for how many days", "Empty: for ever. Older files lose their key and cannot be read any more.",
				h("input", { name: "days", type: "number", min: 0, value: g.retention_days ?? "", autofocus: true }))],
			submit: (data) => call("set_group_retention", { group_id: g.id, retention_days: data.get("days") === "" ? null : Number(data.get("days")) }),
		});
		if (done) await again("Retention set");
	};
	return h("div", { class: "card" }, h("h3", null, "Retention"),
		h("p", null, g.retention_days === null ? "Files are kept for ever." : `Files are kept for ${plural(g.retention_days, "day")}.`),
		h("div", { class: "actions" }, h("button", { type: "button", onclick: change }, "Change retention")));
}

function trashCard(g, again) {
	const change = async () => {
		const who = h("select", { name: "who" }, h("option", { value: "uploader" }, "the uploader and the owner"), h("option", { value: "writers" }, "every writer"));
		who.value = g.trash.who;
		const done = await askForm({
			title: "Trash", yes: "Set trash",
			fields: [
				field("Keep removed files for how many days", "For what is removed from now on. Then its key is destroyed.",
					h("input", { name: "days", type: "number", min: 1, max: 3650, value: g.trash.days, required: true, autofocus: true })),
				field("Files are removed by", "What a writer removes of others stays until the owner decides.", who),
			],
			submit: (data) => call("set_group_trash", { group_id: g.id, days: Number(data.get("days")), who: data.get("who") }),
		});
		if (done) await again("Trash set");
	};
	return h("div", { class: "card" }, h("h3", null, "Trash"),
		h("p", null, `Removed files can be brought back for ${plural(g.trash.days, "day")}. ${plural(g.trash.files, "version is", "versions are")} there, ${bytes(g.trash.bytes)}.`),
		h("div", { class: "actions" }, h("button", { type: "button", onclick: change }, "Change trash")));
}

function deleteCard(g, session, again) {
	const slot = h("div");
	const button = h("button", { type: "button", class: "danger" }, "Delete group");
	button.addEventListener("click", async () => {
		const sure = await ask({
			title: `Delete ${visible(g.id)}?`, yes: `Yes, delete, ${price(session.fees.delete_group)}`, danger: true,
			body: [h("p", null, `${plural(g.members, "member loses", "members lose")} the group, and the keys of all its files are destroyed. Nobody ever gets its name again.`),
				h("p", { class: "hint" }, "Where the service delays destruction, you can take it back until then.")],
		});
		const done = sure && await busy(button, slot, async () => {
			const { result: text } = await call("delete_group", { group_id: g.id });
			const left = await call("auth_status", { group_id: g.id }).catch(() => ({ result: {} })); // it is deleted
			return { text, waits: left.result.role !== undefined };
		});
		if (done?.waits) await again(done.text);
		else if (done) leaveFor(done.text);
	});
	return h("div", { class: "card" }, h("h3", null, "Delete group"), h("p", null, "With all its files, for every member."), slot, h("div", { class: "actions" }, button));
}

function versionsCard(g, again) {
	const slot = h("div");
	const button = h("button", { type: "button" }, "Change versions");
	button.addEventListener("click", async () => {
		const [number] = g.keep.match(/^\d+/) ?? [""];
		const kind = h("select", { name: "kind" }, h("option", { value: "all" }, "all versions"), h("option", { value: "" }, "the newest ones of each name"),
			h("option", { value: "d" }, "older ones for some days"));
		kind.value = g.keep === "all" ? "all" : g.keep.endsWith("d") ? "d" : "";
		const asked = await askForm({
			title: "Versions", yes: "See what would go",
			fields: [
				field("Keep", "Only versions that svcfs saved ever go. The reference of others may be in use.", kind),
				field("How many versions, or days", "", h("input", { name: "number", type: "number", min: 1, max: 10000, value: number, autofocus: true })),
			],
			submit: async (data) => {
				const keep = data.get("kind") === "all" ? "all" : `${data.get("number")}${data.get("kind")}`;
				const { result: would } = await call("try_group_versions", { group_id: g.id, keep });
				return { keep, would };
			},
		});
		if (!asked || !await agreed(asked)) return;
		if (await busy(button, slot, () => call("set_group_versions", { group_id: g.id, keep: asked.keep }))) await again("Versions set");
	});
	return h("div", { class: "card" }, h("h3", null, "Versions"),
		h("p", null, `Of each file the group keeps ${keepText(g.keep)}.`), slot, h("div", { class: "actions" }, button));
}

// agreed shows what a setting would destroy, and asks.
function agreed({ keep, would }) {
	if (keep === "all") return true;
	const goes = would.versions === 0 ? "No version that is there now would go."
		: `${plural(would.versions, "version")} of ${plural(would.files, "file")} would go for good, ${bytes(would.bytes)}:`;
	return ask({
		title: `Keep ${keepText(keep)}?`, yes: "Set versions", danger: would.versions > 0,
		body: [h("p", null, goes),
			h("ul", null, would.names.slice(0, 20).map((n) => h("li", null, `${visible(n.filename)}: ${plural(n.versions, "version")}`)), would.files > 20 && h("li", null, "and others")),
			h("p", { class: "hint" }, "Later versions go in the same way. The newest version of a name always stays.")],
	});
}

function about(g) {
	return h("section", { "aria-labelledby": "about-title" }, h("h2", { id: "about-title" }, "About this group"),
		h("dl", { class: "facts" },
			h("dt", null, "Owner"), h("dd", null, mono(g.owner)),
			h("dt", null, "Checksum"), h("dd", { class: "row" }, mono(g.checksum, 24), copyButton(g.checksum, "Checksum"))),
		h("p", { class: "hint" }, "The checksum is computed from the group's name and the version of its key, and changes when a member is revoked. It proves nothing about the service."));
}
