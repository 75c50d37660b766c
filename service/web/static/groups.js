// The groups of the account: owned, joined, and open to join.

import { call, get } from "./api.js";
import { announce, ask, askForm, badge, busy, empty, field, h, roleField } from "./dom.js";
import { now } from "./clock.js";
import { isInvite, readInvite } from "./invite.js";
import { place } from "./place.js";
import { date, keepText, plural, price, visible } from "./text.js";

export async function groupsView(draw, session) {
	const { mine, open } = await allGroups();
	const owned = mine.filter((g) => g.role === "owner");
	const joined = mine.filter((g) => g.role !== "owner");
	const again = () => groupsView(draw, session);
	const create = (kind) => h("button", { type: "button", class: kind, onclick: () => createGroup(session) }, "Create group");
	draw(
		h("div", { class: "title" }, h("h1", { tabindex: "-1" }, "Groups"), create("primary")),
		h("p", { class: "lead" }, "A group is a folder its members share. Only members get the keys of its files."),
		section("Owned by you", owned.length
			? list(owned)
			: empty("You own no group yet", "Create one, add members by their account id, and files you save there are theirs to read.", create(""))),
		section("You are a member of", joined.length
			? list(joined)
			: empty("Nobody added you yet", `Tell a group's owner your account id: ${session.account_id}`)),
		section("Open to join", open.length
			? h("ul", { class: "list" }, open.map((g) => openRow(g, session, again)))
			: empty("No group is open at the moment", "Owners open a join window for a limited time. You can also join by name.")),
		joinByName(session));
}

// allGroups asks page by page.
async function allGroups() {
	const all = await get("groups");
	for (let { more } = all; more;) {
		const next = await get("groups", { after: all.mine.at(-1).id });
		all.mine.push(...next.mine);
		({ more } = next);
	}
	return all;
}

function section(title, ...children) {
	const id = `s-${title.toLowerCase().replace(/\W+/g, "-")}`;
	return h("section", { "aria-labelledby": id }, h("h2", { id }, title), ...children);
}

export function badges(g) {
	return [
		badge(g.role || "not a member", g.role === "owner" ? "accent" : ""),
		g.window ? badge("open to join", "accent-line") : g.joinable && badge("join window closed"),
		g.retention_days !== null && badge(`keeps files ${plural(g.retention_days, "day")}`),
		g.keep !== "all" && badge(`keeps ${keepText(g.keep)}`),
	];
}

function list(groups) {
	return h("ul", { class: "list" }, groups.map((g) => h("li", null,
		h("a", { class: "item", href: place("groups", g.id) },
			h("span", { class: "name" }, visible(g.id)),
			h("span", { class: "meta" }, plural(g.members, "member"), g.role !== "owner" && ` · owner ${g.owner}`),
			h("span", { class: "badges" }, badges(g))))));
}

function openRow(g, session, again) {
	const slot = h("div");
	const button = h("button", { type: "button", "aria-label": `Join ${visible(g.id)}` }, "Join");
	button.addEventListener("click", async () => {
		if (!await confirmJoin(g.id, session, g.join_role)) return;
		if (await busy(button, slot, () => call("join_group", { group_id: g.id }))) {
			announce(`Joined ${visible(g.id)}`);
			await again();
		}
	});
	const left = g.window.max_uses === null ? "" : ` · ${plural(g.window.max_uses - g.window.uses, "place")} left`;
	return h("li", null, h("div", { class: "item" },
		h("span", { class: "name" }, visible(g.id)),
		h("span", { class: "meta" }, `owner ${g.owner} · open until ${date(g.window.expires_ms)}${left}`),
		h("span", { class: "badges" }, button)), slot);
}

function confirmJoin(id, session, joinRole) {
	return ask({
		title: `Join ${visible(id)}?`, yes: `Join for ${price(session.fees.join_group)}`,
		body: [h("p", null, joinRole === "reader" ? "You can then read its files. The owner can revoke you."
			: "You can then read its files and, unless the owner opened it to readers alone, save new ones. The owner can revoke you.")],
	});
}

function joinByName(session) {
	const slot = h("div");
	const input = h("input", { name: "join", required: true, maxlength: 4096, autocomplete: "off", spellcheck: "false" });
	const button = h("button", { type: "submit" }, "Join");
	const form = h("form", { class: "inline" }, field("Join a group", "With an invite, or by its name while its join window is open.", input), button);
	form.addEventListener("submit", async (event) => {
		event.preventDefault();
		const text = input.value.trim();
		const joined = await busy(button, slot, () => isInvite(text) ? joinByInvite(text) : joinOpen(input.value, session));
		if (joined !== undefined) location.hash = place("groups", joined);
	});
	return h("section", null, form, slot);
}

// joinOpen and joinByInvite resolve to the group, or to undefined if the user does not want it.
async function joinOpen(id, session) {
	if (!await confirmJoin(id, session)) return undefined;
	await call("join_group", { group_id: id });
	return id;
}

async function joinByInvite(text) {
	const { group, secret } = await readInvite(text);
	const isSure = await ask({ title: `Join ${visible(group)}?`, yes: "Join, free",
		body: [h("p", null, "The invite is used up then. Its owner can revoke you.")] });
	if (!isSure) return undefined;
	return (await call("use_group_invite", { secret })).result.group_id;
}

async function createGroup(session) {
	const hours = h("input", { name: "hours", type: "number", min: 1, max: 8784, value: 24 });
	const uses = h("input", { name: "uses", type: "number", min: 1 });
	const window = h("div", { hidden: true }, field("Join window, in hours", "", hours), field("Most people who may join", "Empty: no limit", uses),
		roleField("They become", "join_role"));
	const open = h("input", { type: "checkbox", name: "open", id: "f-open" });
	open.addEventListener("change", () => {
		window.hidden = !open.checked;
		hours.required = open.checked;
	});
	const created = await askForm({
		title: "Create a group", yes: `Create for ${price(session.fees.register_group)}`,
		fields: [
			field("Name", "Up to 128 bytes. It cannot be changed later, and everybody can see that it exists.",
				h("input", { name: "name", required: true, maxlength: 128, autocomplete: "off", autofocus: true })),
			h("div", { class: "check" }, open, h("label", { for: "f-open" }, "Others may join by themselves during a window; its file list is public")),
			window,
		],
		submit: async (data) => {
			const id = data.get("name");
			if (open.checked) await createOpen(id, data);
			else await call("register_group", { group_id: id });
			return id;
		},
	});
	if (created !== undefined) location.hash = place("groups", created);
}

// createOpen makes a group that others may join. The operation alone would open one that is there.
async function createOpen(id, data) {
	const { result } = await call("auth_status", { group_id: id });
	if (result.authorized_for_group !== undefined && !result.auth_error) throw new Error(`There is a group called ${visible(id)} already. Choose another name.`);
	await openJoin(id, data);
}

// openJoin opens a join window as a form says, by the clock of the service.
export function openJoin(id, data) {
	const expires = BigInt(Math.round(now())) + 3600000n * BigInt(Number(data.get("hours"))); // ms
	return call("create_hackathon_group",
		{ group_id: id, expires_at: String(1000000n * expires), max_uses: data.get("uses") ? Number(data.get("uses")) : null, role: data.get("join_role") });
}
