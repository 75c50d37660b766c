// One group: a folder of it at a time, and what is above each part of it.

import { call, get } from "./api.js";
import { announce, busy, h, refocus } from "./dom.js";
import { filesSection } from "./files.js";
import { badges } from "./groups.js";
import { place } from "./place.js";
import { date, keepText, nsToMS, plural, visible } from "./text.js";

// groupView shows a folder of a group: "" for its top, else its recorded path with the slash at the end.
export async function groupView(draw, session, id, folder) {
	const [g, page] = await Promise.all([groupOf(id), get("folder", { group: id, folder })]);
	document.title = `${page.path.at(-1) ?? visible(id)} · svcfs`;
	const again = drawnAnew(() => groupView(draw, session, id, folder));
	const files = filesSection(g, session, folder, page, again);
	if (folder === "") draw(...head(g, session, "groups", again), files);
	else draw(crumbs(g, folder, page.path.slice(0, -1)), h("h1", { tabindex: "-1" }, page.path.at(-1)), files);
}

// drawnAnew is how a view is drawn again after a change, which is told.
export function drawnAnew(view) {
	return async (text) => {
		announce(text);
		await view();
		refocus();
	};
}

// head is above each part of a group: what it is, what waits, and the way to the other parts.
export function head(g, session, part, again) {
	const tab = (view, text) => h("a", { href: place(view, g.id), "aria-current": view === part ? "page" : undefined }, text);
	return [crumbs(g),
		h("div", { class: "title" }, h("h1", { tabindex: "-1" }, visible(g.id)), h("span", { class: "badges" }, badges(g))),
		h("nav", { class: "tabs", "aria-label": "Parts of the group" }, tab("groups", "Files"), tab("members", g.role === "owner" ? "Members and settings" : "Members"), g.role && tab("trash", "Trash")),
		pendingCard(g, again), offerCard(g, session, again)].filter(Boolean);
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

// leaveFor goes to the groups, because this one is not shown any more.
export function leaveFor(text) {
	announce(text);
	location.hash = "#/groups";
}
