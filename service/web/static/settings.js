// What the owner of a group may set.

import { call } from "./api.js";
import { ask, askForm, busy, field, h, roleField } from "./dom.js";
import { now } from "./clock.js";
import { leaveFor } from "./group.js";
import { openJoin } from "./groups.js";
import { bytes, date, keepText, plural, price, visible } from "./text.js";

export function settings(g, session, again) {
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
		g.window && h("p", { class: "hint" }, clockText()),
		slot, h("div", { class: "actions" }, open, g.window && close));
}

function clockText() {
	return `The clock of the service says ${date(now())}.`;
}

async function openWindow(g, again) {
	const done = await askForm({
		title: `Open ${visible(g.id)} to join`, yes: "Open join window",
		fields: [
			field("For how many hours", clockText(), h("input", { name: "hours", type: "number", min: 1, max: 8784, value: 24, required: true, autofocus: true })),
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
				field("Files are removed by", "What a writer removes of others stays until the owner destroys it.", who),
			],
			submit: (data) => call("set_group_trash", { group_id: g.id, days: Number(data.get("days")), who: data.get("who") }),
		});
		if (done) await again("Trash set");
	};
	return h("div", { class: "card" }, h("h3", null, "Trash"),
		h("p", null, `Removed files can be brought back for ${plural(g.trash.days, "day")}. ${g.trash.files === 0 ? "Nothing is there." : `${plural(g.trash.files, "version is", "versions are")} there, ${bytes(g.trash.bytes)}.`}`),
		h("div", { class: "actions" }, h("button", { type: "button", onclick: change }, "Change trash")));
}

function deleteCard(g, session, again) {
	const slot = h("div");
	const button = h("button", { type: "button", class: "destroys" }, "Delete group");
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
