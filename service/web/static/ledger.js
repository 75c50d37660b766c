// The ledger: what the account paid, and the records it may see.

import { get } from "./api.js";
import { busy, empty, h, mono, svg } from "./dom.js";
import { place } from "./place.js";
import { action, date, detail, visible } from "./text.js";

const dayMS = 86400000;

export async function ledgerView(draw, session) {
	const [costs, page] = await Promise.all([get("costs"), get("ledger")]);
	draw(
		h("h1", { tabindex: "-1" }, "Ledger"),
		h("p", { class: "lead" }, "Every action is a record that cannot be changed; each carries the hash of the one before."),
		costCard(costs),
		records(page, session));
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

function records(page, session) {
	const body = h("tbody");
	const slot = h("div");
	const more = h("button", { type: "button" }, "Show older records");
	const add = (p) => {
		body.append(...p.records.map((r) => row(r, session)));
		more.hidden = !p.more;
		more.dataset.before = p.records.at(-1)?.seq ?? "";
	};
	add(page);
	more.addEventListener("click", async () => {
		const next = await busy(more, slot, () => get("ledger", { before: more.dataset.before }));
		if (next) add(next);
	});
	const head = ["Record", "Time", "Action", "Group", "By", "Fee"].map((t) => h("th", { scope: "col" }, t));
	return h("section", { "aria-labelledby": "records-title" }, h("h2", { id: "records-title" }, "Records"),
		page.records.length
			? h("table", { class: "records" }, h("thead", null, h("tr", null, head)), body)
			: empty("No records yet", "They appear with your first action."),
		slot, h("p", null, more));
}

function row(r, session) {
	const cell = (label, ...children) => h("td", { "data-label": label }, ...children);
	const more = visible(detail(r));
	return h("tr", null,
		h("th", { scope: "row", title: `record hash ${r.hash}` }, `#${r.seq}`),
		cell("Time", date(r.time_ms)),
		cell("Action", action(r.kind), more && h("p", { class: "hint" }, more)),
		cell("Group", r.group ? h("a", { href: place("groups", r.group) }, visible(r.group)) : "–"),
		cell("By", r.account === session.account_id ? "you" : mono(r.account, 28)),
		cell("Fee", r.fee === "0" ? "free" : r.fee));
}
