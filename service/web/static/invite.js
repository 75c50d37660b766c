// Invites as text, as svcfs writes and reads them.

import { get } from "./api.js";

const prefix = "svcfs-invite-";

// inviteText is what somebody is sent; the secret is in it.
export async function inviteText(group, secret) {
	const { contract_id: contract, log_key } = await get("service");
	const raw = new TextEncoder().encode(JSON.stringify({ url: new URL("..", location.href).href.replace(/\/$/, ""), contract, log_key, group, secret }));
	return prefix + btoa(String.fromCharCode(...raw)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export function isInvite(text) {
	return text.startsWith(prefix);
}

// readInvite resolves to the group and the secret of an invite to a group of this service.
export async function readInvite(text) {
	let invite;
	try {
		const raw = Uint8Array.from(atob(text.slice(prefix.length).replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
		invite = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(raw));
	} catch {
		throw new Error("This is no invite, or only a part of one.");
	}
	if (invite.account) throw new Error("This invite makes an account. Use it with: svcfs setup INVITE");
	if (!invite.group || !invite.secret) throw new Error("The invite lacks something.");
	const { contract_id: contract, log_key } = await get("service");
	if (invite.contract !== contract || invite.log_key !== log_key) throw new Error(`This invite is for another service: ${invite.url}`);
	return { group: invite.group, secret: invite.secret };
}
