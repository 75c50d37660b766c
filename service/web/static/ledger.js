// The ledger: what the account paid, and the records it may see.

import { get } from "./api.js";
import { busy, cell, empty, field, h, svg } from "./dom.js";
import { place } from "./place.js";
import { action, date, detail, person, shortDate, visible } from "./text.js";

const dayMS = 86400000;

export async function ledgerView(draw, session) {
	const [costs, { mine }] = await Promise.all([get("costs"), get("groups")]);
	draw(
		h("h1", { tabindex: "-1" }, "Ledger"),
		h("p", { class: "lead" }, "Every action is a record that cannot be changed; each carries the hash of the one before."),
		costCard(costs),
		records(mine, session));
}

function costCard({ costs, total, today, days }) {
	return h("section", { class: "card", "aria-labelledby": "costs-title" },
		h("h2", { id: "costs-title" }, `Spent in ${days} days`),
		h("p", { class: "amount" }, total, " tokens"),
		costs.length ? [chart(costs, today, days), byAction(costs)] : empty("Nothing spent", "Listing and looking are free; saving and reading files cost."));
}

// chart draws one bar a day. Bars are for the eye: the table below says the same.
function chart(costs, today, days) {
	const sums = new Map();
	for (const c of costs) sums.set(c.day, (sums.get(c.day) ?? 0) + Number(c.fees));
	const top = Math.max(...sums.values());
	const width = 600, height = 120, step = width / days;
	const bars = [];
	for (let i = 0; i < days; i++) {
		const day = today - days + 1 + i;
		const sum = sums.get(day) ?? 0;
		const tall = sum > 0 ? Math.max(2, (sum / top) * height) : 1;
		bars.push(svg("rect", { class: sum > 0 ? "bar-paid" : "bar-none", x: (i * step + 2).toFixed(1), y: (height - tall).toFixed(1),
			width: (step - 4).toFixed(1), height: tall.toFixed(1) }, svg("title", null, `${dayName(day)}: ${Number(sum.toFixed(6))} tokens`)));
	}
	return h("figure", { class: "chart" },
		svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `Tokens spent per day, at most ${Number(top.toFixed(6))} on one day` }, bars),
		h("figcaption", null, h("span", null, dayName(today - days + 1)), h("span", null, `most on a day: ${Number(top.toFixed(6))}`), h("span", null, dayName(today))));
}

function dayName(day) {
	return new Date(day * dayMS).toLocaleDateString(undefined, { month: "short", day: "numeric", timeZone: "UTC" });
}

function byAction(costs) {
	const sums = new Map();
	for (const c of costs) {
		const s = sums.get(c.kind) ?? { count: 0, fees: 0 };
		sums.set(c.kind, { count: s.count + c.count, fees: s.fees + Number(c.fees) });
	}
	const rows = [...sums].sort((a, b) => b[1].fees - a[1].fees).map(([kind, s]) => h("tr", null,
		h("th", { scope: "row" }, action(kind)), h("td", { class: "number" }, s.count), h("td", { class: "number" }, Number(s.fees.toFixed(6)))));
	return h("details", null, h("summary", null, "By action"), h("table", { class: "plain" },
		h("thead", null, h("tr", null, ["Action", "Times", "Tokens"].map((t) => h("th", { scope: "col" }, t)))), h("tbody", null, rows)));
}

const kinds = {
	"Files saved": ["record_transaction"],
	"Files read": ["claim_token"],
	"Files changed": ["rename_file", "rename_folder", "make_folder", "remove_folder", "set_attributes", "remove_file", "restore_file", "tombstone_transaction"],
	"Members": ["add_group_member", "revoke_group_member", "set_member_role", "join_group", "rotate_group_key", "create_invite", "revoke_invite", "offer_group", "accept_group"],
	"Groups and their settings": ["register_group", "delete_group", "open_hackathon_join", "close_hackathon_join", "set_group_retention", "set_group_trash", "set_group_versions", "set_group_format", "set_group_appends", "set_group_keys", "pend_destruction", "keep_files"],
	"Account and tokens": ["create_account", "disable_account", "enable_account", "fund", "transfer", "rotate_api_key", "seal_api_key", "sign_in"],
};

let asked = { group: "", what: "", mine: false }; // what the user looked for last

// records lists those that are looked for, the newest first.
function records(groups, session) {
	const body = h("tbody");
	const slot = h("div");
	const none = h("p", { class: "hint", role: "status" });
	const more = h("button", { type: "button", hidden: true }, "Show older records");
	const table = h("table", { class: "records", hidden: true }, h("thead", null, h("tr", null, ["Record", "Time", "Action", "Group", "By", "Fee"].map((t) => h("th", { scope: "col" }, t)))), body);
	let before = "", turn = 0;
	const next = async () => {
		const mine = turn;
		const page = await busy(more, slot, () => get("ledger", { group: asked.group, kind: kinds[asked.what] ?? [], mine: asked.mine ? "1" : "", before }));
		if (!page || mine !== turn) return;
		body.append(...page.records.map((r) => row(r, session)));
		({ before } = page);
		more.hidden = !page.more;
		table.hidden = body.children.length === 0;
		none.textContent = body.children.length > 0 ? "" : page.more ? "None of the newest records is one of these." : "There is no such record.";
	};
	const group = h("select", { name: "group" }, h("option", { value: "" }, "All groups"), groups.map((g) => h("option", { value: g.id, selected: g.id === asked.group }, visible(g.id))));
	const what = h("select", { name: "what" }, h("option", { value: "" }, "Everything"), Object.keys(kinds).map((k) => h("option", { selected: k === asked.what }, k)));
	const mine = h("input", { type: "checkbox", id: "f-mine", checked: asked.mine });
	const look = () => {
		asked = { group: group.value, what: what.value, mine: mine.checked };
		turn++;
		before = "";
		body.replaceChildren();
		return next();
	};
	const form = h("form", { class: "inline", role: "search", "aria-label": "Records" }, field("Group", "", group), field("What", "", what), h("div", { class: "check" }, mine, h("label", { for: "f-mine" }, "Only what I did")));
	form.addEventListener("change", look);
	form.addEventListener("submit", (event) => event.preventDefault());
	more.addEventListener("click", async () => {
		const shown = body.children.length;
		await next();
		body.children[shown]?.querySelector("th")?.focus();
	});
	look();
	return h("section", { "aria-labelledby": "records-title" }, h("h2", { id: "records-title" }, "Records"), form, table, none, slot, h("p", null, more));
}

function row(r, session) {
	const more = visible(detail(r));
	return h("tr", null,
		h("th", { scope: "row", tabindex: "-1", title: `record hash ${r.hash}` }, `#${r.seq}`),
		cell("Time", h("span", { title: date(r.time_ms) }, shortDate(r.time_ms))),
		cell("Action", action(r.kind), more && h("p", { class: "hint" }, more)),
		cell("Group", r.group && h("a", { href: place("groups", r.group) }, visible(r.group))),
		cell("By", h("span", { title: r.account }, person(r.account, session))),
		cell("Fee", r.fee === "0" ? "free" : r.fee));
}
