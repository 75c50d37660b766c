// The members of a group, its invites, and for its owner what can be set.

import { call, get } from "./api.js";
import { ask, askForm, busy, copyButton, field, h, mono, notice, roleField } from "./dom.js";
import { drawnAnew, groupOf, head, leaveFor } from "./group.js";
import { inviteText } from "./invite.js";
import { settings } from "./settings.js";
import { date, nsToMS, price, visible } from "./text.js";

export async function membersView(draw, session, id) {
	const g = await groupOf(id);
	const isOwner = g.role === "owner";
	const { result: invites } = isOwner ? await call("get_group_invites", { group_id: id }) : { result: [] };
	document.title = `Members of ${visible(id)} · svcfs`;
	const again = drawnAnew(() => membersView(draw, session, id));
	draw(...head(g, session, "members", again), membersSection(g, session, again),
		isOwner && inviteSection(g, session, invites, again), isOwner && settings(g, session, again));
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
	const cost = price(session.fees.set_member_role);
	const text = cost === "free" ? `Make ${role}` : `Make ${role} for ${cost}`;
	const button = h("button", { type: "button", class: "small", "aria-label": `${text}: ${id}` }, text);
	button.addEventListener("click", async () => {
		if (await busy(button, slot, () => call("add_group_member", { group_id: g.id, member_id: id, role }))) await again(`${id} is now a ${role}`);
	});
	return button;
}

// offerButton offers the group to a member.
function offerButton(g, session, id, slot, again) {
	const button = h("button", { type: "button", class: "small", "aria-label": `Make owner: ${id}` }, "Make owner");
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

function revokeButton(g, session, id, slot, again) {
	const button = h("button", { type: "button", class: "small", "aria-label": `Revoke ${id}` }, "Revoke");
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
	const form = h("form", { class: "inline" }, field("Add a member", "Their account id, or its name on this service.", input),
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

// inviteSection lists the invites that can be used, and makes others.
function inviteSection(g, session, invites, again) {
	const slot = h("div");
	const cost = price(session.fees.add_group_member);
	const button = h("button", { type: "button" }, "Make an invite");
	button.addEventListener("click", async () => {
		const made = await askForm({
			title: `Invite somebody to ${visible(g.id)}`, yes: cost === "free" ? "Make invite" : `Make invite for ${cost}`,
			fields: [h("p", null, "One string, which adds whoever uses it first, once, within 7 days."), roleField("They become", "invite_role")],
			submit: async (data) => inviteText(g.id, (await call("invite_to_group", { group_id: g.id, role: data.get("invite_role") })).result.secret),
		});
		if (made === undefined) return;
		await ask({
			title: "The invite", yes: "Done", no: "",
			body: [h("p", null, "Send it by a way that others do not read. It is not shown again."),
				h("p", { class: "row" }, h("code", { class: "key", id: "invite" }, made), copyButton(made, "Invite")),
				h("p", { class: "hint" }, "It is used on the account page under Groups, or with: svcfs group join INVITE")],
		});
		await again("An invite was made");
	});
	const rows = invites.map((i) => {
		const revoke = h("button", { type: "button", class: "small", "aria-label": `Revoke the invite ${i.id}` }, "Revoke");
		revoke.addEventListener("click", async () => {
			if (await busy(revoke, slot, () => call("revoke_group_invite", { group_id: g.id, invite: i.id }))) await again("The invite is revoked");
		});
		return h("li", null, h("div", { class: "item" }, h("span", { class: "name" }, `For a ${i.role}`), h("span", { class: "meta" }, `good once, until ${date(nsToMS(i.expires))} · `, mono(i.id)), h("span", { class: "badges" }, revoke)));
	});
	return h("section", { "aria-labelledby": "invites-title" }, h("h2", { id: "invites-title" }, "Invites"),
		rows.length > 0 ? h("ul", { class: "list" }, rows) : h("p", { class: "hint" }, "No invite is open. An invite is one string, which adds whoever uses it first, once, within 7 days."), slot, h("div", { class: "actions" }, button));
}
